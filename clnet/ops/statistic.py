"""Variances and counts over axes, in PyTorch's names."""

# ruff: noqa: FBT001, FBT002 - PyTorch takes `unbiased` and `keepdim` by position
from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError
from ..kernels.reduce import Reduction, reduce_spread
from ..values.dtypes import DType
from ..values.record import NamedTuple
from ..values.shapes import contiguous_strides, normalize_dims
from .arithmetic import isnan, logical_not, ne
from .machinery.derived import derived
from .machinery.function import (
    Arrays,
    Function,
    Grads,
    Needs,
    Saved,
    apply,
    op,
    require_floating,
)
from .machinery.pointwise import evaluate
from .reduce import Dims, Reduce, mean, reduced_shape, widened
from .reduce import sum as total
from .shape import expand, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


class Moments(NamedTuple):
    """A variance or standard deviation, and the mean it was taken around."""

    spread: Any
    mean: Any


def _root(x: Any) -> Any:
    return e.sqrt(x)


def _root_gradient(g: Any, y: Any) -> Any:
    # Also the quotient is finite there: the slope along g, a tangent's, multiplies it by 0.
    flat = y <= 0
    return e.where(flat, 0, g / e.where(flat, 1, 2 * y))


def _slope(g: Any, x: Any, center: Any, divisor: Any = 1) -> Any:
    return 2 * g * (x - center) / divisor


def _root_slope(g: Any, x: Any, center: Any, root: Any, divisor: Any = 1) -> Any:
    return _slope(_root_gradient(g, root), x, center, divisor)


