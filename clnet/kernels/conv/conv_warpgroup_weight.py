"""Gradients of filters by 128 items at once, between images whose channels are dense.

Sums run over pixels, of which a stage takes a box, in images of one and of the other.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target
from ...values.dtypes import DType, float32
from ...values.shapes import ceil_div, round_up
from ..gemm import WarpgroupChoice, WarpgroupSums, emulates_warpgroups
from ..kernel import Kernel, by_name, joined
from .conv_geometry import ConvGeometry
from .conv_warpgroup import (
    LINE_BYTES,
    MOST_SKIP,
    MOST_SLICES,
    RUN_BYTES,
    box_of,
    fits,
    maps_of,
    raw_form,
    sizes_of,
    unit_params,
)

WEIGHT = Kernel("conv_warpgroup_weight", "conv/conv_warpgroup_weight.mako")

# Of a box's pixels, at least so many are some image's.
LEAST_FILLED = 0.5


def filters_gradient(
    target: Target, memory: Scratch, gy: Array, x: Array, g: ConvGeometry, *, parts: int = 1
) -> tuple[Launch, Array] | None:
    """A filters' gradient in slices.

    Args:
        target: what the device is like.
        memory: for sums and maps.
        gy: ``(n, oh, ow, channels)``, dense.
        x: ``(n, h, w, channels)``, dense.
        g: the sizes.
        parts: in which items split both, of float32; 1: it is rounded to TF32.

    Returns:
        The launch, and ``(slices, gy's channels, taps, x's channels)`` in float32; None as for
        :func:`convolved`, also where boxes of pixels would be mostly empty.
    """
    m, channels = gy.shape[3], x.shape[3]
    plan = filters_plan(target, x.dtype, g, reserved=memory.nbytes, parts=parts)
    if plan is None:
        return None
    g, box, choice = plan
    tile = choice.tile
    tiles = ceil_div(m, tile.m) * ceil_div(64 * _blocks(g), tile.n) * choice.slices
    sums = Array.scratch(memory, (choice.slices, m, g.taps, channels), float32)
    params = unit_params(target, x.dtype.stored, tile)
    if parts > 1:
        params["form"] = raw_form()
    launch = WEIGHT.launch(
        params,
        joined(
            by_name("maps m", maps_of(target, memory, tiles), m),
            by_name("parts gy x", sums, gy, x),
            by_name("images channels", g.n, channels),
            g.sizes("h w oh ow sh sw ph pw dh dw kh kw"),
            by_name("box_x box_y box_n", *box),
            by_name("slices slice_steps", choice.slices, choice.steps),
        ),
        **sizes_of(target, tile, tiles),
        flops=2 * g.n * g.oh * g.ow * m * channels * g.taps * (3 if parts > 1 else 1),
        bytes=gy.nbytes + x.nbytes + sums.nbytes,
    )
    return launch, sums


def filters_plan(
    target: Target, dtype: DType, g: ConvGeometry, *, reserved: int, parts: int
) -> tuple[ConvGeometry, tuple[int, int, int], WarpgroupChoice] | None:
    """The sizes as the kernel sees them, a stage's box of pixels, and the tile and slices.

    None as there.

    Args:
        target: what the device is like.
        dtype: of the images.
        g: the sizes, of one group.
        reserved: bytes of scratch memory that are taken.
        parts: as for :func:`filters_gradient`.
    """
    run, lines = RUN_BYTES // dtype.itemsize, LINE_BYTES // dtype.itemsize
    channels = round_up(g.ic, run)
    if not fits(target, dtype, g.flops // 2, min(channels, round_up(g.oc, run))):
        return None
    if g.groups > 1 or max(g.sh, g.sw) > MOST_SKIP:
        return None
    if g.pointwise:
        pixels = g.n * g.h * g.w
        g = g._replace(n=1, h=1, w=pixels, oh=1, ow=pixels)
    box = box_of((g.ow, g.oh), g.n, lines, (g.sw, g.sh), exact=not g.pointwise)
    if box is None:
        return None
    stages = prod(ceil_div(size, part) for size, part in zip((g.ow, g.oh, g.n), box, strict=True))
    if g.n * g.oh * g.ow < LEAST_FILLED * stages * lines and not emulates_warpgroups(target):
        return None
    sums = WarpgroupSums(
        dtype,
        rows_of=lambda tile: ceil_div(g.oc, tile.m),
        columns=64 * _blocks(g),
        stages=stages,
        results=g.oc * g.taps * channels,
        split=parts > 1,
        turned=not WARPGROUP_UNITS[dtype.stored].turns,
        most_slices=MOST_SLICES,
    )
    return g, box, sums.choice(target, reserved)


def _blocks(g: ConvGeometry) -> int:
    """Of 64 channels, of all taps."""
    return g.taps * ceil_div(g.ic, 64)
