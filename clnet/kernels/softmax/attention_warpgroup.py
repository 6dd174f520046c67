"""Attention by 128 items at once, from boxes that a copy engine brings into local memory."""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target, map_form, matrix_units
from ...values.dtypes import int32
from ...values.shapes import ceil_div, round_up
from ..gemm import emulates_warpgroups
from ..kernel import Constraint, Kernel, by_name, joined, longs
from .attention_matrix import RUN_BYTES, Sizes

FORWARD = Kernel(
    "attention_warpgroup",
    "softmax/attention_warpgroup.mako",
    constraints=(
        Constraint("tile.others % 16 == 0 and tile.others <= 256", "weights are an operand"),
        Constraint("head <= 128 and head % 8 == 0", "sums lie in registers, rows in runs"),
        Constraint("ctype != 'float'", "TF32 is multiplied along k alone"),
    ),
)
TEAM, LINE = 128, 64
# Words of the three tensor maps of a group.
MAP_WORDS = 96
MOST_STRIDE = 2**36


class AttendTeams(NamedTuple):
    """How the kernel cuts up its work.

    Attributes:
        teams: of 128 items that own 64 rows each.
        others: keys of a box.
        stages: boxes of keys, and of values, in local memory.
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

    def local_bytes(self, head: int) -> int:
        """Local memory of a group."""
        line = 2 * round_up(head, LINE)
        return (self.own + self.stages * self.others) * line + 16 * (self.stages + 1)


SMALL = AttendTeams(2, 16, 3)
"""For tests of emulated units."""
# By heads of so many elements; the first that leaves the fewest rows without work. Three teams have
# too few registers for 128 keys at once.
TILES = {64: (AttendTeams(2, 128, 6),), 128: (AttendTeams(2, 128, 4),)}
# Below so many rows or keys the kernel for 32 items is as fast.
LEAST = 64


def attention_by_warpgroups(
    target: Target,
    y: Array,
    lse: Array,
    operands: tuple[Array, Array, Array],
    *,
    scale: float,
    causal: bool,
    cost: dict[str, int],
) -> Launch | None:
    """The launch for the result and the logarithms of the sums.

    Args:
        target: what the device is like; it attends on units.
        y: as :func:`.attention.attention` gets it, not empty.
        lse: the same.
        operands: q, k and v of 16 bits, as matrix units read them.
        scale: of the products, above 0.
        causal: whether a row sees only the keys up to its own.
        cost: operations and bytes.

    Returns:
        The launch; None where another kernel is to do it.
    """
    sizes = Sizes.of(*operands)
    tile = teams_for(target, sizes, operands)
    if tile is None:
        return None
    ctype, emulated = y.dtype.stored, emulates_warpgroups(target)
    unit = WARPGROUP_UNITS[ctype]
    tiles = ceil_div(sizes.rows, tile.own) * sizes.batch
    groups = min(tiles, target.traits.compute_units)
    maps = Array.scratch(Scratch(y.device), (groups * MAP_WORDS,), int32)
    params = {
        "ctype": ctype,
        "unit": unit,
        "matrix": matrix_units(target.traits.matrix_units)[ctype],
        "tile": tile,
        "head": sizes.head,
        "causal": causal,
        "ragged": sizes.keys % tile.others > 0,
        "emulated": emulated,
        "form": map_form(unit, 4),
    }
    names = "rows keys heads images sharing strides scale maps y lse q k v"
    images = sizes.batch // sizes.heads
    strides = longs(*(step for x in operands for step in x.strides[:3]))
    numbers = (sizes.rows, sizes.keys, sizes.heads, images, sizes.sharing, strides, scale)
    items = tile.items(emulated=emulated)
    return FORWARD.launch(
        params,
        joined(by_name(names, *numbers, maps, y, lse, *operands)),
        global_size=(groups * items,),
        local_size=(items,),
        **cost,
    )


def teams_for(target: Target, sizes: Sizes, operands: tuple[Array, ...]) -> AttendTeams | None:
    """How the work is cut up; None: the device has no such units, or it does not pay.

    Args:
        target: what the device is like.
        sizes: of the problem.
        operands: q, k and v.
    """
    ctype, traits = operands[0].dtype.stored, target.traits
    if not traits.warpgroup_units or ctype not in ("half", "bfloat16"):
        return None
    if sizes.head != sizes.value_head or sizes.keys == 0 or not all(map(_in_boxes, operands)):
        return None
    if emulates_warpgroups(target):
        return SMALL
    # Boxes have lines of 64 elements: what a head lacks is multiplied, too.
    size = round_up(sizes.head, LINE)
    if min(sizes.rows, sizes.keys) < LEAST or 4 * sizes.head < 3 * size or size not in TILES:
        return None
    fitting = [
        tile
        for tile in TILES[size]
        if tile.local_bytes(size) <= traits.static_local_bytes
        and tile.items(emulated=False) <= traits.max_group_size
    ]
    return min(fitting, key=lambda tile: round_up(sizes.rows, tile.own), default=None)


def _in_boxes(x: Array) -> bool:
    """Whether a tensor map can describe it: axes lie multiples of 16 bytes apart, none repeats."""
    run = RUN_BYTES // x.dtype.itemsize
    steps = zip(x.shape[:-1], x.strides[:-1], strict=True)
    return not any(n > 1 and (s <= 0 or s % run or s * 2 >= MOST_STRIDE) for n, s in steps)
