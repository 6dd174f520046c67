"""Norms of vectors and matrices, and distances, in the names of ``torch`` and ``torch.linalg``."""

# ruff: noqa: FBT001, FBT002 - PyTorch takes `keepdim` by position
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..errors import ArgumentError, ShapeError
from ..kernels.reduce import Reduction
from ..values.dtypes import DType, from_name
from ..values.shapes import normalize_dim, normalize_dims
from .arithmetic import abs as magnitude
from .arithmetic import pow as power
from .machinery.autocast import autocast_operands, computes_as_one
from .machinery.function import Face, apply, op, require_floating
from .machinery.pointwise import evaluate
from .rearrange import movedim
from .reduce import Dims, Reduce, amax, amin, reduced_shape
from .reduce import sum as total
from .shape import reshape, to_dtype
from .spectral import svdvals
from .statistic import root_of

if TYPE_CHECKING:
    from ..tensor import Tensor

Order = float | str | None


def _counts(x: Any) -> Any:
    return e.where(e.ne(x, 0), 1, 0)


def _power(x: Any, exponent: Any) -> Any:
    """``x ** exponent`` whose gradient at 0 is 0, as that of PyTorch's norms is."""
    return e.where(e.eq(x, 0), 0, e.where(e.eq(x, 0), 1, x) ** exponent)


def _raised(x: Any, exponent: Any) -> Any:
    return x**exponent


def _raised_gradient(g: Any, y: Any, x: Any, exponent: Any) -> Any:
    zero = e.eq(x, 0)
    return e.where(zero, 0, g * (exponent * e.where(zero, 1, x) ** (exponent - 1)))


def _length(name: str, x: Tensor, p: float, dim: Dims, keepdim: bool) -> Tensor:
    """``sum(|x| ** p) ** (1 / p)`` and its limits, over vectors."""
    if x.dtype.is_complex:
        x = magnitude(x)
    require_floating(name, x.array)
    (x,) = autocast_operands(name, x)
    dims = normalize_dims(name, None if isinstance(dim, Sequence) and not dim else dim, x.ndim)
    given = dims or None
    if p == 2:
        squares = apply(Reduce(Reduction.SUM_SQUARES, dims, keepdim=keepdim), x)
        return to_dtype(root_of(name, squares), x.dtype)
    if p in (math.inf, -math.inf):
        return (amax if p > 0 else amin)(magnitude(x), given, keepdim)
    if p > 0 and all(
        x.shape[d] == 1 for d in dims
    ):  # a power may leave the range, and its root not
        return amax(magnitude(x), given, keepdim)
    if p == 0:
        return total(evaluate(name, _counts, [x]), given, keepdim)
    if p == 1:
        return total(magnitude(x), given, keepdim)
    if (
        p < 0
        and 0 in [x.shape[d] for d in dims]
        and 0 not in [n for d, n in enumerate(x.shape) if d not in dims]
    ):
        law = f"the axes have elements, where ord is {p}"
        raise ShapeError(name, law, x=x.shape, dim=dim)
    found = _root_of_powers(name, to_dtype(x, from_name(x.dtype.compute)), p, given, keepdim)
    return to_dtype(found, x.dtype)


def _root_of_powers(name: str, x: Tensor, p: float, dim: Dims, keepdim: bool) -> Tensor:
    """``sum(|x| ** p) ** (1 / p)``: powers and their sum leave the range of 16 bits early."""
    if p < 0:
        raised = evaluate(name, _raised, [magnitude(x)], [p], gradient=_raised_gradient)
        return power(total(raised, dim, keepdim), 1 / p)
    powers = total(evaluate(name, _power, [magnitude(x)], [p]), dim, keepdim)
    return evaluate(name, _power, [powers], [1 / p])


