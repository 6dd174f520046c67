"""Convolution with one work-item per result: for groups of few channels, or without workspace."""

from __future__ import annotations

from types import ModuleType

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import round_up
from ..epilogue import Epilogue
from ..kernel import Kernel, Named, by_name, joined
from . import conv_depthwise_strip, conv_depthwise_tile
from .conv_geometry import ConvGeometry, Direction

_GROUP_SIZE = 64


FORWARD = Kernel("conv_depthwise", "conv/conv_depthwise.mako")
INPUT = Kernel("conv_depthwise_input", "conv/conv_depthwise.mako")
WEIGHT = Kernel("conv_depthwise_weight", "conv/conv_depthwise.mako")


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    if way := _way(target, g, Direction.FORWARD, y):
        return way.forward(target, y, x, weight, g, epilogue)
    params = joined(_params(y, g), epilogue.params)
    offsets = weight if epilogue.bias is None else epilogue.bias
    args = joined(by_name("y x weight offsets", y, x, weight, offsets), _sizes(g))
    return [
        FORWARD.launch(
            params,
            args,
            global_size=(round_up(g.oh * g.ow, _GROUP_SIZE), g.n * g.oc),
            local_size=(_GROUP_SIZE, 1),
            flops=g.flops,
            bytes=y.nbytes + x.nbytes + weight.nbytes,
        )
    ]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    if way := _way(target, g, Direction.INPUT_GRAD, gx):
        return way.input_grad(target, gx, gy, weight, g)
    return [
        INPUT.launch(
            _params(gx, g),
            joined(by_name("gx gy weight", gx, gy, weight), _sizes(g)),
            global_size=(round_up(g.h * g.w, _GROUP_SIZE), g.n * g.ic),
            local_size=(_GROUP_SIZE, 1),
            flops=g.flops,
            bytes=gx.nbytes + gy.nbytes + weight.nbytes,
        )
    ]


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    if way := _way(target, g, Direction.WEIGHT_GRAD, gw):
        return way.weight_grad(target, gw, gy, x, g)
    return [
        WEIGHT.launch(
            _params(gw, g),
            joined(by_name("gw gy x n", gw, gy, x, g.n), _sizes(g)),
            global_size=(round_up(g.icg * g.taps, _GROUP_SIZE), g.oc),
            local_size=(_GROUP_SIZE, 1),
            flops=g.flops,
            bytes=gw.nbytes + gy.nbytes + x.nbytes,
        )
    ]


def fits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """It does always: it needs no scratch memory."""
    del target, g, direction, itemsize
    return True


def _way(target: Target, g: ConvGeometry, direction: Direction, out: Array) -> ModuleType | None:
    """The module whose kernels for results suit better than those here, or None.

    Sums of nothing, which their grids would not reach, are for the kernels here.
    """
    if g.flops == 0:
        return None
    if conv_depthwise_tile.suits(target, g, direction, out.dtype.itemsize):
        return conv_depthwise_tile
    return conv_depthwise_strip if conv_depthwise_strip.suits(target, g) else None


def _params(result: Array, g: ConvGeometry) -> Named:
    return joined(
        by_name("ctype", result.dtype.ctype), g.sizes("kh kw"), by_name("group_size", _GROUP_SIZE)
    )


def _sizes(g: ConvGeometry) -> Named:
    return g.sizes("oc groups icg h w oh ow sh sw ph pw dh dw")
