"""Where the few largest or smallest elements of lines are."""

from __future__ import annotations

from math import isqrt
from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import DType, Kind, int32
from ...values.shapes import ceil_div
from ..grid import group_of_line, in_groups, items
from ..kernel import Constraint, Kernel, by_name, joined, nbytes_of
from .order import ordering

_ITEMS = Kernel("top_items", "index/top.mako")
_GROUP = Kernel(
    "top_group", "index/top.mako", (Constraint("group & (group - 1) == 0", "a binary tree"),)
)
_SELECT = Kernel(
    "top_select", "index/top.mako", (Constraint("group & (group - 1) == 0", "a power of two"),)
)
# An item of a CPU looks at a line once, and seldom finds what is better than all that it keeps; a
# group of a GPU looks at it as often as there are elements to find, or a digit of them at a time.
# More are found sooner by sorting all, or one of fewer elements.
_MOST, _MOST_ALONE, _FEWEST = 2048, 128, 4
# Of more, or of longer lines, a GPU counts digits, if the group has local memory for them and for
# its counts.
_TURNS, _COUNTS_BYTES = 8, 256 * 8 * 4
# Elements of a part of a line, at least, so that a group has something to do; parts for each unit
# of a GPU; elements that a group of a few items goes over.
_PART, _PARTS, _SHORT = 8192, 2, 8192
_SELECT_GROUP = 1024


def beats_sorting(target: Target, x: DType, n: int, k: int) -> bool:
    """Whether ``k`` elements of each line of ``n`` are sooner found than all are sorted."""
    if not in_groups(target.traits):
        return 0 < k <= min(_MOST_ALONE, n // _FEWEST)
    needed = _room(k) * (x.itemsize + 4) + _COUNTS_BYTES + 4 * _SELECT_GROUP + 64
    return 0 < k <= min(_MOST, n // _FEWEST) and needed <= target.traits.static_local_bytes


def top(target: Target, y: Array, x: Array, *, largest: bool) -> list[Launch]:
    """``y[i]``: where the largest (or smallest) elements of ``x[i]`` are, in order.

    Args:
        target: what to choose the kernels for.
        y: ``(lines, k)``, dense int64, not empty; of ``k`` :func:`beats_sorting` is so.
        x: ``(lines, n)``, dense; real.
        largest: whether the largest are asked for.
    """
    (lines, n), k = x.shape, y.shape[1]
    if in_groups(target.traits) and (k > _TURNS or n > _PART):
        return _selected(target, y, x, largest=largest)
    floating = x.dtype.kind is Kind.FLOATING
    params = {"ctype": x.dtype.ctype, "largest": largest, "floating": floating, "k": k}
    cost: dict[str, Any] = {"flops": x.size, "bytes": x.nbytes + y.nbytes}
    if not in_groups(target.traits):
        args = by_name("lines n y x", lines, n, y, x)
        return [_ITEMS.launch(params, args, **items(target, lines), **cost)]
    group = group_of_line(target, n)
    launch = _GROUP.launch(
        {**params, "group": group},
        by_name("n y x", n, y, x),
        global_size=(lines * group,),
        local_size=(group,),
        **cost,
    )
    return [launch]


def _selected(target: Target, y: Array, x: Array, *, largest: bool) -> list[Launch]:
    """By digits: of parts of the lines first, where there are too few lines for all units."""
    (lines, n), k = x.shape, y.shape[1]
    parts = ceil_div(_PARTS * target.traits.compute_units, lines)
    parts = min(parts, n // max(_PART, _FEWEST * k), isqrt(n // k))
    how = {**ordering(x.dtype, descending=largest), "bits": 8 * x.dtype.itemsize, "room": _room(k)}
    if parts <= 1:
        return [_select(target, how, y, x)]
    found = Array.scratch(Scratch(x.device), (lines, parts * k), int32)
    return [
        _select(target, how, found, x, parts=parts),
        _select(target, how, y, x, given=found),
    ]


def _select(
    target: Target,
    how: dict[str, Any],
    y: Array,
    x: Array,
    *,
    parts: int = 1,
    given: Array | None = None,
) -> Launch:
    lines, length = x.shape
    n = length if given is None else given.shape[1]
    each = ceil_div(n, parts)
    wanted = _SELECT_GROUP if each > _SHORT else _SELECT_GROUP // 4
    group = 1 << (min(wanted, target.traits.max_group_size).bit_length() - 1)
    args = by_name("n length parts count y x", n, length, parts, y.shape[1] // parts, y, x)
    return _SELECT.launch(
        {**how, "group": group, "among": given is not None, "place": y.dtype.ctype},
        args if given is None else joined(args, {"given": given}),
        global_size=(lines * parts * group,),
        local_size=(group,),
        flops=lines * n,
        bytes=lines * n * x.dtype.itemsize + y.nbytes + nbytes_of([given]),
    )


def _room(k: int) -> int:
    """Elements that local memory holds of those found: few sizes, so that few texts are built."""
    return max(64, 1 << (k - 1).bit_length())