@op()
def norm(
    x: Tensor,
    p: Order = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """``sum(|x| ** p) ** (1 / p)`` over axes: the length of vectors.

    Args:
        x: any shape, floating.
        p: a number: 2 and ``"fro"`` for the usual length, ``inf`` for the largest ``|x|``, 0 for
            how many are not 0; ``"nuc"`` for :func:`linalg.matrix_norm`'s.
        dim: an axis, several, or None for all.
        keepdim: leave the axes with size 1.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape without the axes.

    Raises:
        ArgumentError: if ``p`` is another word.
        BoundsError: if ``x`` has no such axis.
        DtypeError: if ``x`` is not floating.
    """
    if p == "nuc":
        axes = tuple(range(x.ndim)) if dim is None else dim
        return matrix_norm(x, p, (axes,) if isinstance(axes, int) else axes, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise ArgumentError("norm", "p is a number, 'fro' or 'nuc'", p=repr(p))
    x = x if dtype is None else to_dtype(x, dtype)
    order = 2 if p is None or isinstance(p, str) else p
    found = _length("norm", x, order, dim, keepdim)
    return found if dtype is None else to_dtype(found, dtype.real)


@op(Face.LINALG, name="linalg.vector_norm")
def vector_norm(
    x: Tensor,
    ord: float = 2,  # noqa: A002 - PyTorch's name
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """``sum(|x| ** ord) ** (1 / ord)`` over axes, taken as one vector.

    Args:
        x: any shape, floating.
        ord: any number, also 0 (how many are not 0), ``inf`` and ``-inf`` (the largest and the
            smallest ``|x|``).
        dim: an axis, several, or None for all.
        keepdim: leave the axes with size 1.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape without the axes.

    Raises:
        BoundsError: if ``x`` has no such axis.
        DtypeError: if ``x`` is not floating.
    """
    x = x if dtype is None else to_dtype(x, dtype)
    found = _length("vector_norm", x, ord, dim, keepdim)
    return found if dtype is None else to_dtype(found, dtype.real)


@op(Face.LINALG, name="linalg.matrix_norm")
def matrix_norm(
    x: Tensor,
    ord: float | str = "fro",  # noqa: A002 - PyTorch's name
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of matrices.

    Args:
        x: two axes or more, floating.
        ord: ``"fro"`` for the length of all elements; ``inf`` and ``-inf`` for the largest and
            smallest sum of ``|x|`` over a row; 1 and -1 over a column; 2 and -2 for the largest and
            smallest singular value, ``"nuc"`` for their sum.
        dim: the axes of the rows and of the columns.
        keepdim: leave the axes with size 1.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape without the axes; 0 of matrices without elements.

    Raises:
        ArgumentError: if ``ord`` is another, or a smallest is asked for where there is none.
        ShapeError: if ``dim`` is not two axes.
    """
    x = x if dtype is None else to_dtype(x, dtype)
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        law = "ord is 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise ArgumentError("matrix_norm", law, ord=repr(ord))
    if len(dim) != 2 or x.ndim < 2:
        raise ShapeError("matrix_norm", "a matrix has two axes", x=x.shape, dim=tuple(dim))
    dims = normalize_dims("matrix_norm", dim, x.ndim)
    if ord == "fro":
        return _length("matrix_norm", x, 2, dims, keepdim)
    if not x.dtype.is_complex:
        require_floating("matrix_norm", x.array)
    row, column = (normalize_dim("matrix_norm", d, x.ndim) for d in dim)
    if ord in ("nuc", 2, -2):
        values = svdvals(movedim(x, (row, column), (-2, -1)))
        found = total(values, -1) if ord == "nuc" else _extreme(values, -1, largest=ord == 2)
        return reshape(found, reduced_shape(x.shape, dims, keepdim=keepdim))
    summed, kept = (row, column) if ord in (1, -1) else (column, row)
    sums = total(magnitude(x), summed, True)
    found = _extreme(sums, kept, largest=ord in (1, math.inf), keepdim=True)
    return found if keepdim else reshape(found, reduced_shape(x.shape, dims, keepdim=False))


def _extreme(x: Tensor, dim: int, *, largest: bool, keepdim: bool = False) -> Tensor:
    """The largest or smallest along an axis; the largest of none is 0."""
    if largest and x.shape[dim] == 0:
        return total(x, dim, keepdim)
    return (amax if largest else amin)(x, dim, keepdim)


@op(Face.LINALG, name="linalg.norm")
def linalg_norm(
    x: Tensor,
    ord: Order = None,  # noqa: A002 - PyTorch's name
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of vectors or of matrices, as the number of axes tells.

    Args:
        x: any shape, floating; one axis or two where ``ord`` is given without ``dim``.
        ord: None for the length of all elements; else as :func:`vector_norm` for one axis, and as
            :func:`matrix_norm` for two.
        dim: an axis, two, or None for all.
        keepdim: leave the axes with size 1.
        dtype: what to convert ``x`` to first.

    Returns:
        ``x``'s shape without the axes.

    Raises:
        ArgumentError: if ``ord`` is none of these.
        ShapeError: if ``ord`` is given for more than two axes, or it or ``dim`` for none.
    """
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims and not (ord is None and dim is None):
        law = "it is over one axis or two where ord or dim is given"
        raise ShapeError("linalg.norm", law, x=x.shape, ord=ord, dim=dim)
    if ord is None:
        return vector_norm(x, 2, dim, keepdim, dtype=dtype)
    if len(dims) == 2:
        return matrix_norm(x, ord, dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise ArgumentError("linalg.norm", "a word names a norm of matrices", ord=repr(ord))
    if len(dims) > 2:
        raise ShapeError("linalg.norm", "ord is for one axis or two", x=x.shape, ord=ord)
    return vector_norm(x, ord, dims, keepdim, dtype=dtype)


@op()
@computes_as_one
def dist(x: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of ``x - other``, taken as one vector."""
    return norm(x - other, p)
