"""Gradients of filters on matrix units, between images whose channels are dense."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target, matrix_units
from ...values.dtypes import float32
from ...values.shapes import ceil_div, round_up
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .conv_geometry import ConvGeometry
from .conv_matrix import REGULAR, channels_last, tile_for

# Pixels of a slice, in stages: shorter ones cost more in adding them up.
_SHORTEST_SLICE = 8
_GROUPS_PER_UNIT = 2

WEIGHT = Kernel("conv_matrix_weight", "conv/conv_matrix_weight.mako", constraints=(REGULAR,))
SUM = Kernel("conv_matrix_sum", "conv/conv_matrix_weight.mako")


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient, in slices that are added up."""
    memory = Scratch(gw.device)
    before, source = channels_last(target, memory, x, g.groups)
    more, grads = channels_last(target, memory, gy, g.groups)
    ctype = gw.dtype.stored
    unit = matrix_units(target.traits.matrix_units)[ctype]
    channels = source.shape[-1] // g.groups
    k, columns = g.n * g.oh * g.ow, g.taps * channels
    tile = tile_for(target, unit, ctype, g.ocg, columns)
    steps = tile.steps(ctype)
    tiles = ceil_div(g.ocg, tile.m) * ceil_div(columns, tile.n)
    wanted = _GROUPS_PER_UNIT * target.traits.compute_units // (tiles * g.groups)
    room = target.workspace_limit - memory.nbytes - Scratch.ALIGNMENT
    most = min(ceil_div(k, _SHORTEST_SLICE * steps), room // (4 * g.oc * columns))
    slice_k = round_up(ceil_div(k, max(min(wanted, most), 1)), steps)
    slices = ceil_div(k, slice_k)
    parts = Array.scratch(memory, (slices, g.oc, g.taps, channels), float32)
    multiply = WEIGHT.launch(
        by_name("ctype unit tile", ctype, unit, tile),
        joined(
            by_name("m n k slice_k slices", g.ocg, columns, k, slice_k, slices),
            by_name("parts gy x", parts, grads, source),
            by_name("gy_pixel gy_group", grads.strides[2], grads.shape[-1] // g.groups),
            by_name("channels pixel", channels, source.strides[2]),
            g.sizes("h w oh ow sh sw ph pw dh dw kw"),
        ),
        global_size=(tiles * g.groups * slices * tile.items,),
        local_size=(tile.items,),
        flops=g.flops,
        bytes=source.nbytes + grads.nbytes + parts.nbytes,
    )
    added = SUM.launch(
        by_name("ctype", ctype),
        joined(
            by_name("out parts rows ic", gw, parts, g.oc, g.icg),
            by_name("taps channels slices", g.taps, channels, slices),
        ),
        **items(target, gw.size),
        flops=parts.size,
        bytes=parts.nbytes + gw.nbytes,
    )
    return [*before, *more, multiply, added]
