"""Convolutions and their gradients by 128 items at once, between images whose channels are dense.

A tile's pixels are a box of an image, or of several: so one copy of boxes brings what all of them
meet at one tap of the filters, and zeros where that lies beyond the image.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target, map_form
from ...values.dtypes import float32, int32
from ...values.shapes import ceil_div
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import (
    MAP_WORDS,
    Problem,
    WarpgroupChoice,
    WarpgroupTile,
    emulates_warpgroups,
    has_warpgroups,
    summed,
    warpgroup_choice,
)
from ..kernel import Kernel, by_name, joined
from .conv_geometry import ConvGeometry, Phase

CONV = Kernel("conv_warpgroup", "conv/conv_warpgroup.mako")
WEIGHT = Kernel("conv_warpgroup_weight", "conv/conv_warpgroup.mako")

LINE_BYTES, RUN_BYTES = 128, 16
RANK = 4
# Fewer channels waste most of a line of 128 bytes, and little work is not worth the maps.
LEAST_CHANNELS, LEAST_WORK = 32, 2**22
# Boxes are not longer along an axis, nor their lines further apart.
MOST_BOX, MOST_SKIP = 256, 8
MOST_SLICES = 256
# Of a box's pixels, at least so many are some image's.
LEAST_FILLED = 0.5


class _Grid(NamedTuple):
    """Results and the source, as the kernel sees them.

    Attributes:
        images, h, w: of the source.
        down, right: results along the two axes, and their taps.
        out: elements of the result to the first one, and from image to image, line to line, and
            pixel to pixel.
    """

    images: int
    h: int
    w: int
    down: Phase
    right: Phase
    out: tuple[int, int, int, int]

    @property
    def dense(self) -> bool:
        """Whether results' pixels lie as an array of their own would."""
        first, image, line, pixel = self.out
        down, right = self.down.grid, self.right.grid
        return first == 0 and line == right * pixel and (image == down * line or self.images == 1)

    def flat(self) -> _Grid:
        """The same as one line, where every result meets the one pixel in its own place."""
        plain = self.dense and all(
            (p.taps, p.step, p.source, p.grid) == (1, 1, 0, size)
            for p, size in ((self.down, self.h), (self.right, self.w))
        )
        if not plain:
            return self
        pixels = self.images * self.h * self.w
        return _Grid(
            1, 1, pixels, self.down._replace(grid=1), self.right._replace(grid=pixels),
            (0, 0, 0, self.out[3]),
        )  # fmt: skip

    def box(self, lines: int) -> tuple[int, int, int]:
        """A tile's box of at most so many pixels: as few boxes as can be."""
        sizes, steps = (self.right.grid, self.down.grid), (self.right.step, self.down.step)
        found = _box(sizes, self.images, lines, steps, exact=False)
        return found or (1, 1, 1)

    def boxes(self, lines: int) -> int:
        """How many there are."""
        across, down, images = self.box(lines)
        return (
            ceil_div(self.right.grid, across)
            * ceil_div(self.down.grid, down)
            * ceil_div(self.images, images)
        )


