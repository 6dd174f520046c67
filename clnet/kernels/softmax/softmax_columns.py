"""Softmax along an axis that is not the last, and its gradient, on CPUs: neighbouring lines."""

from __future__ import annotations

from ...device import Target
from ...values.shapes import ceil_div
from ..kernel import Kernel
from ..streaming import LINE_BYTES

COLUMNS = Kernel("softmax_columns", "softmax/softmax_columns.mako")
GRAD_COLUMNS = Kernel("softmax_grad_columns", "softmax/softmax_columns.mako")

# Bytes that an item keeps of its lines: a part of a cache of second level.
_MOST_KEPT = 2**16
_ITEMS_PER_UNIT = 4


def share_of_item(
    target: Target, lines: tuple[int, int, int], lanes: int, itemsize: int, arrays: int
) -> tuple[int, int]:
    """How many vectors of a row an item takes, and how many elements of each array it keeps.

    Rows are whole lines of the caches, and longer if they can be kept; all units have work.

    Args:
        target: the device.
        lines: ``(outer, n, inner)``.
        lanes: of a vector.
        itemsize: bytes of an element in registers.
        arrays: that an item keeps.

    Returns:
        Both; 0 elements: it reads them again.
    """
    outer, n, inner = lines
    vectors = 1
    for wanted in (2, 4):
        width = wanted * lanes
        items = outer * ceil_div(inner, width)
        many = items >= _ITEMS_PER_UNIT * target.traits.compute_units
        row = width * itemsize * arrays
        if many and width <= inner and (n * row <= _MOST_KEPT or row <= LINE_BYTES):
            vectors = wanted
    elements = n * vectors * lanes
    kept = elements * itemsize * arrays <= _MOST_KEPT
    return vectors, 1 << (elements - 1).bit_length() if kept else 0
