"""Conversions to a dtype by its short name: ``x.float()``, ``x.long()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..values.dtypes import (
    DType,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from ..values.words import MemoryFormat
from .machinery.function import Face, op
from .shape import in_its_order, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


def converted(x: Tensor, dtype: DType, memory_format: MemoryFormat | None = None) -> Tensor:
    """``x`` as another dtype, laid out as it was; itself if it has it."""
    if x.dtype is dtype:
        return x
    return in_its_order(x, lambda y: to_dtype(y, dtype), memory_format)


def _conversion(name: str, dtype: DType) -> Callable[..., Tensor]:
    def convert(x: Tensor, memory_format: MemoryFormat | None = None) -> Tensor:
        return converted(x, dtype, memory_format)

    convert.__name__ = convert.__qualname__ = f"to_{name}"
    convert.__doc__ = f"As {dtype.name}; itself if it is that already."
    return op(Face.METHOD, name=name)(convert)


to_float = _conversion("float", float32)
to_double = _conversion("double", float64)
to_half = _conversion("half", float16)
to_bfloat16 = _conversion("bfloat16", bfloat16)
to_char = _conversion("char", int8)
to_short = _conversion("short", int16)
to_int = _conversion("int", int32)
to_long = _conversion("long", int64)
to_cfloat = _conversion("cfloat", complex64)
to_cdouble = _conversion("cdouble", complex128)
to_byte = _conversion("byte", uint8)
to_bool = _conversion("bool", bool_)


@op(Face.METHOD)
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """As ``other``'s dtype."""
    return converted(x, other.dtype)
