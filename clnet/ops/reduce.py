"""Reductions over axes, in PyTorch's names: sums, products, extremes, truth."""

# ruff: noqa: FBT001, FBT002 - PyTorch takes `keepdim` by position
from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import nan as _nan
from math import prod as product
from typing import TYPE_CHECKING, Any

import ml_dtypes

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, EmptyError
from ..kernels.reduce import Pairing, Reduction, arg_reduce, reduce, reduce_pairs
from ..values.dtypes import DType, Kind, bool_, from_name, int64, uint8
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import Shape, broadcast_strides, normalize_dim, normalize_dims
from .arithmetic import abs as magnitude
from .arithmetic import (
    clamp,
    eq,
    isnan,
    log,
    logical_and,
    logical_or,
    maximum,
    minimum,
    ne,
    where,
)
from .complex_parts import real, view_as_complex, view_as_real
from .create import positions
from .join import cat
from .machinery.autocast import autocast_operands, computes_as_one
from .machinery.derived import derived
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply, op, require_floating
from .machinery.pointwise import evaluate
from .shape import expand, narrow, permute, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

Dims = int | Sequence[int] | None

_EXTREMES = (Reduction.MAX, Reduction.MIN)
_NAMES = {Reduction.SUM_SQUARES: "norm", Reduction.MAX: "amax", Reduction.MIN: "amin"}


class Extremes(NamedTuple):
    """The largest or smallest elements along an axis, and where they are.

    Attributes:
        values: the elements.
        indices: int64; the first of equal elements.
    """

    values: Any
    indices: Any


