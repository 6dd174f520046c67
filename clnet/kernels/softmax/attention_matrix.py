"""Attention and its gradients on matrix units, of 16 bits, and of float32 rounded to TF32."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, MatrixUnit, Target, matrix_units
from ...errors import ArgumentError
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..kernel import Kernel, longs
from .attention_matrix_grad import GRAD_KV, GRAD_Q, LAWS

RUN_BYTES = 16
FORWARD = Kernel("attention_matrix", "softmax/attention_matrix.mako", constraints=LAWS)


class AttendTile(NamedTuple):
    """How a kernel cuts up its work.

    Attributes:
        rows: blocks of 16 own rows of a patch, which has 32 items.
        patches: of a group.
        others: rows of the others in a tile.
        stages: tiles of the ring in local memory.
        chunk: of the others' rows at once in registers, a multiple of 16.
        kept: whether an item keeps its own rows in registers.
    """

    rows: int
    patches: int
    others: int
    stages: int
    chunk: int
    kept: bool = False

    @property
    def own(self) -> int:
        """Rows of a group."""
        return 16 * self.rows * self.patches

    @property
    def items(self) -> int:
        """Of a group."""
        return 32 * self.patches

    @property
    def places(self) -> list[tuple[int, int]]:
        """An item's rows: of each block one in the first half and one in the second."""
        return [(i, half) for i in range(self.rows) for half in range(2)]

    def pitch(self, head: int, run: int) -> int:
        """Elements from row to row in local memory, which begin in different banks.

        Args:
            head: elements of a row.
            run: of 16 bytes.
        """
        return round_up(head, 16) + run


# By kernel, bytes of an element, and heads up to a size, in the order in which they are tried; the
# first was the fastest on an H200 (docs/notes/attention.md), the last are for little local memory.
_LESS = AttendTile(1, 4, 16, 2, 16)
TILES = {
    (FORWARD, 2): {
        64: (AttendTile(2, 4, 64, 2, 64, kept=True), AttendTile(1, 4, 32, 2, 32)),
        128: (AttendTile(2, 4, 32, 2, 32), AttendTile(1, 4, 32, 2, 32)),
    },
    (GRAD_Q, 2): {
        64: (AttendTile(2, 4, 64, 2, 64), AttendTile(1, 4, 32, 2, 32)),
        128: (AttendTile(2, 4, 32, 2, 32), _LESS),
    },
    (GRAD_KV, 2): {
        64: (AttendTile(2, 4, 64, 2, 32), AttendTile(1, 4, 32, 2, 32)),
        128: (AttendTile(1, 8, 64, 2, 64), _LESS),
    },
    (FORWARD, 4): {
        64: (AttendTile(2, 4, 64, 2, 64), _LESS),
        128: (AttendTile(2, 4, 32, 2, 32), _LESS),
    },
    (GRAD_Q, 4): {
        64: (AttendTile(2, 4, 32, 2, 32), _LESS),
        128: (AttendTile(2, 4, 16, 2, 16), _LESS),
    },
    (GRAD_KV, 4): {
        64: (AttendTile(2, 4, 32, 2, 32), _LESS),
        128: (AttendTile(1, 8, 16, 2, 16), _LESS),
    },
}
SMALL = AttendTile(1, 2, 16, 2, 16)
"""For tests of emulated units."""


class Sizes(NamedTuple):
    """Of what is computed.

    Attributes:
        batch: heads of the queries in all.
        heads: of an image.
        sharing: heads of queries that share keys.
        rows, keys: of a head.
        head, value_head: elements of a row.
    """

    batch: int
    heads: int
    sharing: int
    rows: int
    keys: int
    head: int
    value_head: int

    @staticmethod
    def of(q: Array, k: Array, v: Array) -> Sizes:
        """Those of queries, keys and values of four axes."""
        n, heads, rows, head = q.shape
        sharing = heads // max(k.shape[1], 1)
        return Sizes(n * heads, heads, sharing, rows, k.shape[2], head, v.shape[3])


def attends_on_units(
    target: Target, operands: tuple[Array, ...], scale: float, *, tf32: bool = False
) -> bool:
    """Whether attention without mask and dropout is computed on the device's matrix units.

    Args:
        target: what the device is like.
        operands: q, k, v, and for gradients gy, ``(n, heads, rows, head)``, as they lie.
        scale: of the products; the running maximum wants it above 0.
        tf32: whether float32 may be rounded to TF32.
    """
    q, _, v = operands[:3]
    asked = "attention_units", (q.dtype, q.shape[-1], v.shape[-1])
    if asked not in target.answers:
        target.answers[asked] = _unit_for(target, q, v)
    unit: MatrixUnit | None = target.answers[asked]
    if unit is None or (unit.rounds and not tf32) or not scale > 0:
        return False
    return all(x.dtype is q.dtype and _in_runs(x) for x in operands)


