"""Running sums of exponentials, as logarithms."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from .running import Running, running_dtype

_TEMPLATE = "reduce/running_logsum.mako"
_FORWARD = Running.of("running_logsum", _TEMPLATE)
_BACKWARD = Running.of("logsum_back", _TEMPLATE)
_FLOPS = 4  # of an element, an exponential among them


def running_logsum(target: Target, y: Array, x: Array, *, dim: int) -> Launch:
    """``y[i] = log(exp(x[0]) + ... + exp(x[i]))`` along an axis, without overflow.

    Args:
        target: what to choose the kernel for.
        y: dense, the shape and dtype of ``x``.
        x: dense, not empty; float32 or float64.
        dim: the axis.
    """
    params, items = {"ctype": x.dtype.ctype}, {"total": running_dtype(target, x.dtype).ctype}
    return _FORWARD.launch(target, params, {"y": y, "x": x}, dim=dim, flops=_FLOPS, of_items=items)


def running_logsum_gradient(
    target: Target, gx: Array, gy: Array, x: Array, y: Array, *, dim: int
) -> Launch:
    """``gx[i] = sum of gy[j] exp(x[i] - y[j])`` over ``j`` from ``i`` on.

    Where ``x`` is infinite, it is NaN, as in PyTorch, if ``y`` is the same.

    Args:
        target: what to choose the kernel for.
        gx: dense, the shape and dtype of ``x``.
        gy: the same.
        x: as :func:`running_logsum` got it.
        y: what that gave.
        dim: the axis.
    """
    arrays = {"gx": gx, "gy": gy, "x": x, "y": y}
    return _BACKWARD.launch(target, {"ctype": x.dtype.ctype}, arrays, dim=dim, flops=_FLOPS)
