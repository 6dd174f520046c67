"""An array laid into a dense one among elements of one value, on CPUs; strided rows made dense."""

from __future__ import annotations

from math import prod

import numpy as np

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...values.dtypes import DType
from ...values.record import NamedTuple
from ...values.shapes import Shape, Strides, ceil_div, is_contiguous, round_up
from ..grid import in_groups, jobs_per_item, lanes_of
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import streams
from .around import around, around_fits


class _Axis(NamedTuple):
    size: int
    x_size: int
    low: int
    x_stride: int


_PLACE = Kernel(
    "place",
    "moving/place.mako",
    (Constraint("room % lanes == 0", "what goes to y is whole vectors"),),
)

_ROOM = 2048
# Fewer elements are left to kernels that serve more layouts.
_LEAST = 4096
_LEAST_ROW = 16
# What a kernel may count with an int.
_INT_BYTES = 2**31


def place(
    target: Target,
    y: Array,
    x: Array,
    x_shape: Shape,
    x_strides: Strides,
    *,
    starts: tuple[int, ...],
    value: float = 0,
) -> list[Launch]:
    """``y`` is ``value`` but for the elements of ``x``, which lie from ``starts`` on.

    Args:
        target: whose vectors and cores are used.
        y: any dense array.
        x: the elements, of ``y``'s dtype.
        x_shape: their shape, that of ``y`` or smaller.
        x_strides: their steps in ``x``.
        starts: where in ``y`` they begin.
        value: a number of ``y``'s kind.

    Returns:
        One launch; none where others serve better: on GPUs, for small arrays, elements that are not
        neighbours, short rows.
    """
    if in_groups(target.traits) or y.dtype.itemsize > 8:
        return []
    if y.size < _LEAST or not y.contiguous or x.dtype is not y.dtype:
        return []
    if max(y.storage.nbytes, x.storage.nbytes) >= _INT_BYTES:
        return []
    axes = _merged(y.shape, x_shape, starts, x_strides)
    *outer, last = axes
    if last.x_stride != 1 or last.size < _LEAST_ROW:
        return []
    padded = any(axis.size != axis.x_size for axis in axes)
    lanes = lanes_of(target, y.dtype.itemsize)
    dense = padded and is_contiguous(x_shape, x_strides) and not streams(y, lanes)
    if dense and around_fits(target.traits, x_shape, y.shape, y.dtype.itemsize):
        number, inside = as_moved(y.dtype, value), x.view(x_shape, x_strides)
        return [around(target, y, inside, starts=starts, mode="constant", value=number)]
    share = round_up(jobs_per_item(target, y.size, y.size, least=1), _ROOM)
    params = joined(
        by_name("ctype lanes padded", y.dtype.moved_as, lanes, padded),
        by_name("stream room ndim", streams(y, lanes), _ROOM, len(outer)),
    )
    launch = _PLACE.launch(
        params,
        joined(
            by_name("total share n m left", y.size, share, last.size, last.x_size, last.low),
            by_name("size_{d}", [axis.size for axis in outer]),
            by_name("x_size_{d}", [axis.x_size for axis in outer]),
            by_name("low_{d}", [axis.low for axis in outer]),
            by_name("x_stride_{d}", [axis.x_stride for axis in outer]),
            by_name("y x value", y, x, as_moved(y.dtype, value) if padded else None),
        ),
        global_size=(ceil_div(y.size, share),),
        flops=0,
        bytes=y.nbytes + x.dtype.itemsize * prod(axis.x_size for axis in axes),
    )
    return [launch]


def as_moved(dtype: DType, value: float | HostScalar) -> float | HostScalar:
    """A number as kernels that move elements take it: a float of 16 bits as its bits."""
    if dtype.is_floating_point and dtype.itemsize == 2:
        return int(np.array(value, dtype.numpy).view(np.uint16))
    return value


def _merged(shape: Shape, x_shape: Shape, starts: Shape, x_strides: Strides) -> list[_Axis]:
    """The fewest axes: one that x fills joins the axis around it, where x goes on evenly."""
    merged: list[_Axis] = []
    for axis in map(_Axis, shape, x_shape, starts, x_strides):
        around = merged[-1] if merged else None
        if (
            around
            and axis.size == axis.x_size
            and (around.x_stride == axis.size * axis.x_stride or around.x_size == 1)
        ):
            n = axis.size
            merged[-1] = _Axis(around.size * n, around.x_size * n, around.low * n, axis.x_stride)
        else:
            merged.append(axis)
    return merged
