"""Ops that make arrays from nothing but a shape: constants, ranges, the identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import isfinite
from numbers import Complex
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..array import Array
from ..device import Device, HostScalar, Launch, Target
from ..device import device as open_device
from ..errors import ArgumentError, ShapeError
from ..expr import Scalar
from ..kernels import moving as kernels
from ..kernels.pointwise import pointwise as launch_pointwise
from ..values import mode
from ..values.arguments import is_tensor, number, require_tensors, shown
from ..values.dtypes import DType, Kind, from_name, int64
from ..values.foreign import host_of, is_held
from ..values.shapes import Shape
from ..values.varying import is_varying
from ..values.words import MemoryFormat
from .machinery.function import Arrays, Face, Function, apply, op
from .machinery.promotion import as_number
from .shape import Copy, expand, in_its_order, reshape, sizes_of

if TYPE_CHECKING:
    from ..tensor import Tensor


class Full(Function):
    """A dense array of one value."""

    shape: tuple[int, ...]
    value: float | HostScalar
    dtype: DType
    device: Device

    @property
    def repeats(self) -> bool:
        """Where the value is one number of a launch."""
        return not self.dtype.is_complex

    @property
    def repeat_key(self) -> Any:
        """All but the value."""
        return self.shape, self.dtype, self.device

    @property
    def varying(self) -> tuple[float | HostScalar, ...]:
        """The value."""
        return (self.value,)

    def with_varying(self, numbers: tuple[Any, ...]) -> Full:
        return replace(self, value=numbers[0])

    def infer(self) -> tuple[Array, ...]:
        _check_sizes("full", self.shape)
        return (Array.abstract(self.shape, self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        compute = from_name(self.dtype.compute)
        value = self.value
        values = (value.real, value.imag) if self.dtype.is_complex else (value,)  # pyrefly: ignore[missing-attribute] - a number
        exprs = tuple(Scalar(k) for k in range(len(values)))
        return launch_pointwise(
            target, outputs[0].parts, (), exprs, scalars=values, compute=compute
        )


class Empty(Function):
    """A dense array of which nothing is written: whatever its memory holds."""

    repeats = True

    shape: tuple[int, ...]
    dtype: DType
    device: Device

    def infer(self) -> tuple[Array, ...]:
        _check_sizes("empty", self.shape)
        return (Array.abstract(self.shape, self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """None."""
        return []


def held(name: str, value: Any, dtype: DType) -> Any:
    """A number that a dtype can hold, as Python's; unsigned types count below 0 from their end.

    Raises:
        ArgumentError: if it cannot.
    """
    if dtype.is_complex and isinstance(value, Complex | np.complexfloating):
        return complex(value)
    if dtype.is_complex and is_tensor(value) and value.dtype.is_complex:
        return complex(value.item())
    found: Any = number(name, "fill_value", value)
    if dtype.is_complex:
        return complex(found)
    if dtype.kind is Kind.BOOL:
        return bool(found)
    if dtype.kind is Kind.FLOATING:
        if is_varying(found) and found.numbers.active and abs(found) <= _most(dtype):
            return as_number(name, found, floating=True)
        if isfinite(found) and abs(found) > _most(dtype):
            raise ArgumentError(name, f"{dtype!r} holds the value", value=shown(found))
        return found
    if not is_held(found, dtype):
        raise ArgumentError(name, f"{dtype!r} holds the value", value=shown(found))
    limits = np.iinfo(dtype.numpy)
    return int(found) % (int(limits.max) + 1) if limits.min == 0 else int(found)


@cache
def _most(dtype: DType) -> float:
    """The largest number of a floating dtype."""
    return float(ml_dtypes.finfo(dtype.numpy).max)


class Arange(Function):
    """``start, start + step, ...``: ``n`` numbers of a dtype that is computed in itself."""

    n: int
    start: float
    step: float
    dtype: DType
    device: Device

    repeats = True

    @property
    def repeat_key(self) -> Any:
        """With the signs of zeros."""
        return self.n, repr(self.start), repr(self.step), self.dtype, self.device

    def infer(self) -> tuple[Array, ...]:
        """A dense vector."""
        return (Array.abstract((self.n,), self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        step = self.step if self.n > 1 else type(self.step)()  # 0 times an infinite one is NaN
        return kernels.arange(target, outputs[0], self.start, step)


class Eye(Function):
    """Zeros with 1 on the main diagonal."""

    repeats = True

    rows: int
    columns: int
    dtype: DType
    device: Device

    def infer(self) -> tuple[Array, ...]:
        """A dense matrix."""
        return (Array.abstract((self.rows, self.columns), self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Two launches."""
        (y,) = outputs
        diagonal = y.view((min(y.shape),), (self.columns + 1,))
        compute = from_name(self.dtype.compute)
        ones = launch_pointwise(
            target, diagonal.parts[:1], (), (Scalar(0),), scalars=(1,), compute=compute
        )
        return kernels.fill(target, y, 0) + ones


