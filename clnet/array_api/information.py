"""What dtypes there are and how they meet, and what the library is able to."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

from .. import inspection
from ..device import Device, current_device
from ..errors import ArgumentError, DtypeError
from ..ops.shape import to_dtype
from ..tensor import Tensor
from ..values.dtypes import (
    DType,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

__all__ = [
    "__array_namespace_info__",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

_SIGNED = (int8, int16, int32, int64)
_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool_,),
    "signed integer": _SIGNED,
    "unsigned integer": (uint8,),
    "integral": (*_SIGNED, uint8),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
    "numeric": (*_SIGNED, uint8, float32, float64, complex64, complex128),
}


def _dtype_of(given: Any) -> DType:
    return given.dtype if isinstance(given, Tensor) else given


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """``x`` converted; a copy in any case, unless ``copy`` is False."""
    if x.dtype.is_complex and not dtype.is_complex:
        raise DtypeError("astype", "complex numbers are not cut", dtype=dtype, remedy="Take x.real")
    y = to_dtype(x, dtype)
    y = y if device is None else y.to(device=device)
    return y.clone() if copy and y is x else y


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that all promote to: of arrays with and without axes alike; numbers follow."""
    typed = [_dtype_of(a) for a in arrays_and_dtypes if isinstance(a, Tensor | DType)]
    if not typed:
        raise ArgumentError("result_type", "an array or a dtype is given", got=arrays_and_dtypes)
    found = reduce(inspection.promote_types, typed)
    for number in arrays_and_dtypes:
        if isinstance(number, complex) and not found.is_complex:
            wide = found is float64
            found = complex128 if wide else complex64
        elif isinstance(number, float) and not (found.is_complex or found.is_floating_point):
            found = float32
    return found


def can_cast(from_: Any, to: DType, /) -> bool:
    """Whether numbers of a dtype are converted to another without loss, by promotion."""
    return inspection.promote_types(_dtype_of(from_), to) is to


def isdtype(dtype: DType, kind: Any) -> bool:
    """Whether a dtype is another, of a kind, or one of several.

    Raises:
        ArgumentError: if there is no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ArgumentError("isdtype", f"kind is one of {sorted(_KINDS)}", kind=repr(kind))
        return dtype in _KINDS[kind]
    return dtype is kind


class FloatInfo(NamedTuple):
    """What :func:`finfo` gives."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """What :func:`iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatInfo:  # noqa: A002 - the standard's
    """Limits of floating numbers, or of parts of complex ones."""
    dtype = _dtype_of(type)
    real = dtype.real if dtype.is_complex else dtype
    info = inspection.finfo(real)
    numbers = [float(n) for n in (info.eps, info.max, info.min, info.tiny)]
    return FloatInfo(info.bits, numbers[0], numbers[1], numbers[2], numbers[3], real)


def iinfo(type: Any, /) -> IntegerInfo:  # noqa: A002 - the standard's
    """Limits of whole numbers."""
    dtype = _dtype_of(type)
    info = inspection.iinfo(dtype)
    return IntegerInfo(info.bits, info.max, info.min, dtype)


class _Information:
    """What :func:`__array_namespace_info__` gives."""

    def capabilities(self) -> dict[str, Any]:
        """Whether masks index, and whether shapes may depend on data."""
        known = {"boolean indexing": True, "data-dependent shapes": True}
        return {**known, "max dimensions": 32}

    def default_device(self) -> Device:
        """Where new arrays are made."""
        return current_device()

    def devices(self) -> list[Device]:
        """The current device; others are opened by their names."""
        return [current_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """What Python's numbers become."""
        kinds = {"real floating": float32, "complex floating": complex64}
        return {**kinds, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes by name: all, or those of a kind or several."""
        every = (*_KINDS["bool"], *_KINDS["numeric"])
        return {t.name: t for t in every if kind is None or isdtype(t, kind)}


def __array_namespace_info__() -> _Information:  # noqa: N807 - the standard's
    """What the library is able to."""
    return _Information()
