"""Where running extremes are."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import Kind
from .running import Running

_EXTREME = Running.of("running_extreme", "reduce/running_extreme.mako")


def running_extreme(target: Target, y: Array, x: Array, *, dim: int, largest: bool) -> Launch:
    """``y``: where along an axis the extreme of an element and all before it is, the last of equal.

    Args:
        target: what to choose the kernel for.
        y: dense int64, the shape of ``x``.
        x: dense, not empty; real.
        dim: the axis.
        largest: whether the largest is looked for.
    """
    floating = x.dtype.kind is Kind.FLOATING
    params = {"ctype": x.dtype.ctype, "largest": largest, "floating": floating}
    return _EXTREME.launch(target, params, {"y": y, "x": x}, dim=dim, flops=1)
