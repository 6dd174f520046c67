"""``torch.masked``: reductions and normalisations of the elements that a mask names.

A mask is a tensor of truth values that broadcasts to the input; None names all elements. Where it
names none of those that are reduced, the result is what the op gives of nothing (0, 1, an infinity
or NaN). Where an element is not named, the results of normalisations have no meaning. Arguments of
all functions here:

    input: ``(...)``, strided.
    dim: an axis, several, or None and ``()``: all.
    keepdim: whether what is reduced stays as axes of size 1.
    dtype: of the result; None: the input's, int64 for sums and products of whole numbers.
    mask: ``(...)``.

All raise ``BoundsError`` where the mask has more axes than the input, and ``ArgumentError`` where
the input is sparse.
"""

# ruff: noqa: A001, A002 - PyTorch's names

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import TYPE_CHECKING, Any

from .. import linalg, ops
from ..errors import ArgumentError, BoundsError
from ..inspection import iinfo
from ..values.dtypes import DType, bool_, float32, int8, int16, int32, int64, uint8
from ..values.shapes import normalize_dim

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

Dims = int | Sequence[int] | None
_SMALL = (uint8, bool_, int8, int16, int32)
"""Whose sums and products are int64."""


def _axes(name: str, dim: Dims, ndim: int) -> tuple[int, ...]:
    """The axes in order.

    Raises:
        ArgumentError: if one comes twice.
        BoundsError: if there is no such axis.
    """
    if dim is None or dim == ():
        return tuple(range(ndim))
    given = (dim,) if isinstance(dim, int) else dim
    axes = sorted(normalize_dim(name, d, max(ndim, 1)) for d in given)
    if len(set(axes)) < len(axes):
        raise ArgumentError(f"masked.{name}", "an axis comes once", dim=dim)
    return tuple(axes)


def _mask_of(name: str, input: Tensor, mask: Tensor) -> Tensor:
    """The mask in the shape of the input."""
    if mask.ndim > input.ndim:
        law = "the mask has at most the input's axes"
        raise BoundsError(f"masked.{name}", law, mask=mask.shape, input=input.shape)
    return mask.to(bool_).expand(input.shape)


def _named(name: str, input: Tensor, mask: Tensor | None, rest: Any) -> Tensor:
    """The input, with a number in place of what is not named."""
    if getattr(input, "is_sparse", False) or getattr(input, "is_sparse_csr", False):
        raise ArgumentError(f"masked.{name}", "the input is strided", remedy="Use to_dense()")
    if mask is None:
        return input
    return ops.where(_mask_of(name, input, mask), input, input.new_tensor(rest))


def _end(name: str, x: Tensor, sign: int) -> Any:
    """The smallest number of a dtype, or the largest.

    Raises:
        NotImplementedError: if it has no order.
    """
    if x.dtype.is_floating_point:
        return sign * inf
    if x.dtype.is_complex or x.dtype is bool_:
        text = f"masked.{name} has no number for elements of {x.dtype.name} that are not named"
        raise NotImplementedError(text)
    limits = iinfo(x.dtype)
    return limits.max if sign > 0 else limits.min


def _wide(input: Tensor, dtype: DType | None) -> DType:
    return dtype or (int64 if input.dtype in _SMALL else input.dtype)


