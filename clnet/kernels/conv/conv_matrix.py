"""Convolutions and their gradients on matrix units, between images whose channels are dense.

Images in the other order are copied first, and so are those whose channels are not whole runs of
16 bytes; filters always are. Results are stored in whatever order they are wanted. Where 128 items
multiply at once, ``conv_warpgroup`` takes over what suits it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd, prod

from ...array import Array
from ...device import Launch, MatrixUnit, Scratch, Target, matrix_units
from ...values.shapes import ceil_div, contiguous_strides, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import MATRIX_TILES, MatrixTile, small_matrix_tile
from ..kernel import Constraint, Kernel, by_name, joined
from ..moving import copy, fill
from .conv_geometry import ConvGeometry, Direction, Phase
from .conv_warpgroup import convolved

RUN_BYTES = 16
_POSITION_BYTES = 16
# Indices of elements, and a mark beyond every row, are ints of 32 bits.
_MOST_ELEMENTS = 2**31 - 1
_MOST_PIXELS = 2**29

REGULAR = Constraint("tile.regular(unit, ctype)", "whole runs of 16 bytes for each item")
MATRIX = Kernel("conv_matrix", "conv/conv_matrix.mako", constraints=(REGULAR,))

# Narrow tiles of PTX's unit beside those of products.
_NARROW = (
    MatrixTile(128, 64, 128, 64, 32, 3),
    MatrixTile(128, 64, 64, 64, 32, 2),
    MatrixTile(64, 128, 128, 32, 64, 3),
    MatrixTile(64, 128, 64, 32, 64, 2),
)
# Speed of a tile by the number of its results, relative to the largest, as measured on an H200.
_SPEEDS = {128 * 128: 1.0, 128 * 64: 0.74, 64 * 64: 0.58}


def fits(target: Target, g: ConvGeometry, direction: Direction, item_bytes: int) -> bool:
    """Whether there are units for the elements, and copies fit the scratch memory.

    Args:
        target: what the device is like.
        g: the sizes.
        direction: what is computed.
        item_bytes: of an element: 2, or 4 for float32, which is rounded to TF32.
    """
    ctype = {2: "half", 4: "float"}.get(item_bytes, "")
    unit = matrix_units(target.traits.matrix_units).get(ctype)
    if unit is None or g.flops == 0 or not _tiles(target, unit, ctype):
        return False
    run = RUN_BYTES // item_bytes
    if g.groups > 1 and min(g.icg, g.ocg) < run:  # tiles would be mostly empty
        return False
    ic, oc = (g.groups * round_up(c, run) for c in (g.icg, g.ocg))
    x, y, weight = g.n * g.h * g.w * ic, g.n * g.oh * g.ow * oc, g.taps * ic * oc // g.groups
    turned = (x + y) * item_bytes
    if direction is Direction.WEIGHT_GRAD and turned > target.workspace_limit // 2:
        images = images_at_once(target, turned // g.n, g.n)
        turned = images * (turned // g.n) + 4 * weight * (ceil_div(g.n, max(images, 1)) - 1)
        turned += target.workspace_limit * (images == 0)
    room = {
        Direction.FORWARD: (x + weight) * item_bytes,
        Direction.INPUT_GRAD: (y + weight) * item_bytes,
        Direction.WEIGHT_GRAD: turned + 4 * weight,
    }[direction]
    size = max(x, y, weight) + (g.h + g.dh * g.kh) * g.w * ic
    extent = max(g.h, g.w, g.oh, g.ow) * max(g.sh, g.sw) + g.kh * g.dh + g.kw * g.dw
    room += 3 * Scratch.ALIGNMENT
    return room <= target.workspace_limit and size <= _MOST_ELEMENTS and extent <= _MOST_PIXELS


def images_at_once(target: Target, image_bytes: int, images: int) -> int:
    """How many images are turned over at once for a filters' gradient.

    Args:
        target: whose scratch memory holds them; they take half of it at most, if not all.
        image_bytes: of one, and of its gradient; 0 where they lie well.
        images: all.
    """
    return images if image_bytes == 0 else min(images, target.workspace_limit // 2 // image_bytes)


def forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    g: ConvGeometry,
    epilogue: Epilogue = NO_EPILOGUE,
) -> list[Launch]:
    """The convolution; the arguments are those of :func:`.conv.conv_forward`, in either order."""
    memory = Scratch(y.device)
    before, source = channels_last(target, memory, x, g.groups)
    more, filters = _filters(target, memory, weight, _FORWARD, g)
    phases = output_phases(g)
    multiply = _multiply(target, memory, y, source, filters, g, phases, (1, 1), epilogue)
    return [*before, *more, *multiply]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """The input gradient, of each phase of the strides."""
    memory = Scratch(gx.device)
    before, source = channels_last(target, memory, gy, g.groups)
    phases = input_phases(g)
    strides = (g.sh, g.sw)
    run = RUN_BYTES // weight.dtype.itemsize
    whole = g.oc % run == g.ic % run == weight.offset % run == 0
    if g.taps == g.groups == 1 and whole and weight.dtype.itemsize == 2:
        filters = weight.view((g.ic, 1, g.oc), (1, g.ic, g.ic))  # as they are
        launches = convolved(target, memory, gx, source, filters, 1, phases, strides)
        if launches is not None:
            return [*before, *launches]
    more, filters = _filters(target, memory, weight, _BACKWARD, g)
    multiply = _multiply(target, memory, gx, source, filters, g, phases, strides, NO_EPILOGUE)
    return [*before, *more, *multiply]


def is_last(x: Array, groups: int = 1) -> bool:
    """Whether images' channels are dense, of whole aligned runs for each group, in dense pixels."""
    c, h, w = x.shape[1:]
    run = RUN_BYTES // x.dtype.itemsize
    order = (h * w * c, 1, w * c, c)
    dense = all(s == o or size == 1 for s, o, size in zip(x.strides, order, x.shape, strict=True))
    return dense and x.offset % run == 0 and c // groups % run == 0


