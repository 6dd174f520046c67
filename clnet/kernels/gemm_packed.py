"""Matrix products on devices where one work-item per group with wide vectors is fastest."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

from ..array import Array
from ..device import DeviceTraits, Launch, Scratch, Target
from ..shapes import ceil_div, round_up
from .gemm_any import sum_slices
from .gemm_problem import Problem
from .kernel import Constraint, Kernel


class PackedParams(NamedTuple):
    """Parameters of ``gemm_packed``; see its template."""

    ctype: str
    width: int
    rows: int
    vectors: int
    unroll: int
    depth: int
    block: int
    prepacked: bool
    bias: str | None
    activation: str | None


class PackParams(NamedTuple):
    """Parameters of ``gemm_pack``; see its template."""

    ctype: str
    width: int
    vectors: int
    unroll: int


class Tile(NamedTuple):
    """A register block.

    Attributes:
        rows: candidates for its rows; the one that wastes least on the edge of ``m`` is taken.
        vectors: vectors in a row.
    """

    rows: tuple[int, ...]
    vectors: int


class Blocking(NamedTuple):
    """How the work is cut into groups.

    Attributes:
        row_panels, column_panels: panels of a and of b that a group multiplies.
        slices: parts of the sums that go to groups of their own.
        prepacked: b is packed beforehand by a kernel of its own.
    """

    row_panels: int
    column_panels: int
    slices: int
    prepacked: bool


PACKED = Kernel(
    "gemm_packed",
    "gemm_packed.mako",
    constraints=(Constraint("depth % unroll == 0", "panels hold whole turns of the inner loop"),),
)
PACK = Kernel("gemm_pack", "gemm_packed.mako")

# Bytes of a vector register -> register block. 32 registers of 64 bytes hold 28 sums, two vectors of
# b and one of a; 16 registers of 32 or 16 bytes hold 12 sums, two and one.
TILES = {64: Tile((14, 11, 8, 4), 2), 32: Tile((6, 4), 2), 16: Tile((6, 4), 2)}
LEAST_WIDTH = 4
UNROLL = 2
DEPTH = 512
LEAST_DEPTH = 64
BLOCK = 16
LEAST_BLOCK = 4
GROUPS_PER_UNIT = 2
# Share of the time that the units are busy from which on work counts as evenly cut.
EVEN = 0.95
MOST_TURNS = 64
SLICE_K = 256
PACK_ROWS = 8
# Groups that read the same panel of b, from which on one kernel packs it for all of them.
PREPACK_GROUPS = 3


def packed(target: Target, problem: Problem) -> list[Launch]:
    """The launches of a product in vector registers.

    Args:
        target: what the device is like.
        problem: the product, of ``float`` or ``double`` elements, with ``m``, ``n``, ``k``, batch > 0.

    Returns:
        Its launches, in order.
    """
    params = _params(target.traits, problem)
    blocking = _blocking(target, params, problem)
    memory = Scratch.beside(problem.out.storage, problem.a.storage, problem.b.storage)
    launches: list[Launch] = []
    if blocking.prepacked:
        panels = _panels(memory, params, problem)
        launches.append(_pack(params, problem, panels))
        params = params._replace(prepacked=True)
        problem = replace(problem, b=panels)
    if blocking.slices == 1:
        return [*launches, _multiply(params, blocking, problem, problem.out, 0)]
    partial = Array.scratch(memory, (blocking.slices, *problem.out.shape), problem.out.dtype)
    part = replace(problem, alpha=1.0, beta=0.0, bias=None, bias_axis=None, activation=None)
    params = params._replace(bias=None, activation=None)
    first = partial.view(partial.shape[1:], partial.strides[1:])
    launches.append(_multiply(params, blocking, part, first, partial.strides[0]))
    return [*launches, sum_slices(problem, partial)]


def _params(traits: DeviceTraits, problem: Problem) -> PackedParams:
    """Register block, depth and block of panels for a device and a product."""
    item = problem.out.dtype.itemsize
    lanes = max(traits.simd_width, LEAST_WIDTH)
    register = min(max(4 * lanes, min(TILES)), max(TILES))
    tile = TILES[register]
    width = register // item
    # A row more in the block costs a load beside its products; an empty one costs all of them.
    rows = min(tile.rows, key=lambda r: (ceil_div(problem.m, r) * (r + 1), -r))
    depth, block = DEPTH, BLOCK
    columns, lanes = tile.vectors * width, round_up(rows, width)
    while (block * lanes + columns) * depth * item > traits.local_memory_bytes // 2:
        if block > LEAST_BLOCK or depth == LEAST_DEPTH:
            block //= 2
        else:
            depth //= 2
    return PackedParams(
        problem.out.dtype.ctype,
        width,
        rows,
        tile.vectors,
        UNROLL,
        depth,
        max(block, 1),
        False,
        problem.bias_axis,
        problem.activation,
    )


def _blocking(target: Target, params: PackedParams, problem: Problem) -> Blocking:
    """Cut the work so that every compute unit gets about the same, with little packed twice."""
    units = target.traits.compute_units
    row_panels = ceil_div(problem.m, params.rows)
    column_panels = ceil_div(problem.n, params.vectors * params.width)
    row_blocks = ceil_div(row_panels, params.block)
    column_blocks = balanced_blocks(column_panels, row_blocks * problem.batch, units)
    if row_blocks * column_blocks * problem.batch < units:
        row_blocks = balanced_blocks(row_panels, column_blocks * problem.batch, units)
    groups = row_blocks * column_blocks * problem.batch
    slices = 1
    if groups < GROUPS_PER_UNIT * units:
        slices = max(1, min(ceil_div(GROUPS_PER_UNIT * units, groups), problem.k // SLICE_K))
        partial = slices * problem.batch * problem.m * problem.n * problem.out.dtype.itemsize
        slices = slices if partial <= target.workspace_limit else 1
        slices = ceil_div(problem.k, _slice_k(params, problem, slices))
    readers = row_blocks * problem.batch // _items(problem.b)
    room = _panel_bytes(params, problem) <= target.workspace_limit and slices == 1
    return Blocking(
        ceil_div(row_panels, row_blocks),
        ceil_div(column_panels, column_blocks),
        slices,
        prepacked=readers >= PREPACK_GROUPS and room,
    )


def balanced_blocks(panels: int, others: int, units: int) -> int:
    """How many blocks to cut ``panels`` into, so that ``units`` workers are evenly busy.

    Args:
        panels: what is cut along this axis.
        others: blocks along the other axes.
        units: workers; each block goes to one.

    Returns:
        The fewest blocks, of those that leave each unit ``GROUPS_PER_UNIT`` groups, that keep the
        units busy for ``EVEN`` of the time, or the count that comes nearest.
    """
    best, best_share = 1, 0.0
    for blocks in range(1, panels + 1):
        size = ceil_div(panels, blocks)
        turns = ceil_div(ceil_div(panels, size) * others, units)
        share = panels * others / (units * turns * size)
        enough = blocks * others >= GROUPS_PER_UNIT * units
        if share >= EVEN and enough:
            return blocks
        if share > best_share:
            best, best_share = blocks, share
        if turns > MOST_TURNS:
            break
    return best


def _items(array: Array) -> int:
    """Batch items that differ."""
    pairs = zip(array.shape[:2], array.strides[:2], strict=True)
    return prod(size for size, stride in pairs if stride != 0)


def _slice_k(params: PackedParams, problem: Problem, slices: int) -> int:
    return round_up(ceil_div(problem.k, slices), params.unroll)


def _padded_k(params: PackedParams, problem: Problem) -> int:
    return round_up(problem.k, params.unroll)


def _panel_bytes(params: PackedParams, problem: Problem) -> int:
    columns = round_up(problem.n, params.vectors * params.width)
    steps = _padded_k(params, problem)
    return _items(problem.b) * columns * steps * problem.out.dtype.itemsize


def _panels(memory: Scratch, params: PackedParams, problem: Problem) -> Array:
    """B's panels, as if they were b: batch strides are theirs, matrix strides mean nothing."""
    columns = round_up(problem.n, params.vectors * params.width)
    item = columns * _padded_k(params, problem)
    dense = Array.scratch(memory, (_items(problem.b), item), problem.b.dtype)
    outer, inner = (stride != 0 for stride in problem.b.strides[:2])
    inner_items = problem.b.shape[1] if inner else 1
    strides = (item * inner_items if outer else 0, item if inner else 0, 0, 0)
    return dense.view(problem.b.shape, strides)


