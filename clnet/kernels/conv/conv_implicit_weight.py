"""The weight gradient as a tiled product over all pixels: the GPU-shaped algorithm."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import float32
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel, by_name, joined
from ..tile import Choice, Tile, Tiling, Work, choose, sliced, timed_choices
from ..tuning import Tunable
from .conv_geometry import ConvGeometry, ConvProblem, Direction
from .conv_parts import add_slices
from .conv_trial import ConvTrial, Operands

# A slice shorter than this costs more in adding slices than it gains.
_SHORTEST_SLICE = 256
# So few channels and several taps: a tile of one tap would be mostly empty.
_FEW_CHANNELS = 16


WEIGHT = Kernel(
    "conv_implicit_weight",
    "conv/conv_implicit_weight.mako",
    constraints=(
        Constraint("tile.regular", "whole patches of items, and stages enough to copy ahead"),
        Constraint(
            "tile.loads(tile.tile_m, 'k', dense=False).whole"
            " and tile.loads(tile.tile_n, 'k', dense=False).whole",
            "every item reads equally often",
        ),
    ),
)

# With the speed of each on gradients that fill the device, relative to the fastest.
TILINGS = (
    (Tile(128, 128, 16, 8, 8, 8, 3, "async", ahead=True), 1.0),
    (Tile(128, 64, 16, 8, 8, 8, 4, "async", ahead=True), 0.98),
    (Tile(64, 128, 16, 8, 8, 4, 4, "async", ahead=True), 0.95),
    (Tile(64, 64, 16, 8, 8, 4, 4, "async", ahead=True), 0.9),
    (Tile(32, 64, 16, 4, 8, 4, 4, "async", ahead=True), 0.6),
    (Tile(32, 32, 16, 4, 4, 4, 4, "async", ahead=True), 0.5),
    (Tile(16, 128, 32, 4, 4, 4, 3, "async", ahead=True), 0.6),
    (Tile(64, 128, 16, 8, 8, 4), 0.85),
    (Tile(64, 64, 16, 8, 8, 4), 0.8),
    (Tile(32, 32, 16, 4, 4, 4), 0.4),
)


def merges(g: ConvGeometry) -> bool:
    """Whether the input's channels and the taps are one axis of columns."""
    return g.icg <= _FEW_CHANNELS and g.taps > 1


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    merged = merges(g)
    if gw.dtype is float32:
        problem = ConvProblem(Direction.WEIGHT_GRAD.value, False, *g)
        tiling = TILING.choose(target, problem)
    else:
        tiling = _tiling(target, g, gw.dtype.itemsize)
    choice = sliced(tiling.tile, g.n * g.oh * g.ow, tiling.slices)
    if choice.slices == 1:
        return [_multiply(choice, gw, gy, x, g, 0, (g.icg * g.taps, g.taps, 1))]
    parts = Array.scratch(Scratch(gw.device), (choice.slices, *gw.shape), gw.dtype)
    first = parts.view(gw.shape, gw.strides)
    if merged:
        multiply = _multiply(choice, first, gy, x, g, gw.size, (g.icg * g.taps, g.taps, 1))
        return [multiply, add_slices(target, gw, parts)]
    multiply = _multiply(choice, first, gy, x, g, gw.size, (g.icg, 1, g.oc * g.icg))
    return [multiply, add_slices(target, gw, parts, taps=g.taps)]


def _work(target: Target, g: ConvGeometry, item_bytes: int) -> Work:
    merged = merges(g)
    return Work(
        g.ocg,
        g.icg * g.taps if merged else g.icg,
        g.n * g.oh * g.ow,
        g.groups * (1 if merged else g.taps),
        item_bytes,
        max(target.workspace_limit // max(g.oc * g.icg * g.taps * item_bytes, 1), 1),
    )


def _tiling(target: Target, g: ConvGeometry, item_bytes: int) -> Tiling:
    work = _work(target, g, item_bytes)
    choice = choose(target.traits, TILINGS, work, shortest=_SHORTEST_SLICE)
    assert choice is not None, "fits() is asked first"  # noqa: S101 - an invariant
    return Tiling(*choice.tile, choice.slices)


def _default(target: Target, problem: ConvProblem) -> Tiling:
    return _tiling(target, problem.geometry, float32.itemsize)


def _candidates(target: Target, problem: ConvProblem) -> list[Tiling]:
    """The default, then every tile in every number of slices, by estimate."""
    work = _work(target, problem.geometry, float32.itemsize)
    timed = timed_choices(target.traits, TILINGS, work, shortest=_SHORTEST_SLICE)
    found = [Tiling(*c.tile, c.slices) for _, c in sorted(timed, key=lambda pair: pair[0])]
    return list(dict.fromkeys((_default(target, problem), *found)))


def _lower(target: Target, operands: Operands, choice: Tiling) -> list[Launch]:
    target = TILING.forced(target, operands.problem, choice)
    return weight_grad(target, operands.weight, operands.y, operands.x, operands.geometry)


TILING = Tunable(
    "conv_implicit_weight",
    version=2,
    problem=ConvProblem,
    choice=Tiling,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(where, problem, None, _lower),
)


def _multiply(
    choice: Choice,
    out: Array,
    gy: Array,
    x: Array,
    g: ConvGeometry,
    out_slice: int,
    out_strides: tuple[int, int, int],
) -> Launch:
    tile, merged = choice.tile, merges(g)
    taps = (g.kh, g.kw) if merged else (0, 0)
    params = by_name("ctype tile merged kh kw", out.dtype.ctype, tile, merged, *taps)
    if merged:
        columns = ceil_div(g.icg * g.taps, tile.tile_n)
    else:
        columns = ceil_div(g.icg, tile.tile_n) * g.taps
    return WEIGHT.launch(
        params,
        joined(
            by_name("out gy x", out, gy, x),
            g.sizes("n groups icg ocg h w oh ow sh sw dh dw ph pw"),
            by_name("taps_h taps_w slices", g.kh, g.kw, choice.slices),
            by_name("slice_k out_slice", choice.slice_k, out_slice),
            by_name("out_m out_n out_tap", *out_strides),
        ),
        global_size=(
            columns * tile.items,
            ceil_div(g.ocg, tile.tile_m),
            g.groups * choice.slices,
        ),
        local_size=(tile.items, 1, 1),
        flops=g.flops,
        bytes=out.nbytes + gy.nbytes + x.nbytes,
    )