def convolved(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    kw: int,
    phases: tuple[Phase, Phase],
    strides: tuple[int, int],
    epilogue: Epilogue = NO_EPILOGUE,
) -> list[Launch] | None:
    """The launches of one grid of results.

    Args:
        target: what the device is like.
        memory: for sums and maps.
        out: ``(n, channels, height, width)``.
        x: ``(n, h, w, channels)``, dense.
        filters: ``(out's channels, taps, channels)``, dense, of one group.
        kw: taps of a line of a filter.
        phases: results, and what they meet, down and right.
        strides: pixels of ``out`` from one of them to the next.
        epilogue: what is made of the sums.

    Returns:
        The launches; None where there are no such units, or another kernel is faster.
    """
    down, right = phases
    n, channels = out.shape[1], x.shape[3]
    image, of_n, of_y, of_x = out.strides
    work = x.shape[0] * down.grid * right.grid * n * channels * down.taps * right.taps
    if not _fits(target, x, work, min(n, channels)) or of_n != 1 or n == 1:
        return None
    if max(down.step, right.step) > MOST_SKIP or work == 0:
        return None
    first = down.first * of_y + right.first * of_x
    places = (first, image, strides[0] * of_y, strides[1] * of_x)
    images, h, w, _ = x.shape
    grid = _Grid(images, h, w, down, right, places).flat()
    dense = grid.dense and strides == (1, 1)
    choice = warpgroup_choice(
        target,
        x.dtype,
        memory,
        columns=n,
        rows_of=lambda tile: grid.boxes(tile.m),
        stages=down.taps * right.taps * ceil_div(channels, LINE_BYTES // x.dtype.itemsize),
        results=out.size,
        most_slices=MOST_SLICES if dense else 1,
    )
    if choice.slices == 1:
        return [_convolve(target, memory, out, x, filters, kw, grid, choice, epilogue)]
    rows = grid.images * grid.down.grid * grid.right.grid
    sums = Array.scratch(memory, (choice.slices, 1, 1, rows, n), float32)
    line = grid.right.grid * n
    bare = grid._replace(out=(0, grid.down.grid * line, line, n))
    launch = _convolve(target, memory, sums, x, filters, kw, bare, choice, NO_EPILOGUE)
    whole = out.view((1, 1, rows, n), (0, 0, places[3], 1))
    finished = Problem(whole, whole, whole, epilogue=epilogue)  # its operands are not read
    return [launch, summed(finished, sums, by_ptx=not emulates_warpgroups(target))]


def _convolve(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    kw: int,
    grid: _Grid,
    choice: WarpgroupChoice,
    epilogue: Epilogue,
) -> Launch:
    tile, ctype = choice.tile, x.dtype.stored
    n, taps, channels = filters.shape
    down, right = grid.down, grid.right
    box = grid.box(tile.m)
    run = RUN_BYTES // out.dtype.itemsize
    whole = n % run == 0 and all(at % run == 0 for at in (out.offset, *grid.out))
    tiles = grid.boxes(tile.m) * ceil_div(n, tile.n) * choice.slices
    return CONV.launch(
        joined(
            _params(target, ctype, tile),
            by_name("sum_ctype out_dense", out.dtype.stored, whole),
            by_name("bias activation", epilogue.bias is not None, epilogue.activation),
        ),
        joined(
            by_name("maps n", _maps(target, memory, tiles), n),
            by_name("out x weight bias", out, x, filters, epilogue.bias),
            by_name("images h w channels taps", grid.images, grid.h, grid.w, channels, taps),
            by_name("grid_h grid_w", down.grid, right.grid),
            by_name("box_x box_y box_n", *box),
            by_name("step_y step_x", down.step, right.step),
            by_name("first_y first_x", down.source, right.source),
            by_name("taps_y taps_x", down.taps, right.taps),
            by_name("move_y move_x", down.move, right.move),
            by_name("w_first", down.w_first * kw + right.w_first),
            by_name("w_y w_x", down.w_step * kw, right.w_step),
            by_name("out_first out_image out_y out_x", *grid.out),
            by_name("slices slice_steps", choice.slices, choice.steps),
            by_name("out_slice", out.strides[0] if choice.slices > 1 else 0),
        ),
        **_sizes(target, tile, tiles),
        flops=2 * grid.images * down.grid * right.grid * n * channels * down.taps * right.taps,
        bytes=x.nbytes + filters.nbytes + out.nbytes,
    )


def filters_gradient(
    target: Target, memory: Scratch, gy: Array, x: Array, g: ConvGeometry
) -> tuple[Launch, Array] | None:
    """A filters' gradient in slices.

    Args:
        target: what the device is like.
        memory: for sums and maps.
        gy: ``(n, oh, ow, channels)``, dense.
        x: ``(n, h, w, channels)``, dense.
        g: the sizes.

    Returns:
        The launch, and ``(slices, gy's channels, taps, x's channels)`` in float32; None as for
        :func:`convolved`, also where boxes of pixels would be mostly empty.
    """
    m, channels = gy.shape[3], x.shape[3]
    if not WARPGROUP_UNITS[x.dtype.stored].turns or g.groups > 1:
        return None
    if not _fits(target, x, g.flops // 2, min(m, channels)) or max(g.sh, g.sw) > MOST_SKIP:
        return None
    if g.pointwise:
        pixels = g.n * g.h * g.w
        g = g._replace(n=1, h=1, w=pixels, oh=1, ow=pixels)
    lines = LINE_BYTES // x.dtype.itemsize
    box = _box((g.ow, g.oh), g.n, lines, (g.sw, g.sh), exact=not g.pointwise)
    if box is None:
        return None
    stages = prod(ceil_div(size, part) for size, part in zip((g.ow, g.oh, g.n), box, strict=True))
    if g.n * g.oh * g.ow < LEAST_FILLED * stages * lines and not emulates_warpgroups(target):
        return None
    blocks = g.taps * ceil_div(channels, 64)
    choice = warpgroup_choice(
        target,
        x.dtype,
        memory,
        columns=64 * blocks,
        rows_of=lambda tile: ceil_div(m, tile.m),
        stages=stages,
        results=m * g.taps * channels,
        most_slices=MOST_SLICES,
    )
    tile = choice.tile
    tiles = ceil_div(m, tile.m) * ceil_div(64 * blocks, tile.n) * choice.slices
    parts = Array.scratch(memory, (choice.slices, m, g.taps, channels), float32)
    launch = WEIGHT.launch(
        _params(target, x.dtype.stored, tile),
        joined(
            by_name("maps m", _maps(target, memory, tiles), m),
            by_name("parts gy x", parts, gy, x),
            by_name("images channels", g.n, channels),
            g.sizes("h w oh ow sh sw ph pw dh dw kh kw"),
            by_name("box_x box_y box_n", *box),
            by_name("slices slice_steps", choice.slices, choice.steps),
        ),
        **_sizes(target, tile, tiles),
        flops=2 * g.n * g.oh * g.ow * m * channels * g.taps,
        bytes=gy.nbytes + x.nbytes + parts.nbytes,
    )
    return launch, parts


def _fits(target: Target, x: Array, work: int, channels: int) -> bool:
    """Whether there are units, and enough for them to do."""
    if not has_warpgroups(target, x.dtype):
        return False
    return emulates_warpgroups(target) or (channels >= LEAST_CHANNELS and work >= LEAST_WORK)


def _params(target: Target, ctype: str, tile: WarpgroupTile) -> dict[str, object]:
    unit = WARPGROUP_UNITS[ctype]
    emulated, form = emulates_warpgroups(target), map_form(unit, RANK)
    return {"ctype": ctype, "unit": unit, "tile": tile, "emulated": emulated, "form": form}


def _maps(target: Target, memory: Scratch, tiles: int) -> Array:
    """Memory for the tensor maps of all groups."""
    groups = min(tiles, target.traits.compute_units)
    return Array.scratch(memory, (groups * MAP_WORDS,), int32)


def _sizes(target: Target, tile: WarpgroupTile, tiles: int) -> dict[str, tuple[int, ...]]:
    """As many groups as there are units, at most."""
    items = tile.items(emulated=emulates_warpgroups(target))
    groups = min(tiles, target.traits.compute_units)
    return {"global_size": (groups * items,), "local_size": (items,)}


@lru_cache(maxsize=1024)
def _box(
    sizes: tuple[int, int], images: int, lines: int, steps: tuple[int, int], *, exact: bool
) -> tuple[int, int, int] | None:
    """The box of pixels, across, down and of images, that makes the fewest; wide ones first.

    Args:
        sizes: of a grid, across and down.
        images: each has a grid.
        lines: pixels of a box, at most.
        steps: how far pixels lie apart.
        exact: a box has so many pixels, and crosses the edge of no image.

    Returns:
        The box; None: there is none.
    """
    (wide, high), (step_x, step_y) = sizes, steps
    found: list[tuple[int, int, tuple[int, int, int]]] = []
    for across in range(1, min(wide, lines, (MOST_BOX - 1) // step_x + 1) + 1):
        if exact and (wide % across or lines % across):
            continue
        rest = lines // across
        for down in range(1, min(high, rest, (MOST_BOX - 1) // step_y + 1) + 1):
            if exact and (high % down or rest % down):
                continue
            several = rest // down if exact else min(rest // down, images)
            count = ceil_div(wide, across) * ceil_div(high, down) * ceil_div(images, several)
            found.append((count, -across * down, (across, down, several)))
    return min(found)[2] if found else None
