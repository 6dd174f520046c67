"""Arrays beside each other in one launch, on devices whose items run together."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, collapse
from ..grid import in_groups
from ..kernel import Kernel

JOIN_ROWS = Kernel("join_rows", "moving/join_rows.mako")

_GROUP = 256
_VECTOR_BYTES = 16
# Arrays of a launch: OpenCL promises 1,024 bytes of arguments.
MOST = 31
_NO_GROUP = 2**31 - 1
# Positions that an int holds, also of a group that reaches past the end.
_INT_HOLDS = 2**31 - 2**16


class _Rows(NamedTuple):
    """An array as rows.

    Attributes:
        array: whose first element is that of the first row.
        step: elements from row to row; 0 if there is one row.
        length: elements of a row, which is dense.
        start: the first one's place in a row of the result.
    """

    array: Array
    step: int
    length: int
    start: int


def join_rows(target: Target, y: Array, parts: Sequence[Array], axis: int) -> list[Launch]:
    """Write arrays to ``y``, one after another along an axis.

    Args:
        target: the device's numbers.
        y: dense; it has the elements of all parts.
        parts: of ``y``'s dtype, none of which overlaps ``y``.
        axis: along which they lie behind each other.

    Returns:
        A launch for each :data:`MOST` parts that have elements; none at all where this is not for
        the device or the parts: rows that are not dense, a single part, more elements than an int
        counts.
    """
    rows, y_row = prod(y.shape[:axis]), prod(y.shape[axis:])
    given = [x for x in parts if x.size]
    if len(given) < 2 or not in_groups(target.traits):
        return []
    found: list[_Rows] = []
    start = 0
    for x in given:
        length, step = prod(x.shape[axis:]), _row_step(x, axis)
        if step is None or max(y.size, (rows - 1) * step + length) >= _INT_HOLDS:
            return []
        found.append(_Rows(x, step, length, start))
        start += length
    return [
        _launch(target, y, rows, y_row, found[at : at + MOST]) for at in range(0, len(found), MOST)
    ]


def _row_step(x: Array, axis: int) -> int | None:
    """Elements from row to row; None if rows are not dense, or do not lie evenly."""
    inner, (along,) = collapse(x.shape[axis:], [x.strides[axis:]])
    outer, (steps,) = collapse(x.shape[:axis], [x.strides[:axis]])
    dense = len(inner) == 1 and (inner == (1,) or along == (1,))
    return steps[0] if dense and len(outer) == 1 and steps[0] >= 0 else None


def _launch(target: Target, y: Array, rows: int, y_row: int, found: Sequence[_Rows]) -> Launch:
    numbers = [n for p in found for n in (p.step, p.length, p.start, p.array.offset)]
    width = gcd(_VECTOR_BYTES // y.dtype.itemsize, y_row, y.offset, *numbers)
    group = min(_GROUP, target.traits.max_group_size)
    firsts = [0]
    for part in found:
        firsts.append(firsts[-1] + ceil_div(rows * part.length // width, group))
    groups = firsts.pop()
    count = min(MOST, 1 << (len(found) - 1).bit_length())  # few kernels for all numbers of them
    none = count - len(found)
    every = [*found, *[found[-1]] * none]
    return JOIN_ROWS.launch(
        {"ctype": y.dtype.moved_as, "width": width, "group": group, "segments": count},
        {
            "y": y,
            "rows": rows,
            "y_row": y_row // width,
            "x_{k}": [part.array for part in every],
            "x_row_{k}": [part.step // width for part in every],
            "length_{k}": [part.length // width for part in every],
            "start_{k}": [part.start // width for part in every],
            "first_{k}": [*firsts, *[_NO_GROUP] * none],
        },
        global_size=(groups * group,),
        local_size=(group,),
        flops=0,
        bytes=2 * sum(part.array.nbytes for part in found),
    )
