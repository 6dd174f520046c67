"""Copies along short lines, and along lines that lie backwards, on CPUs."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape, Strides, ceil_div, round_up
from ..grid import in_groups, items, jobs_per_item, lanes_of
from ..kernel import Kernel, Named, by_name, joined

# Of many lines shorter than this a group takes several: another kernel for each length.
_SHORT = 16
_MANY_ELEMENTS = 2**14
# Bytes of an element that vectors are made of.
_LONGEST = 8


BACKWARDS = Kernel("copy_backwards", "moving/copy_lines.mako")
SHORT = Kernel("copy_short", "moving/copy_lines.mako")


def short_fit(target: Target, y: Array, shape: Shape) -> bool:
    """Whether :func:`short` takes an array of this shape, with the fewest axes."""
    many = len(shape) > 1 and shape[-1] < _SHORT and y.size >= _MANY_ELEMENTS
    return many and not in_groups(target.traits)


def short(
    types: Named,
    target: Target,
    y: Array,
    x: Array,
    shape: Shape,
    y_strides: Strides,
    x_strides: Strides,
) -> Launch:
    """``y = x`` along lines that are no work for a group.

    Args:
        types: the C types of both, and whether truth values are made.
        target: what sizes of groups are chosen for.
        y: where to.
        x: the elements.
        shape: the fewest axes, two or more.
        y_strides: steps in ``y`` along them.
        x_strides: those in ``x``.
    """
    *others, lines, few = shape
    steps = zip("yx", (y_strides, x_strides), strict=True)
    flat = tuple([name for name, step in steps if step[-2:] == (few, 1)])
    params = joined(types, by_name("ndim few flat", max(len(others), 1), few, flat))
    args = joined(
        by_name("lines y_line x_line", lines, y_strides[-2], x_strides[-2]),
        by_name("y_step x_step", y_strides[-1], x_strides[-1]),
        _axes(others, y_strides[:-2], x_strides[:-2]),
    )
    (width,), (group,) = items(target, lines * few).values()
    return SHORT.launch(
        params,
        joined(args, by_name("y x", y, x)),
        global_size=(width, prod(others)),
        local_size=(group, 1),
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
    """``y = x`` by vectors, each turned round; arguments as those of :func:`short`."""
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