def _unit_for(target: Target, q: Array, v: Array) -> MatrixUnit | None:
    """The unit that attends to heads as large; None: none does."""
    unit = matrix_units(target.traits.matrix_units).get(q.dtype.stored)
    # Of other units sums lie in other items than an operand does.
    if unit is None or unit.way != "ptx":
        return None
    tiles = [tile_for(target, kernel, unit, q, v) for kernel in (FORWARD, GRAD_Q, GRAD_KV)]
    return unit if all(tiles) else None


def tile_for(
    target: Target, kernel: Kernel, unit: MatrixUnit, q: Array, v: Array
) -> AttendTile | None:
    """How a kernel cuts up its work on the device; None: heads are too large for it."""
    head, value_head, itemsize = q.shape[-1], v.shape[-1], q.dtype.itemsize
    for size, tiles in TILES[kernel, itemsize].items():
        if max(head, value_head) <= size and min(head, value_head) > 0:
            for tile in (SMALL,) if unit.emulated else tiles:
                needed = local_bytes(kernel, tile, (head, value_head), itemsize)
                fits = needed <= target.traits.static_local_bytes
                if fits and tile.items <= target.traits.max_group_size:
                    return tile
    return None


def local_bytes(kernel: Kernel, tile: AttendTile, heads: tuple[int, int], itemsize: int) -> int:
    """Local memory of a group, of elements of so many bytes."""
    pitch, value_pitch = (tile.pitch(size, RUN_BYTES // itemsize) for size in heads)
    both = pitch + value_pitch
    ring = tile.stages * tile.others * both
    own = tile.own * (pitch if kernel is FORWARD else both)
    known = 8 * tile.stages * tile.others if kernel is GRAD_KV else 0
    return itemsize * (own + ring) + known


class Work(NamedTuple):
    """What is computed.

    Attributes:
        target: what the device is like; it :func:`attends_on_units`.
        moved: q, k, v and, for gradients, gy.
        scale: of the products.
        causal: whether a row sees only the keys up to its own.
    """

    target: Target
    moved: tuple[Array, ...]
    scale: float
    causal: bool

    def launch(self, kernel: Kernel, operands: dict[str, Array], cost: dict[str, int]) -> Launch:
        """The launch of a kernel.

        Args:
            kernel: one of three.
            operands: its arrays by name.
            cost: its operations and bytes.
        """
        q, k, v = self.moved[:3]
        sizes, ctype = Sizes.of(q, k, v), q.dtype.stored
        unit = matrix_units(self.target.traits.matrix_units)[ctype]
        tile = tile_for(self.target, kernel, unit, q, v)
        if tile is None:
            raise ArgumentError("attention", "heads fit local memory", head=sizes.head)
        params = {
            "ctype": ctype,
            "unit": unit,
            "tile": tile,
            "head": sizes.head,
            "value_head": sizes.value_head,
            "causal": self.causal,
        }
        args = {
            "rows": sizes.rows,
            "keys": sizes.keys,
            "heads": sizes.heads,
            "sharing": sizes.sharing,
            "strides": longs(*(step for x in self.moved for step in x.strides[:3])),
            "scale": self.scale,
            **operands,
        }
        over, batch = sizes.rows, sizes.batch
        if kernel is GRAD_KV:
            over, batch = sizes.keys, sizes.batch // sizes.sharing
        groups, others = ceil_div(over, tile.own), batch
        if self.causal:  # heads first: all of them begin with what takes longest
            groups, others = others, groups
        return kernel.launch(
            params,
            args,
            global_size=(groups * tile.items, others),
            local_size=(tile.items, 1),
            **cost,
        )


def _in_runs(x: Array) -> bool:
    """Whether all rows are dense runs of 16 bytes and begin at one."""
    run = RUN_BYTES // x.dtype.itemsize
    if x.shape[-1] % run or x.offset % run or (x.shape[-1] > 1 and x.strides[-1] != 1):
        return False
    for n, step in zip(x.shape[:-1], x.strides[:-1], strict=True):
        if n > 1 and step % run:  # an axis of one element has any stride
            return False
    return True
