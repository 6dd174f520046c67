"""Launches that copy: one array, converted where dtypes differ, or many small ones together."""

from __future__ import annotations

from collections.abc import Sequence

from ..array import Array
from ..device import Launch, Target
from ..expr import Const, Input, Pair, cast_boolean
from ..kernels.moving import copy
from ..kernels.pointwise import MOST_ELEMENTS, most_segments, pointwise, pointwise_many
from ..values.dtypes import DType, bool_, from_name
from ..values.shapes import broadcast_strides

_INT_BYTES = 2**31
"""Beyond it positions do not surely fit the int that copies count with; pointwise launches do."""


def copy_launches(target: Target, y: Array, x: Array) -> list[Launch]:
    """Write ``x``, broadcast and converted, to every element of ``y``."""
    small = max(y.storage.nbytes, x.storage.nbytes) < _INT_BYTES
    if y.dtype is x.dtype and small:
        return copy(target, y, x.view(y.shape, broadcast_strides(x.shape, x.strides, y.shape)))
    compute = from_name((y if y.dtype.is_complex else x).dtype.compute)
    if y.dtype is bool_:  # no cast: 0.5 is true
        source = Pair(Input(0), Input(1)) if x.dtype.is_complex else Input(0)
        return pointwise(target, [y], x.parts, (cast_boolean(source),), compute=compute)
    exprs = (Input(0), Input(1) if x.dtype.is_complex else Const(0))[: len(y.parts)]
    return pointwise(target, y.parts, x.parts[: len(exprs)], exprs, compute=compute)


def copies(target: Target, pairs: Sequence[tuple[Array, Array]]) -> list[Launch]:
    """Write the second array of each pair to the first, of its shape; small dense ones together.

    Args:
        target: what the device is like.
        pairs: no two of the first overlap, and none of the second lies where one of the first does.
    """
    small: dict[DType, list[tuple[Array, Array]]] = {}
    launches: list[Launch] = []
    for y, x in pairs:
        if _joins(y, x):
            small.setdefault(y.dtype, []).append((y, x))
        else:
            launches += copy_launches(target, y, x)
    most = most_segments(2, 0, 0)
    for dtype, alike in small.items():
        if len(alike) == 1:
            launches += copy_launches(target, *alike[0])
            continue
        for i in range(0, len(alike), most):
            launches += pointwise_many(target, alike[i : i + most], (), (Input(1),), compute=dtype)
    return launches


def _joins(y: Array, x: Array) -> bool:
    """Whether a copy has so little to do that a launch of its own would be more."""
    kept = y.dtype is x.dtype and y.dtype.compute == y.dtype.name and y.dtype is not bool_
    return kept and y.contiguous and x.contiguous and 0 < y.size <= MOST_ELEMENTS