class MakeInto(Function):
    """What a function without inputs makes, in the memory of an input that it overwrites.

    Attributes:
        op_name: the public op.
        function: its output has the input's shape and dtype, and may have its strides.
    """

    takes_complex = True

    op_name: str
    function: Function
    mutates = (0,)

    @property
    def repeats(self) -> bool:
        """As the function does."""
        return self.function.repeats

    @property
    def repeat_key(self) -> Any:
        """The name decides about no kernel."""
        return type(self.function), self.function.repeat_key

    @property
    def varying(self) -> tuple[Any, ...]:
        """The function's."""
        return self.function.varying

    def with_varying(self, numbers: tuple[Any, ...]) -> MakeInto:
        return MakeInto(self.op_name, self.function.with_varying(numbers))

    def infer(self, place: Array) -> tuple[Array, ...]:
        """No outputs."""
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Those of the function."""
        return self.function.lower(target, inputs, outputs)


def made(kind: type[Tensor], function: Function) -> Tensor:
    """The tensor of a function without inputs."""
    return kind.__apply_function__(function, ())[0]


def of_host(kind: type[Tensor], host: np.ndarray, device: Device) -> Tensor:
    """A copy of a host array; inside a compiled function of every call anew, if it is changed."""
    found = kind(Array.from_numpy(host, device))
    if mode.current().inference:
        mark_inference((found.array,))
    return found if mode.current().tracer is None else apply(Copy(), found)


def positions(
    kind: type[Tensor], n: int, device: Device, *, start: int = 0, dtype: DType = int64
) -> Tensor:
    """``start, start + 1, ...``, ``(n,)``, in int64 or another dtype that has them."""
    return made(kind, Arange(n, start, 1, dtype, device))


def uninitialized(kind: type[Tensor], shape: Shape, dtype: DType, device: Device) -> Tensor:
    """A dense tensor with elements of any value; inside a compiled function of every call anew.

    Raises:
        ShapeError: if a size is negative.
    """
    if mode.current().tracer is not None:
        return made(kind, Empty(shape, dtype, device))
    _check_sizes("empty", shape)
    array = Array.abstract(shape, dtype, device)
    if not mode.current().abstract:
        array.storage.materialize()
    if mode.current().inference:
        mark_inference((array,))
    return kind(array)


def mark_inference(arrays: Sequence[Array], inputs: Sequence[Tensor] = ()) -> None:
    """Note of the memory of new arrays, not of the inputs', that ``inference_mode`` was on."""
    others = [x.array.storage for x in inputs]
    for array in arrays:
        array.storage.inference = array.storage.inference or array.storage not in others


def _check_sizes(name: str, shape: Shape) -> None:
    if any(n < 0 for n in shape):
        raise ShapeError(name, "sizes are 0 or more", size=shape)


# With the shape of another tensor.


