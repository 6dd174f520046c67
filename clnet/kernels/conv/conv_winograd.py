"""Convolutions of plain images, and their gradients, by Winograd's transforms: GPU-shaped.

Transforms are kernels of their own around a batch of matrix products: 36 for filters of 3x3, 64 for
5x5. One transform of the pixels serves all three directions.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import gemm
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..winograd import Transform, transforms
from .conv_geometry import ConvGeometry, Direction
from .conv_obstacle import ConvObstacle

_TILE = 4
_SIZES = (3, 5)
_GROUP_SIZE = 128
# What a device multiplies while a kernel starts, in operations, and while a byte passes: the
# rough figures of GPUs that tile.py uses, for the whole device.
_LAUNCH_FLOPS = 100_000_000
_FLOPS_PER_BYTE = 12
_MORE_LAUNCHES = 3


_POINTS_ONLY = Constraint("matrix.length in (6, 8)", "filters of 3 or 5, and a tile of 4")
SPREAD = Kernel("winograd_spread", "conv/conv_winograd.mako", constraints=(_POINTS_ONLY,))
FILTER = Kernel("winograd_filters", "conv/conv_winograd.mako", constraints=(_POINTS_ONLY,))
GATHER = Kernel("winograd_gather", "conv/conv_winograd.mako")
GRADIENT = Kernel("winograd_gradient", "conv/conv_winograd.mako")


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, itemsize: int
) -> ConvObstacle | None:
    """Why a convolution has not this form, or its numbers do not fit; None: it is computed so."""
    if g.groups != 1:
        return ConvObstacle.GROUPS
    if g.kh != g.kw or g.kh not in _SIZES or (g.sh, g.sw, g.dh, g.dw) != (1, 1, 1, 1):
        return ConvObstacle.FILTERS
    return ConvObstacle.WORKSPACE if _images(target, g, direction, itemsize) == 0 else None


def fits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether nothing stands against it."""
    return obstacle(target, g, direction, itemsize) is None


def pays(g: ConvGeometry, direction: Direction) -> bool:
    """Whether it should be faster than direct sums: fewer products, more bytes and launches."""
    tiles = _tiles(g, direction)
    products = 2 * (g.kh + _TILE - 1) ** 2 * tiles * g.ic * g.oc
    moved = 2 * _bytes(g, direction, 4)
    cost = products + _FLOPS_PER_BYTE * moved + _MORE_LAUNCHES * _LAUNCH_FLOPS
    return cost < g.flops


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    return _convolve(target, y, x, weight, g, Direction.FORWARD, epilogue)


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    return _convolve(target, gx, gy, weight, g, Direction.INPUT_GRAD, NO_EPILOGUE)


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    matrices = transforms(g.kh, _TILE)
    memory = Scratch(gw.device)
    images = _images(target, g, Direction.WEIGHT_GRAD, gw.dtype.itemsize)
    grid = ceil_div(g.oh, _TILE), ceil_div(g.ow, _TILE)
    tiles = images * grid[0] * grid[1]
    pixels = Array.scratch(memory, (matrices.numbers, g.ic, tiles), x.dtype)
    grads = Array.scratch(memory, (matrices.numbers, g.oc, tiles), x.dtype)
    sums = Array.scratch(memory, (matrices.numbers, g.oc, g.ic), x.dtype)
    launches: list[Launch] = []
    for start in range(0, g.n, images):
        x_part, gy_part = (_part(array, start, images) for array in (x, gy))
        of_x, of_gy = (_first(array, x_part, grid) for array in (pixels, grads))
        launches += [
            _spread(target, of_x, x_part, matrices.pixels, grid, (g.ph, g.pw)),
            _spread(target, of_gy, gy_part, matrices.gradients, grid, (0, 0)),
            *gemm(target, sums, of_gy, _flip(of_x), beta=float(start > 0)),
        ]
    total, group = g.oc * g.ic, _group(target)
    last = GRADIENT.launch(
        _params(gw, matrices.weights, group),
        {"out": gw, "sums": sums, "total": total},
        global_size=(round_up(total, group),),
        local_size=(group,),
        flops=matrices.numbers * gw.size,
        bytes=sums.nbytes + gw.nbytes,
    )
    return [*launches, last]


