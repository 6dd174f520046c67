"""Where running extremes are."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import Kind
from ..grid import group_of_line, in_groups, items
from ..kernel import Constraint, Kernel, by_name

_TEMPLATE = "reduce/running_extreme.mako"
_ITEMS = Kernel("running_extreme_items", _TEMPLATE)
_GROUP = Kernel(
    "running_extreme_group", _TEMPLATE, (Constraint("group & (group - 1) == 0", "it is doubled"),)
)
_FEW = 32


def running_extreme(target: Target, y: Array, x: Array, *, dim: int, largest: bool) -> Launch:
    """``y``: where along an axis the extreme of an element and all before it is, the last of equal.

    Args:
        target: what to choose the kernel for.
        y: dense int64, the shape of ``x``.
        x: dense, not empty; real.
        dim: the axis.
        largest: whether the largest is looked for.
    """
    n, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    lines = x.size // n
    floating = x.dtype.kind is Kind.FLOATING
    params = {"ctype": x.dtype.ctype, "largest": largest, "floating": floating}
    cost: dict[str, Any] = {"flops": x.size, "bytes": x.nbytes + y.nbytes}
    if inner > 1 or n <= _FEW or not in_groups(target.traits):
        args = by_name("lines n inner y x", lines, n, inner, y, x)
        return _ITEMS.launch(params, args, **items(target, lines), **cost)
    group = group_of_line(target, n)
    return _GROUP.launch(
        {**params, "group": group},
        by_name("n y x", n, y, x),
        global_size=(lines * group,),
        local_size=(group,),
        **cost,
    )