@op(Face.FUNCTION)
def full_like(
    x: Tensor,
    fill_value: complex,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of one value with the shape and (unless given) dtype and device of ``x``.

    Args:
        x: any tensor.
        fill_value: the value.
        dtype: another element type.
        device: another device, as :func:`clnet.device` takes it.
        requires_grad: whether gradients flow to it.
        memory_format: ``clnet.contiguous_format`` for row-major order; else the axes lie in memory
            in the order of ``x``'s.

    Returns:
        A leaf.
    """

    def make(y: Tensor) -> Tensor:
        return new_full(y, y.shape, fill_value, dtype=dtype, device=device)

    return in_its_order(x.detach(), make, memory_format).requires_grad_(requires_grad)


@op(Face.FUNCTION)
def zeros_like(
    x: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Zeros with the shape of ``x``; arguments as :func:`full_like`'s."""
    return full_like(
        x,
        0,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        memory_format=memory_format,
    )


@op(Face.FUNCTION)
def ones_like(
    x: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Ones with the shape of ``x``; arguments as :func:`full_like`'s."""
    return full_like(
        x,
        1,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        memory_format=memory_format,
    )


@op(Face.FUNCTION)
def empty_like(
    x: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """Elements of any value with the shape of ``x``; arguments as :func:`full_like`'s."""

    def make(y: Tensor) -> Tensor:
        return new_empty(y, y.shape, dtype=dtype, device=device)

    return in_its_order(x.detach(), make, memory_format).requires_grad_(requires_grad)


# With the dtype and device of another tensor.


@op(Face.METHOD)
def new_full(
    x: Tensor,
    size: Sequence[int],
    fill_value: complex,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of one value in a shape, with (unless given) the dtype and device of ``x``.

    The arguments are those of :func:`full_like`.

    Raises:
        ShapeError: if a size is negative.
    """
    target = x.device if device is None else open_device(device)
    kind = dtype or x.dtype
    function = Full(tuple(size), held("full", fill_value, kind), kind, target)
    return made(type(x), function).requires_grad_(requires_grad)


def one_like(x: Tensor) -> Tensor:
    """A leaf that holds 1, of the shape, dtype and device of a tensor of one element."""
    dtype = x.dtype
    value: Any = complex(1) if dtype.is_complex else 1.0
    return made(type(x.detach()), Full(x.array.shape, value, dtype, x.device))


@op(Face.METHOD)
def new_tensor(
    x: Tensor,
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A copy of data, of the dtype of ``x`` unless another is given, on its device."""
    kind = dtype or x.dtype
    try:
        host = host_of(data, np.asarray(data), kind)
    except (ValueError, TypeError, OverflowError) as error:
        law = "data are numbers that the dtype holds, in sequences of equal lengths"
        raise ArgumentError("new_tensor", law, dtype=kind, data=shown(data), error=error) from None
    where = x.device if device is None else open_device(device)
    return of_host(type(x.detach()), host, where).requires_grad_(requires_grad)


@op(Face.METHOD)
def new_zeros(
    x: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Zeros of a shape, numbers or one sequence; further arguments as :meth:`new_full`'s."""
    shape = sizes_of("new_zeros", sizes, size)
    return new_full(x, shape, 0, dtype=dtype, device=device, requires_grad=requires_grad)


@op(Face.METHOD)
def new_ones(
    x: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones of a shape, numbers or one sequence; further arguments as :meth:`new_full`'s."""
    shape = sizes_of("new_ones", sizes, size)
    return new_full(x, shape, 1, dtype=dtype, device=device, requires_grad=requires_grad)


@op(Face.METHOD)
def new_empty(
    x: Tensor,
    *sizes: Any,
    size: Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Elements of any value in a shape; further arguments as :meth:`new_full`'s."""
    target = x.device if device is None else open_device(device)
    kind = type(x.detach())
    y = uninitialized(kind, sizes_of("new_empty", sizes, size), dtype or x.dtype, target)
    return y.requires_grad_(requires_grad)


# Grids.


@op(Face.FUNCTION)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of a grid from those of its axes, without copies.

    Args:
        *tensors: vectors (or single numbers), or one sequence of them.
        indexing: ``"ij"``: the axes in their order; ``"xy"``: the first two exchanged.

    Returns:
        As many tensors of the grid's shape.

    Raises:
        ShapeError: if one has more than one axis.
        ArgumentError: if ``indexing`` is neither.
    """
    axes = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], Sequence) else tensors)
    require_tensors("meshgrid", **{f"tensors[{k}]": x for k, x in enumerate(axes)})
    if any(t.ndim > 1 for t in axes):
        raise ShapeError("meshgrid", "an axis is a vector", shapes=[t.shape for t in axes])
    if indexing not in ("ij", "xy"):
        raise ArgumentError("meshgrid", "indexing is 'ij' or 'xy'", indexing=repr(indexing))
    order = list(range(len(axes)))
    if indexing == "xy" and len(axes) > 1:
        order[:2] = [1, 0]
    shape = tuple(axes[k].numel() for k in order)
    return tuple(
        expand(
            reshape(t, tuple(n if k == own else 1 for own, n in zip(order, shape, strict=True))),
            shape,
        )
        for k, t in enumerate(axes)
    )