def _convolve(
    target: Target,
    out: Array,
    x: Array,
    weight: Array,
    g: ConvGeometry,
    direction: Direction,
    epilogue: Epilogue,
) -> list[Launch]:
    """``x`` with filters, or, for the input gradient, with turned ones."""
    turned = direction is Direction.INPUT_GRAD
    pads = (g.kh - 1 - g.ph, g.kw - 1 - g.pw) if turned else (g.ph, g.pw)
    images = _images(target, g, direction, x.dtype.itemsize)
    matrices = transforms(weight.shape[2], _TILE)
    memory = Scratch(out.device)
    n, rows, h, w = out.shape
    channels = x.shape[1]
    grid = ceil_div(h, _TILE), ceil_div(w, _TILE)
    tiles = images * grid[0] * grid[1]
    filters = Array.scratch(memory, (matrices.numbers, channels, rows), x.dtype)
    pixels = Array.scratch(memory, (matrices.numbers, channels, tiles), x.dtype)
    sums = Array.scratch(memory, (matrices.numbers, rows, tiles), x.dtype)
    group = _group(target)
    launches = [
        FILTER.launch(
            joined(_params(x, matrices.filters, group), by_name("turned", turned)),
            {"out": filters, "filters": weight, "rows": rows, "channels": channels},
            global_size=(round_up(rows * channels, group),),
            local_size=(group,),
            flops=matrices.numbers * weight.size,
            bytes=filters.nbytes + weight.nbytes,
        )
    ]
    for start in range(0, n, images):
        part, results = (_part(array, start, images) for array in (x, out))
        of_part, of_results = (_first(array, part, grid) for array in (pixels, sums))
        launches += [
            _spread(target, of_part, part, matrices.pixels, grid, pads),
            *gemm(target, of_results, _flip(filters), of_part),
            _gather(target, results, of_results, matrices.results, grid, epilogue),
        ]
    return launches


def _gather(
    target: Target,
    out: Array,
    sums: Array,
    matrix: Transform,
    grid: tuple[int, int],
    epilogue: Epilogue,
) -> Launch:
    """The pixels of the results' tiles, in their places."""
    group = _group(target)
    n, rows, h, w = out.shape
    vector = w % _TILE == 0 and out.offset % _TILE == 0
    return GATHER.launch(
        joined(_params(out, matrix, group), by_name("vector", vector), epilogue.params),
        joined(
            by_name("out sums bias", out, sums, epilogue.bias),
            by_name("n rows h w tiles_h tiles_w", n, rows, h, w, *grid),
        ),
        global_size=(round_up(n * grid[0] * grid[1], group), rows),
        local_size=(group, 1),
        flops=16 * sums.size,
        bytes=sums.nbytes + out.nbytes,
    )


def _part(array: Array, start: int, images: int) -> Array:
    """Some of the images from a place on."""
    count = min(images, array.shape[0] - start)
    shape = (count, *array.shape[1:])
    return array.view(shape, array.strides, array.offset + start * array.strides[0])


def _first(numbers: Array, part: Array, grid: tuple[int, int]) -> Array:
    """Room for the numbers of a part's tiles, dense at the beginning of that for the most."""
    count, channels, _ = numbers.shape
    tiles = part.shape[0] * grid[0] * grid[1]
    return numbers.view((count, channels, tiles), (channels * tiles, tiles, 1))


def _spread(
    target: Target,
    numbers: Array,
    x: Array,
    matrix: Transform,
    grid: tuple[int, int],
    pads: tuple[int, int],
) -> Launch:
    n, channels, h, w = x.shape
    group = _group(target)
    return SPREAD.launch(
        _params(x, matrix, group),
        joined(
            by_name("out x n channels h w", numbers, x, n, channels, h, w),
            by_name("tiles_h tiles_w ph pw", *grid, *pads),
        ),
        global_size=(round_up(n * grid[0] * grid[1], group), channels),
        local_size=(group, 1),
        flops=16 * numbers.size,
        bytes=numbers.nbytes + x.nbytes,
    )


def _group(target: Target) -> int:
    return min(_GROUP_SIZE, target.traits.max_group_size)


def _params(array: Array, matrix: Transform, group: int) -> Named:
    return by_name("ctype matrix group_size", array.dtype.ctype, matrix, group)


def _flip(array: Array) -> Array:
    batch, rows, columns = array.shape
    return array.view(
        (batch, columns, rows), (array.strides[0], array.strides[2], array.strides[1])
    )


def _tiles(g: ConvGeometry, direction: Direction) -> int:
    h, w = (g.h, g.w) if direction is Direction.INPUT_GRAD else (g.oh, g.ow)
    return g.n * ceil_div(h, _TILE) * ceil_div(w, _TILE)


def _images(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> int:
    """How many images at a time fit into the scratch memory, in parts as equal as can be."""
    # Whatever is not for each image comes off first.
    fixed = _bytes(g._replace(n=0), direction, itemsize)
    each = _bytes(g._replace(n=1), direction, itemsize) - fixed
    most = min((target.workspace_limit - fixed) // max(each, 1), g.n)
    return ceil_div(g.n, ceil_div(g.n, most)) if most > 0 else 0


def _bytes(g: ConvGeometry, direction: Direction, itemsize: int) -> int:
    """Scratch memory: transformed pixels, filters, and sums of one or gradients of the other."""
    elements = (g.kh + _TILE - 1) ** 2 * (_tiles(g, direction) * (g.ic + g.oc) + g.ic * g.oc)
    return elements * itemsize + 3 * Scratch.ALIGNMENT
