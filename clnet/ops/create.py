"""Ops that make arrays from nothing but a shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Device, HostScalar, Launch, Target
from ..dtypes import DType, from_name
from ..expr import Scalar
from ..kernels.pointwise import pointwise as launch_pointwise
from .function import Face, Function, op

if TYPE_CHECKING:
    from ..tensor import Tensor


@dataclass(frozen=True)
class Full(Function):
    """A dense array of one value."""

    shape: tuple[int, ...]
    value: float | HostScalar
    dtype: DType
    device: Device

    def infer(self) -> tuple[Array, ...]:
        """A dense output."""
        return (Array.abstract(self.shape, self.dtype, self.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        compute = from_name(self.dtype.compute)
        return launch_pointwise(
            target, outputs, (), (Scalar(0),), scalars=(self.value,), compute=compute
        )


@op(Face.FUNCTION)
def full_like(x: Tensor, fill_value: float, *, dtype: DType | None = None) -> Tensor:
    """A tensor of one value with the shape, device and (unless given) dtype of ``x``."""
    function = Full(x.shape, fill_value, dtype or x.dtype, x.device)
    return type(x).__apply_function__(function, ())[0]


@op(Face.FUNCTION)
def zeros_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Zeros with the shape, device and (unless given) dtype of ``x``."""
    return full_like(x, 0, dtype=dtype)


@op(Face.FUNCTION)
def ones_like(x: Tensor, *, dtype: DType | None = None) -> Tensor:
    """Ones with the shape, device and (unless given) dtype of ``x``."""
    return full_like(x, 1, dtype=dtype)
