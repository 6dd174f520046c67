"""Questions about tensors and dtypes, in PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np

from .errors import DtypeError, ShapeError
from .ops.machinery import promotion
from .ops.machinery.promotion import Operand
from .tensor import Tensor
from .values import mode, shapes
from .values.absent_dtypes import AbsentDType
from .values.arguments import checked, integers
from .values.dtypes import DType, default_float, promote
from .values.record import NamedTuple

__all__ = [
    "broadcast_shapes",
    "can_cast",
    "debug",
    "finfo",
    "get_default_dtype",
    "iinfo",
    "is_complex",
    "is_floating_point",
    "is_tensor",
    "numel",
    "promote_types",
    "result_type",
]


@contextmanager
def debug(enabled: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002 - as PyTorch's contexts
    """Find the line of an index out of range, or of a number an op is not defined for.

    What depends on a tensor's elements is checked by kernels, and raised when the host next waits
    for the device: by ``item``, ``numpy``, ``tolist``, ``clnet.synchronize`` or the end of a
    profile. Inside this context, and everywhere with ``CLNET_DEBUG=1``, every op that checks waits
    for its kernel, and the error is raised by the line that called it; a compiled function's names
    the line that was traced.

    Args:
        enabled: False: as without it.

    Example:
        >>> import clnet
        >>> with clnet.debug():
        ...     clnet.arange(3)[clnet.tensor([5])]  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        clnet.errors.DataBoundsError: index: it lies in [-size, size); got index=5, ...
    """
    with mode.using(debug=enabled):
        yield


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor; what only acts as one (``__torch_function__``) is not asked."""
    return isinstance(value, Tensor)


@checked
def is_floating_point(x: Tensor) -> bool:
    """Whether the elements are floating."""
    return x.dtype.is_floating_point


@checked
def is_complex(x: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return x.dtype.is_complex


@checked
def numel(x: Tensor) -> int:
    """Number of elements."""
    return x.numel()


class FloatLimits(NamedTuple):
    """What a floating dtype can hold: its bits, the spacing at 1, the ends, the least normal.

    Then the dtype's name, and the spacing at 1 rounded to a power of ten.
    """

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    dtype: str = ""
    resolution: float = 0.0

    @property
    def smallest_normal(self) -> float:
        """As ``tiny``."""
        return self.tiny

    def __repr__(self) -> str:
        fields = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        named = ", ".join(f"{n}={getattr(self, n):g}" for n in fields)
        return f"finfo({named}, dtype={self.dtype})"


class IntegerLimits(NamedTuple):
    """What a dtype of whole numbers can hold."""

    bits: int
    max: int
    min: int

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return f"{'' if self.min else 'u'}int{self.bits}"

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


@checked
def finfo(dtype: DType | AbsentDType | None = None) -> FloatLimits:
    """The limits of a floating dtype, or of a complex one's parts.

    Args:
        dtype: one of clnet's, or one that only has a name (``clnet.float8_e4m3fn``); None: that of
            Python's floats.

    Raises:
        DtypeError: if it is neither.
    """
    dtype = get_default_dtype() if dtype is None else dtype.real
    if not dtype.is_floating_point:
        raise DtypeError("finfo", "the dtype is floating", dtype=dtype, remedy="Use iinfo")
    found = ml_dtypes.finfo(dtype.numpy)
    eps, most, least, tiny = (float(n) for n in (found.eps, found.max, found.min, found.tiny))
    resolution = 10.0 ** -math.floor(-math.log10(eps))
    return FloatLimits(found.bits, eps, most, least, tiny, dtype.name, resolution)


@checked
def iinfo(dtype: DType | AbsentDType) -> IntegerLimits:
    """The limits of a dtype of whole numbers.

    Raises:
        DtypeError: if it is another.
    """
    if dtype.is_floating_point or dtype.is_complex or dtype.numpy.kind == "b":
        raise DtypeError("iinfo", "the dtype holds whole numbers", dtype=dtype)
    found = np.iinfo(dtype.numpy)
    return IntegerLimits(found.bits, found.max, found.min)


@checked
def promote_types(type1: DType, type2: DType) -> DType:
    """The dtype of an op on tensors of both."""
    return promote(type1, type2)


@checked
def can_cast(from_: DType, to: DType) -> bool:
    """Whether an op may write a result of the first dtype into a tensor of the second."""
    return from_.kind <= to.kind


@checked
def result_type(tensor1: Operand, tensor2: Operand) -> DType:
    """The dtype of an op on two tensors or numbers: tensors with axes, then those without, numbers.

    Args:
        tensor1: a tensor or a number.
        tensor2: another.
    """
    return promotion.result_type(tensor1, tensor2)


@checked
def get_default_dtype() -> DType:
    """What Python's floats become: float32, unless :func:`clnet.set_default_dtype` said else."""
    return default_float()


@checked
def broadcast_shapes(*given: Any) -> tuple[int, ...]:
    """The shape that tensors of these shapes have together.

    Raises:
        ShapeError: if there is none, or a size is below 0.
    """
    given = tuple((shape,) if isinstance(shape, int) else shape for shape in given)
    sizes = [integers("broadcast_shapes", "a shape", shape) for shape in given]
    if any(size < 0 for shape in sizes for size in shape):
        raise ShapeError("broadcast_shapes", "sizes are 0 or more", shapes=tuple(sizes))
    return shapes.broadcast_shapes("broadcast_shapes", *sizes)
