"""Whole numbers that are added up, and extremes, by atomics: the order they come in does not show.

On GPUs, where an index of many elements would else be sorted first.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ...array import Array
from ...device import Check, Launch, Scratch, Target
from ...values.dtypes import DType, int32
from ...values.shapes import Shape, Strides, collapse
from ..grid import flat_type, in_groups, items
from ..kernel import Kernel, by_name, joined
from ..moving import fill

_MEET = Kernel("meet", "index/unordered.mako")
_MET = Kernel("met", "index/unordered.mako")


def adds_unordered(target: Target, y: Array, index: Array) -> bool:
    """Whether a GPU adds these numbers up: of 32 bits, which every device has atomics for."""
    return y.dtype is int32 and meets_unordered(target, int32, y, index)


def meets_unordered(target: Target, dtype: DType, *arrays: Array) -> bool:
    """Whether a GPU finds extremes of a type: a key of 32 bits holds its numbers.

    Args:
        target: what the device is like.
        dtype: the type.
        *arrays: whose elements the kernels count in 32 bits.
    """
    few = all(flat_type(x.size) == "int" for x in arrays)
    return in_groups(target.traits) and dtype.itemsize <= 4 and few


def add_unordered(
    target: Target, y: Array, x: Array, index: Array, *, dim: int, check: Check | None
) -> list[Launch]:
    """``y[..., index[..., i, ...], ...]``: the sum of ``x[..., i, ...]``, dense int32."""
    return [*fill(target, y, 0), _meet(target, y, x, index, dim=dim, how="add", check=check)]


def extremes_unordered(
    target: Target, y: Array, x: Array, index: Array, *, dim: int, largest: bool
) -> list[Launch]:
    """As :func:`.gather.extremes_along`, of numbers that :func:`meets_unordered` takes.

    Takes 4 bytes of scratch memory for an element of ``y``.
    """
    keys = Array.scratch(Scratch(y.device), y.shape, int32)
    how = "most" if largest else "least"
    launches = fill(target, keys, 0)
    if index.size:
        launches.append(_meet(target, keys, x, index, dim=dim, how=how, check=None))
    first = first_extreme(y.dtype, largest=largest)
    text = {inf: "INFINITY", -inf: "-INFINITY"}.get(first, f"({y.dtype.ctype})({first:.0f})")
    met = _MET.launch(
        {"element": y.dtype.ctype, "how": how, "first": text},
        {"n": y.size, "y": y, "keys": keys},
        **items(target, y.size),
        flops=y.size,
        bytes=y.nbytes + keys.nbytes,
    )
    return [*launches, met]


def first_extreme(dtype: DType, *, largest: bool) -> float:
    """What any number of a type is at least as large, or small, as."""
    if dtype.is_floating_point:
        return -inf if largest else inf
    bounds = np.iinfo(dtype.numpy)
    return int(bounds.min if largest else bounds.max)


def along(index: Array, strides: Strides, dim: int) -> tuple[Shape, Strides, Strides]:
    """The index's shape, collapsed, and the steps in the other axes of x and in the index."""
    others = tuple(0 if axis == dim else stride for axis, stride in enumerate(strides))
    shape, (x_strides, index_strides) = collapse(index.shape, [others, index.strides])
    return shape, x_strides, index_strides


def _meet(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    how: str,
    check: Check | None,
) -> Launch:
    shape, y_strides, index_strides = along(index, y.strides, dim)
    params: dict[str, Any] = {"element": x.dtype.ctype, "index_type": index.dtype.ctype}
    return _MEET.launch(
        {**params, "ndim": len(shape), "how": how, "check": check is not None},
        joined(
            by_name("n limit y_step", index.size, y.shape[dim], y.strides[dim]),
            by_name("size_{d} y_stride_{d} index_stride_{d}", shape, y_strides, index_strides),
            by_name("y x index", y, x, index),
        ),
        **items(target, index.size),
        flops=index.size,
        bytes=3 * index.size * 4 + index.nbytes,
    ).reporting(check)
