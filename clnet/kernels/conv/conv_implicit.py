"""Convolution as a tiled product with gathered columns: the GPU-shaped algorithm."""

from __future__ import annotations

from math import gcd

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import DType, float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Constraint, Kernel, by_name, joined
from ..tile import Tile, Tiling, Work, choose, sliced, timed_choices
from ..tuning import Tunable
from .conv_geometry import MOST_PIXELS, ConvGeometry, ConvProblem, Direction
from .conv_parts import add_slices, pack
from .conv_trial import ConvTrial, Operands

# Fewer channels than this and several taps: sums run over channels and taps in one.
_FEW_CHANNELS = 8
# A slice shorter than this costs more in adding slices than it gains.
_SHORTEST_SLICE = 256


IMPLICIT = Kernel(
    "conv_implicit",
    "conv/conv_implicit.mako",
    constraints=(
        Constraint("tile.regular", "whole patches of items, and stages enough to copy ahead"),
        Constraint(
            "tile.loads(tile.tile_m, 'tile' if packed else 'k', dense=a_dense).whole"
            " and tile.loads(tile.tile_n, 'tile', dense=b_dense).whole",
            "every item reads equally often",
        ),
        Constraint("direction == 'forward' or packed and not merged", "gradients read packed"),
    ),
)

# With the speed of each on convolutions that fill the device, relative to the fastest.
TILINGS = (
    (Tile(64, 128, 16, 8, 8, 4, 4, "async", ahead=True), 1.0),
    (Tile(128, 64, 16, 8, 8, 8, 4, "async", ahead=True), 0.98),
    (Tile(64, 64, 16, 8, 8, 4, 4, "async", ahead=True), 0.97),
    (Tile(32, 64, 16, 4, 8, 4, 4, "async", ahead=True), 0.85),
    (Tile(16, 128, 32, 4, 4, 4, 3, "async", ahead=True), 0.65),
    (Tile(64, 128, 16, 8, 8, 4), 0.89),
    (Tile(128, 64, 16, 8, 8, 8), 0.86),
    (Tile(64, 64, 16, 8, 8, 4), 0.86),
    (Tile(32, 64, 16, 4, 8, 4), 0.7),
    (Tile(32, 32, 16, 4, 4, 4), 0.5),
)


class _Roles(NamedTuple):
    """One direction's sizes, as the template's header names them."""

    direction: str
    rows: int
    channels: int
    height: int
    width: int
    h: int
    w: int
    phases: int
    down: int
    across: int

    @property
    def taps(self) -> int:
        """Taps that most pixels of a phase meet."""
        return self.down * self.across


