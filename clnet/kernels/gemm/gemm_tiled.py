"""Matrix products on devices whose groups share a fast local memory."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...errors import TemplateError
from ...values.dtypes import from_name
from ...values.shapes import ceil_div, round_up
from ..kernel import Constraint, Kernel, by_name, joined
from ..tile import Choice, Tile, Tiling, Work, choose, sliced, time_in_waves, timed_choices
from ..tuning import Tunable
from .gemm_any import any_type, sum_slices
from .gemm_problem import Problem, Product
from .gemm_trial import ProductTrial
from .gemm_turned import along_a, along_b, lasting_saves, turned

TILED = Kernel(
    "gemm_tiled",
    "gemm/gemm_tiled.mako",
    constraints=(
        Constraint("tile.regular", "whole patches of items, and stages enough to copy ahead"),
        Constraint(
            "tile.loads(tile.tile_m, a_along, dense=a_dense).whole"
            " and tile.loads(tile.tile_n, b_along, dense=b_dense).whole",
            "every item reads equally often",
        ),
    ),
)

# With the speed of each in full waves of its groups, relative to the fastest: those that copy
# asynchronously as an H200 was measured, the others below them as they were to each other.
TILINGS = (
    (Tile(128, 256, 16, 8, 16, 8, 3, "async", ahead=True), 1.0),
    (Tile(128, 128, 16, 8, 8, 4, 3, "async", ahead=True), 1.0),
    (Tile(64, 128, 16, 8, 8, 4, 4, "async", ahead=True), 1.0),
    (Tile(128, 96, 24, 8, 8, 8, 3, "async", ahead=True), 0.94),
    (Tile(64, 96, 24, 8, 8, 8, 3, "async", ahead=True), 0.94),
    (Tile(64, 64, 16, 8, 8, 4, 4, "async", ahead=True), 0.85),
    (Tile(32, 64, 16, 4, 8, 4, 4, "async", ahead=True), 0.62),
    (Tile(64, 256, 16, 8, 8, 4), 0.81),
    (Tile(64, 128, 16, 8, 8, 4), 0.79),
    (Tile(64, 64, 16, 8, 8, 4), 0.76),
    (Tile(64, 64, 16, 4, 4, 4), 0.6),
    (Tile(32, 32, 16, 4, 4, 4), 0.45),
    (Tile(64, 64, 16, 8, 8, 4, 4, "async", ahead=True, teams=2), 0.73),
    (Tile(64, 64, 16, 8, 8, 8, 4, "async", ahead=True, teams=4), 0.6),
    (Tile(32, 64, 32, 8, 8, 4, 3, "async", ahead=True, teams=4), 0.55),
    (Tile(32, 32, 32, 8, 4, 4, 4, "async", ahead=True, teams=8), 0.36),
    (Tile(16, 32, 64, 4, 4, 4, 3, "async", ahead=True, teams=8), 0.35),
    (Tile(32, 32, 32, 8, 4, 4, teams=8), 0.32),
)
# Others, which only measuring can recommend: taken to be a little slower than those above.
OTHERS = tuple(
    (tile, 0.6)
    for m, n, k in itertools.product((32, 64, 128), (64, 128, 256), (8, 16, 32))
    for copy, stages, ahead in (("async", 3, True), ("async", 4, True), ("registers", 2, False))
    for tile in (Tile(m, n, k, 8, 8, 4, stages, copy, ahead=ahead),)
    if tile.regular and tile.even and all(tile != listed for listed, _ in TILINGS)
)
RASTER = 8
SLICE_K = 256
# What decides whether a group alone on its unit finishes its results: steps of k, arrays.
SHORT_K, FEW_OPERANDS = 256, 2
# Instructions for an element that cost less than to write it and read it again, steps of k that
# hide one more behind them, and what a launch costs, in instructions of one element: measured on an
# H200 (docs/notes/products-gpu.md).
FREE_INSTRUCTIONS, HIDING_K, LAUNCH_INSTRUCTIONS = 20, 16, 50_000_000
# What a unit could have multiplied while a launch begins and ends, measured there: 6.5 us.
_LAUNCH = 2_400_000


def tiles_fit(target: Target, problem: Problem) -> bool:
    """Whether the device's local memory holds tiles of a product's dtype."""
    item_bytes = problem.out.dtype.itemsize
    return any(tile.fits(target.traits, item_bytes) for tile, _ in TILINGS)


def finish_pays(
    target: Target, problem: Problem, *, operands: int, light: bool, effort: int
) -> bool:
    """Whether a product's groups should compute more of its result, not a launch of its own.

    Nothing multiplies while a group finishes but other groups, the less the shorter the sums are:
    that has to cost less than a launch, and bytes there and back. Items with many sums are few, and
    wait where they load and compute what is not part of the sums: that pays for short sums and
    cheap functions, and where there is hardly anything to do.

    Args:
        target: what the device is like.
        problem: the product.
        operands: arrays that are read, and arrays that are written.
        light: there is nothing but arithmetic to do.
        effort: instructions for one element, roughly.
    """
    hidden = problem.k / HIDING_K + LAUNCH_INSTRUCTIONS / problem.out.size
    if effort > FREE_INSTRUCTIONS + hidden:
        return False
    tiling = TILING.choose(target, problem.product)
    if tiling.tile.resident > 1 or tiling.slices > 1 or (light and operands <= FEW_OPERANDS):
        return True
    return problem.k <= SHORT_K and effort <= FREE_INSTRUCTIONS


def tiled(target: Target, problem: Problem) -> list[Launch]:
    """The launches of a product in tiles of local memory.

    Args:
        target: what the device is like.
        problem: the product, of float32 or float64, no axis of it empty.

    Returns:
        Its launches, in order.
    """
    if not tiles_fit(target, problem):
        return any_type(problem)
    whole = target
    target = _beside(target, problem)
    tiling = TILING.choose(target, problem.product)
    copies = list[Launch]()
    if tiling.tile.ring:
        copies, problem = turned(target, problem, target.workspace_limit)
    if copies:
        target = _beside(whole, problem)
        tiling = TILING.choose(target, problem.product)
    if not _brought(tiling.tile, problem):
        tiling = _fastest(target, problem.product, [(t, s) for t, s in TILINGS if t.even])
    return [*copies, *_launches(target, problem, tiling)]


def reads_turned(target: Target, problem: Problem, of: str) -> bool:
    """Whether an operand that lay along the tile would be read enough faster.

    Args:
        target: what the device is like.
        problem: the product.
        of: ``"a"`` or ``"b"``.
    """
    if not tiles_fit(target, problem) or not lasting_saves(target, problem, of):
        return False
    return TILING.choose(target, problem.product).tile.ring


def _beside(target: Target, problem: Problem) -> Target:
    """With the scratch memory that operands which lie there leave."""
    left = max(target.workspace_limit - problem.memory().nbytes, 0)
    return target if left == target.workspace_limit else replace(target, workspace_limit=left)


def _launches(target: Target, problem: Problem, tiling: Tiling) -> list[Launch]:
    """The launches of a tile."""
    choice = sliced(tiling.tile, problem.k, tiling.slices)
    if choice.slices == 1:
        return [_multiply(choice, problem, out_slice=0)]
    memory = problem.memory()
    partial = Array.scratch(memory, (choice.slices, *problem.out.shape), problem.out.dtype)
    first = _multiply(choice, problem.partial(partial), out_slice=partial.strides[0])
    return [first, sum_slices(target.traits, problem, partial)]


def tiled_together(target: Target, problems: Sequence[Problem]) -> list[Launch] | None:
    """One launch for several products with equal rows and sums, where it takes less time.

    Small products leave units idle that the next one could use.

    Args:
        target: what the device is like.
        problems: of float32 or float64, without batches and finishes, all operands lying alike.

    Returns:
        The launch, or None where one product after the other is as fast, or they differ in more
        than their columns.
    """
    first = problems[0]
    if not tiles_fit(target, first) or any(_form(p) != _form(first) for p in problems):
        return None
    whole = first.product._replace(n=sum(p.n for p in problems))
    tiles = [(t, s) for t, s in TILINGS if all(_brought(t, p) for p in problems)]
    once = replace(target, workspace_limit=0)  # no slices
    apart = sum(_timed(target, p.product, _suited(p.product))[0] + _LAUNCH for p in problems)
    time, choice = _timed(once, whole, tiles)
    return [_multiply_together(choice.tile, problems)] if time + _LAUNCH < apart else None


def _form(problem: Problem) -> tuple[Any, ...]:
    """What products of one launch have in common."""
    made = problem.epilogue
    return (
        (problem.m, problem.k, problem.batch, problem.alpha, problem.beta, problem.out.dtype),
        (problem.out.strides[3], problem.a.strides[2:], problem.b.strides[2:]),
        (made.axis, made.bias and made.bias.strides, made.activation, made.finish),
        (_dense_runs(problem.out), *_dense_operands(problem)),
    )


def _timed(
    target: Target, product: Product, tiles: Sequence[tuple[Tile, float]]
) -> tuple[float, Choice]:
    """The least time that is foretold, in operations of a unit, and the choice for it."""
    work = _work(target, product)
    timed = timed_choices(target.traits, tiles, work, shortest=SLICE_K, time=time_in_waves)
    return min(timed, key=lambda pair: pair[0])


def _multiply_together(tile: Tile, problems: Sequence[Problem]) -> Launch:
    first = problems[0]
    params = {**_params(tile, first), "together": len(problems)}
    rows = ceil_div(first.m, tile.tile_m)
    tiles = sum(rows * ceil_div(p.n, tile.tile_n) for p in problems)
    bias = first.epilogue.bias
    biases = {} if bias is None else {"bias_{j}": [p.epilogue.bias for p in problems]}
    strides = (first.out.strides[3], *first.a.strides[2:], *first.b.strides[2:])
    return TILED.launch(
        params,
        {
            "m": first.m,
            "k": first.k,
            "n_{j}": [p.n for p in problems],
            "out_{j}": [p.out for p in problems],
            "a_{j}": [p.a for p in problems],
            "b_{j}": [p.b for p in problems],
            "out_m_{j}": [p.out.strides[2] for p in problems],
            **biases,
            **({} if bias is None else {"bias_step": bias.strides[0]}),
            **first.factors(),
            **dict(zip("out_n a_m a_k b_k b_n".split(), strides, strict=True)),
            "inner": 1,
            "out_outer": 0,
            "out_inner": 0,
            "a_outer": 0,
            "a_inner": 0,
            "b_outer": 0,
            "b_inner": 0,
            "slices": 1,
            "out_slice": 0,
            "slice_k": round_up(first.k, tile.tile_k),
        },
        global_size=(tiles * tile.items,),
        local_size=(tile.items,),
        flops=sum(p.flops for p in problems),
        bytes=sum(p.bytes for p in problems),
    )


def _work(target: Target, product: Product) -> Work:
    item_bytes = from_name(product.dtype).itemsize
    nbytes = product.batch * product.m * product.n * item_bytes
    most_slices = max(target.workspace_limit // nbytes, 1)
    return Work(product.m, product.n, product.k, product.batch, item_bytes, most_slices)


def _default(target: Target, product: Product) -> Tiling:
    return _fastest(target, product, _suited(product))


def _suited(product: Product) -> list[tuple[Tile, float]]:
    """The tiles whose items read operands of such sizes equally often, as they mostly lie."""
    along = (
        product.k if product.layout[0] == "N" else product.m,
        product.n if product.layout[1] == "N" else product.k,
    )
    dense = "S" not in product.layout and all(size % 4 == 0 for size in along)
    return [(tile, speed) for tile, speed in TILINGS if dense or tile.even]


def _fastest(target: Target, product: Product, tiles: Sequence[tuple[Tile, float]]) -> Tiling:
    work = _work(target, product)
    choice = choose(target.traits, tiles, work, shortest=SLICE_K, time=time_in_waves)
    if choice is None:
        raise TemplateError("gemm_tiled.mako:gemm_tiled", "no tile fits the device")
    return Tiling(*choice.tile, choice.slices)


def _candidates(target: Target, product: Product) -> list[Tiling]:
    """Every tile that keeps the laws for all operands, the default first, then by estimate."""
    work = _work(target, product)
    tiles = (*_suited(product), *OTHERS)
    timed = timed_choices(target.traits, tiles, work, shortest=SLICE_K, time=time_in_waves)
    found = [Tiling(*c.tile, c.slices) for _, c in sorted(timed, key=lambda pair: pair[0])]
    default = _default(target, product)
    return [default, *dict.fromkeys(t for t in found if t != default)]


def _brought(tile: Tile, problem: Problem) -> bool:
    """Whether all items read equally often, as the operands lie."""
    return tile.even or all(
        tile.loads(extent, along, dense=dense).whole
        for extent, along, dense in zip(
            (tile.tile_m, tile.tile_n),
            (along_a(problem), along_b(problem)),
            _dense_operands(problem),
            strict=True,
        )
    )


def _params(tile: Tile, problem: Problem) -> dict[str, Any]:
    made = problem.epilogue
    aligned = made.finish is None or all(a.offset % 4 == 0 for a in made.finish.arrays)
    dense = problem.out.strides[3] == 1 and _dense_runs(problem.out) and aligned
    a_dense, b_dense = _dense_operands(problem)
    return {
        "ctype": problem.out.dtype.ctype,
        "tile": tile,
        "a_along": along_a(problem),
        "b_along": along_b(problem),
        "a_dense": a_dense,
        "b_dense": b_dense,
        "out_dense": dense,
        "raster": RASTER,
        "bias": made.axis,
        "activation": made.activation,
        "finish": problem.finish_params(4 if dense else 1),
        "together": 1,
    }


def _multiply(choice: Choice, problem: Problem, *, out_slice: int) -> Launch:
    tile = choice.tile
    tiles = ceil_div(problem.m, tile.tile_m) * ceil_div(problem.n, tile.tile_n)
    return TILED.launch(
        _params(tile, problem),
        joined(
            by_name("m n k", problem.m, problem.n, problem.k),
            by_name("out a b", problem.out, problem.a, problem.b),
            problem.bias_args(),
            problem.finish_args(),
            problem.factors(),
            problem.matrix_strides(),
            problem.batch_strides(),
            by_name("slices slice_k out_slice", choice.slices, choice.slice_k, out_slice),
        ),
        global_size=(tiles * problem.batch * choice.slices * tile.items,),
        local_size=(tile.items,),
        flops=problem.flops,
        bytes=problem.bytes,
    )


def _dense_runs(array: Array, *, along: str = "k") -> bool:
    """Whether one matrix axis is dense in aligned runs of four, and ends with one.

    Args:
        array: an operand, or a result.
        along: an operand's axis that it is; along the tile what lies behind the end may be read, as
            it is part of no result.
    """
    axis = 3 if array.strides[3] == 1 else 2
    # An axis of one element has any stride.
    others = [i for i in range(4) if i != axis and array.shape[i] > 1]
    aligned = all(step % 4 == 0 for step in (array.offset, *(array.strides[i] for i in others)))
    if array.strides[axis] != 1 or not aligned or array.shape[axis] % 4 == 0:
        return array.strides[axis] == 1 and aligned
    last = array.offset + sum((array.shape[i] - 1) * array.strides[i] for i in others)
    behind = (last + round_up(array.shape[axis], 4)) * array.dtype.itemsize
    return along == "tile" and behind <= array.storage.nbytes


def _dense_operands(problem: Problem) -> tuple[bool, bool]:
    """The same of ``a`` and ``b``."""
    return (
        _dense_runs(problem.a, along=along_a(problem)),
        _dense_runs(problem.b, along=along_b(problem)),
    )


TILING = Tunable(
    "gemm_tiled",
    version=2,
    problem=Product,
    choice=Tiling,
    default=_default,
    candidates=_candidates,
    trial=lambda where, product: ProductTrial(where, product, _launches),
)
