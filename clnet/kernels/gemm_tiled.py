"""Matrix products on devices whose groups share a fast local memory."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import DeviceTraits, Launch, Target
from ..shapes import ceil_div, round_up
from .gemm_any import any_type, sum_slices
from .gemm_problem import Problem
from .kernel import Constraint, Kernel


class TiledParams(NamedTuple):
    """Parameters of ``gemm_tiled``; see its template."""

    ctype: str
    tile_m: int
    tile_n: int
    tile_k: int
    item_m: int
    item_n: int
    a_major: str
    b_major: str
    a_vector: bool
    b_vector: bool
    out_vector: bool
    raster: int
    bias: str | None
    activation: str | None


class Tiling(NamedTuple):
    """Sizes of a tile, and when to take it.

    Attributes:
        tile_m, tile_n, tile_k: what a group multiplies at a time.
        item_m, item_n: elements of an item.
        groups_per_unit: taken if the product has so many tiles for each compute unit.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    item_m: int
    item_n: int
    groups_per_unit: float

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.tile_m // self.item_m * (self.tile_n // self.item_n)

    def local_bytes(self, item_bytes: int) -> int:
        """Local memory of a group: two buffers, rows padded by a run of four."""
        return 2 * self.tile_k * (self.tile_m + self.tile_n + 8) * item_bytes


TILED = Kernel(
    "gemm_tiled",
    "gemm_tiled.mako",
    constraints=(
        Constraint("item_m % 4 == 0 and item_n % 4 == 0", "an item computes runs of four"),
        Constraint("tile_m % item_m == 0 and tile_n % item_n == 0", "whole items in a tile"),
        Constraint(
            "tile_m * tile_k % (4 * (tile_m // item_m) * (tile_n // item_n)) == 0"
            " and tile_n * tile_k % (4 * (tile_m // item_m) * (tile_n // item_n)) == 0",
            "every item loads the same number of runs",
        ),
    ),
)

# From large to small; the first that fits the device and leaves its units enough groups is taken.
# On one GPU of 132 units 128 x 128 is the faster one from 2048 x 2048 on, 64 x 64 at 1024 x 1024.
TILINGS = (
    Tiling(128, 128, 16, 8, 8, 1.5),
    Tiling(128, 128, 8, 8, 8, 1.5),
    Tiling(64, 64, 8, 8, 8, 1.0),
    Tiling(64, 64, 16, 4, 4, 0.5),
    Tiling(32, 32, 16, 4, 4, 0.0),
)
RASTER = 8
GROUPS_PER_UNIT = 2
SLICE_K = 256
MOST_SLICES = 64


def tiled(target: Target, problem: Problem) -> list[Launch]:
    """The launches of a product in tiles of local memory.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.

    Returns:
        Its launches, in order.
    """
    tiling = _tiling(target.traits, problem)
    if tiling is None:
        return any_type(problem)
    groups = _groups(tiling, problem)
    slices = max(
        1, min(GROUPS_PER_UNIT * target.traits.compute_units // groups, problem.k // SLICE_K)
    )
    slices = min(slices, MOST_SLICES)
    slice_k = round_up(ceil_div(problem.k, slices), tiling.tile_k)
    slices = ceil_div(problem.k, slice_k)
    memory = problem.memory()
    nbytes = slices * problem.batch * problem.m * problem.n * problem.out.dtype.itemsize
    if slices == 1 or memory.nbytes + nbytes > target.workspace_limit:
        return [_multiply(tiling, problem, slices=1, slice_k=problem.k, out_slice=0)]
    partial = Array.scratch(memory, (slices, *problem.out.shape), problem.out.dtype)
    part = problem.partial(partial)
    first = _multiply(tiling, part, slices=slices, slice_k=slice_k, out_slice=partial.strides[0])
    return [first, sum_slices(target.traits, problem, partial)]


def _tiling(traits: DeviceTraits, problem: Problem) -> Tiling | None:
    """The first tile that fits the device and keeps it busy, else the smallest that fits."""
    item_bytes = problem.out.dtype.itemsize
    fitting = [
        tiling
        for tiling in TILINGS
        if tiling.items <= traits.max_group_size
        and tiling.local_bytes(item_bytes) <= traits.local_memory_bytes
    ]
    busy = (
        tiling
        for tiling in fitting
        if _groups(tiling, problem) >= tiling.groups_per_unit * traits.compute_units
    )
    return next(busy, fitting[-1] if fitting else None)


def _groups(tiling: Tiling, problem: Problem) -> int:
    return ceil_div(problem.m, tiling.tile_m) * ceil_div(problem.n, tiling.tile_n) * problem.batch


def _multiply(
    tiling: Tiling, problem: Problem, *, slices: int, slice_k: int, out_slice: int
) -> Launch:
    params = TiledParams(
        problem.out.dtype.ctype,
        *tiling[:5],
        "k" if problem.a.strides[3] == 1 else "m",
        "k" if problem.b.strides[3] != 1 and problem.b.strides[2] == 1 else "n",
        _dense_runs(problem.a),
        _dense_runs(problem.b),
        problem.out.strides[3] == 1 and _dense_runs(problem.out),
        RASTER,
        problem.bias_axis,
        problem.activation,
    )
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
            slices,
            slice_k,
            out_slice,
        ),
        global_size=(_groups(tiling, problem) * slices * tiling.items,),
        local_size=(tiling.items,),
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
