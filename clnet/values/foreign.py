"""Tensors of another library as NumPy arrays, without importing it."""

from __future__ import annotations

from numbers import Number
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DtypeError, RangeError, ShapeError
from .dtypes import DType, Kind, default_complex, default_float
from .plain import shown


def is_foreign(value: Any) -> bool:
    """Whether it is a tensor of another library: of PyTorch, whose tensors are asked to detach."""
    kind = type(value)
    if hasattr(kind, "__apply_function__"):  # clnet's own
        return False
    return hasattr(kind, "detach") and hasattr(kind, "numpy") and hasattr(kind, "__array__")


def host_array(value: Any, *, typed: bool = False) -> np.ndarray:
    """A tensor's elements, in host memory; an array itself; Python's numbers in the default dtypes.

    Sequences that hold numbers of 64 bits beside Python's are of 64 bits.

    Args:
        value: what :func:`is_foreign` knows, or what NumPy makes an array of.
        typed: whether the caller has a dtype for them: Python's floats keep all their digits.

    Raises:
        ShapeError: if nested sequences are ragged, or hold a tensor of several numbers for one.
        DtypeError: as ShapeError, of a tensor of several whole numbers where one number belongs.
        RangeError: if they are whole numbers alone, one of more than 64 bits.
    """
    if not is_foreign(value):
        plain = _without_tensors(value)
        try:
            host = np.asarray(plain)
        except ValueError as error:
            raise ShapeError("tensor", "nested sequences have equal lengths", error=error) from None
        if typed or isinstance(value, np.ndarray | np.generic):
            return host
        host = _of_far(value, host)
        default = {"d": default_float, "D": default_complex}.get(host.dtype.char)
        if default is None or _has_wide(value):
            return host
        return _cast(host, default())
    plain = value.detach().cpu()
    if str(plain.dtype).endswith("bfloat16"):  # NumPy reads none; float32 holds them exactly
        return plain.float().numpy().astype(ml_dtypes.bfloat16)
    return plain.numpy(force=True)


def _without_tensors(value: Any) -> Any:
    """Nested sequences with arrays for the tensors in them; what holds none as it is.

    As in PyTorch the first elements say how deep they are, and a tensor is no sequence there: where
    a number belongs, a tensor of one is that, whatever its axes.
    """
    try:
        if not _has_tensor(value):
            return value
    except RecursionError:
        law = "nested sequences end: none contains itself"
        raise DtypeError("tensor", law, type=type(value).__name__) from None
    depth, first = 0, value
    while isinstance(first, list | tuple) and first:
        depth, first = depth + 1, first[0]
    return _with_numbers(value, depth + (first.ndim if isinstance(first, np.ndarray) else 0))


def _has_tensor(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return hasattr(type(value), "__apply_function__")
    kinds = set(map(type, value))
    return not kinds <= _PLAIN and any(map(_has_tensor, value))


def _with_numbers(value: Any, depth: int) -> Any:
    """Nested sequences of so many axes, with arrays and scalars of NumPy for tensors."""
    if isinstance(value, list | tuple):
        return [_with_numbers(part, depth - 1) for part in value]
    if not hasattr(type(value), "__apply_function__"):
        return value
    host = value.numpy(force=True)
    if depth > 0:
        return host
    if host.size != 1:
        law, shape = "a tensor in nested sequences, as a number, has one element", host.shape
        whole = not (value.dtype.is_floating_point or value.dtype.is_complex)
        error = DtypeError if whole else ShapeError  # PyTorch's kinds of errors
        raise error("tensor", law, shape=shape, remedy="stack() joins tensors along a new axis")
    return host.reshape(())[()]


_PLAIN = {bool, int, float, complex}


def _of_far(value: Any, host: np.ndarray) -> np.ndarray:
    """An array of Python's numbers, some of which NumPy has no dtype of whole numbers for.

    Raises:
        RangeError: if they are all whole.
    """
    found = host.ravel().tolist() if host.dtype.char in "OLQ" else []
    kinds = set(map(type, found))
    if not found or not kinds <= _PLAIN or (kinds <= {bool, int} and max(map(abs, found)) < 2**63):
        return host
    if kinds <= {bool, int}:
        law = "whole numbers have at most 64 bits, of which one is the sign"
        raise RangeError("tensor", law, data=shown(value), remedy="Give one as a float")
    return host.astype(np.complex128 if complex in kinds else np.float64)


def _has_wide(value: Any) -> bool:
    """Whether nested sequences hold something of 64 bits: of NumPy, or a tensor."""
    if isinstance(value, list | tuple):
        return not set(map(type, value)) <= _PLAIN and any(map(_has_wide, value))
    return str(getattr(value, "dtype", "")).endswith(("float64", "complex128"))


def is_held(value: float, dtype: DType) -> bool:
    """Whether a dtype of whole numbers holds a number but for its fraction; NaN it does not.

    Unsigned types count whole numbers below 0 from their end.
    """
    limits = np.iinfo(dtype.numpy)
    wraps = limits.min == 0 and isinstance(value, int)
    return (-int(limits.max) if wraps else int(limits.min)) <= value <= int(limits.max)


def host_of(value: Any, host: np.ndarray, dtype: DType) -> np.ndarray:
    """What :func:`host_array` made of a value, in a dtype.

    Elements of an array or a tensor wrap as a cast does. A number of Python's, or one in a list, is
    one that the dtype holds, as in PyTorch: its fraction is cut off, and unsigned types count
    whole numbers below 0 from their end.

    Raises:
        TypeError, ValueError: if it holds no numbers, or complex ones for a real dtype.
        OverflowError: if the dtype does not hold one of them.
    """
    if host.dtype == object:  # whole numbers of more than 64 bits, or what NumPy reads as NaN
        if not all(isinstance(v, Number) for v in host.flat):
            raise TypeError("there is one that is no number")
        host = host.astype(np.float64) if dtype.is_floating_point else host
    counts = dtype.kind is Kind.INTEGER and host.dtype != dtype.numpy and host.size > 0
    if counts and not (isinstance(value, np.ndarray) or is_foreign(value)):
        ends = [host.min(), host.max()]
        for end in (e.item() if isinstance(e, np.generic) else e for e in ends):
            if not is_held(end, dtype):
                raise OverflowError(f"{dtype.name} does not hold {shown(end)}")
    if host.dtype.kind == "c" and not dtype.is_complex:
        raise TypeError("a real dtype holds no complex numbers")
    return _cast(host, dtype)


def _cast(host: np.ndarray, dtype: DType) -> np.ndarray:
    """In another dtype; what is beyond it is infinite, as PyTorch's, and NumPy doesn't warn."""
    with np.errstate(over="ignore", invalid="ignore"):
        return host.astype(dtype.numpy, copy=False)


def host_as(host: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in a dtype of NumPy's.

    Raises:
        DtypeError: if NumPy has none such.
    """
    try:
        return host.astype(dtype)
    except TypeError as error:
        raise DtypeError("asarray", "NumPy has the dtype", dtype=shown(dtype)) from error