def sum(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the named elements; of none 0."""
    axes = _axes("sum", dim, input.ndim)
    return _named("sum", input, mask, 0).sum(axes, keepdim=keepdim, dtype=_wide(input, dtype))


def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the named elements; of none 1."""
    y = _named("prod", input, mask, 1).to(_wide(input, dtype))
    for axis in reversed(_axes("prod", dim, input.ndim)):
        y = y.prod(axis, keepdim=keepdim)
    return y


def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Sums of the named elements up to each, in the input's dtype."""
    axis = _axes("cumsum", dim, input.ndim)[0]
    return _named("cumsum", input, mask, 0).cumsum(axis, dtype=dtype or input.dtype)


def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Products of the named elements up to each, in the input's dtype."""
    axis = _axes("cumprod", dim, input.ndim)[0]
    return _named("cumprod", input, mask, 1).cumprod(axis, dtype=dtype or input.dtype)


def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest of the named elements; of none the smallest number of the dtype."""
    named = input if mask is None else _named("amax", input, mask, _end("amax", input, -1))
    y = named.amax(_axes("amax", dim, input.ndim), keepdim=keepdim)
    return y.to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest of the named elements; of none the largest number of the dtype."""
    named = input if mask is None else _named("amin", input, mask, _end("amin", input, 1))
    y = named.amin(_axes("amin", dim, input.ndim), keepdim=keepdim)
    return y.to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the largest of the named elements is, as numbers of the input's dtype, as PyTorch's."""
    named = input if mask is None else _named("argmax", input, mask, _end("argmax", input, -1))
    return named.argmax(dim, keepdim=keepdim).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Where the smallest of the named elements is, as numbers of the input's dtype."""
    named = input if mask is None else _named("argmin", input, mask, _end("argmin", input, 1))
    return named.argmin(dim, keepdim=keepdim).to(dtype or input.dtype)


def _counted(
    name: str, input: Tensor, axes: tuple[int, ...], mask: Tensor | None, *, keepdim: bool
) -> Tensor:
    """How many elements are named, int64."""
    if mask is None:
        named = input.detach().new_ones(input.shape, dtype=bool_)
    else:
        named = _mask_of(name, input, mask)
    return named.sum(axes, keepdim=keepdim)


def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the named elements; of none NaN.

    Raises:
        ValueError: if the result's dtype is one of whole numbers.
    """
    dtype = dtype or input.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"masked.mean: the result is floating or complex; got {dtype.name}")
    axes = _axes("mean", dim, input.ndim)
    total = sum(input, axes, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _counted("mean", input, axes, mask, keepdim=keepdim)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median of the named elements; of none NaN.

    Raises:
        ValueError: if none is named somewhere and the input holds whole numbers.
    """
    axis = _axes("median", dim, input.ndim)[0]
    floats = input.dtype.is_floating_point
    named = _named("median", input if floats else input.to(float32), mask, nan)
    y = named.nanmedian(axis, keepdim=keepdim).values
    if floats:
        return y
    if y.isnan().any():
        law = "masked.median: of whole numbers one is named in each row"
        raise ValueError(f"{law}. Convert the input with .float(), whose median of none is NaN")
    return y.to(dtype or input.dtype)


def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The logarithm of the sum of the named elements' exponentials; of none minus infinity."""
    rest = -inf if input.dtype.is_complex or mask is None else _end("logsumexp", input, -1)
    y = _named("logsumexp", input, mask, rest)
    y = y.logsumexp(_axes("logsumexp", dim, input.ndim), keepdim=keepdim)
    return y.to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """``log(exp(input) + exp(other))``; what is not named counts for nothing."""
    given = ((input, input_mask), (other, other_mask))
    a, b = (
        x if mask is None else _named("logaddexp", x, mask, _end("logaddexp", x, -1))
        for x, mask in given
    )
    return ops.logaddexp(a, b).to(dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``linalg.vector_norm`` of the named elements."""
    order = 2.0 if ord is None else ord
    named = _named("norm", input, mask, inf if order == -inf else 0)
    axes = _axes("norm", dim, input.ndim)
    return linalg.vector_norm(named, order, axes, keepdim=keepdim, dtype=dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,  # noqa: FBT001 - PyTorch's
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the named elements, their number less ``correction`` the divisor.

    Raises:
        ArgumentError: if ``unbiased`` and ``correction`` are both given.
    """
    if unbiased is not None and correction is not None:
        raise ArgumentError("masked.var", "either unbiased or correction is given")
    if correction is None:
        correction = 1.0 if unbiased in (None, True) else 0.0
    inexact = input.dtype.is_floating_point or input.dtype.is_complex
    dtype = dtype or (input.dtype if inexact else float32)
    compute = dtype if dtype.is_floating_point or dtype.is_complex else float32
    axes = _axes("var", dim, input.ndim)
    count = _counted("var", input, axes, mask, keepdim=True)
    x = input - sum(input, axes, keepdim=True, dtype=dtype, mask=mask) / count
    total = sum(x * x.conj(), axes, keepdim=keepdim, dtype=compute, mask=mask)
    left = (count.reshape(total.shape) - correction).clamp(min=0)
    return (total / left).to(dtype)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,  # noqa: FBT001 - PyTorch's
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The square root of :func:`var`."""
    how: Any = {"correction": correction, "keepdim": keepdim, "dtype": dtype, "mask": mask}
    return var(input, dim, unbiased, **how).sqrt()


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Exponentials of the named elements, over their sum; 0 for the others."""
    named = input if mask is None else _named("softmax", input, mask, _end("softmax", input, -1))
    return ops.softmax(named, _axes("softmax", dim, input.ndim)[0], dtype=dtype)


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of :func:`softmax`."""
    rest = 0 if mask is None else _end("log_softmax", input, -1)
    named = _named("log_softmax", input, mask, rest)
    return ops.log_softmax(named, _axes("log_softmax", dim, input.ndim)[0], dtype=dtype)


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """:func:`softmax` of the negative elements."""
    named = input if mask is None else _named("softmin", input, mask, _end("softmin", input, 1))
    return ops.softmin(named, _axes("softmin", dim, input.ndim)[0], dtype=dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The named elements over their :func:`norm`, or over ``eps`` if that is more; 0 elsewhere."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _named("normalize", input, mask, 0) / size.clamp(min=eps)