class Spread(Function):
    """A variance over axes, or its root, and the mean around which it is."""

    repeats = True

    op_name: str
    dims: tuple[int, ...]
    keepdim: bool
    divisor: float
    root: bool

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Both without the axes, or with size 1 there."""
        shape = reduced_shape(x.shape, self.dims, keepdim=self.keepdim)
        return tuple(Array.abstract(shape, x.dtype, x.device) for _ in range(2))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch, or two to five."""
        (x,), (spread, center) = inputs, outputs
        kept = reduced_shape(x.shape, self.dims, keepdim=True)
        dense = contiguous_strides(kept)
        return reduce_spread(
            target,
            spread.view(kept, dense),
            center.view(kept, dense),
            x,
            dims=self.dims,
            divisor=self.divisor,
            root=self.root,
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The input and both results."""
        return (0,), ((0, 1) if self.root else (1,))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The spread's has no part by way of the mean; the mean's is shared evenly."""
        x, (of_spread, of_mean) = saved.inputs[0], grads
        kept = reduced_shape(x.shape, self.dims, keepdim=True)
        found = None
        if of_spread is not None:
            known = [x, reshape(saved.outputs[1], kept)]
            if self.root:
                known.append(reshape(saved.outputs[0], kept))
            slope = _root_slope if self.root else _slope
            operands = [reshape(of_spread, kept), *known]
            found = evaluate(f"{self.name}_backward", slope, operands, [self.divisor])
        if of_mean is not None:
            count = max(prod(x.shape[d] for d in self.dims), 1)
            share = expand(reshape(of_mean, kept) / count, x.shape)
            found = share if found is None else found + share
        return (found,)


def root_of(name: str, x: Tensor) -> Tensor:
    """A square root whose gradient at 0 is 0, as that of PyTorch's norms is."""
    return evaluate(name, _root, [x], gradient=_root_gradient)


def _moments(
    name: str,
    x: Tensor,
    dim: Dims | bool,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
    *,
    root: bool = False,
) -> Moments:
    """The variance, or its root, and the mean over the same axes; of 16 bits both in float32."""
    if isinstance(dim, bool):  # PyTorch's var(x, unbiased)
        if unbiased is not None:
            law = "dim is an axis, several or None where unbiased has a place of its own"
            raise ArgumentError(name, law, dim=dim, unbiased=unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    if not x.dtype.is_complex:
        require_floating(name, x.array)
    dims = normalize_dims(name, None if dim == () else dim, x.ndim)
    x = widened(x)
    count = prod(x.shape[d] for d in dims) - correction
    if count > 0 and not x.dtype.is_complex:
        return Moments(*apply(Spread(name, dims, keepdim, float(count), root), x))
    center = mean(x, dims or None, True)
    left = center if keepdim else reshape(center, reduced_shape(x.shape, dims, keepdim=False))
    squares = _squares(name, x, center, dims, keepdim=keepdim)
    spread = squares * (1 / count if count > 0 or count < 0 else float("inf"))
    if count < 0:  # infinite; the gradient is PyTorch's, of the negative count
        spread = spread + squares.detach() * float("inf")
    return Moments(root_of(name, spread) if root else spread, left)


def _stored(found: Moments, dtype: DType) -> Moments:
    """In the dtype of what they are of; the spread of complex numbers is real."""
    return Moments(to_dtype(found.spread, dtype.real), to_dtype(found.mean, dtype))


def _squares(
    name: str, x: Tensor, center: Tensor, dims: tuple[int, ...], *, keepdim: bool
) -> Tensor:
    """The sums of squared distances from the mean, whose gradient has no part by way of it."""
    function = Reduce(Reduction.SUM_SQUARES, dims, keepdim=keepdim)
    if x.dtype.is_complex or not x.requires_grad:
        return apply(function, x - center)

    spread = apply(function, x.detach() - center.detach())
    return derived(name, _squares_rule, [x], [spread], settings=(name, dims))


def _squares_rule(
    inputs: Sequence[Any],
    results: Sequence[Any],
    grads: Sequence[Any],
    name: str,
    dims: tuple[int, ...],
) -> list[Any]:
    (x,) = inputs
    g = reshape(grads[0], reduced_shape(x.shape, dims, keepdim=True))
    return [evaluate(f"{name}_backward", _slope, [g, x, mean(x, dims or None, True)])]


@op()
def var(
    x: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The variance over axes: squared distances from the mean over ``n - correction``.

    Args:
        x: any shape, floating.
        dim: an axis, several, or None for all.
        unbiased: False stands for a ``correction`` of 0.
        keepdim: leave the axes with size 1.
        correction: 1, unless given, for the unbiased estimate, 0 for the mean square.

    Returns:
        ``x``'s shape without the axes; infinite, of equal elements NaN, where ``n`` is
        not above ``correction``.

    Raises:
        BoundsError: if ``x`` has no such axis.
        DtypeError: if ``x`` is not floating.
    """
    return to_dtype(_moments("var", x, dim, unbiased, keepdim, correction).spread, x.dtype.real)


@op()
def std(
    x: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """The square root of :func:`var`; its gradient at 0 is 0."""
    found = _moments("std", x, dim, unbiased, keepdim, correction, root=True)
    return to_dtype(found.spread, x.dtype.real)


@op()
def var_mean(
    x: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Moments:
    """:func:`var` and the mean, over the same axes."""
    return _stored(_moments("var_mean", x, dim, unbiased, keepdim, correction), x.dtype)


@op()
def std_mean(
    x: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Moments:
    """:func:`std` and the mean, over the same axes."""
    found = _moments("std_mean", x, dim, unbiased, keepdim, correction, root=True)
    return _stored(found, x.dtype)


@op()
def count_nonzero(x: Tensor, dim: Dims = None, *more: int) -> Tensor:
    """How many elements are not 0, over an axis, several, or all; int64."""
    dims: Any = (dim, *more) if more else dim
    return total(ne(x, 0), dims)


@op()
def nansum(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum of what is not NaN, over axes; arguments as :func:`sum`'s."""
    known = evaluate("nansum", _known, [x]) if x.dtype.is_floating_point else x
    return total(known, dim, keepdim, dtype=dtype)


def _known(x: Any) -> Any:
    return e.where(e.isnan(x), 0, x)


@op()
def nanmean(
    x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean of what is not NaN, over axes; arguments as :func:`mean`'s."""
    count = total(logical_not(isnan(x)), dim, keepdim)
    return nansum(x, dim, keepdim, dtype=dtype) / count
