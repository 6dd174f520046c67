"""Gradients of filters by 128 items at once, of float32 in two parts that TF32 holds.

Both images are laid as lines of pixels, one for each channel, along which products are summed. How
those lie is in ``conv_lines.mako``.
"""

from __future__ import annotations

from math import gcd

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..gemm import WarpgroupChoice, WarpgroupSums
from ..kernel import Kernel, by_name, joined
from .conv_geometry import ConvGeometry
from .conv_warpgroup import (
    LINE_BYTES,
    MOST_SLICES,
    RUN_BYTES,
    maps_of,
    raw_form,
    sizes_of,
    unit_params,
)

LINES = Kernel("conv_lines", "conv/conv_lines.mako")
WEIGHT = Kernel("conv_warpgroup_lines", "conv/conv_lines.mako")

STEPS, RUN = LINE_BYTES // 4, RUN_BYTES // 4


class Lines(NamedTuple):
    """The grid of pixels that both images share.

    Attributes:
        grid_h, grid_w: of an image.
        slots_y, slots_x: lines of a channel of x, for taps that meet other pixels of a step.
        together: images whose pixels alternate, so that any tap's shift is whole runs of 16 bytes.
    """

    grid_h: int
    grid_w: int
    slots_y: int
    slots_x: int
    together: int

    @property
    def slots(self) -> int:
        """Of a channel of x."""
        return self.slots_y * self.slots_x

    def pitch(self, images: int) -> int:
        """Elements of a part of a line, in whole stages."""
        return round_up(round_up(images, self.together) * self.grid_h * self.grid_w, STEPS)

    def nbytes(self, images: int, oc: int, ic: int) -> int:
        """Of both images' lines, which have so many channels; x has them in two parts."""
        return 4 * self.pitch(images) * (oc + 2 * ic * self.slots)


def lines_of(g: ConvGeometry) -> Lines:
    """The smallest grid in which no tap meets another image's pixels, or another line's."""
    grid_h, slots_y = _axis(g.h, g.oh, g.kh, g.sh, g.ph, g.dh)
    grid_w, slots_x = _axis(g.w, g.ow, g.kw, g.sw, g.pw, g.dw)
    return Lines(grid_h, grid_w, slots_y, slots_x, RUN if g.taps > 1 else 1)


def _axis(
    size: int, results: int, taps: int, stride: int, before: int, dilation: int
) -> tuple[int, int]:
    """The grid's size along an axis, and slots."""
    first, last = -before // stride, ((taps - 1) * dilation - before) // stride
    grid = max(results + max(last, 0), ceil_div(size, stride) + max(-first, 0))
    return grid, min(taps, stride // gcd(stride, dilation))


def lines_choice(target: Target, g: ConvGeometry, images: int, *, reserved: int) -> WarpgroupChoice:
    """The tile and slices of the gradient from so many images.

    Args:
        target: what the device is like.
        g: the sizes, of one group.
        images: that are summed over at once.
        reserved: bytes of scratch memory that are taken.
    """
    blocks = g.taps * ceil_div(g.ic, 64)
    sums = WarpgroupSums(
        float32,
        rows_of=lambda tile: ceil_div(g.oc, tile.m),
        columns=64 * blocks,
        stages=lines_of(g).pitch(images) // STEPS,
        results=g.oc * g.taps * round_up(g.ic, RUN),
        split=True,
        whole=True,
        most_slices=MOST_SLICES,
    )
    return sums.choice(target, reserved)


def laid_lines(
    memory: Scratch, x: Array, g: ConvGeometry, lines: Lines, *, source: bool
) -> tuple[Launch, Array]:
    """The launch that lays images as lines, and these: ``(channels, slots, parts, pitch)``.

    Args:
        memory: where they lie.
        x: ``(n, channels, height, width)``, any strides.
        g: the sizes of the convolution.
        lines: the grid.
        source: whether it is the convolution's source, which comes in two parts, and not the
            gradient of its result.
    """
    n, rows, h, w = x.shape
    slots, parts = (lines.slots, 2) if source else (1, 1)
    pitch = lines.pitch(n)
    to = Array.scratch(memory, (rows, slots, parts, pitch), x.dtype)
    of_n, of_c, of_h, of_w = x.strides
    moves = "sh sw ph pw dh dw"
    launch = LINES.launch(
        {"along": "channel" if of_c == 1 and of_w != 1 else "pixel", "parts": parts},
        joined(
            by_name("rows pitch to from images h w", rows, pitch, to, x, n, h, w),
            by_name("row_step image_step line_step pixel_step", of_c, of_n, of_h, of_w),
            by_name("together grid_h grid_w", lines.together, lines.grid_h, lines.grid_w),
            by_name("slots_x", lines.slots_x if source else 1),
            g.sizes(moves) if source else by_name(moves, 1, 1, 0, 0, 1, 1),
        ),
        global_size=(round_up(pitch, 32), ceil_div(rows, 32) * 8, slots),
        local_size=(32, 8, 1),
        flops=0,
        bytes=x.nbytes + to.nbytes,
    )
    return launch, to


def filters_from_lines(
    target: Target,
    memory: Scratch,
    parts: Array,
    gy: Array,
    x: Array,
    g: ConvGeometry,
    lines: Lines,
    choice: WarpgroupChoice,
) -> Launch:
    """The launch that multiplies lines.

    Args:
        target: what the device is like.
        memory: for maps.
        parts: ``(slices, channels of gy, taps, channels of x in whole runs)``, in float32.
        gy: its lines.
        x: its lines.
        g: the sizes, of one group.
        lines: the grid.
        choice: the tile and slices.
    """
    tile, pitch = choice.tile, gy.shape[3]
    blocks = g.taps * ceil_div(g.ic, 64)
    tiles = ceil_div(g.oc, tile.m) * ceil_div(64 * blocks, tile.n) * choice.slices
    params = unit_params(target, "float", tile) | {"a_form": raw_form()}
    return WEIGHT.launch(
        {name: params[name] for name in ("unit", "tile", "emulated", "form", "a_form")},
        joined(
            by_name("maps m ic", maps_of(target, memory, tiles), g.oc, g.ic),
            by_name("channels parts gy x", parts.shape[3], parts, gy, x),
            by_name("pitch taps together", pitch, g.taps, lines.together),
            by_name("grid_w slots_y slots_x", lines.grid_w, lines.slots_y, lines.slots_x),
            g.sizes("sh sw ph pw dh dw kw"),
            by_name("slices slice_steps", choice.slices, choice.steps),
        ),
        **sizes_of(target, tile, tiles),
        flops=3 * 2 * pitch * g.oc * g.ic * g.taps,
        bytes=gy.nbytes + x.nbytes + parts.nbytes,
    )
