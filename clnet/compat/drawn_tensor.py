"""``clnet.testing.make_tensor``: a tensor with drawn elements, for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..creation import empty
from ..errors import ArgumentError
from ..inspection import finfo, iinfo
from ..random import randint
from ..tensor import Tensor
from ..values.dtypes import DType, int64
from ..values.dtypes import bool_ as truth

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: DType,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of ``shape``, drawn uniformly from ``[low, high)``; what the dtype has not is cut.

    Args:
        shape: sizes, or one sequence of them.
        dtype: of the tensor.
        device: where it lies.
        low: the least; without it 0 of bool and unsigned numbers, else -9.
        high: above the largest; without it 2 of bool, 10 of whole numbers, 9 of floats.
        requires_grad: whether it is a leaf that wants a gradient.
        noncontiguous: every second element of a row twice as long.
        exclude_zero: 1, or the smallest normal float, in the place of zeros.
        memory_format: the order in which axes lie.

    Raises:
        ArgumentError: if nothing lies between ``low`` and ``high`` that the dtype has, if whole
            numbers should have a gradient, or if two ways to lie in memory are asked for.
    """
    name = "make_tensor"
    if noncontiguous and memory_format is not None:
        raise ArgumentError(
            name, "noncontiguous or memory_format, not both", memory_format=memory_format
        )
    if requires_grad and not dtype.differentiable:
        raise ArgumentError(name, "whole numbers have no gradient", dtype=dtype)
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    apart = noncontiguous and math.prod(shape) > 1
    long = (*shape[:-1], 2 * shape[-1]) if apart else shape
    least, most = _range(dtype, low, high)
    if dtype.differentiable:
        x = empty(long, dtype=dtype, device=device)
        for part in (x.real, x.imag) if dtype.is_complex else (x,):
            # in halves: the whole range of a dtype is wider than its largest number
            part.uniform_(least / 2, most / 2).mul_(2)
    else:
        x = randint(math.ceil(least), math.ceil(most), long, dtype=dtype, device=device)
    if apart:
        x = x[..., 1::2]
    elif memory_format is not None:
        x = x.clone(memory_format=memory_format)
    if exclude_zero:
        x[x == 0] = finfo(dtype).tiny if dtype.differentiable else 1
    return x.requires_grad_() if requires_grad else x


def _range(dtype: DType, low: float | None, high: float | None) -> tuple[float, float]:
    """``low`` and ``high`` within what a dtype has."""
    if dtype is truth:
        bottom, top, usual = 0, 2, (0, 2)
    elif dtype.differentiable:
        bottom, top, usual = finfo(dtype).min, finfo(dtype).max, (-9, 9)
    else:
        bottom = iinfo(dtype).min
        top = iinfo(dtype).max + (dtype is not int64)  # randint's own bounds are of int64
        usual = (-9, 10)
    low, high = (low, high) if low is not None else (usual[0], high)
    high = usual[1] if high is None else high
    ordered = low <= high if dtype.differentiable else low < high  # a NaN is neither
    if not ordered or high < bottom or low >= top:
        law = f"low is below high, within [{bottom}, {top})"
        raise ArgumentError("make_tensor", law, low=low, high=high, dtype=dtype)
    return min(max(low, bottom), top), min(max(high, bottom), top)