class Reduce(Function):
    """A reduction over ``dims``; ``keepdim`` leaves them with size 1.

    16-bit floats are read where they are; the result is in the dtype of their arithmetic.

    Attributes:
        nan_shares: an extreme that is NaN gives its gradient to what is NaN; else it is NaN.
    """

    repeats = True

    kind: Reduction
    dims: tuple[int, ...]
    keepdim: bool
    nan_shares: bool = False

    @property
    def name(self) -> str:
        return _NAMES.get(self.kind, self.kind.name.lower())

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A dense output; integers and booleans sum in int64, 16-bit floats give float32."""
        if self.kind in (Reduction.MEAN, Reduction.SUM_SQUARES):
            require_floating(self.name, x)
        if self.kind in _EXTREMES and 0 in (x.shape[d] for d in self.dims):
            raise EmptyError(self.name, "an extreme is among elements", x=x.shape, dim=self.dims)
        dtype = x.dtype
        if self.kind in (Reduction.ANY, Reduction.ALL):
            dtype = uint8 if dtype is uint8 else bool_  # as PyTorch
        elif dtype.is_floating_point:
            dtype = from_name(dtype.compute)
        elif self.kind not in _EXTREMES:
            dtype = int64
        shape = reduced_shape(x.shape, self.dims, keepdim=self.keepdim)
        return (Array.abstract(shape, dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch or two."""
        return reduce(target, outputs[0], inputs[0], dims=self.dims, kind=self.kind)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """Sums need nothing."""
        if self.kind in (Reduction.SUM, Reduction.MEAN):
            return (), ()
        return (0,), (() if self.kind is Reduction.SUM_SQUARES else (0,))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient spread over what was reduced; extremes share it among equals."""
        shape, dtype = saved.input_specs[0]
        g = self._spread(grads[0], shape)
        if self.kind is Reduction.SUM:
            return (expand(to_dtype(g, dtype), shape),)
        if self.kind is Reduction.MEAN:
            share = g / builtins.max(product(shape[d] for d in self.dims), 1)
            return (expand(to_dtype(share, dtype), shape),)
        x = saved.inputs[0]
        if self.kind is Reduction.SUM_SQUARES:
            return (to_dtype(x * (2 * g), dtype),)
        y = self._spread(saved.outputs[0], shape)
        if self.kind is Reduction.PROD:
            return (to_dtype(g * self._others(widened(x), y), dtype),)
        same = eq(x, y)
        if self.nan_shares:
            same = logical_or(same, logical_and(isnan(x), isnan(y)))
        found = to_dtype(same, g.dtype)
        return (to_dtype(found * (g / found.sum(self.dims, keepdim=True)), dtype),)

    def of_complex(self, x: Tensor) -> Any:
        """Sums part by part, products in pairs, truth of what is not 0, lengths of lengths."""
        if self.kind in (Reduction.SUM, Reduction.MEAN):
            return view_as_complex(apply(self, view_as_real(x)))
        if self.kind is Reduction.PROD:
            return self._in_pairs(x)
        if self.kind in (Reduction.ANY, Reduction.ALL):
            return apply(self, ne(x, 0))
        if self.kind is Reduction.SUM_SQUARES:
            return apply(self, magnitude(x))
        return super().of_complex(x)

    @property
    def decompose(self) -> Any:
        """A product in products of two, whose gradients of any order are right beside zeros."""
        return self._in_pairs if self.kind is Reduction.PROD else None

    def _in_pairs(self, x: Tensor) -> tuple[Any, ...]:
        x = widened(x)
        kept = [d for d in range(x.ndim) if d not in self.dims]
        sizes = [x.shape[d] for d in kept]
        rest = reshape(permute(x, (*kept, *self.dims)), (*sizes, -1)) if x.numel() else x
        while x.numel() and rest.shape[-1] > 1:
            half = rest.shape[-1] // 2
            pairs = narrow(rest, -1, 0, half) * narrow(rest, -1, half, half)
            over = narrow(rest, -1, 2 * half, rest.shape[-1] - 2 * half)
            rest = cat((pairs, over), -1) if over.numel() else pairs
        shape = reduced_shape(x.shape, self.dims, keepdim=self.keepdim)
        if not x.numel():
            return (reshape(x.sum(self.dims) + 1, shape),)  # which leads back to the operand
        return (reshape(rest, shape),)

    def _spread(self, result: Tensor, shape: Shape) -> Tensor:
        """A result with the reduced axes put back, of size 1."""
        return reshape(result, reduced_shape(shape, self.dims, keepdim=True))

    def _others(self, x: Tensor, y: Tensor) -> Tensor:
        """For each element the product of all others, also where one of them is 0.

        Beside a 0 the others' product is 0, but NaN if one of them is infinite or NaN.
        """
        zeros, strange = (
            evaluate("prod_backward", body, [x]).sum(self.dims, keepdim=True)
            for body in (_is_zero, _is_strange)
        )
        rest = prod_over(evaluate("prod_backward", _filled, [x]), self.dims)
        return evaluate("prod_backward", _beside, [x, y, zeros, strange, rest])


def _is_zero(x: Any) -> Any:
    return e.where(e.eq(x, 0), 1, 0)


def _is_strange(x: Any) -> Any:
    return e.where(e.ne(x * 0, 0), 1, 0)


def _filled(x: Any) -> Any:
    return e.where(e.eq(x, 0), 1, x)


def _beside(x: Any, y: Any, zeros: Any, strange: Any, rest: Any) -> Any:
    others = e.where(strange > _is_strange(x), _nan, 0)
    beside = e.where(zeros > _is_zero(x), others, rest)
    return e.where(e.eq(zeros, 0), y / _filled(x), beside)


class PairSum(Function):
    """Sums over ``dims`` of what is made of two operands.

    Its inputs are x, of float32 or float64, and what is repeated along ``dims``, where it has size
    1. Whoever applies it knows its gradient.
    """

    repeats = True

    op_name: str
    kind: Pairing
    dims: tuple[int, ...]
    keepdim: bool

    differentiable = ()

    def infer(self, x: Array, other: Array) -> tuple[Array, ...]:
        """Without the axes, or with size 1 there."""
        shape = reduced_shape(x.shape, self.dims, keepdim=self.keepdim)
        return (Array.abstract(shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch or two."""
        x, other = inputs
        steps = broadcast_strides(other.shape, other.strides, x.shape)
        other = other.view(x.shape, steps)
        return reduce_pairs(target, outputs[0], x, other, dims=self.dims, kind=self.kind)


