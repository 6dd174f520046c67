"""Where the few largest or smallest elements of lines are."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import Kind
from ..grid import group_of_line, in_groups, items
from ..kernel import Constraint, Kernel, by_name

_ITEMS = Kernel("top_items", "index/top.mako")
_GROUP = Kernel(
    "top_group", "index/top.mako", (Constraint("group & (group - 1) == 0", "a binary tree"),)
)
# An item of a CPU looks at a line once, and seldom finds what is better than all that it keeps; a
# group of a GPU looks at it as often as there are elements to find.
# More are found sooner by sorting all, or one of fewer elements.
_MOST, _MOST_ALONE, _FEWEST = 32, 128, 4
# Elements looked at by a group in all its turns, while others have nothing to do.
_ALONE = 2**18


def beats_sorting(target: Target, lines: int, n: int, k: int) -> bool:
    """Whether ``k`` elements of each line are sooner found than all are sorted."""
    most = _MOST if in_groups(target.traits) else _MOST_ALONE
    if not 0 < k <= min(most, n // _FEWEST):
        return False
    busy = lines >= target.traits.compute_units or k * n <= _ALONE
    return busy or not in_groups(target.traits)


def top(target: Target, y: Array, x: Array, *, largest: bool) -> Launch:
    """``y[i]``: where the largest (or smallest) elements of ``x[i]`` are, in order.

    Args:
        target: what to choose the kernel for.
        y: ``(lines, k)``, dense int64, not empty; of ``k`` :func:`beats_sorting` is so.
        x: ``(lines, n)``, dense; real.
        largest: whether the largest are asked for.
    """
    (lines, n), k = x.shape, y.shape[1]
    floating = x.dtype.kind is Kind.FLOATING
    params = {"ctype": x.dtype.ctype, "largest": largest, "floating": floating, "k": k}
    cost: dict[str, Any] = {"flops": x.size, "bytes": x.nbytes + y.nbytes}
    if not in_groups(target.traits):
        args = by_name("lines n y x", lines, n, y, x)
        return _ITEMS.launch(params, args, **items(target, lines), **cost)
    group = group_of_line(target, n)
    return _GROUP.launch(
        {**params, "group": group},
        by_name("n y x", n, y, x),
        global_size=(lines * group,),
        local_size=(group,),
        **cost,
    )
