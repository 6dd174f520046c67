"""Sums, products and softmax of sparse tensors, and what their operators are."""

# ruff: noqa: A001, A002 - PyTorch's names

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from .. import ops
from ..creation import arange, zeros
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, tensor
from ..values.arguments import checked
from ..values.dtypes import DType
from ..values.shapes import normalize_dim
from .construction import sparse_coo_tensor
from .layout import COO, CSR, OPERATORS, SparseTensor, flat_places, summed_rows

_JOINS = ("mean", "amax", "amin")

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]


@checked
def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of two matrices, one of them or both sparse.

    Rows of the dense one are gathered by the columns of the sparse one, scaled, and added up by
    its rows in order: the same bits every time. Gradients flow to the values and to the dense one.

    Args:
        mat1: ``(m, k)``.
        mat2: ``(k, n)``.
        reduce: how the products of a row are joined: ``sum``, or, of a sparse matrix and a dense
            one, ``mean``, ``amax`` (or ``max``) or ``amin`` (or ``min``); elements that are not
            kept do not count, and rows without any are 0.

    Returns:
        ``(m, n)``, dense if one of them is; else sparse, for which the host waits.

    Raises:
        ShapeError: if they are no matrices, or the inner sizes differ.
        ArgumentError: if ``reduce`` is another.

    Example:
        >>> import clnet
        >>> x = clnet.eye(2).to_sparse()
        >>> clnet.sparse.mm(x, clnet.ones(2, 1)).tolist()
        [[1.0], [1.0]]
    """
    if mat1.ndim != 2 or mat2.ndim != 2 or mat1.shape[1] != mat2.shape[0]:
        law = "operands are matrices, and the inner sizes agree"
        raise ShapeError("sparse.mm", law, mat1=mat1.shape, mat2=mat2.shape)
    hybrid = [x for x in (mat1, mat2) if isinstance(x, SparseTensor) and x.sparse_dim() != 2]
    if hybrid:
        law, hint = "operands are sparse in both axes", "Convert it with x.to_dense()"
        raise ShapeError("sparse.mm", law, sparse_dim=hybrid[0].sparse_dim(), remedy=hint)
    if reduce != "sum":
        reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
        if reduce not in _JOINS:
            law = f"reduce is one of sum, {', '.join(_JOINS)}"
            raise ArgumentError("sparse.mm", law, reduce=reduce)
        if not isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor):
            law = "with reduce the first operand is sparse and the second one dense"
            raise ArgumentError("sparse.mm", law, reduce=reduce)
        return _joined_rows(mat1, mat2, reduce)
    if isinstance(mat1, SparseTensor):
        return _both(mat1, mat2) if isinstance(mat2, SparseTensor) else _by_rows(mat1, mat2)
    if isinstance(mat2, SparseTensor):
        return _by_rows(mat2.t(), mat1.t()).t()
    return ops.mm(mat1, mat2)


def _by_rows(a: SparseTensor, b: Tensor) -> Tensor:
    row, column = a.places()
    return summed_rows(b[column] * a.elements().reshape(-1, 1), row, a.shape[0])


def _joined_rows(a: SparseTensor, b: Tensor, reduce: str) -> Tensor:
    row, column = a.places()
    products = b[column] * a.elements().reshape(-1, 1)
    index = row.reshape(-1, 1).expand(products.shape)
    start = zeros(a.shape[0], b.shape[1], dtype=products.dtype, device=products.device)
    return ops.scatter_reduce(start, 0, index, products, reduce, include_self=False)


def _both(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Each value of ``a`` with all of the row of ``b`` that its column names."""
    right = b.to_sparse_csr()
    row, column = a.places()
    begins = right.crow_indices()
    first, count = begins[column], begins[column + 1] - begins[column]
    every = arange(row.shape[0], device=a.device)
    pair = ops.repeat_interleave(every, count) if row.shape[0] else every
    before = count.cumsum(0) - count
    at = first[pair] + arange(pair.shape[0], device=a.device) - before[pair]
    places = ops.stack([row[pair], right.places()[1][at]])
    made = SparseTensor(places, a.elements()[pair] * right.elements()[at], (a.shape[0], b.shape[1]))
    return made.coalesce().to_sparse(layout=CSR if a.layout is CSR else COO)


@checked
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """``beta input + alpha mat1 @ mat2``; matrices as :func:`mm`'s.

    With ``beta = 0`` the input's values do not matter, NaN neither.
    """
    product = alpha * mm(mat1, mat2)
    return beta * input + product if beta else product


