"""Transposed copies of 16-bit elements on devices whose items run together, two at once."""

from __future__ import annotations

from collections.abc import Sequence

from ...array import Array
from ...device import DeviceTraits, Launch
from ...values.shapes import ceil_div
from ..grid import in_groups
from ..kernel import Kernel, Named, joined

_BLOCK = 64
_GROUP = (32, 8, 1)

PAIRS = Kernel("copy_pairs", "moving/copy_pairs.mako")


def in_pairs(traits: DeviceTraits, y: Array, x: Array, numbers: Sequence[int]) -> bool:
    """Whether elements of 16 bits that stay what they are lie in aligned pairs on both sides.

    Args:
        traits: the device's numbers.
        y: what is written.
        x: what is read.
        numbers: sizes and steps, but for those of the dense axes, that must be even.
    """
    fitting = in_groups(traits) and traits.max_group_size >= _GROUP[0] * _GROUP[1]
    alike = y.dtype is x.dtype and y.dtype.itemsize == 2
    return fitting and alike and all(n % 2 == 0 for n in (*numbers, y.offset, x.offset))


def turned_pairs(
    y: Array, x: Array, args: Named, ndim: int, rows: int, columns: int, count: int
) -> Launch:
    """The launch.

    Args:
        y: for which, with ``x``, :func:`in_pairs` holds.
        x: what is read.
        args: the kernel's other arguments.
        ndim: the axes besides rows and columns.
        rows: elements along the axis where x is dense.
        columns: where y is dense.
        count: blocks of rows and columns.
    """
    blocks = (ceil_div(columns, _BLOCK) * _GROUP[0], ceil_div(rows, _BLOCK) * _GROUP[1], count)
    return PAIRS.launch(
        {"ndim": ndim},
        joined(args, (("y x",), (y, x))),
        global_size=blocks,
        local_size=_GROUP,
        flops=0,
        bytes=y.nbytes + x.nbytes,
    )
