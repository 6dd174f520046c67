"""New arrays, by the standard's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import creation, ops
from ..ops.complex_parts import complex_of
from ..tensor import Tensor
from ..tensor import full as filled
from ..values.dtypes import DType, complex64, float32

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | Sequence[int]


def _sizes(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of data; an array itself if that is enough and no copy is asked for.

    Raises:
        ArgumentError: if ``copy`` is False and one is needed.
    """
    return creation.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Tensor:
    """Numbers from ``start`` on, below ``stop``; none if the step leads away from it."""
    first, last = (0, start) if stop is None else (start, stop)
    if step and (last - first) * step < 0:  # none, of the dtype that the three would have given
        first = last = float(first) if any(isinstance(n, float) for n in (first, last)) else first
    return creation.arange(first, last, step, dtype=dtype, device=device)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """``num`` evenly spaced numbers; ``stop`` is the last of them, or comes after."""
    if isinstance(start, complex) or isinstance(stop, complex):
        kind = dtype or complex64
        start, stop = complex(start), complex(stop)
        parts = [
            linspace(a, b, num, dtype=kind.real, device=device, endpoint=endpoint)
            for a, b in ((start.real, stop.real), (start.imag, stop.imag))
        ]
        return complex_of(parts[0], parts[1])
    if endpoint or num == 0:
        return creation.linspace(start, stop, num, dtype=dtype, device=device)
    return creation.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def empty(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array with elements of any value."""
    return creation.empty(_sizes(shape), dtype=dtype or float32, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return creation.zeros(_sizes(shape), dtype=dtype or float32, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return creation.ones(_sizes(shape), dtype=dtype or float32, device=device)


def full(
    shape: Shape, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """An array of one value."""
    return filled(_sizes(shape), fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Any = None,
) -> Tensor:
    """Ones on a diagonal, ``k`` above the main one."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return creation.eye(n_rows, columns, dtype=dtype, device=device)
    row = creation.arange(n_rows, device=device).reshape(-1, 1)
    return (row + k == creation.arange(columns, device=device)).to(dtype or float32)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """:func:`empty` of an array's shape, dtype and device."""
    return empty(x.shape, dtype=dtype or x.dtype, device=x.device if device is None else device)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """:func:`zeros` of an array's shape, dtype and device."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=x.device if device is None else device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """:func:`ones` of an array's shape, dtype and device."""
    return ones(x.shape, dtype=dtype or x.dtype, device=x.device if device is None else device)


def full_like(
    x: Tensor, /, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """:func:`full` of an array's shape, dtype and device."""
    where = x.device if device is None else device
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=where)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Vectors as axes of a grid; of ``"xy"`` the first two change places."""
    return list(ops.meshgrid(*arrays, indexing=indexing))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices up to a diagonal, 0 above."""
    return ops.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Matrices from a diagonal on, 0 below."""
    return ops.triu(x, k)