@checked
def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """``beta input + alpha mat1 @ mat2`` where ``input`` has values; no more of it is computed.

    Args:
        input: ``(m, n)``, sparse.
        mat1: ``(m, k)``, dense.
        mat2: ``(k, n)``, dense.
        beta: factor of ``input``.
        alpha: factor of the product.

    Raises:
        ShapeError: if the sizes do not fit.
    """
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]) or mat1.shape[1] != mat2.shape[0]:
        law = "input has the product's shape"
        raise ShapeError(
            "sparse.sampled_addmm", law, input=input.shape, mat1=mat1.shape, mat2=mat2.shape
        )
    row, column = input.places()
    sampled = (mat1[row] * mat2.t()[column]).sum(1)
    return input.with_values(beta * input.elements() + alpha * sampled)


@checked
def sum(
    input: SparseTensor, dim: int | Sequence[int] | None = None, dtype: DType | None = None
) -> Tensor:
    """The sum of all elements, or over axes.

    Args:
        input: sparse.
        dim: the axes; None: all.
        dtype: converted to this one first.

    Returns:
        Dense if no axis with indices is left, else sparse.
    """
    x = input if dtype is None else input.to(dtype=dtype)
    values = x.elements()
    if dim is None:
        return values.sum()
    dims = {normalize_dim("sum", d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)}
    axes = x.sparse_dim()
    inside = [d - axes + 1 for d in dims if d >= axes]
    values = values.sum(inside) if inside else values
    kept = [d for d in range(axes) if d not in dims]
    if not kept:
        return values.sum(0)
    sizes = [n for d, n in enumerate(x.shape) if d not in dims]
    places = ops.stack([x.places()[d] for d in kept])
    return SparseTensor(places, values, sizes).coalesce()


def _shares(x: SparseTensor, dim: int, dtype: DType | None, *, log: bool) -> SparseTensor:
    name = "sparse.log_softmax" if log else "sparse.softmax"
    axis = normalize_dim(name, dim, x.ndim)
    x = (x if dtype is None else x.to(dtype=dtype)).coalesce()
    values, axes = x.elements(), x.sparse_dim()
    if axis >= axes:
        made = ops.log_softmax if log else ops.softmax
        return x.with_values(made(values, axis - axes + 1))
    others = [d for d in range(axes) if d != axis]
    sizes = [x.shape[d] for d in others]
    places = x.places()
    line = flat_places(ops.stack([places[d] for d in others]), sizes) if others else places[0] * 0
    count = prod(sizes)
    wide = line.reshape(-1, *(1,) * (values.ndim - 1)).expand(values.shape)
    low = values.detach().new_full((count, *values.shape[1:]), float("-inf"))
    most = ops.scatter_reduce(low, 0, wide, values.detach(), "amax")
    apart = values - most[line]
    total = summed_rows(apart.exp(), line, count)[line]
    return x.with_values(apart - total.log() if log else apart.exp() / total)


@checked
def softmax(input: SparseTensor, dim: int, *, dtype: DType | None = None) -> SparseTensor:
    """Shares along an axis of the elements that have indices; all others are none (minus infinity).

    Args:
        input: sparse, with coordinates.
        dim: the axis.
        dtype: converted to this one first.
    """
    return _shares(input, dim, dtype, log=False)


@checked
def log_softmax(input: SparseTensor, dim: int, *, dtype: DType | None = None) -> SparseTensor:
    """The logarithm of :func:`softmax`."""
    return _shares(input, dim, dtype, log=True)


@checked
def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None
) -> SparseTensor:
    """A matrix of diagonals: row ``k`` of ``diagonals`` lies ``offsets[k]`` above the main one.

    Args:
        diagonals: ``(n, columns)``; the element of column ``j`` stands in column ``j``.
        offsets: ``(n,)``, each once; the host reads them.
        shape: rows and columns.
        layout: as for ``to_sparse``.

    Raises:
        ArgumentError: if an offset comes twice.
    """
    rows = diagonals if diagonals.ndim == 2 else diagonals.reshape(1, -1)
    listed = np.asarray(offsets.tolist()).reshape(-1)
    if len(set(listed.tolist())) != len(listed) or len(listed) != rows.shape[0]:
        law = "there is an offset for each diagonal, named once"
        raise ArgumentError("sparse.spdiags", law, offsets=listed.tolist(), diagonals=rows.shape)
    column, which = np.meshgrid(np.arange(min(rows.shape[1], shape[1])), np.arange(len(listed)))
    row = column - listed[which]
    inside = (row >= 0) & (row < shape[0])
    places = np.stack([row[inside], column[inside]])
    at = tensor(which[inside] * rows.shape[1] + column[inside], device=rows.device)
    made = sparse_coo_tensor(places, rows.reshape(-1)[at], shape, device=rows.device)
    return made.to_sparse(layout=layout) if layout is not None else made


