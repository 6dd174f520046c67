"""Copies line by line, and along lines that lie backwards, on CPUs."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape, Strides, ceil_div, round_up
from ..grid import in_groups, jobs_per_item, lanes_of
from ..kernel import Kernel, Named, by_name, joined

_MANY_ELEMENTS = 2**14
# Bytes of an element that vectors are made of.
_LONGEST = 8


BACKWARDS = Kernel("copy_backwards", "moving/copy_lines.mako")
BY_LINES = Kernel("copy_by_lines", "moving/copy_lines.mako")
# The compiler knows how long lines are that whole vectors, several at a time, would leave out, and
# steps with which it makes vectors of neighbouring ones.
_KNOWN = 32
_STEPS = 4


def by_lines(
    types: Named,
    target: Target,
    y: Array,
    x: Array,
    shape: Shape,
    y_strides: Strides,
    x_strides: Strides,
) -> Launch:
    """``y = x`` by items that go from line to line.

    Args:
        types: the C types of both, and whether truth values are made.
        target: what shares of items are chosen for.
        y: where to.
        x: the elements.
        shape: the fewest axes, one or more.
        y_strides: steps in ``y`` along them.
        x_strides: those in ``x``.
    """
    *others, n = shape
    count, step = prod(others), x_strides[-1]
    known, kept = n if others and n < _KNOWN else 0, step if 0 <= step <= _STEPS else -1
    each = jobs_per_item(target, y.size, y.size)
    part, share = round_up(min(n, each), _KNOWN), max(1, each // n)
    dense = y_strides[-1] == 1
    args = by_name("count share", count, share)
    args = args if known else joined(args, by_name("n part", n, part))
    args = args if dense else joined(args, by_name("y_step", y_strides[-1]))
    args = args if kept >= 0 else joined(args, by_name("x_step", step))
    args = joined(args, _axes(others, y_strides[:-1], x_strides[:-1]))
    how = by_name("ndim known dense step", max(len(others), 1), known, dense, kept)
    return BY_LINES.launch(
        joined(types, how),
        joined(args, by_name("y x", y, x)),
        global_size=(1 if known else ceil_div(n, part), ceil_div(count, share)),
        flops=0,
        bytes=y.nbytes + x.nbytes,
    )


def backwards_fit(target: Target, y: Array, x: Array, n: int, y_step: int, x_step: int) -> bool:
    """Whether :func:`backwards` takes lines of ``n`` elements with these steps."""
    itemsize = y.dtype.itemsize
    moved = y.dtype is x.dtype and itemsize <= _LONGEST and not in_groups(target.traits)
    turned = moved and (y_step, x_step) == (1, -1)
    return turned and n >= lanes_of(target, itemsize) and y.size >= _MANY_ELEMENTS


def backwards(
    target: Target, y: Array, x: Array, shape: Shape, y_strides: Strides, x_strides: Strides
) -> Launch:
    """``y = x`` by vectors, each turned round; arguments as those of :func:`by_lines`."""
    *others, n = shape
    count, lanes = prod(others), lanes_of(target, y.dtype.itemsize)
    each = jobs_per_item(target, y.size, y.size)
    share, lines = round_up(min(n, each), lanes), max(1, each // n)
    args = joined(
        by_name("n share count lines", n, share, count, lines),
        _axes(others, y_strides[:-1], x_strides[:-1]),
    )
    return BACKWARDS.launch(
        by_name("ctype ndim lanes", y.dtype.moved_as, max(len(others), 1), lanes),
        joined(args, by_name("y x", y, x)),
        global_size=(ceil_div(n, share), ceil_div(count, lines)),
        flops=0,
        bytes=y.nbytes + x.nbytes,
    )


def _axes(others: list[int], y_strides: Strides, x_strides: Strides) -> Named:
    axes = (others or (1,), y_strides or (0,), x_strides or (0,))
    return by_name("size_{d} y_stride_{d} x_stride_{d}", *axes)
