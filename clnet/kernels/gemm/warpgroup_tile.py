"""What a group of products by 128 items at once computes at a time: tiles, and their local memory.

See gemm_warpgroup.mako.
"""

from __future__ import annotations

from ...values.record import NamedTuple
from .gemm_summed import RUN_BYTES

TEAM, LINE_BYTES = 128, 128
# An array at multiples of 1024 bytes takes so much more of a group's local memory than it has.
ALIGNED_BYTES = 1024


class WarpgroupTile(NamedTuple):
    """What a group computes at a time.

    Attributes:
        m, n: rows and columns.
        stages: of the ring in local memory, of 128 bytes of k each.
        parts: of each operand.
        speed: multiplications in a unit's time, as a part of the best tile's.
        whole: whether a comes in one part as it is, and items split it, in registers.
        turned: whether both come dense along m and n, and items turn them: a in registers, b by a
            team of its own, in local memory, twice: one is turned while the other is multiplied.
        sided: whether a alone comes dense along m, and items hold it, turned; then it is whole.
    """

    m: int
    n: int
    stages: int
    parts: int = 1
    speed: float = 1.0
    whole: bool = False
    turned: bool = False
    sided: bool = False

    @property
    def teams(self) -> int:
        """Of 128 items that multiply."""
        return self.m // 64

    @property
    def registers(self) -> tuple[int, int] | None:
        """Of an item that copies and of one that multiplies: a compiler gives all the same."""
        if self.turned:
            return (48, 208) if self.teams == 2 else (56, 232)
        return (40, 232) if self.teams == 2 else None

    @property
    def promotes(self) -> bool:
        """Whether sums of one stage are added in float: the unit rounds them towards zero."""
        return self.parts > 1

    @property
    def a_parts(self) -> int:
        """Of a, as they are copied."""
        return 1 if self.whole else self.parts

    def a_base(self, part: int) -> int:
        """Where a part of a begins in a stage, in bytes."""
        return 0 if self.whole else part * (self.m + self.n) * LINE_BYTES

    def b_base(self, part: int) -> int:
        """Where a part of b begins; of what is turned, in it."""
        if self.turned:
            return part * self.turned_bytes // self.parts
        before = part * self.n if self.whole else part * (self.m + self.n)
        return (self.m + before) * LINE_BYTES

    @property
    def stage_bytes(self) -> int:
        """Of all parts that are copied."""
        b_parts = 1 if self.turned else self.parts
        return (self.a_parts * self.m + b_parts * self.n) * LINE_BYTES

    @property
    def turned_bytes(self) -> int:
        """Of b of a stage, turned."""
        return self.parts * self.n * LINE_BYTES if self.turned else 0

    @property
    def ring_bytes(self) -> int:
        """Of all stages, and what is turned of two."""
        return self.stages * self.stage_bytes + 2 * self.turned_bytes

    @property
    def held_bytes(self) -> int:
        """Of what is to be stored: 64 floats of each row, or all its results of 16 bits."""
        return self.m * max(0 if self.sided else self.n * 2, 64 * 4)

    @property
    def local_bytes(self) -> int:
        """Local memory of a group."""
        stored = self.held_bytes + self.row_bytes
        return self.ring_bytes + stored + self.barrier_bytes + ALIGNED_BYTES

    @property
    def row_bytes(self) -> int:
        """A word for each row, where a kernel needs them."""
        return 4 * self.m

    @property
    def barrier_bytes(self) -> int:
        """Two barriers for each stage, and for each buffer of what is turned."""
        return 16 * (self.stages + 2 * self.turned)

    def items(self, *, emulated: bool) -> int:
        """Of a group: another team copies, and one turns, unless all do."""
        others = 0 if emulated else 1 + self.turned
        return TEAM * (self.teams + others)

    def steps(self, ctype: str) -> int:
        """Of k in a stage."""
        return LINE_BYTES // _bytes(ctype)

    def columns_stored(self, ctype: str) -> int:
        """Of results that lie in local memory together, as boxes of 128 bytes; floats twice."""
        return self.n if _bytes(ctype) == 2 else 32

    def run(self, ctype: str) -> int:
        """Elements that an item stores together."""
        return RUN_BYTES // _bytes(ctype)


# The speeds are of an H100.
TILES = (
    WarpgroupTile(128, 256, 3),
    WarpgroupTile(128, 192, 4, speed=0.98),
    WarpgroupTile(128, 128, 5, speed=0.93),
    WarpgroupTile(128, 64, 7, speed=0.5),
    WarpgroupTile(64, 128, 7, speed=0.7),
)
SPLIT_TILES = (
    WarpgroupTile(128, 128, 3, 2),
    WarpgroupTile(64, 128, 4, 2, speed=0.75),
)
# Of convolutions, whose images are split by items, and of filters' gradients, by their parts: the
# speeds are of an H100.
WHOLE_TILES = (
    WarpgroupTile(128, 128, 4, 2, speed=0.84, whole=True),
    WarpgroupTile(64, 128, 5, 2, speed=0.6, whole=True),
    WarpgroupTile(128, 64, 6, 2, speed=0.65, whole=True),
)
TURNED_TILES = {
    1: (
        WarpgroupTile(128, 128, 5, speed=0.4, whole=True, turned=True),
        WarpgroupTile(64, 128, 6, speed=0.25, whole=True, turned=True),
        WarpgroupTile(128, 64, 6, speed=0.3, whole=True, turned=True),
    ),
    2: (
        WarpgroupTile(128, 128, 4, 2, speed=0.62, whole=True, turned=True),
        WarpgroupTile(64, 128, 5, 2, speed=0.42, whole=True, turned=True),
        WarpgroupTile(128, 64, 6, 2, speed=0.48, whole=True, turned=True),
    ),
}
SIDED_TILES = (
    WarpgroupTile(128, 256, 4, whole=True, sided=True),
    WarpgroupTile(128, 192, 4, speed=0.97, whole=True, sided=True),
    WarpgroupTile(128, 128, 5, speed=0.86, whole=True, sided=True),
    WarpgroupTile(128, 64, 7, speed=0.46, whole=True, sided=True),
    WarpgroupTile(64, 128, 7, speed=0.69, whole=True, sided=True),
)
# Of emulated units.
SMALL, SMALL_SPLIT = WarpgroupTile(128, 64, 2), WarpgroupTile(64, 64, 2, 2)
SMALL_WHOLE = SMALL_SPLIT._replace(whole=True)
SMALL_SIDED = SMALL._replace(whole=True, sided=True)


def _bytes(ctype: str) -> int:
    return 4 if ctype == "float" else 2
