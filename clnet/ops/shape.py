"""Ops that look at the same elements in another shape or order, and copies between layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product
from operator import mul
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, BoundsError, DtypeError, ShapeError
from ..expr import Expr, Input, Pair, cast_boolean, ne
from ..kernels import moving as kernels
from ..kernels.moving import fill as launch_fill
from ..values import mode
from ..values.arguments import integers, is_sequence, shown
from ..values.dtypes import DType, bool_, from_name
from ..values.shapes import (
    Shape,
    axis_of,
    broadcast_shapes,
    broadcast_strides,
    normalize_dim,
    normalize_dims,
    reshape_strides,
    resolve_reshape,
)
from ..values.words import MemoryFormat
from .copying import copy_launches
from .machinery.another import as_another
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .machinery.paired import Paired
from .machinery.pointwise import Pointwise, apart

if TYPE_CHECKING:
    from ..tensor import Tensor


_KEPT = "preserve_format"


class Reshape(Function):
    """The same memory in another shape; the input's strides allow it."""

    takes_complex = True
    views = True

    shape: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        strides = reshape_strides(x.shape, x.strides, self.shape)
        if strides is None:
            raise ShapeError(
                "view",
                "its elements are not laid out for that shape",
                shape=x.shape,
                strides=x.strides,
                target=self.shape,
                remedy="Use reshape, which copies when it must",
            )
        return (x.view(self.shape, strides),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Reshaped back."""
        return (reshape(grads[0], saved.input_specs[0][0]),)

    def inverse(self, shape: Shape) -> Function:
        """What gives the input, of ``shape``, from the output."""
        return Reshape(shape)


class Permute(Function):
    """Axes in another order."""

    takes_complex = True
    views = True

    dims: tuple[int, ...]

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (
            x.view(tuple(x.shape[d] for d in self.dims), tuple(x.strides[d] for d in self.dims)),
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The inverse order."""
        return (apply(self.inverse(saved.input_specs[0][0]), grads[0]),)

    def inverse(self, shape: Shape) -> Function:
        """What gives the input, of ``shape``, from the output."""
        return Permute(tuple(self.dims.index(d) for d in range(len(self.dims))))


class Expand(Function):
    """Repeated along axes of size 1, without a copy."""

    takes_complex = True
    views = True

    shape: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A view with strides 0."""
        return (x.view(self.shape, broadcast_strides(x.shape, x.strides, self.shape)),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Summed over the repeated axes."""
        return (grads[0].sum_to_size(saved.input_specs[0][0]),)


class Slice(Function):
    """Every ``step``-th element from ``start`` along each axis; steps are positive."""

    takes_complex = True
    views = True

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (slice_view(x, self.starts, self.steps, self.shape),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Put back among zeros."""
        return (apply(SliceBackward(self.starts, self.steps, saved.input_specs[0][0]), grads[0]),)


class SliceBackward(Function):
    """Zeros of ``shape`` with the input at the places that a slice takes."""

    takes_complex = True
    repeats = True

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    shape: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch for neighbours on CPUs; else fill, then copy into the slice."""
        (y,), (x,) = outputs, inputs
        if set(self.steps) <= {1}:
            at_once = kernels.place(target, y, x, x.shape, x.strides, starts=self.starts)
            if at_once:
                return at_once
        place = slice_view(y, self.starts, self.steps, x.shape)
        return launch_fill(target, y, 0) + copy_launches(target, place, x)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The slice of the gradient."""
        return (apply(Slice(self.starts, self.steps, saved.input_specs[0][0]), grads[0]),)


class PutSlice(Function):
    """The first input with the second, converted, at the places that a slice takes."""

    takes_complex = True
    repeats = True

    starts: tuple[int, ...]
    steps: tuple[int, ...]

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Copy, then copy into the slice."""
        (y,), (x, part) = outputs, inputs
        place = slice_view(y, self.starts, self.steps, part.shape)
        return copy_launches(target, y, x) + copy_launches(target, place, part)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient with zeros at the slice, and the slice of it."""
        (g,), (_, (shape, _)) = grads, saved.input_specs
        zeros = apply(Expand(shape), g.new_zeros((1,) * len(shape)))
        return (
            apply(self, g, zeros) if needs[0] else None,
            apply(Slice(self.starts, self.steps, shape), g) if needs[1] else None,
        )


class CopyInto(Function):
    """Overwrite the first input, in place, with the second, broadcast and converted.

    Attributes:
        op_name: the public op.
    """

    takes_complex = True
    repeats = True

    op_name: str = "copy_"
    mutates = (0,)

    def infer(self, place: Array, x: Array) -> tuple[Array, ...]:
        """No outputs."""
        if broadcast_shapes(self.name, place.shape, x.shape) != place.shape:
            raise ShapeError(
                self.name, "the source does not broadcast to it", target=place.shape, source=x.shape
            )
        if place.repeated and x.size != 1:
            raise ShapeError(
                self.name,
                "what is overwritten has no element that stands for several",
                target=place.shape,
                strides=place.strides,
                remedy="Overwrite a clone()",
            )
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One copy."""
        return copy_launches(target, *inputs)


class Copy(Function):
    """The same elements, dense."""

    takes_complex = True
    repeats = True

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One copy."""
        return copy_launches(target, outputs[0], inputs[0])

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient itself."""
        return grads


def slice_view(x: Array, starts: Sequence[int], steps: Sequence[int], shape: Shape) -> Array:
    """The view of an array that a slice takes."""
    offset = x.offset + sum(map(mul, starts, x.strides))
    return x.view(shape, tuple(map(mul, steps, x.strides)), offset)


def settled(x: Tensor, y: Tensor, *, inplace: bool, name: str = "copy_") -> Tensor:
    """The result ``y`` of an op on ``x``; if PyTorch's ``inplace`` is set, ``x`` holding it.

    Args:
        x: what the op read.
        y: broadcasts to ``x`` if it is to hold it.
        inplace: whether it is.
        name: the public op.

    Raises:
        DtypeError: if ``x`` is to hold numbers of a kind that it has no place for.
    """
    if not inplace or y is x:
        return y
    if y.dtype.kind > x.dtype.kind:
        raise DtypeError(
            name,
            "the result does not fit the dtype of what is overwritten",
            out=x.dtype,
            result=y.dtype,
            remedy="Use the op that returns a new tensor",
        )
    return overwrite(x, y, name)


def before(x: Tensor) -> Tensor:
    """``x`` for an op whose result overwrites it, and whose gradient reads it: if so, a copy."""
    return dense_copy(x) if x.requires_grad and mode.current().grad else x


def overwrite(x: Tensor, y: Tensor, name: str = "copy_") -> Tensor:
    """``x`` holding the elements of ``y``, broadcast and converted; also where both share memory.

    Args:
        x: any shape, no element of it repeated unless ``y`` has one alone.
        y: broadcasts to ``x``.
        name: the public op.

    Raises:
        ShapeError: if one of these does not hold.
    """
    apply(CopyInto(name), x, apart(y, x))
    return x


def alias(x: Tensor) -> Tensor:
    """``x`` as another tensor on the tape, over the same memory."""
    return apply(Reshape(x.shape), x)


def in_its_order(
    x: Tensor, make: Callable[[Tensor], Tensor], memory_format: MemoryFormat | None = None
) -> Tensor:
    """What ``make`` gives of ``x``, its axes in memory in the order of those of ``x``.

    That is ``preserve_format``, the default of PyTorch's copies and conversions and of what is made
    like a tensor. ``make`` gives a tensor of the shape of what it is given, dense if that is.

    Args:
        x: any layout.
        make: what is computed; of ``x`` with its axes as they lie.
        memory_format: another format than ``preserve_format`` is row-major.
    """
    if x.array.contiguous:
        return make(x)
    if not (memory_format is None or memory_format.name == _KEPT):
        return contiguous(make(x))
    return _in_order(x, make, x.array.order)


def _in_order(x: Tensor, make: Callable[[Tensor], Tensor], order: tuple[int, ...]) -> Tensor:
    """What ``make`` gives of ``x`` with its axes in an order, its own axes in theirs."""
    if order == tuple(range(x.ndim)):
        return make(x)
    back = tuple(map(order.index, range(x.ndim)))
    return apply(Permute(back), make(apply(Permute(order), x)))


def dense_copy(x: Tensor) -> Tensor:
    """A copy that is dense in row-major order."""
    return apply(Copy(), x)


def copy_like(x: Tensor, other: Tensor) -> Tensor:
    """A dense copy that lies in memory as ``other`` of its shape, if that is dense; else row-major.

    As PyTorch leaves the gradients of leaves.
    """
    return _in_order(x, dense_copy, other.array.dense_order or tuple(range(x.ndim)))


@op()
def clone(x: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
    """A dense copy, its axes in memory in the order of ``x``'s.

    Args:
        x: any shape.
        memory_format: ``clnet.contiguous_format`` for row-major order.

    Returns:
        The same shape and dtype; gradients flow through.
    """
    return in_its_order(x, dense_copy, memory_format)


def fresh(y: Tensor, x: Tensor) -> Tensor:
    """``y``, made of ``x``, in memory of its own: writing into one leaves the other as it was."""
    return dense_copy(y) if y.array.storage is x.array.storage else y


@op()
def contiguous(x: Tensor) -> Tensor:
    """``x`` itself if it is dense in row-major order, else a dense copy."""
    return x if x.array.contiguous else dense_copy(x)


def to_dtype(x: Tensor, dtype: DType) -> Tensor:
    """``x`` converted to ``dtype``; itself if it has it."""
    if x.dtype is dtype:
        return x
    if x.dtype.is_complex or dtype.is_complex:
        return _to_complex(x, dtype)
    source = Input(0, x.dtype.name == "bool")
    expr = ne(source, 0) if dtype.name == "bool" else source
    # Truth values are 0 and 1 in any type: in the result's a CPU has vectors of them.
    of = dtype if x.dtype is bool_ and dtype.is_floating_point else x.dtype
    return apply(Pointwise("to", (expr,), (), from_name(of.compute), (dtype,)), x)


def _to_complex(x: Tensor, dtype: DType) -> Tensor:
    """From or to a complex dtype: without an imaginary part, as PyTorch, where there is none."""
    parts = Pair(Input(0), Input(1)) if x.dtype.is_complex else Pair(Input(0, x.dtype is bool_))
    if dtype is bool_:
        exprs: tuple[Expr, ...] = (cast_boolean(parts),)
    else:
        exprs = (parts.re, parts.im) if dtype.is_complex else (parts.re,)
    compute = from_name((dtype if dtype.is_complex else x.dtype).compute)
    return apply(Paired("to", exprs, (x.dtype.is_complex,), (), compute, (dtype,)), x)


@op(seen=as_another)
def reshape(x: Tensor, *sizes: Any, shape: Sequence[int] | None = None) -> Tensor:
    """The same elements in another shape; a view where the strides allow it, else a copy.

    Args:
        x: any shape.
        *sizes: numbers, or one sequence of them; one may be -1.
        shape: the same by name.

    Returns:
        A tensor of that shape.

    Raises:
        ShapeError: if the number of elements differs.
    """
    own = x.array.shape
    if sizes and type(sizes[0]) is tuple and sizes[0] == own and len(sizes) == 1 and not shape:
        return x
    target = resolve_reshape("reshape", own, sizes_of("reshape", sizes, shape))
    if target == own:
        return x
    if reshape_strides(own, x.array.strides, target) is None:
        x = contiguous(x)
    return apply(Reshape(target), x)


@op()
def permute(x: Tensor, *order: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Axes in another order, without a copy.

    Args:
        x: any shape.
        *order: dims, or one sequence of them.
        dims: the same by name.

    Returns:
        A view.

    Raises:
        ShapeError: if ``dims`` does not name every axis once.
    """
    given = sizes_of("permute", order, dims)
    axes = tuple(normalize_dim("permute", d, x.ndim) for d in given)
    if sorted(axes) != list(range(x.ndim)):
        raise ShapeError("permute", "dims names every axis once", dims=given, shape=x.shape)
    return apply(Permute(axes), x)


@op()
def transpose(x: Tensor, dim0: int | Sequence[int], dim1: int | None = None) -> Tensor:
    """Two axes exchanged, without a copy; alone, ``dim0`` has all in another order (NumPy's)."""
    if dim1 is None:  # so opt_einsum calls it
        return permute(x, dims=dim0)  # pyrefly: ignore[bad-argument-type] - asked at its door
    dims = integers("transpose", "dim", (dim0, dim1))
    a, b = (normalize_dim("transpose", d, x.ndim) for d in dims)
    return apply(Permute(tuple({a: b, b: a}.get(k, k) for k in range(x.ndim))), x)


@op()
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` joined into one."""
    first, last = (
        normalize_dim("flatten", start_dim, x.ndim),
        normalize_dim("flatten", end_dim, x.ndim),
    )
    if x.ndim == 0:
        return reshape(x, 1)
    if first > last:
        raise ArgumentError(
            "flatten", "start_dim comes before end_dim", start_dim=start_dim, end_dim=end_dim
        )
    return reshape(x, (*x.shape[:first], product(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@op(seen=as_another)
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None, *more: int) -> Tensor:
    """Without axes of size 1: all, or those of ``dim`` and ``more`` that have it."""
    named: Any = (dim, *more) if more else dim
    dims = normalize_dims("squeeze", named, x.ndim)
    return reshape(x, tuple(n for d, n in enumerate(x.shape) if n != 1 or d not in dims))


@op()
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new axis of size 1 at ``dim``."""
    at = normalize_dim("unsqueeze", dim, x.ndim + 1)
    return reshape(x, (*x.shape[:at], 1, *x.shape[at:]))


@op(Face.METHOD, seen=as_another)
def expand(x: Tensor, *sizes: Any, size: Sequence[int] | None = None) -> Tensor:
    """Repeated along axes of size 1, without a copy; -1 keeps an axis.

    Raises:
        ShapeError: if an axis of another size would have to change.
    """
    wanted = tuple(sizes_of("expand", sizes, size))
    lead = len(wanted) - x.ndim
    if lead < 0:
        raise ShapeError("expand", "it has fewer axes than the tensor", shape=x.shape, sizes=wanted)
    shape = tuple(
        (x.shape[i - lead] if i >= lead else -1) if n == -1 else n for i, n in enumerate(wanted)
    )
    if any(n < 0 for n in shape) or any(
        n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=True)
    ):
        raise ShapeError("expand", "only axes of size 1 repeat", shape=x.shape, sizes=wanted)
    return x if shape == x.shape else apply(Expand(shape), x)


@op(seen=as_another)
def broadcast_to(x: Tensor, *sizes: Any, shape: Sequence[int] | None = None) -> Tensor:
    """As ``x.expand(shape)``, its sizes one by one or as a sequence."""
    return expand(x, sizes_of("broadcast_to", sizes, shape))


@op()
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` elements from ``start`` along an axis, without a copy.

    A negative ``start`` counts from the end.

    Raises:
        BoundsError: if ``start`` lies outside.
        ShapeError: if they do not lie inside it.
    """
    axis = axis_of("narrow", dim, x.shape)
    size = x.shape[axis]
    if not -size <= start <= size:
        law = f"start lies in [{-size}, {size}]"
        raise BoundsError("narrow", law, shape=x.shape, dim=dim, start=start)
    first = start + size if start < 0 else start
    if not first <= first + length <= size:
        law = "start and length lie inside the axis"
        raise ShapeError("narrow", law, shape=x.shape, dim=dim, start=start, length=length)
    starts = tuple(first if d == axis else 0 for d in range(x.ndim))
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return apply(Slice(starts, (1,) * x.ndim, shape), x)


@op(Face.METHOD)
def sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Summed over the axes along which ``size`` was broadcast to ``x``'s shape.

    Raises:
        ShapeError: if ``size`` does not broadcast to it.
    """
    shape = tuple(sizes_of("sum_to_size", size))
    if shape == x.shape:
        return x
    lead = x.ndim - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, x.shape[lead:], strict=True)):
        raise ShapeError(
            "sum_to_size", "the size broadcasts to the tensor's shape", shape=x.shape, size=shape
        )
    dims = tuple(range(lead)) + tuple(
        lead + i for i, n in enumerate(shape) if n == 1 and x.shape[lead + i] != 1
    )
    return reshape(x.sum(dims), shape)


def sizes_of(
    op_name: str, given: tuple[Any, ...], named: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Sizes or dims given as numbers, as one sequence, or by name.

    Raises:
        DtypeError: if they are no whole numbers, or given twice.
    """
    if named is not None:
        if given:
            raise DtypeError(op_name, "sizes are given once", sizes=shown(given), size=shown(named))
        given = (named,)
    if len(given) == 1 and type(given[0]) is not int:
        first = given[0]
        if isinstance(first, tuple) or is_sequence(first):
            given = tuple(first)
    return integers(op_name, "size", given)