def _roles(g: ConvGeometry, direction: Direction) -> _Roles:
    if direction is Direction.FORWARD:
        return _Roles("forward", g.ocg, g.icg, g.oh, g.ow, g.h, g.w, 1, g.kh, g.kw)
    down = ceil_div(g.kh, g.sh // gcd(g.sh, g.dh))
    across = ceil_div(g.kw, g.sw // gcd(g.sw, g.dw))
    return _Roles("input", g.icg, g.ocg, g.h, g.w, g.oh, g.ow, g.sh * g.sw, down, across)


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    return _launches(target, Direction.FORWARD, (y, weight, x), g, epilogue)


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    return _launches(target, Direction.INPUT_GRAD, (gx, weight, gy), g, NO_EPILOGUE)


def fits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether packed filters fit the workspace, and the device can run a tile at all.

    It counts the pixels of all images as columns of one product.
    """
    if g.n * g.plane > MOST_PIXELS:
        return False
    packed = g.oc * g.icg * g.taps * itemsize if _packs(g, direction) else 0
    return packed <= target.workspace_limit and any(
        tile.fits(target.traits, itemsize) for tile, _ in TILINGS
    )


def merges(g: ConvGeometry) -> bool:
    """Whether sums over the input's channels and the taps become one."""
    return g.icg < _FEW_CHANNELS and g.taps > 1


def _packs(g: ConvGeometry, direction: Direction) -> bool:
    """Whether the filters are packed first."""
    if direction is Direction.WEIGHT_GRAD or g.taps == 1:
        return False
    return direction is Direction.INPUT_GRAD or not merges(g)


def _launches(
    target: Target,
    direction: Direction,
    operands: tuple[Array, Array, Array],
    g: ConvGeometry,
    epilogue: Epilogue,
) -> list[Launch]:
    """The launches on ``operands``: the result, the filters, and what is multiplied with them."""
    out, weight, source = operands
    roles = _roles(g, direction)
    memory = Scratch(out.device)
    launches: list[Launch] = []
    filters = weight
    if _packs(g, direction):
        shape = (g.groups, g.taps, roles.channels, roles.rows)
        filters = Array.scratch(memory, shape, weight.dtype)
        transposed = direction is Direction.INPUT_GRAD
        launches.append(pack(filters, weight, groups=g.groups, transposed=transposed))
    cut = _choose(target, g, direction, out.dtype)
    if cut.slices == 1:
        return [*launches, _multiply(cut, roles, (out, filters, source), g, epilogue)]
    parts = Array.scratch(memory, (cut.slices, *out.shape), out.dtype)
    first = parts.view(out.shape, out.strides)
    multiply = _multiply(cut, roles, (first, filters, source), g, NO_EPILOGUE, out_slice=out.size)
    last = add_slices(target, out, parts, plane=roles.height * roles.width, epilogue=epilogue)
    return [*launches, multiply, last]


class _Cut(NamedTuple):
    """The tile, the slices of a sum, and the tiles of a slice."""

    tile: Tile
    slices: int
    slice_tiles: int


def _choose(target: Target, g: ConvGeometry, direction: Direction, dtype: DType) -> _Cut:
    if dtype is float32:
        problem = ConvProblem(direction.value, False, *g)
        tiling = TILING.choose(target, problem)
    else:
        tiling = _tiling(target, g, direction, dtype.itemsize)
    roles = _roles(g, direction)
    choice = sliced(tiling.tile, roles.channels * roles.taps, tiling.slices)
    step = choice.tile.tile_k
    merged = direction is Direction.FORWARD and merges(g)
    span = roles.channels * roles.taps
    blocks = ceil_div(span, step) if merged else ceil_div(roles.channels, step) * roles.taps
    slice_tiles = ceil_div(max(blocks, 1), choice.slices)
    return _Cut(choice.tile, ceil_div(max(blocks, 1), slice_tiles), slice_tiles)


def _work(target: Target, g: ConvGeometry, direction: Direction, item_bytes: int) -> Work:
    """The product that it is; slices find room beside packed filters."""
    roles = _roles(g, direction)
    phase_h, phase_w = (1, 1) if direction is Direction.FORWARD else (g.sh, g.sw)
    columns = g.n * ceil_div(roles.height, phase_h) * ceil_div(roles.width, phase_w)
    packed = g.groups * g.taps * roles.channels * roles.rows * item_bytes
    room = target.workspace_limit - _packs(g, direction) * round_up(packed, Scratch.ALIGNMENT)
    out = g.n * g.groups * roles.rows * roles.height * roles.width * item_bytes
    return Work(
        roles.rows,
        columns,
        roles.channels * roles.taps,
        g.groups * roles.phases,
        item_bytes,
        max(room // max(out, 1), 1),
    )


def _tiling(target: Target, g: ConvGeometry, direction: Direction, item_bytes: int) -> Tiling:
    work = _work(target, g, direction, item_bytes)
    choice = choose(target.traits, TILINGS, work, shortest=_SHORTEST_SLICE)
    assert choice is not None, "fits() is asked first"  # noqa: S101 - an invariant
    return Tiling(*choice.tile, choice.slices)


def _default(target: Target, problem: ConvProblem) -> Tiling:
    direction = Direction(problem.direction)
    return _tiling(target, problem.geometry, direction, float32.itemsize)


def _candidates(target: Target, problem: ConvProblem) -> list[Tiling]:
    """The default, then every tile in every number of slices, by estimate."""
    direction = Direction(problem.direction)
    work = _work(target, problem.geometry, direction, float32.itemsize)
    timed = timed_choices(target.traits, TILINGS, work, shortest=_SHORTEST_SLICE)
    found = [Tiling(*c.tile, c.slices) for _, c in sorted(timed, key=lambda pair: pair[0])]
    return list(dict.fromkeys((_default(target, problem), *found)))


def _lower(target: Target, operands: Operands, choice: Tiling) -> list[Launch]:
    target, g = TILING.forced(target, operands.problem, choice), operands.geometry
    x, weight, y = operands.x, operands.weight, operands.y
    if operands.direction is Direction.INPUT_GRAD:
        return input_grad(target, x, y, weight, g)
    return forward(target, y, x, weight, g, NO_EPILOGUE)


TILING = Tunable(
    "conv_implicit",
    version=2,
    problem=ConvProblem,
    choice=Tiling,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(where, problem, None, _lower),
)


def _multiply(
    cut: _Cut,
    roles: _Roles,
    operands: tuple[Array, Array, Array],
    g: ConvGeometry,
    epilogue: Epilogue,
    *,
    out_slice: int = 0,
) -> Launch:
    """The product, or those of its slices, which lie ``out_slice`` elements from each other."""
    (out, filters, source), tile = operands, cut.tile
    merged = roles.direction == "forward" and merges(g)
    packed = roles.direction == "input" or (g.taps > 1 and not merged)
    plane, span = roles.height * roles.width, roles.channels * (g.taps if merged else 1)
    params = joined(
        by_name("ctype tile direction", out.dtype.ctype, tile, roles.direction),
        by_name("merged kh kw", merged, *((g.kh, g.kw) if merged else (0, 0))),
        by_name("packed", packed),
        by_name("a_dense", (roles.rows if packed else span) % 4 == 0 and filters.offset % 4 == 0),
        by_name("b_dense", g.pointwise and plane % 4 == 0 and source.offset % 4 == 0),
        by_name("out_dense", plane % 4 == 0 and roles.phases == 1 and out.offset % 4 == 0),
        epilogue.params,
    )
    phase_h, phase_w = (1, 1) if roles.direction == "forward" else (g.sh, g.sw)
    columns = g.n * ceil_div(roles.height, phase_h) * ceil_div(roles.width, phase_w)
    return IMPLICIT.launch(
        params,
        joined(
            by_name("out filters source bias", *operands, epilogue.bias),
            g.sizes("n groups sh sw dh dw ph pw"),
            by_name("rows channels height width h w", *roles[1:7]),
            by_name("taps_h taps_w", g.kh, g.kw),
            by_name("slices slice_tiles out_slice", *cut[1:], out_slice),
        ),
        global_size=(
            ceil_div(columns, tile.tile_n) * tile.items,
            ceil_div(roles.rows, tile.tile_m) * roles.phases,
            g.groups * cut.slices,
        ),
        local_size=(tile.items, 1, 1),
        flops=g.flops,
        bytes=out.nbytes + filters.nbytes + source.nbytes,
    )