def _pack(params: PackedParams, problem: Problem, panels: Array) -> Launch:
    """Rows of b that lie densely are read whole, some at a time; columns panel by panel."""
    b = problem.b
    column_panels = ceil_div(problem.n, params.vectors * params.width)
    by_rows = b.strides[3] == 1
    chunk = PACK_ROWS if by_rows else params.depth
    group_panels = column_panels if by_rows else 1
    inner_items = b.shape[1] if b.strides[1] != 0 else 1
    return PACK.launch(
        PackParams(params.ctype, params.width, params.vectors, params.unroll),
        (
            problem.n,
            problem.k,
            panels,
            b,
            *b.strides[2:],
            inner_items,
            *b.strides[:2],
            group_panels,
            chunk,
            _padded_k(params, problem),
        ),
        global_size=(ceil_div(column_panels, group_panels), ceil_div(problem.k, chunk), _items(b)),
        local_size=(1, 1, 1),
        flops=0,
        bytes=2 * _panel_bytes(params, problem),
    )


def _multiply(
    params: PackedParams, blocking: Blocking, problem: Problem, out: Array, out_slice: int
) -> Launch:
    """The product itself, into ``out``, whose slices lie ``out_slice`` apart."""
    given = replace(problem, out=out)
    columns = params.vectors * params.width
    row_blocks = ceil_div(given.m, params.rows * blocking.row_panels)
    column_blocks = ceil_div(given.n, columns * blocking.column_panels)
    return PACKED.launch(
        params,
        (
            given.m,
            given.n,
            given.k,
            given.out,
            given.a,
            given.b,
            *given.bias_args(),
            given.alpha,
            given.beta,
            *given.matrix_strides(),
            *given.batch_strides(),
            blocking.slices,
            _slice_k(params, given, blocking.slices),
            out_slice,
            blocking.row_panels,
            blocking.column_panels,
        ),
        global_size=(row_blocks, column_blocks, blocking.slices * given.batch),
        local_size=(1, 1, 1),
        flops=given.flops,
        bytes=given.bytes,
    )
