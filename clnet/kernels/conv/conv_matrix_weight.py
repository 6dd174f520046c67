"""Gradients of filters on matrix units, between images whose channels are dense."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target, matrix_units
from ...values.dtypes import float32
from ...values.shapes import ceil_div, round_up
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .conv_geometry import ConvGeometry
from .conv_matrix import REGULAR, RUN_BYTES, channels_last, images_at_once, is_last, tile_for
from .conv_warpgroup_weight import filters_gradient

# Pixels of a slice, in stages: shorter ones cost more in adding them up.
_SHORTEST_SLICE = 8
_GROUPS_PER_UNIT = 2

WEIGHT = Kernel("conv_matrix_weight", "conv/conv_matrix_weight.mako", constraints=(REGULAR,))
SUM = Kernel("conv_matrix_sum", "conv/conv_matrix_weight.mako")


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient, in slices that are added up; of as many images at once as are turned."""
    memory = Scratch(gw.device)
    shape, channels = _turned(x, g.groups)
    gy_shape, _ = _turned(gy, g.groups)
    sources = [(a, s) for a, s in ((x, shape), (gy, gy_shape)) if not is_last(a, g.groups)]
    image_bytes = sum(prod(s[1:]) * gw.dtype.itemsize for _, s in sources)
    images = max(images_at_once(target, image_bytes, g.n), 1)
    if images == g.n and (found := _by_warpgroups(target, memory, gw, gy, x, g)):
        return found
    places = {id(a): Array.scratch(memory, (images, *s[1:]), gw.dtype) for a, s in sources}
    ctype = gw.dtype.stored
    unit = matrix_units(target.traits.matrix_units)[ctype]
    columns = g.taps * channels
    tile = tile_for(target, unit, ctype, g.ocg, columns)
    steps = tile.steps(ctype)
    tiles = ceil_div(g.ocg, tile.m) * ceil_div(columns, tile.n)
    turns = ceil_div(g.n, images)
    k = images * g.oh * g.ow
    wanted = _GROUPS_PER_UNIT * target.traits.compute_units // (tiles * g.groups)
    room = target.workspace_limit - memory.nbytes - Scratch.ALIGNMENT
    most = min(ceil_div(k, _SHORTEST_SLICE * steps), room // (4 * g.oc * columns * turns))
    slice_k = round_up(ceil_div(k, max(min(wanted, most), 1)), steps)
    counts = [
        ceil_div(min(images, g.n - first) * g.oh * g.ow, slice_k) for first in range(0, g.n, images)
    ]
    parts = Array.scratch(memory, (sum(counts), g.oc, g.taps, channels), float32)
    launches: list[Launch] = []
    for turn, slices in enumerate(counts):
        first, count = turn * images, min(images, g.n - turn * images)
        some = [some_of(a, first, count) for a in (x, gy)]
        before, source = channels_last(target, memory, some[0], g.groups, places.get(id(x)))
        more, grads = channels_last(target, memory, some[1], g.groups, places.get(id(gy)))
        to = some_of(parts, sum(counts[:turn]), slices)
        multiply = WEIGHT.launch(
            by_name("ctype unit tile", ctype, unit, tile),
            joined(
                by_name("m n k", g.ocg, columns, count * g.oh * g.ow),
                by_name("slice_k slices", slice_k, slices),
                by_name("parts gy x", to, grads, source),
                by_name("gy_pixel gy_group", grads.strides[2], grads.shape[-1] // g.groups),
                by_name("channels pixel", channels, source.strides[2]),
                g.sizes("h w oh ow sh sw ph pw dh dw kw"),
            ),
            global_size=(tiles * g.groups * slices * tile.items,),
            local_size=(tile.items,),
            flops=g.flops * count // g.n,
            bytes=source.nbytes + grads.nbytes + to.nbytes,
        )
        launches += [*before, *more, multiply]
    return [*launches, added(target, gw, parts, g)]


def _by_warpgroups(
    target: Target, memory: Scratch, gw: Array, gy: Array, x: Array, g: ConvGeometry
) -> list[Launch] | None:
    """The same by 128 items at once; None where another kernel is faster."""
    mark = memory.mark()
    before, source = channels_last(target, memory, x, g.groups)
    more, grads = channels_last(target, memory, gy, g.groups)
    found = filters_gradient(target, memory, grads, source, g)
    if found is None:
        memory.rewind(mark)
        return None
    multiply, parts = found
    return [*before, *more, multiply, added(target, gw, parts, g)]


def added(target: Target, gw: Array, parts: Array, g: ConvGeometry) -> Launch:
    """The launch that adds slices ``(slices, rows, taps, channels)``."""
    slices, rows, taps, channels = parts.shape
    return SUM.launch(
        by_name("ctype", gw.dtype.stored),
        joined(
            by_name("out parts oc rows ic", gw, parts, g.oc, rows, g.icg),
            by_name("taps channels slices", taps, channels, slices),
        ),
        **items(target, gw.size),
        flops=parts.size,
        bytes=parts.nbytes + gw.nbytes,
    )


def some_of(x: Array, first: int, count: int) -> Array:
    """Some of the images, or of the slices, ``count`` from the one numbered ``first`` on."""
    return x.view((count, *x.shape[1:]), x.strides, x.offset + first * x.strides[0])


def _turned(x: Array, groups: int) -> tuple[tuple[int, ...], int]:
    """The shape of images with their channels last, in whole runs; and channels of a group."""
    n, c, h, w = x.shape
    channels = round_up(c // groups, RUN_BYTES // x.dtype.itemsize)
    return (n, h, w, groups * channels), channels