# Operators.


def _matmul(a: Any, b: Any) -> Tensor:
    for x, y in ((a, b), (b, a)):
        if x.ndim == 1:
            return (mm(x.reshape(1, -1), y) if x is a else mm(y, x.reshape(-1, 1))).reshape(-1)
    return mm(a, b)


def _add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    if not (isinstance(a, SparseTensor) and isinstance(b, SparseTensor)):
        dense = [x.to_dense() if isinstance(x, SparseTensor) else x for x in (a, b)]
        return ops.add(dense[0], dense[1], alpha=alpha)
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise ShapeError("add", "sparse tensors have one shape", a=a.shape, b=b.shape)
    places = ops.cat([a.places(), b.places()], 1)
    values = ops.cat([a.elements(), b.elements() * alpha if alpha != 1 else b.elements()])
    layout = a.layout
    return SparseTensor(places, values, a.shape).coalesce().to_sparse(layout=layout)


def _sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return _add(a, b, alpha=-alpha)


def _mul(a: Any, b: Any) -> Tensor:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if not isinstance(b, Tensor) or (b.ndim == 0 and not isinstance(b, SparseTensor)):
        return a.with_values(a.elements() * b)
    if isinstance(b, SparseTensor):
        return _common(a, b)
    wide = b.expand(a.shape)
    axes = a.sparse_dim()
    return a.with_values(a.elements() * wide.reshape(-1, *a.shape[axes:])[a.flat()])


def _common(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The products where both have values; the host waits for their number."""
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise ShapeError("mul", "sparse tensors have one shape", a=a.shape, b=b.shape)
    layout, a, b = a.layout, a.to_sparse_coo().coalesce(), b.to_sparse_coo().coalesce()
    here, there = a.flat(), b.flat()
    if not there.shape[0]:
        return b
    at = ops.searchsorted(there, here).clamp(max=there.shape[0] - 1)
    kept = ops.nonzero(ops.eq(there[at], here))[:, 0]
    values = a.elements()[kept] * b.elements()[at[kept]]
    made = SparseTensor(a.places()[:, kept], values, a.shape, coalesced=True)
    return made.to_sparse(layout=layout)


def _div(a: Any, b: Any) -> Tensor:
    if not isinstance(a, SparseTensor) or (isinstance(b, Tensor) and b.ndim):
        raise ArgumentError(
            "div", "a sparse tensor is divided by a number", remedy="Convert it with x.to_dense()"
        )
    return a.with_values(a.elements() / b)


OPERATORS.update(matmul=_matmul, mm=_matmul, add=_add, sub=_sub, mul=_mul, div=_div)
_KEEPING_ZERO = """
    abs asin arcsin asinh arcsinh atan arctan atanh arctanh ceil conj deg2rad erf erfinv expm1 floor
    log1p neg negative positive rad2deg relu round sgn sign sin sinh sqrt square tan tanh trunc
    isinf isnan signbit nan_to_num float double half bfloat16 int long short bool
""".split()


def _of_values(name: str) -> Callable[..., SparseTensor]:
    def method(x: SparseTensor, *args: Any, **given: Any) -> SparseTensor:
        x = x.coalesce()
        return x.with_values(getattr(x.elements(), name)(*args, **given))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name}`` of the values, which is 0 for 0."
    return method


_METHODS: dict[str, Callable[..., Any]] = {
    **{name: _of_values(name) for name in _KEEPING_ZERO},
    **{name: OPERATORS[name] for name in ("matmul", "mm", "add", "sub", "mul", "div")},
    **{f"__{name}__": OPERATORS[name] for name in ("matmul", "add", "sub", "mul")},
    "__truediv__": _div,
    "__radd__": _add,
    "__rmul__": _mul,
    "mv": _matmul,
    "sum": sum,
    "__rmatmul__": lambda x, other: _matmul(other, x),
    "__rsub__": lambda x, other: _sub(other, x),
    "__neg__": _of_values("neg"),
    "__abs__": _of_values("abs"),
    "true_divide": _div,
    "multiply": _mul,
    "softmax": softmax,
    "log_softmax": log_softmax,
}
for _name, _function in _METHODS.items():
    setattr(SparseTensor, _name, _function)
