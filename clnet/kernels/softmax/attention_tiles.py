"""Attention and its gradients on GPUs: tiles in local memory, scores in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...array import Array
from ...device import Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups
from ..kernel import Kernel
from .attention_tiles_grad_kv import GRAD_KV
from .attention_tiles_grad_q import GRAD_Q, LAWS

# Elements of a row that come into local memory at once: a cache line of floats.
PART = 32


class Tiling(NamedTuple):
    """How a kernel cuts up its work.

    Attributes:
        item: own rows of a work-item.
        lanes: work-items below each other.
        columns: work-items beside each other.
        tile: rows of the others at once.
        part: elements of a row that come into local memory at once, at most.
    """

    item: int
    lanes: int
    columns: int
    tile: int
    part: int = PART

    @property
    def own(self) -> int:
        """Rows of a group."""
        return self.item * self.lanes

    @property
    def group(self) -> int:
        """Work-items of a group."""
        return self.lanes * self.columns

    @property
    def params(self) -> dict[str, int]:
        """The templates' parameters."""
        return dict(zip(self._fields[:4], self[:4], strict=True))

    def chunk(self, size: int) -> int:
        """Elements that come at once of rows of ``size``."""
        return round_up(ceil_div(size, ceil_div(size, self.part)), 4)

    def few(self, size: int) -> int:
        """Rows of ``size`` elements that come at once, of about as many elements."""
        fitting = max(4, self.tile * self.chunk(size) // round_up(size, 4))
        return min(self.tile, 1 << fitting.bit_length() - 1)

    def crossed(self, head: int) -> tuple[int, int]:
        """Others whose pieces of the queries' gradient an item adds up at once; all such blocks.

        Eight are fewer reads for each sum than four, but not where items then have none.
        """
        fours = ceil_div(head, 4)
        several = 8 if self.tile // 8 * fours >= self.group else 4
        return several, self.tile // several * fours


FORWARD = Kernel("attention_tiles", "softmax/attention_tiles.mako", constraints=LAWS)

# By kernel, and heads up to a size, in the order in which they are tried: the first was the fastest
# on an H200 (docs/notes/attention.md), `_LESS` are for less local memory, the last for groups that
# would else be alone on a unit.
_LESS = {
    64: (Tiling(4, 8, 16, 64), Tiling(4, 8, 8, 32), Tiling(4, 4, 4, 16)),
    128: (Tiling(4, 8, 16, 64), Tiling(4, 8, 8, 32), Tiling(4, 4, 8, 32), Tiling(4, 4, 16, 64)),
    256: (Tiling(4, 8, 16, 64), Tiling(4, 4, 16, 64)),
}
TILINGS = {
    FORWARD: {
        64: (Tiling(8, 16, 8, 64), Tiling(8, 16, 8, 32), *_LESS[64], Tiling(8, 8, 8, 64)),
        128: (Tiling(8, 16, 16, 128), Tiling(8, 16, 16, 64), *_LESS[128], Tiling(8, 8, 16, 64)),
        256: (Tiling(8, 16, 16, 64), *_LESS[256], Tiling(8, 8, 16, 64)),
    },
    GRAD_Q: {
        64: (Tiling(8, 16, 8, 64), *_LESS[64], Tiling(8, 8, 8, 64)),
        128: (Tiling(8, 16, 16, 128), *_LESS[128], Tiling(8, 8, 16, 64)),
        256: (Tiling(8, 8, 32, 128), *_LESS[256]),
    },
    GRAD_KV: {
        64: (Tiling(8, 16, 8, 32), *_LESS[64], Tiling(8, 8, 8, 32)),
        128: (Tiling(8, 16, 16, 64), *_LESS[128], Tiling(8, 8, 16, 64)),
        256: (Tiling(8, 8, 32, 128),),
    },
}


_GROUPS_OF_A_UNIT = 2
# Sums of an item that leave registers for the rest, of 256.
_MOST_SUMS = 128
# What clang for AMD's GPUs takes, as fitted to its reports of tilings (docs/notes/attention.md):
# registers for each four on its way, for the others' elements and the own rows that a step of a
# product reads, where a key counts for some rows, and for all else; how many are left where none is
# spilled.
_OF_A_FOUR, _OF_A_SUM, _OF_A_ROW, _OF_CAUSAL, _ELSE, _LEFT = 16, 2, 5, 14, 40, 6
# How many times as long tiles of half as many others take, on an H200.
_HALF_TILE = 1.1
# What storing and reading a score's gradient costs, and what a further product costs beside its
# operations, for each unit; both in operations, as fitted to an H200 (docs/notes/attention.md).
_SLOPE_FLOPS = 32
_PRODUCT_FLOPS = 45e6
# What storing a byte of a piece of the queries' gradient and reading it again costs, and a launch,
# of each unit: 4.2 TB/s and 6.5 us there, where kernels in tiles do 36e12 operations a second.
_PIECE_FLOPS, _LAUNCH_FLOPS = 18, 2e6
# Of the scratch memory, what the scores' gradients may take; the product with them wants some, too.
_SLOPES_SHARE = 2
_CAUSAL_BLOCKS, _CAUSAL_LEAST = 4, 256


class Part(NamedTuple):
    """Some heads of the keys of some images, and the heads of the queries that share them.

    Attributes:
        image: the first.
        images: how many.
        head: the first of each.
        heads: how many.
        all_heads: how many the keys have.
    """

    image: int
    images: int
    head: int
    heads: int
    all_heads: int

    def of(self, x: Array) -> Array:
        """The part of an array ``(n, heads, ...)``, of keys' heads or queries'."""
        image, head = x.strides[:2]
        times = x.shape[1] // self.all_heads
        offset = x.offset + self.image * image + self.head * times * head
        return x.view((self.images, self.heads * times, *x.shape[2:]), x.strides, offset)


class Way(NamedTuple):
    """How the queries' gradient is found beside the keys' and values'.

    Attributes:
        parts: the heads, a launch for the keys and values of each; none: by a kernel of its own,
            which computes scores and their gradients again.
        slopes: gradients of scores are stored and multiplied by the keys; else groups of keys
            leave pieces of the queries' gradient, which are added.
        keys: of a group.
    """

    parts: list[Part]
    slopes: bool = False
    keys: int = 0


def way_of_gradients(
    target: Target, q: Array, v: Array, *, causal: bool = False, dropped: bool = False
) -> Way:
    """The way that takes the fewest operations, by an estimate.

    Args:
        target: the device's traits.
        q: the queries.
        v: the values.
        causal: whether a row sees only the keys up to its own.
        dropped: whether weights are dropped, by numbers that count from the first head on.
    """
    by = None
    if q.size and v.size:
        by = tiling(target, GRAD_KV, q, v, causal=causal, dropped=dropped)
    if by is None:
        return Way([])
    keys, rows, head = v.shape[2], q.shape[2], q.shape[3]
    room, item = target.workspace_limit, q.dtype.itemsize
    slopes = _parts(target, q, v, by, room // _SLOPES_SHARE, keys * slope_step(rows) * item)
    pieces = _parts(target, q, v, by, room, ceil_div(keys, by.own) * rows * head * item)
    ways = [(0.0, Way([], keys=by.own))]
    for parts, stores_slopes in ((slopes, True), (pieces, False)):
        if parts and not (dropped and len(parts) > 1):
            if stores_slopes:
                saved = saved_by_slopes(target, q, v, len(parts), causal=causal)
            else:
                saved = saved_by_pieces(target, q, v, by, len(parts), causal=causal)
            ways.append((saved, Way(parts, stores_slopes, by.own)))
    return max(ways, key=lambda pair: pair[0])[1]


def saved_by_slopes(target: Target, q: Array, v: Array, parts: int, *, causal: bool) -> float:
    """Operations that stored gradients of scores save; below zero if they cost more.

    They save two products, of which a causal one skips half. Every one of the ``parts`` in which
    the heads are taken costs a product, a causal one for each block of rows; small ones leave units
    idle, and each is planned by the host.
    """
    n, heads, rows, head = q.shape
    keys, value_head = v.shape[2:]
    each = 2 * (head + value_head) / (1 + causal) - _SLOPE_FLOPS
    products = parts * (ceil_div(rows, causal_block(rows)) if causal else 1)
    units = target.traits.compute_units
    return n * heads * rows * keys * each - products * units * _PRODUCT_FLOPS


def saved_by_pieces(
    target: Target, q: Array, v: Array, by: Tiling, parts: int, *, causal: bool
) -> float:
    """Operations that pieces of the queries' gradient save; below zero if they cost more.

    They save the same two products. Each piece is stored and read, and blocks of some rows by four
    elements are shared out among a group's items, of which some may have none. ``by`` is how the
    kernel that leaves them cuts up its work: marks of dropped weights may leave room for less.
    """
    n, heads, rows, head = q.shape
    keys, value_head = v.shape[2:]
    _, blocks = by.crossed(head)
    idle = (round_up(blocks, by.group) / blocks - 1) * 2 * head
    each = 2 * (head + value_head) - idle - _PIECE_FLOPS * q.dtype.itemsize * head / by.own
    units = target.traits.compute_units
    return n * heads * rows * keys * each / (1 + causal) - parts * units * _LAUNCH_FLOPS


def _parts(
    target: Target, q: Array, v: Array, by: Tiling, room: int, each_bytes: int
) -> list[Part]:
    """Parts that fit the memory and leave no unit without work; none if there are none.

    each_bytes: of a head of the queries.
    """
    n, query_heads = q.shape[:2]
    heads, keys = v.shape[1:3]
    fitting = room // (query_heads // heads * each_bytes)
    if fitting >= n * heads:
        return [Part(0, n, 0, heads, heads)]
    # Fewer groups than that leave units without work, in every part.
    if fitting * ceil_div(keys, by.own) < _GROUPS_OF_A_UNIT * target.traits.compute_units:
        return []
    if fitting < heads:
        count = ceil_div(heads, ceil_div(heads, fitting))
        return [
            Part(image, 1, first, min(count, heads - first), heads)
            for image in range(n)
            for first in range(0, heads, count)
        ]
    count = ceil_div(n, ceil_div(n, fitting // heads))
    return [Part(first, min(count, n - first), 0, heads, heads) for first in range(0, n, count)]


def slope_step(rows: int) -> int:
    """Elements from a key's gradients of scores to the next's: whole fours."""
    return round_up(rows, 4)


def causal_block(rows: int) -> int:
    """Rows whose gradients a product gives at once, of the keys up to the last of them."""
    return max(_CAUSAL_LEAST, round_up(ceil_div(rows, _CAUSAL_BLOCKS), 128))


def tiling(
    target: Target,
    kernel: Kernel,
    q: Array,
    v: Array,
    *,
    causal: bool = False,
    dropped: bool = False,
) -> Tiling | None:
    """How a kernel is to cut up its work; None: it is not for the device, or for heads as large."""
    traits, head, value_head = target.traits, q.shape[-1], v.shape[-1]
    sizes = [size for size in TILINGS[kernel] if max(head, value_head) <= size]
    if not in_groups(traits) or not sizes or min(head, value_head) == 0:
        return None
    room = traits.static_local_bytes // q.dtype.itemsize

    def fits(by: Tiling) -> bool:
        # Which weights are kept takes a byte each.
        marks = (by.own + 4) * (by.tile + 4) // q.dtype.itemsize if dropped else 0
        held = _elements(kernel, by, head, value_head) + marks
        sums = by.item * (
            (kernel is not FORWARD) * ceil_div(head, by.columns)
            + (kernel is not GRAD_Q) * ceil_div(value_head, by.columns)
        )
        return by.group <= traits.max_group_size and held <= room and sums <= _MOST_SUMS

    fitting = [by for by in TILINGS[kernel][sizes[0]] if fits(by)]
    if not fitting:
        return None
    if not traits.large_local_memory_bytes:  # else what is fastest was measured
        thin = [by._replace(part=by.part // 2) for by in TILINGS[kernel][sizes[0]]]
        fitting = _lean(
            fitting,
            [by for by in thin if fits(by)],
            lambda by: _registers(kernel, by, head, value_head, q.dtype.itemsize, causal=causal),
            traits.item_registers - _LEFT,
        )
    first, one, other = fitting[0], *((v, q) if kernel is GRAD_KV else (q, v))
    groups = one.shape[0] * one.shape[1] * ceil_div(one.shape[2], first.own)
    if groups <= traits.compute_units:
        # A group alone on its unit waits for memory; two with half the rows take turns.
        halves = (by for by in fitting if by.own * 2 == first.own and by.item == first.item)
        return next(halves, first)
    # A smaller tile takes longer, but less of its last one may be idle.
    smaller = (by for by in fitting if by[:3] == first[:3] and by.tile < first.tile)
    half = next(smaller, first)
    idle = round_up(other.shape[2], first.tile) / round_up(other.shape[2], half.tile)
    return half if idle > _HALF_TILE else first


def _lean(
    tilings: Sequence[Tiling],
    thin: Sequence[Tiling],
    registers: Callable[[Tiling], int],
    most: int,
) -> list[Tiling]:
    """Those whose items have registers enough, or the one that lacks the fewest.

    Args:
        tilings: that fit local memory.
        thin: those that bring in shorter parts, for whose fours an item needs fewer registers, and
            fit: instead of one that is no other way enough, and of all where none is.
        registers: of an item.
        most: that it may have.
    """
    shorter = {by[:4]: by for by in thin}
    each = [by if registers(by) <= most else shorter.get(by[:4], by) for by in tilings]
    for some in (each, thin):
        if enough := [by for by in some if registers(by) <= most]:
            return enough
    return sorted((*tilings, *thin), key=registers)[:1]


def portions(
    target: Target, kernel: Kernel, by: Tiling, head: int, value_head: int
) -> dict[str, int]:
    """The kernel's parameters of how much comes into local memory at once, and how it is read."""
    # Written out twice scores take 0.95 of the time on an H200; clang spills registers for AMD's.
    params = {"chunk": by.chunk(head), "unroll": 2 if target.traits.asynchronous_copies else 1}
    if kernel is not FORWARD:
        params |= {"value_chunk": by.chunk(value_head), "few": by.few(head)}
    if kernel is GRAD_KV:
        params["several"] = by.crossed(head)[0]
    return params if kernel is GRAD_Q else {**params, "value_few": by.few(value_head)}


def in_fours(x: Array) -> bool:
    """Whether all rows are whole fours and begin at one.

    Args:
        x: of four axes, its rows dense.
    """
    return all(number % 4 == 0 for number in (x.shape[-1], x.offset, *x.strides[:-1]))


def read_views(target: Target, q: Array, v: Array, *, dropped: bool = False) -> bool:
    """Whether the kernels for queries and values like these read rows that lie anywhere.

    These also take keys and values of fewer heads than the queries', and drop weights.
    """
    asked = "attention_views", (q.dtype, q.shape[-1], v.shape[-1], dropped)
    known: bool | None = target.answers.get(asked)
    if known is None:
        known = all(tiling(target, kernel, q, v, dropped=dropped) for kernel in TILINGS)
        target.answers[asked] = known
    return known


def _registers(
    kernel: Kernel, by: Tiling, head: int, value_head: int, item_bytes: int, *, causal: bool
) -> int:
    """Registers of 32 bits that an item of the kernel takes on AMD's GPUs, about."""
    gradient, each = kernel is not FORWARD, [ceil_div(n, by.columns) for n in (head, value_head)]
    held = [each[0]] * (kernel is not FORWARD) + [each[1]] * (kernel is not GRAD_Q)
    # Scores, and their gradients or what was the largest and the total of each row.
    scores = by.item * (by.tile // by.columns * (1 + gradient) + 2 * (not gradient))
    rows = [by.tile * by.chunk(head), by.few(head) * round_up(head, 4)]
    rows += [by.tile * by.chunk(value_head), by.few(value_head) * round_up(value_head, 4)]
    coming = ceil_div(max(rows), 4 * by.group)
    products = by.item * (sum(held) + _OF_A_ROW) + max(held) * _OF_A_SUM
    numbers = products + scores + coming * _OF_A_FOUR
    return ceil_div(numbers * item_bytes, 4) + causal * _OF_CAUSAL + _ELSE


def _elements(kernel: Kernel, by: Tiling, head: int, value_head: int) -> int:
    """Elements of the kernel's local memory."""
    chunk, value_chunk = by.chunk(head), by.chunk(value_head)
    rows = by.own * round_up(head, chunk)
    row, value_row = (round_up(size, 4) + 4 for size in (head, value_head))
    parts, most = [by.tile * chunk], by.own * by.tile
    if kernel is FORWARD:
        most = max(most, by.own * (by.columns + 4))
    else:
        rows += by.own * round_up(value_head, value_chunk)
        parts += [by.tile * value_chunk, by.few(head) * row]
    if kernel is not GRAD_Q:
        parts.append(by.few(value_head) * value_row)
    return rows + 2 * max(parts) + most