def channels_last(
    target: Target, memory: Scratch, x: Array, groups: int, place: Array | None = None
) -> tuple[list[Launch], Array]:
    """Launches, and ``(n, h, w, channels)``, channels of each group in whole runs.

    What has to be copied goes to ``place``, or to memory that is reserved for it.
    """
    n, c, h, w = x.shape
    run, cg = RUN_BYTES // x.dtype.itemsize, c // groups
    padded = groups * round_up(cg, run)
    shape = (n, h, w, padded)
    if is_last(x, groups):
        return [], x.view(shape, contiguous_strides(shape))
    made = Array.scratch(memory, shape, x.dtype) if place is None else place
    if place is not None:  # of more images
        made = place.view(shape, contiguous_strides(shape))
    image, down, right, _ = made.strides
    inside = made.view((n, groups, cg, h, w), (image, padded // groups, 1, down, right))
    of_n, of_c, of_h, of_w = x.strides
    source = x.view((n, groups, cg, h, w), (of_n, cg * of_c, of_c, of_h, of_w))
    zeros = fill(target, made, 0) if padded > c else []
    return [*zeros, *copy(target, inside, source)], made


# Axes of filters, groups first, that are rows of packed ones, and that their sums run over.
_FORWARD = (1, 2)
_BACKWARD = (2, 1)


def _filters(
    target: Target, memory: Scratch, weight: Array, axes: tuple[int, int], g: ConvGeometry
) -> tuple[list[Launch], Array]:
    """Launches, and ``(groups * rows, taps, channels)``, dense, zeros beyond the filters."""
    shape = (g.groups, g.ocg, g.icg, g.kh, g.kw)
    rows, given = (shape[axis] for axis in axes)
    run = RUN_BYTES // weight.dtype.itemsize
    channels = round_up(given, run)
    if axes == _FORWARD and g.taps == 1 and channels == given and weight.offset % run == 0:
        packed = (g.groups * rows, 1, given)
        return [], weight.view(packed, contiguous_strides(packed))
    made = Array.scratch(memory, (g.groups * rows, g.taps, channels), weight.dtype)
    row = g.taps * channels
    strides = [rows * row, row, row, g.kw * channels, channels]
    strides[axes[1]] = 1
    source = weight.view(shape, contiguous_strides(shape))
    zeros = fill(target, made, 0) if channels > given else []
    return [*zeros, *copy(target, made.view(shape, tuple(strides)), source)], made


def output_phases(g: ConvGeometry) -> tuple[list[Phase], list[Phase]]:
    """Of a convolution, down and right: all results meet the same taps."""
    down = Phase(0, g.oh, -g.ph, g.sh, g.kh, g.dh, 0, 1)
    right = Phase(0, g.ow, -g.pw, g.sw, g.kw, g.dw, 0, 1)
    return [down], [right]


def input_phases(g: ConvGeometry) -> tuple[list[Phase], list[Phase]]:
    """Of an input gradient, down and right."""
    down = _phases(g.h, g.sh, g.ph, g.dh, g.kh)
    return down, _phases(g.w, g.sw, g.pw, g.dw, g.kw)


def _phases(size: int, stride: int, before: int, dilation: int, taps: int) -> list[Phase]:
    """Of an input gradient along one axis: those pixels that meet the same taps.

    Pixel i meets tap t at ``(i + before - t * dilation) / stride``, where that is whole.
    """
    found: list[Phase] = []
    common = gcd(stride, dilation)
    for first in range(min(stride, size)):
        grid = ceil_div(size - first, stride)
        met = [t for t in range(taps) if (first + before - t * dilation) % stride == 0]
        start = met[0] if met else 0
        source = (first + before - start * dilation) // stride
        found.append(
            Phase(first, grid, source, 1, len(met), -dilation // common, start, stride // common)
        )
    return found


def _multiply(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    g: ConvGeometry,
    phases: tuple[list[Phase], list[Phase]],
    strides: tuple[int, int],
    epilogue: Epilogue,
) -> list[Launch]:
    """The launches of all phases' results, ``out`` shaped ``(n, channels, height, width)``."""
    if g.groups == 1:
        launches = convolved(target, memory, out, x, filters, g.kw, phases, strides, epilogue)
        if launches is not None:
            return launches
    # Pixels that meet no tap, as of strides beyond the window; such are of gradients alone.
    met = [pair for pair in product(*phases) if pair[0].taps and pair[1].taps]
    zeros = fill(target, out, 0) if len(met) < len(phases[0]) * len(phases[1]) else []
    gathered = (_gathered(target, out, x, filters, g, pair, strides, epilogue) for pair in met)
    return [*zeros, *gathered]


def _gathered(
    target: Target,
    out: Array,
    x: Array,
    filters: Array,
    g: ConvGeometry,
    phases: tuple[Phase, Phase],
    strides: tuple[int, int],
    epilogue: Epilogue,
) -> Launch:
    """The launch of the kernel that gathers pixels one by one."""
    down, right = phases
    ctype, run = out.dtype.stored, RUN_BYTES // out.dtype.itemsize
    unit = matrix_units(target.traits.matrix_units)[ctype]
    m, n = g.n * down.grid * right.grid, out.shape[1] // g.groups
    image, of_n, of_y, of_x = out.strides
    across = of_n != 1 or out.shape[1] == 1
    whole = n % run == 0 and all(s % run == 0 for s in (out.offset, image, of_y, of_x))
    tile = tile_for(target, unit, ctype, m, n, g.groups)
    bias = epilogue.bias
    tiles = ceil_div(m, tile.m) * ceil_div(n, tile.n)
    taps = (down.taps, right.taps)
    pixels = down.grid * right.grid * g.n
    return MATRIX.launch(
        joined(
            by_name("ctype unit tile", ctype, unit, tile),
            by_name("inside across", _inside(x, phases), across),
            by_name("runs", whole and not across),
            epilogue.params,
        ),
        joined(
            by_name("m n out x weight bias", m, n, out, x, filters, bias),
            by_name("channels h w pixel", x.shape[3] // g.groups, *x.shape[1:3], x.strides[2]),
            by_name("grid_h grid_w", down.grid, right.grid),
            by_name("step_y step_x", down.step, right.step),
            by_name("first_y first_x", down.source, right.source),
            by_name("taps_y taps_x", *taps),
            by_name("move_y move_x", down.move, right.move),
            by_name("w_row w_first", filters.strides[0], down.w_first * g.kw + right.w_first),
            by_name("w_y w_x", down.w_step * g.kw, right.w_step),
            by_name("out_first", down.first * of_y + right.first * of_x),
            by_name("out_image out_n", image, of_n),
            by_name("out_y out_x", strides[0] * of_y, strides[1] * of_x),
        ),
        global_size=(tiles * g.groups * tile.items,),
        local_size=(tile.items,),
        flops=2 * pixels * g.groups * n * prod(taps) * (g.icg if n == g.ocg else g.ocg),
        bytes=x.nbytes + filters.nbytes + out.nbytes // prod(strides),
    )


def _inside(x: Array, phases: tuple[Phase, Phase]) -> bool:
    """Whether every result sees nothing but the image."""
    for size, phase in zip(x.shape[1:3], phases, strict=True):
        ends = (phase.source, phase.source + (phase.grid - 1) * phase.step)
        moved = (phase.taps - 1) * phase.move
        if min(ends) + min(moved, 0) < 0 or max(ends) + max(moved, 0) >= size:
            return False
    return True


def _tiles(target: Target, unit: MatrixUnit, ctype: str) -> list[MatrixTile]:
    traits = target.traits
    if unit.emulated:
        shapes = (small_matrix_tile(unit),)
    else:
        shapes = MATRIX_TILES[unit.lanes, unit.rows, unit.columns]
        if unit.way == "ptx":
            shapes = (*shapes, *_NARROW)
    return [
        tile
        for tile in shapes
        if tile.items <= traits.max_group_size
        and tile.local_bytes(ctype) + _POSITION_BYTES * max(tile.m, 2 * tile.steps(ctype))
        <= traits.static_local_bytes
    ]


def tile_for(
    target: Target, unit: MatrixUnit, ctype: str, m: int, n: int, groups: int = 0
) -> MatrixTile:
    """The tile of the least estimated time; without ``groups``, slices fill the device."""
    return _cheapest(tuple(_tiles(target, unit, ctype)), target.traits.compute_units, m, n, groups)


@lru_cache
def _cheapest(tiles: tuple[MatrixTile, ...], units: int, m: int, n: int, groups: int) -> MatrixTile:
    def cost(tile: MatrixTile) -> tuple[float, int]:
        area = tile.m * tile.n
        count = ceil_div(m, tile.m) * ceil_div(n, tile.n)
        pairs = ceil_div(count * groups, 2 * units)  # two groups share a unit
        rounds = (1 if count * groups <= units else 2 * pairs) if groups else count
        return rounds * area / _SPEEDS.get(area, 0.5), -tile.stages * tile.bytes_k

    return min(tiles, key=cost)
