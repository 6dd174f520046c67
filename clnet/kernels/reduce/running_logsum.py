"""Running sums of exponentials, as logarithms."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ..grid import group_of_line, in_groups, items
from ..kernel import Constraint, Kernel

_TEMPLATE = "reduce/running_logsum.mako"
_DOUBLED = (Constraint("group & (group - 1) == 0", "it is doubled"),)
_ITEMS = Kernel("running_logsum_items", _TEMPLATE)
_GROUP = Kernel("running_logsum_group", _TEMPLATE, _DOUBLED)
_BACK_ITEMS = Kernel("logsum_back_items", _TEMPLATE)
_BACK_GROUP = Kernel("logsum_back_group", _TEMPLATE, _DOUBLED)
_FEW = 32


def running_logsum(target: Target, y: Array, x: Array, *, dim: int) -> Launch:
    """``y = log(exp(x[0]) + ... + exp(x[i]))`` along an axis, without overflow.

    Args:
        target: what to choose the kernel for.
        y: dense, the shape and dtype of ``x``.
        x: dense, not empty; float32 or float64.
        dim: the axis.
    """
    return _along(target, (_ITEMS, _GROUP), dim, y=y, x=x)


def running_logsum_gradient(
    target: Target, gx: Array, gy: Array, x: Array, y: Array, *, dim: int
) -> Launch:
    """``gx[i] = sum of gy[j] exp(x[i] - y[j])`` over ``j`` from ``i`` on; all dense, of one shape.

    Where ``x`` is infinite, it is NaN, as in PyTorch, if ``y`` is the same.
    """
    return _along(target, (_BACK_ITEMS, _BACK_GROUP), dim, gx=gx, gy=gy, x=x, y=y)


def _along(target: Target, kernels: tuple[Kernel, Kernel], dim: int, **arrays: Array) -> Launch:
    """Items for lines whose neighbours lie beside them, and on CPUs; else groups."""
    x = arrays["x"]
    n, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    lines = x.size // n
    params = {"ctype": x.dtype.ctype}
    cost: dict[str, Any] = {"flops": 4 * x.size, "bytes": len(arrays) * x.nbytes}
    if inner > 1 or n <= _FEW or not in_groups(target.traits):
        args = {"lines": lines, "n": n, "inner": inner, **arrays}
        return kernels[0].launch(params, args, **items(target, lines), **cost)
    group = group_of_line(target, n)
    return kernels[1].launch(
        {**params, "group": group},
        {"n": n, **arrays},
        global_size=(lines * group,),
        local_size=(group,),
        **cost,
    )