class ArgReduce(Function):
    """The extremes along ``dim`` and their indices."""

    repeats = True

    kind: Reduction
    dim: int
    keepdim: bool

    differentiable = (0,)
    saved_outputs = (1,)

    @property
    def name(self) -> str:
        return self.kind.name.lower()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Dense values and int64 indices."""
        if x.shape[self.dim] == 0:
            raise EmptyError(self.name, "an extreme is among elements", x=x.shape, dim=self.dim)
        shape = reduced_shape(x.shape, (self.dim,), keepdim=self.keepdim)
        return Array.abstract(shape, x.dtype, x.device), Array.abstract(shape, int64, x.device)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch or two."""
        values, indices = outputs
        return arg_reduce(target, values, indices, inputs[0], dim=self.dim, kind=self.kind)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient goes to the element that was found."""
        shape = saved.input_specs[0][0]
        kept = reduced_shape(shape, (self.dim,), keepdim=True)
        found = one_hot(reshape(saved.outputs[1], kept), shape[self.dim], self.dim)
        return (where(found, reshape(grads[0], kept), 0.0),)


class ArgExtreme(Function):
    """The indices alone of the extremes along ``dim``."""

    repeats = True

    kind: Reduction
    dim: int
    keepdim: bool

    differentiable = ()

    @property
    def name(self) -> str:
        return f"arg{self.kind.name.lower()}"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Dense int64 indices."""
        if x.shape[self.dim] == 0:
            raise EmptyError(self.name, "an extreme is among elements", x=x.shape, dim=self.dim)
        shape = reduced_shape(x.shape, (self.dim,), keepdim=self.keepdim)
        return (Array.abstract(shape, int64, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch or two."""
        return arg_reduce(target, None, outputs[0], inputs[0], dim=self.dim, kind=self.kind)


def reduced_shape(shape: Shape, dims: tuple[int, ...], *, keepdim: bool) -> Shape:
    """The shape that is left when ``dims`` are reduced."""
    if keepdim:
        return tuple(1 if i in dims else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def one_hot(indices: Tensor, n: int, dim: int) -> Tensor:
    """Whether a position along ``dim``, where ``indices`` has size 1, is the index; bool."""
    along = tuple(n if i == dim else 1 for i in range(indices.ndim))
    return eq(indices, reshape(positions(type(indices), n, indices.device), along))


def prod_over(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The product over several axes, kept with size 1."""
    return apply(Reduce(Reduction.PROD, dims, keepdim=True), x)


def widened(x: Tensor) -> Tensor:
    """``x``, in the type its arithmetic is done in: reductions do not add up in 16 bits."""
    return to_dtype(x, from_name(x.dtype.compute)) if x.dtype.is_floating_point else x


def _reduce(
    kind: Reduction, x: Tensor, dim: Dims, *, keepdim: bool, nan_shares: bool = False
) -> Tensor:
    name = Reduce(kind, (), keepdim=keepdim).name
    # () stands for all, as PyTorch's.
    given = None if isinstance(dim, Sequence) and not dim else dim
    dims = normalize_dims(name, given, x.ndim)
    function = Reduce(kind, dims, keepdim=keepdim, nan_shares=nan_shares)
    (x,) = autocast_operands(name, x)
    y = apply(function, x)
    return to_dtype(y, x.dtype) if y.dtype.is_floating_point else y


@op()
def sum(  # noqa: A001 - PyTorch's name
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over axes; booleans and integers give int64.

    Args:
        x: any shape.
        dim: an axis, several, or None for all.
        keepdim: leave the axes with size 1.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape without the axes.

    Raises:
        BoundsError: if ``x`` has no such axis.
    """
    x = x if dtype is None else to_dtype(x, dtype)
    found = _reduce(Reduction.SUM, x, dim, keepdim=keepdim)
    return found if dtype is None else to_dtype(found, dtype)


@op()
def mean(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over axes; arguments as :func:`sum`'s, ``x`` floating; NaN over no elements."""
    x = x if dtype is None else to_dtype(x, dtype)
    return _reduce(Reduction.MEAN, x, dim, keepdim=keepdim)


@op()
def prod(
    x: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The product along an axis, or of all elements; arguments as :func:`sum`'s."""
    x = x if dtype is None else to_dtype(x, dtype)
    found = _reduce(Reduction.PROD, x, dim, keepdim=keepdim)
    return found if dtype is None else to_dtype(found, dtype)


@op()
def amax(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The largest elements over axes; equal ones share the gradient evenly.

    Args:
        x: any shape.
        dim: an axis, several, or None for all; they have elements.
        keepdim: leave the axes with size 1.

    Returns:
        ``x``'s shape without the axes; NaN where there was one.

    Raises:
        ArgumentError: if an axis has no elements.
        BoundsError: if ``x`` has no such axis.
    """
    return _reduce(Reduction.MAX, x, dim, keepdim=keepdim)


@op()
def amin(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The smallest elements over axes; otherwise as :func:`amax`."""
    return _reduce(Reduction.MIN, x, dim, keepdim=keepdim)


@op()
def max(  # noqa: A001 - PyTorch's name
    x: Tensor,
    other: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    dim: int | None = None,
) -> Any:
    """The largest element, the largest along an axis and where, or the larger of two tensors.

    Args:
        x: any shape.
        other: another tensor, or ``dim``.
        keepdim: leave the axis with size 1.
        dim: an axis, or None.

    Returns:
        With an axis :class:`Extremes` ``(values, indices)``, whose gradient goes to the element
        found; otherwise a tensor: without ``dim`` equal elements share the gradient evenly.

    Raises:
        ArgumentError: if there are no elements, or both ``other`` and ``dim``.
        BoundsError: if ``x`` has no such axis.
    """
    return _extremes(Reduction.MAX, x, other, dim, keepdim=keepdim)


@op()
def min(  # noqa: A001 - PyTorch's name
    x: Tensor,
    other: Tensor | int | None = None,
    keepdim: bool = False,
    *,
    dim: int | None = None,
) -> Any:
    """The smallest element, along an axis with its index, or of two tensors; as :func:`max`."""
    return _extremes(Reduction.MIN, x, other, dim, keepdim=keepdim)


def _extremes(
    kind: Reduction, x: Tensor, other: Tensor | int | None, dim: int | None, *, keepdim: bool
) -> Any:
    name = kind.name.lower()
    if other is not None and dim is not None:
        raise ArgumentError(name, "an axis or another tensor is given", dim=dim)
    if hasattr(other, "__apply_function__"):
        if keepdim:
            raise ArgumentError(name, "two tensors leave no axis to keep", keepdim=keepdim)
        return (maximum if kind is Reduction.MAX else minimum)(x, other)
    along: Any = other if dim is None else dim
    if along is None:
        return _reduce(kind, x, None, keepdim=keepdim, nan_shares=True)
    axis = normalize_dim(name, along, x.ndim)
    given = widened(x if x.ndim else reshape(x, (1,)))
    function = ArgReduce(kind, axis, keepdim=keepdim and x.ndim > 0)
    values, indices = apply(function, given)
    return returned(name, Extremes)(to_dtype(values, x.dtype), indices)


@op()
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element is: along an axis, or in the flattened tensor.

    Args:
        x: any shape.
        dim: an axis, or None.
        keepdim: leave the axis (without ``dim``, all) with size 1.

    Returns:
        int64: the first of equal elements; a NaN is larger than every number.

    Raises:
        ArgumentError: if there are no elements.
        BoundsError: if ``x`` has no such axis.
    """
    return _arg_extreme(Reduction.MAX, x, dim, keepdim=keepdim)


@op()
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element is; otherwise as :func:`argmax`."""
    return _arg_extreme(Reduction.MIN, x, dim, keepdim=keepdim)


def _arg_extreme(kind: Reduction, x: Tensor, dim: int | None, *, keepdim: bool) -> Tensor:
    if dim is None or x.ndim == 0:
        axis = normalize_dim(f"arg{kind.name.lower()}", dim or 0, builtins.min(x.ndim, 1))
        found = apply(ArgExtreme(kind, axis, keepdim=False), reshape(widened(x), (x.numel(),)))
        return reshape(found, (1,) * x.ndim) if keepdim else found
    axis = normalize_dim(f"arg{kind.name.lower()}", dim, x.ndim)
    return apply(ArgExtreme(kind, axis, keepdim=keepdim), widened(x))


@op()
def any(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A001 - PyTorch's name
    """Whether an element is not 0, over axes; as :func:`sum`'s, but that ``()`` are none."""
    if dim == () or dim == []:
        return _each_as_truth(x)
    return _reduce(Reduction.ANY, x, dim, keepdim=keepdim)


@op()
def all(x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A001 - PyTorch's name
    """Whether no element is 0, over axes; arguments as :func:`any`'s."""
    if dim == () or dim == []:
        return _each_as_truth(x)
    found = _reduce(Reduction.ALL, x, dim, keepdim=keepdim)
    # Of no elements the kernel gives its identity, the largest whole number of the dtype.
    return found if x.numel() else found.new_ones(found.shape)


def _each_as_truth(x: Tensor) -> Tensor:
    """Whether an element is not 0, each alone; uint8 stays, as where axes are reduced."""
    return ne(x, 0).to(uint8) if x.dtype is uint8 else ne(x, 0)


@op()
@computes_as_one
def logsumexp(x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over axes, without overflow.

    Args:
        x: any shape, floating or complex.
        dim: an axis or several; none, ``()``, stand for all.
        keepdim: leave the axes with size 1.

    Returns:
        ``x``'s shape without the axes.

    Raises:
        BoundsError: if ``x`` has no such axis.
    """
    if dim == () or dim == []:
        dim = None
    dims = normalize_dims("logsumexp", dim, x.ndim)
    if x.dtype.kind < Kind.FLOATING:
        x = x.float()  # bytes would wrap around
    if 0 in (x.shape[d] for d in dims):
        return log(sum(x.exp(), dim, keepdim))  # of nothing: -infinity
    if x.dtype.is_floating_point:
        return _logsumexp(x, dims, keepdim=keepdim)
    # Infinity is not taken from itself; finite ones beside it are 0.
    top = amax(real(x), dim, keepdim=True).detach()
    most = float(ml_dtypes.finfo(top.dtype.numpy).max)
    top = clamp(top, -most, most)
    total = log(sum((x - top).exp(), dim, keepdim=True)) + top
    if keepdim:
        return total
    return reshape(total, reduced_shape(x.shape, dims, keepdim=False))


def _logsumexp(x: Tensor, dims: tuple[int, ...], *, keepdim: bool) -> Tensor:
    """Of floats: a pass for the largest, and one for the sum of what is less it."""
    dtype, x = x.dtype, widened(x)
    given, kept = x.detach(), reduced_shape(x.shape, dims, keepdim=True)
    # Infinity is not taken from itself; finite ones beside it are 0.
    most = float(ml_dtypes.finfo(x.dtype.numpy).max)
    top = clamp(apply(Reduce(Reduction.MAX, dims, keepdim=True), given), -most, most)
    total = apply(PairSum("logsumexp", Pairing.DECAY, dims, keepdim=True), given, top)
    y = evaluate("logsumexp", _log_above, [total, top])

    y = y if keepdim else reshape(y, reduced_shape(x.shape, dims, keepdim=False))
    if x.requires_grad:
        y = derived("logsumexp", _logsumexp_rule, [x], [y], settings=(kept,))
    return to_dtype(y, dtype)


def _logsumexp_rule(
    inputs: Sequence[Any], results: Sequence[Any], grads: Sequence[Any], kept: Shape
) -> list[Any]:
    g, result = (reshape(v, kept) for v in (grads[0], results[0]))
    return [evaluate("logsumexp_backward", _weighed, [g, inputs[0], result])]


def _log_above(total: Any, top: Any) -> Any:
    return e.log(total) + top


def _weighed(g: Any, x: Any, y: Any) -> Any:
    return g * e.exp(x - y)
