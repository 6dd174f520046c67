"""Convolution of groups of few channels at the speed of memory: for GPUs, by strips of columns."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..grid import in_groups
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..reduce import Reduction, reduce
from .conv_geometry import ConvGeometry

_POWER = Constraint("group_size & (group_size - 1) == 0", "sums are halved")
STRIP = Kernel(
    "conv_depthwise_strip",
    "conv/conv_depthwise_strip.mako",
    (Constraint("not gradient or strip % sh == 0", "strips begin at a multiple of the stride"),),
)
WEIGHT = Kernel("conv_depthwise_strip_weight", "conv/conv_depthwise_strip.mako", (_POWER,))

_GROUP_SIZE = 128
_WEIGHT_GROUP_SIZE = 64
# Results of an item at most; where a gradient skips rows, an item holds more of them back.
_LONGEST = 14
_LONGEST_SKIPPING = 8
# Rows of a filter that an item has in registers; taller ones are for the kernel without strips.
_TALLEST = 32
# Sums of taps that an item has in registers.
_SUMS = 56
_RESIDENT_ITEMS = 2048
_WEIGHT_GROUPS_PER_UNIT = 32


def suits(target: Target, g: ConvGeometry) -> bool:
    """Whether strips are for the device and the convolution.

    Args:
        target: the device's traits.
        g: the sizes.
    """
    return in_groups(target.traits) and g.kh <= _TALLEST and g.sh <= _LONGEST_SKIPPING


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    strip = _strip(target, g.n * g.oc * g.ow, g.oh)
    strips = ceil_div(g.oh, strip)
    items = g.n * g.oc * strips * g.ow
    sizes = joined(
        by_name("items strips channels own inner", items, strips, g.oc, g.ocg, g.icg),
        g.sizes("h w oh ow ph pw"),
    )
    params = joined(by_name("gradient", False), epilogue.params)
    operands = (y, x, weight, weight if epilogue.bias is None else epilogue.bias)
    return [_launch(target, params, operands, g, strip, items, sizes)]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    strip = _strip(target, g.n * g.ic * g.w, g.h, multiple=g.sh)
    strips = ceil_div(g.h + g.ph % g.sh, strip)
    items = g.n * g.ic * strips * g.w
    sizes = by_name(
        "items strips channels own inner h w oh ow ph pw",
        *(items, strips, g.ic, g.icg, g.ocg, g.oh, g.ow, g.h, g.w, g.ph, g.pw),
    )
    params = joined(by_name("gradient", True), NO_EPILOGUE.params)
    operands = (gx, gy, weight, weight)
    return [_launch(target, params, operands, g, strip, items, sizes)]


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    group = _group_size(target, _WEIGHT_GROUP_SIZE)
    channels = g.oc * g.icg
    strip = _strip(target, g.n * channels * g.ow, g.oh)
    strips = ceil_div(g.oh, strip)
    items = g.n * strips * g.ow
    spans = ceil_div(g.kw, max(1, _SUMS // g.kh))
    span = ceil_div(g.kw, spans)
    wanted = ceil_div(target.traits.compute_units * _WEIGHT_GROUPS_PER_UNIT, channels * spans)
    room = target.workspace_limit // gw.nbytes
    parts = max(1, min(wanted, ceil_div(items, group), room))
    memory = Scratch(gw.device)
    out = gw if parts == 1 else Array.scratch(memory, (parts, *gw.shape), gw.dtype)
    launch = WEIGHT.launch(
        joined(_filter(gw, g), by_name("strip group_size span", strip, group, span)),
        joined(
            by_name("gw gy x items strips", out, gy, x, items, strips),
            g.sizes("oc groups icg h w oh ow ph pw"),
        ),
        global_size=(parts * group, channels, spans),
        local_size=(group, 1, 1),
        flops=g.flops,
        bytes=out.nbytes + gy.nbytes + x.nbytes,
    )
    if parts == 1:
        return [launch]
    return [launch, *reduce(target, gw, out, dims=(0,), kind=Reduction.SUM, memory=memory)]


def _strip(target: Target, columns: int, rows: int, *, multiple: int = 1) -> int:
    """Results of an item: as many as leave every unit enough items, and few beyond the last row."""
    resident = target.traits.compute_units * _RESIDENT_ITEMS
    limit = _LONGEST if multiple == 1 else _LONGEST_SKIPPING
    most = max(1, min(limit, rows, columns * rows // resident))
    longest = max(multiple, most // multiple * multiple)
    lengths = range(longest, max(multiple, longest // 2) - 1, -multiple)
    return min(lengths, key=lambda length: ceil_div(rows, length) * (length + 1))


def _group_size(target: Target, most: int) -> int:
    return min(most, 1 << (target.traits.max_group_size.bit_length() - 1))


def _filter(like: Array, g: ConvGeometry) -> Named:
    return joined(by_name("ctype", like.dtype.ctype), g.sizes("kh kw sh sw dh dw"))


def _launch(
    target: Target,
    params: Named,
    operands: tuple[Array, ...],
    g: ConvGeometry,
    strip: int,
    items: int,
    sizes: Named,
) -> Launch:
    group = _group_size(target, _GROUP_SIZE)
    return STRIP.launch(
        joined(_filter(operands[0], g), by_name("strip group_size", strip, group), params),
        joined(by_name("y x weight offsets", *operands), sizes),
        global_size=(round_up(items, group),),
        local_size=(group,),
        flops=g.flops,
        bytes=sum(array.nbytes for array in operands[:3]),
    )
