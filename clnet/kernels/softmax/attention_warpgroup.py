"""Attention by 128 items at once, from boxes that a copy engine brings into local memory."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target, map_form, matrix_units
from ...values.dtypes import int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..gemm import ALIGNED_BYTES, MOST_STRIDE, emulates_warpgroups
from ..kernel import Kernel, longs
from .attention_matrix import RUN_BYTES, Sizes
from .attention_warpgroup_grad import GRAD_Q, LAWS

FORWARD = Kernel("attention_warpgroup", "softmax/attention_warpgroup.mako", constraints=LAWS)
TEAM, LINE = 128, 64
# Words of a tensor map.
MAP_WORDS = 32


class AttendTeams(NamedTuple):
    """How the kernel cuts up its work.

    Attributes:
        teams: of 128 items that own 64 rows each.
        others: rows of the others in a box.
        stages: boxes in local memory; of gradients pairs of them.
    """

    teams: int
    others: int
    stages: int

    @property
    def own(self) -> int:
        """Rows of a group."""
        return 64 * self.teams

    @property
    def n(self) -> int:
        """Columns of a product, as lib/warpgroup.mako calls them."""
        return self.others

    def items(self, *, emulated: bool) -> int:
        """Of a group: 32 more copy, unless all do."""
        return TEAM * self.teams + (0 if emulated else 32)

    def local_bytes(self, head: int, boxes: int = 1) -> int:
        """Local memory of a group.

        Args:
            head: elements of a row.
            boxes: own ones, and others of a stage.
        """
        rows, barriers = self.own + self.stages * self.others, 16 * (self.stages + 1)
        return boxes * rows * 2 * round_up(head, LINE) + barriers + ALIGNED_BYTES


SMALL = AttendTeams(2, 16, 3)
"""For tests of emulated units."""
# By heads of so many elements; the fastest on an H200 (docs/notes/attention.md). Three teams have
# too few registers for 128 keys at once.
TILES = {
    FORWARD: {64: AttendTeams(2, 128, 6), 128: AttendTeams(2, 96, 4)},
    GRAD_Q: {64: AttendTeams(2, 96, 4), 128: AttendTeams(2, 64, 4)},
}
# Below so many rows or keys the kernel for 32 items is as fast.
LEAST = 64


def attention_by_warpgroups(
    target: Target,
    kernel: Kernel,
    operands: dict[str, Array],
    *,
    scale: float,
    causal: bool,
    cost: dict[str, int],
) -> Launch | None:
    """The launch of one of the two kernels.

    Args:
        target: what the device is like; it attends on units.
        kernel: which.
        operands: its arrays by name, as :func:`.attention.attention` and
            :func:`.attention.attention_grad` get them, of 16 bits, as matrix units read them.
        scale: of the products, above 0.
        causal: whether a row sees only the keys up to its own.
        cost: operations and bytes.

    Returns:
        The launch; None where another kernel is to do it.
    """
    moved = [operands[name] for name in ("q", "k", "v", "gy") if name in operands]
    sizes = Sizes.of(*moved[:3])
    tile = teams_for(target, kernel, sizes, moved)
    if tile is None:
        return None
    ctype, emulated = moved[0].dtype.stored, emulates_warpgroups(target)
    unit = WARPGROUP_UNITS[ctype]
    groups = min(ceil_div(sizes.rows, tile.own) * sizes.batch, target.traits.compute_units)
    memory = Scratch(moved[0].device)
    params = {
        "ctype": ctype,
        "unit": unit,
        "matrix": matrix_units(target.traits.matrix_units)[ctype],
        "tile": tile,
        "head": sizes.head,
        "causal": causal,
        "emulated": emulated,
        "form": map_form(unit, 4),
    }
    if kernel is FORWARD:
        params["ragged"] = sizes.keys % tile.others > 0
    args = {
        "rows": sizes.rows,
        "keys": sizes.keys,
        "heads": sizes.heads,
        "images": sizes.batch // sizes.heads,
        "sharing": sizes.sharing,
        "strides": longs(*(step for x in moved for step in x.strides[:3])),
        "scale": scale,
        "maps": Array.scratch(memory, (groups * len(moved) * MAP_WORDS,), int32),
        **operands,
    }
    items = tile.items(emulated=emulated)
    return kernel.launch(params, args, global_size=(groups * items,), local_size=(items,), **cost)


def teams_for(
    target: Target, kernel: Kernel, sizes: Sizes, moved: Sequence[Array]
) -> AttendTeams | None:
    """How the work is cut up; None: the device has no such units, or it does not pay.

    Args:
        target: what the device is like.
        kernel: which of the two.
        sizes: of the problem.
        moved: q, k and v, and for gradients gy.
    """
    ctype, traits = moved[0].dtype.stored, target.traits
    if not traits.warpgroup_units or ctype not in ("half", "bfloat16"):
        return None
    if sizes.head != sizes.value_head or sizes.keys == 0 or not all(map(_in_boxes, moved)):
        return None
    # Boxes have lines of 64 elements: what a head lacks is multiplied, too.
    size = round_up(sizes.head, LINE)
    tile = TILES[kernel].get(size)
    if tile is None:
        return None
    if emulates_warpgroups(target):
        return SMALL
    if min(sizes.rows, sizes.keys) < LEAST or 4 * sizes.head < 3 * size:
        return None
    nbytes = tile.local_bytes(size, 1 if kernel is FORWARD else 2)
    fits = nbytes <= traits.static_local_bytes
    return tile if fits and tile.items(emulated=False) <= traits.max_group_size else None


def _in_boxes(x: Array) -> bool:
    """Whether a tensor map can describe it: axes lie multiples of 16 bytes apart, none repeats."""
    run = RUN_BYTES // x.dtype.itemsize
    steps = zip(x.shape[:-1], x.strides[:-1], strict=True)
    return not any(n > 1 and (s <= 0 or s % run or s * 2 >= MOST_STRIDE) for n, s in steps)
