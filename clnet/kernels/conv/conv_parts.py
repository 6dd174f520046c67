"""What surrounds tiled convolutions: packed filters before, added slices afterwards."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Constraint, Kernel, by_name, joined

_GROUP_SIZE = 64
_SHARED_GROUP_SIZE = 256
_SHARED_LANES = 8


PACK = Kernel("conv_pack", "conv/conv_parts.mako")
SUM = Kernel(
    "conv_sum",
    "conv/conv_parts.mako",
    constraints=(Constraint("group_size % lanes == 0", "whole results in a group"),),
)


def pack(packed: Array, filters: Array, *, groups: int, transposed: bool) -> Launch:
    """The launch that packs filters.

    Args:
        packed: ``(groups, taps, channels, rows)``, dense.
        filters: ``(groups * rows, channels, kh, kw)``, dense.
        groups: groups of channels.
        transposed: the filters are ``(groups * channels, rows, kh, kw)``.

    Returns:
        The launch.
    """
    _, taps, channels, rows = packed.shape
    total = groups * channels * rows
    return PACK.launch(
        by_name("ctype transposed group_size", packed.dtype.ctype, transposed, _GROUP_SIZE),
        joined(
            by_name("packed filters rows", packed, filters, rows),
            by_name("channels taps total", channels, taps, total),
        ),
        global_size=(round_up(total, _GROUP_SIZE),),
        local_size=(_GROUP_SIZE,),
        flops=0,
        bytes=2 * packed.nbytes,
    )


def add_slices(
    target: Target,
    out: Array,
    parts: Array,
    *,
    taps: int = 1,
    plane: int = 1,
    epilogue: Epilogue = NO_EPILOGUE,
    shared: bool = True,
) -> Launch:
    """The launch that adds slices.

    Args:
        target: whose limits hold.
        out: dense.
        parts: ``(slices, ...)``, dense; a slice holds ``out``'s elements, taps first.
        taps: the last axis of ``out`` that comes first in ``parts``; 1 if the orders are the same.
        plane: neighbours in ``out`` that have the same bias.
        epilogue: what is made of the sums.
        shared: many slices of an element may be added by several items (GPU-shaped).

    Returns:
        The launch.
    """
    slices, bias = parts.shape[0], epilogue.bias
    lanes = _SHARED_LANES if shared and slices > _SHARED_LANES else 1
    wanted = _SHARED_GROUP_SIZE if lanes > 1 else _GROUP_SIZE
    group_size = min(wanted, target.traits.max_group_size)
    features = 1 if bias is None else bias.size
    return SUM.launch(
        joined(
            by_name("ctype group_size lanes", out.dtype.ctype, group_size, lanes),
            epilogue.params,
        ),
        joined(
            by_name("out parts bias", out, parts, bias),
            by_name("size slices taps plane features", out.size, slices, taps, plane, features),
        ),
        global_size=(ceil_div(out.size, group_size // lanes) * group_size,),
        local_size=(group_size,),
        flops=parts.size,
        bytes=parts.nbytes + out.nbytes,
    )
