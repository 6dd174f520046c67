"""Matrix products on devices whose groups share a fast local memory."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import Launch, Target
from ..shapes import ceil_div
from .gemm_any import any_type, sum_slices
from .gemm_problem import Problem
from .kernel import Constraint, Kernel
from .tile import Choice, Tile, Work, choose


class TiledParams(NamedTuple):
    """Parameters of ``gemm_tiled``; see its template."""

    ctype: str
    tile: Tile
    a_along: str
    b_along: str
    a_dense: bool
    b_dense: bool
    out_dense: bool
    raster: int
    bias: str | None
    activation: str | None


TILED = Kernel(
    "gemm_tiled",
    "gemm_tiled.mako",
    constraints=(
        Constraint("tile.regular", "whole patches of items, and stages enough to copy ahead"),
        Constraint(
            "tile.loads(tile.tile_m, a_along, dense=a_dense).whole"
            " and tile.loads(tile.tile_n, b_along, dense=b_dense).whole",
            "every item reads equally often",
        ),
    ),
)

# With the speed of each on products that fill the device, relative to the fastest.
TILINGS = (
    (Tile(128, 256, 16, 8, 16, 8, 3, "async", ahead=True), 1.0),
    (Tile(64, 64, 16, 8, 8, 4, 4, "async", ahead=True), 0.9),
    (Tile(64, 128, 16, 8, 8, 4, 4, "async", ahead=True), 0.95),
    (Tile(32, 64, 16, 4, 8, 4, 4, "async", ahead=True), 0.75),
    (Tile(64, 128, 16, 8, 8, 4), 0.88),
    (Tile(64, 64, 16, 8, 8, 4), 0.85),
    (Tile(64, 64, 16, 4, 4, 4), 0.7),
    (Tile(32, 32, 16, 4, 4, 4), 0.5),
)
RASTER = 8
SLICE_K = 256


def tiled(target: Target, problem: Problem) -> list[Launch]:
    """The launches of a product in tiles of local memory.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.

    Returns:
        Its launches, in order.
    """
    memory = problem.memory()
    nbytes = problem.batch * problem.m * problem.n * problem.out.dtype.itemsize
    room = max(target.workspace_limit - memory.nbytes, 0)
    work = Work(
        problem.m,
        problem.n,
        problem.k,
        problem.batch,
        problem.out.dtype.itemsize,
        max(room // nbytes, 1),
    )
    choice = choose(target.traits, TILINGS, work, shortest=SLICE_K)
    if choice is None:
        return any_type(problem)
    if choice.slices == 1:
        return [_multiply(choice, problem, out_slice=0)]
    partial = Array.scratch(memory, (choice.slices, *problem.out.shape), problem.out.dtype)
    first = _multiply(choice, problem.partial(partial), out_slice=partial.strides[0])
    return [first, sum_slices(target.traits, problem, partial)]


def _multiply(choice: Choice, problem: Problem, *, out_slice: int) -> Launch:
    tile = choice.tile
    params = TiledParams(
        problem.out.dtype.ctype,
        tile,
        "k" if problem.a.strides[3] == 1 else "tile",
        "k" if problem.b.strides[3] != 1 and problem.b.strides[2] == 1 else "tile",
        _dense_runs(problem.a),
        _dense_runs(problem.b),
        problem.out.strides[3] == 1 and _dense_runs(problem.out),
        RASTER,
        problem.bias_axis,
        problem.activation,
    )
    tiles = ceil_div(problem.m, tile.tile_m) * ceil_div(problem.n, tile.tile_n)
    return TILED.launch(
        params,
        (
            problem.m,
            problem.n,
            problem.k,
            problem.out,
            problem.a,
            problem.b,
            *problem.bias_args(),
            problem.alpha,
            problem.beta,
            *problem.matrix_strides(),
            *problem.batch_strides(),
            choice.slices,
            choice.slice_k,
            out_slice,
        ),
        global_size=(tiles * problem.batch * choice.slices * tile.items,),
        local_size=(tile.items,),
        flops=problem.flops,
        bytes=problem.bytes,
    )


def _dense_runs(array: Array) -> bool:
    """Whether one matrix axis is dense in aligned runs of four, and ends with one."""
    axis = 3 if array.strides[3] == 1 else 2
    # An axis of one element has any stride.
    others = [array.strides[i] for i in range(4) if i != axis and array.shape[i] > 1]
    aligned = all(step % 4 == 0 for step in (array.offset, *others))
    return array.strides[axis] == 1 and array.shape[axis] % 4 == 0 and aligned
