"""Gradients of running products."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from .running import Running

_SLOPE = Running.of("running_product_slope", "reduce/running_product_slope.mako")


def running_product_slope(
    target: Target, gx: Array, gy: Array, x: Array, y: Array, *, dim: int
) -> Launch:
    """The gradient of ``y = cumprod(x)``, right beside zeros, too: nothing is divided.

    Args:
        target: what to choose the kernel for.
        gx: written, dense.
        gy: as ``gx``.
        x: what was multiplied, dense, not empty; float32 or float64.
        y: its running products.
        dim: the axis.
    """
    arrays = {"gx": gx, "gy": gy, "x": x, "y": y}
    return _SLOPE.launch(target, {"ctype": x.dtype.ctype}, arrays, dim=dim, flops=3)
