"""PyTorch's old names of sparse tensors of a dtype, by which graph networks still make them."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..values.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from .construction import sparse_coo_tensor
from .layout import SparseTensor

TYPES: dict[str, DType] = {
    "DoubleTensor": float64,
    "FloatTensor": float32,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "ByteTensor": uint8,
    "CharTensor": int8,
    "ShortTensor": int16,
    "IntTensor": int32,
    "LongTensor": int64,
}


class _TypedClass(type):
    """The class of ``sparse.FloatTensor``: makes such tensors, which are its instances."""

    dtype: DType

    def __call__(
        cls, indices: Any, values: Any, size: Any = None, *, device: Any = None
    ) -> SparseTensor:
        return sparse_coo_tensor(indices, values, size, dtype=cls.dtype, device=device)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, SparseTensor) and instance.dtype is cls.dtype


@cache
def typed_class(name: str) -> Any:
    """The class of a name: of indices, values and, if all are not to hold just them, a size."""
    members = {"dtype": TYPES[name], "__doc__": f"Sparse tensors of {TYPES[name].name}."}
    return _TypedClass(name, (), members)
