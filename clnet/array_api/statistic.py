"""Sums and what is made of them, by the standard's names."""

# ruff: noqa: A001 - the standard's names

from __future__ import annotations

from typing import Any

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.dtypes import DType, bool_
from .manipulation import Axes, listed

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def sum(
    x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """Sums over axes; None: all. Whole numbers are summed in int64."""
    axes = listed(axis, x.ndim)
    if not axes:
        return x.to(dtype) if dtype is not None else ops.sum(x.unsqueeze(0), 0)
    return ops.sum(x, axes, keepdims, dtype=dtype)


def prod(
    x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False
) -> Tensor:
    """Products over axes; None: all."""
    y: Any = x if dtype is None else x.to(dtype)
    if not (axes := listed(axis, x.ndim)):
        return _product(y.unsqueeze(0), 0)
    for a in sorted((a % x.ndim for a in axes), reverse=True):
        y = _product(y, a, keepdims)
    return y if dtype is None else y.to(dtype)


def _product(x: Any, axis: int, keepdims: bool = False) -> Any:  # noqa: FBT001, FBT002
    function: Any = ops.prod  # its overloads are the built-in's
    return function(x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Means over axes; None: all."""
    axes = listed(axis, x.ndim)
    return ops.mean(x, axes, keepdims) if axes else x.clone()


def var(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """Variances over axes: squares over the number of elements less ``correction``."""
    axes = listed(axis, x.ndim)
    if not axes:
        zero: Any = x * 0
        return zero / (1 - correction)
    found: Any = ops.var(x, axes, correction=correction, keepdim=keepdims)
    return found


def std(
    x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The root of :func:`var`."""
    square: Any = var(x, axis=axis, correction=correction, keepdims=keepdims)
    return square.sqrt()


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest elements."""
    axes = listed(axis, x.ndim)
    return ops.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The least elements."""
    axes = listed(axis, x.ndim)
    return ops.amin(x, axes, keepdims) if axes else x.clone()


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest elements are; of several the first."""
    return _place(ops.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the least elements are; of several the first."""
    return _place(ops.argmin, x, axis, keepdims)


def _place(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:  # noqa: FBT001
    if axis is not None:
        return function(x, axis, keepdims)
    found = function(x.reshape(-1), 0)
    return found.reshape((1,) * x.ndim) if keepdims else found


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true."""
    return _truth(ops.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element is true."""
    return _truth(ops.any, x, axis, keepdims)


def _truth(function: Any, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:  # noqa: FBT001
    y: Any = x if x.dtype is bool_ else x != 0
    for a in sorted((a % x.ndim for a in listed(axis, x.ndim)), reverse=True):
        y = function(y, a, keepdims)
    return y


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Tensor:
    """Sums of all elements up to each, along an axis.

    Raises:
        ArgumentError: if no axis is named and there are several.
    """
    if axis is None and x.ndim != 1:
        raise ArgumentError("cumulative_sum", "an axis is named", shape=x.shape)
    along = 0 if axis is None else axis
    y = ops.cumsum(x, along, dtype=dtype)
    if not include_initial:
        return y
    sizes = list(y.shape)
    sizes[along] = 1
    return ops.cat([y.new_zeros(sizes), y], along)
