"""Elements that an op is not defined for are reported; nothing is computed."""

from __future__ import annotations

from enum import Enum

from ...array import Array
from ...device import Check, Launch, Target
from ...values.dtypes import Kind
from ...values.shapes import ceil_div
from ..grid import in_groups, items
from ..kernel import Kernel, by_name, joined

# Elements of a work-item: a loop over them becomes one of vectors. GPUs' neighbours read together.
_BLOCK = 1024
_GATED_BLOCK = 256


class Bad(Enum):
    """Which elements are bad; C expressions of ``v``, ``low`` and ``high``."""

    OUTSIDE = "!(v >= low && v <= high)"
    BELOW = "v < low"
    NOT_ABOVE = "!(v > low)"
    EQUAL = "v == low"


_ELEMENTS = Kernel("check_elements", "reduce/check.mako")


def check(
    target: Target,
    x: Array,
    gate: Array | None,
    bad: Bad,
    low: float,
    high: float,
    *,
    report: Check | None,
) -> list[Launch]:
    """Report an element of ``x`` that is bad.

    Args:
        target: what to choose the kernel for.
        x: dense.
        gate: one element; unless it is NaN, nothing is looked at. None: everything is.
        bad: which elements are.
        low: what they are compared with.
        high: the same.
        report: what they are reported as; None: nobody wants to know.
    """
    if x.size == 0 or report is None:
        return []
    together = in_groups(target.traits) and gate is None
    block = 1 if together else _BLOCK if gate is None else _GATED_BLOCK
    whole = not x.dtype.is_floating_point
    kind = 0 if whole else 2 if x.dtype.name == "float64" else 1
    ctype = "uchar" if x.dtype.kind is Kind.BOOL else x.dtype.ctype
    low, high = (int(low), int(high)) if whole else (low, high)
    params = by_name("ctype bad block kind", ctype, bad.value, block, kind)
    return [
        _ELEMENTS.launch(
            joined(params, by_name("gate", "" if gate is None else gate.dtype.ctype)),
            by_name("n low high x gate", x.size, low, high, x, gate),
            **items(target, ceil_div(x.size, block)),
            flops=0,
            bytes=x.nbytes if gate is None else 0,
        ).reporting(report)
    ]
