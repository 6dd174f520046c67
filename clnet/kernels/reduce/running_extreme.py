"""Running extremes, and where they are."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import Kind
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups, jobs_per_item
from ..kernel import Kernel
from .running import Running

_LINES = Kernel("running_extreme_lines", "reduce/running_extreme.mako")
# Lines that an item goes along at once, each element of which waits for the one before it.
_ABREAST = 4

_EXTREME = Running.of("running_extreme", "reduce/running_extreme.mako")


def running_extreme(
    target: Target, values: Array, y: Array, x: Array, *, dim: int, largest: bool
) -> Launch:
    """The extremes along an axis of an element and all before it; ``y``: where, the last of equal.

    Args:
        target: what to choose the kernel for.
        values: dense, the shape and dtype of ``x``.
        y: dense int64, the shape of ``x``.
        x: dense, not empty; real.
        dim: the axis.
        largest: whether the largest is looked for.
    """
    floating = x.dtype.kind is Kind.FLOATING
    params = {"ctype": x.dtype.ctype, "largest": largest, "floating": floating}
    n, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    if inner == 1 and n > 1 and not in_groups(target.traits):
        lines = x.size // n
        share = round_up(jobs_per_item(target, lines, x.size), _ABREAST)
        return _LINES.launch(
            {**params, "abreast": _ABREAST},
            {"n": n, "lines": lines, "share": share, "values": values, "y": y, "x": x},
            global_size=(ceil_div(lines, share),),
            flops=x.size,
            bytes=y.nbytes + 2 * x.nbytes,
        )
    return _EXTREME.launch(target, params, {"values": values, "y": y, "x": x}, dim=dim, flops=1)
