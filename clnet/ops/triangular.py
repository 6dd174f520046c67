"""Triangular systems, and matrices as products of two triangles: LU, and what it solves.

Large ones go in panels, between which products of matrices do most of the work. Nothing waits to
see whether a matrix was singular: ``*_ex`` give the numbers that say so, the others report it at
the next synchronisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, DtypeError, LinAlgError, ShapeError
from ..kernels.factor import exchanged, substitute
from ..kernels.factor import lu as launch_lu
from ..kernels.reduce import Bad
from ..values.dtypes import int32, int64
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import Shape, broadcast_shapes
from .check import of_value, require_elements
from .complex_parts import conj
from .doubled import interleaved, of_interleaved
from .index import gather_within
from .join import cat
from .machinery.derived import derived
from .machinery.function import (
    Arrays,
    Face,
    Function,
    apply,
    op,
    require_floating,
    require_same_dtype,
)
from .matmul import matmul
from .rearrange import diag, diagonal, tril, triu
from .reduce import one_hot
from .shape import contiguous, expand, narrow, reshape, unsqueeze
from .unitary import complex_eliminated

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_SINGULAR = of_value("lu_factor", "pivot", "the matrix is not singular", LinAlgError)
_MOST_ELEMENTS = 2**31 - 1


class TriangularFactors(NamedTuple):
    """Rows' order as a matrix, and two triangles: their product is what was factored."""

    P: Any
    L: Any
    U: Any


class Packed(NamedTuple):
    """Both triangles in one matrix, and which row each was exchanged with, from 1."""

    LU: Any
    pivots: Any


class PackedAndInfo(NamedTuple):
    """As :class:`Packed`; ``info`` is the first pivot, from 1, that is 0, else 0."""

    LU: Any
    pivots: Any
    info: Any


class InverseAndInfo(NamedTuple):
    """An inverse; ``info`` is the first pivot, from 1, that is 0, else 0."""

    inverse: Any
    info: Any


class ResultAndInfo(NamedTuple):
    """A solution; ``info`` is the first pivot, from 1, that is 0, else 0."""

    result: Any
    info: Any


class SolvedSystem(NamedTuple):
    """A solution, and the matrix that was given."""

    solution: Any
    cloned_coefficient: Any


class LuFactor(Function):
    """``(batch, m, n)`` as triangles, exchanges and infos."""

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Triangles of the shape of ``x``, int32 exchanges and infos."""
        batch, m, n = x.shape
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract((batch, min(m, n)), int32, x.device),
            Array.abstract((batch,), int32, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, and for each panel a launch or three."""
        return launch_lu(target, *outputs, *inputs)


class Substitute(Function):
    """The solutions of triangular systems, ``(batch, n, n)`` and ``(batch, n, columns)``."""

    upper: bool
    unit: bool

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, a: Array, b: Array) -> tuple[Array, ...]:
        """The shape of ``b``."""
        return (Array.abstract(b.shape, b.dtype, b.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, and for each block of rows a launch or two."""
        return substitute(target, *outputs, *inputs, upper=self.upper, unit=self.unit)


class Exchanged(Function):
    """The order of rows ``(batch, m)`` after exchanges ``(batch, k)``."""

    rows: int

    repeats = True
    differentiable = ()

    def infer(self, pivots: Array) -> tuple[Array, ...]:
        """``(batch, m)``, int64."""
        return (Array.abstract((pivots.shape[0], self.rows), int64, pivots.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch."""
        return exchanged(target, *outputs, *inputs)


def matrices(name: str, x: Tensor) -> Tensor:
    """Matrices ``(batch, m, n)``, dense and off the tape.

    Raises:
        DtypeError: if they are not floating.
        ShapeError: if there is no matrix.
    """
    require_matrix(name, x)
    return contiguous(reshape(x.detach(), (prod(x.shape[:-2]), *x.shape[-2:])))


def require_matrix(name: str, x: Tensor, *, complex_too: bool = False) -> None:
    """Check that there is a floating matrix, or a batch of them; or of complex numbers."""
    if not (complex_too and x.dtype.is_complex):
        require_floating(name, x.array)
    if x.ndim < 2:
        raise ShapeError(name, "x is a matrix or a batch of them", x=x.shape)


def require_square(name: str, x: Tensor, *, complex_too: bool = False) -> None:
    """Check that there are floating square matrices; or of complex numbers."""
    require_matrix(name, x, complex_too=complex_too)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(name, "matrices are square", x=x.shape)


def require_countable(name: str, x: Tensor) -> None:
    """Check that kernels can number a matrix's elements in 32 bits.

    Raises:
        ShapeError: if it has more of them.
    """
    if prod(x.shape[-2:]) > _MOST_ELEMENTS:
        law = "a matrix has fewer than 2^31 elements"
        raise ShapeError(name, law, x=x.shape, remedy="Take parts of it")


def turned(x: Any) -> Any:
    """The last two axes exchanged."""
    return x.transpose(-2, -1)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return turned(conj(x))


@cache
def _solved_rule(upper: bool, unit: bool) -> Any:  # noqa: FBT001
    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        a, _ = inputs
        gb = _solved(turned(a), grads[0], upper=not upper, unit=unit)
        whole = -matmul(gb, turned(results[0]))
        kept = triu(whole, int(unit)) if upper else tril(whole, -int(unit))
        return kept, gb

    return rule


def _solved(x: Tensor, b: Tensor, *, upper: bool, unit: bool) -> Tensor:
    """The solution for operands with the same batch, on the tape."""
    name = "solve_triangular"
    y = apply(Substitute(upper, unit), matrices(name, x), matrices(name, b))
    return derived(name, _solved_rule(upper, unit), (x, b), (reshape(y, b.shape),))


@op(name="linalg.solve_triangular", face=Face.LINALG)
def solve_triangular(
    x: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """``y`` with ``x @ y = b`` for triangular ``x``; ``y @ x = b`` with ``left=False``.

    Args:
        x: ``(..., n, n)``, floating or complex; the other triangle is not read.
        b: ``(..., n, k)``, for ``left=False`` ``(..., k, n)``; batches are broadcast.
        upper: whether the upper triangle counts.
        left: on which side ``x`` stands.
        unitriangular: take the diagonal for ones.

    Returns:
        The shape of ``b``, with the broadcast batch; infinite or NaN where the diagonal is 0.

    Raises:
        ShapeError: if ``x`` is not square, or ``b`` has another number of rows.
        DtypeError: if the dtypes differ.
    """
    name = "solve_triangular"
    require_square(name, x, complex_too=True)
    require_matrix(name, b, complex_too=True)
    require_same_dtype(name, x=x.array, b=b.array)
    if not left:
        flipped = solve_triangular(
            turned(x), turned(b), upper=not upper, unitriangular=unitriangular
        )
        return turned(flipped)
    if b.shape[-2] != x.shape[-1]:
        raise ShapeError(name, "b has the rows of x", x=x.shape, b=b.shape)
    batch = broadcast_shapes(name, x.shape[:-2], b.shape[:-2])
    a, c = expand(x, (*batch, *x.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))
    if x.dtype.is_complex:
        return _solved_complex(a, c, upper=upper, unit=unitriangular)
    return _solved(a, c, upper=upper, unit=unitriangular)


def _solved_complex(x: Tensor, b: Tensor, *, upper: bool, unit: bool) -> Tensor:
    """By real numbers: with ones on the diagonal the real form of a triangle is one, too."""
    strict = triu(x, 1) if upper else tril(x, -1)
    if not unit:
        pivots = unsqueeze(diagonal(x, 0, -2, -1), -1)
        strict, b = strict / pivots, b / pivots
    return of_interleaved(_solved(interleaved(strict), interleaved(b), upper=upper, unit=True))


@op(_BOTH)
def triangular_solve(
    b: Tensor,
    x: Tensor,
    upper: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    transpose: bool = False,  # noqa: FBT001, FBT002
    unitriangular: bool = False,  # noqa: FBT001, FBT002
) -> SolvedSystem:
    """``y`` with ``x @ y = b``, with ``x.T`` for ``transpose``; as :func:`solve_triangular`."""
    if transpose:
        y = solve_triangular(turned(x), b, upper=not upper, unitriangular=unitriangular)
    else:
        y = solve_triangular(x, b, upper=upper, unitriangular=unitriangular)
    return returned("triangular_solve", SolvedSystem)(y, x)


def diag_of(x: Any) -> Any:
    """Matrices with these diagonals, ``(..., n)``."""
    n = x.shape[-1]
    return unsqueeze(x, -1) * diag(x.detach().new_ones(n))


def unit_columns(like: Tensor, rows: int, columns: int) -> Tensor:
    """The first columns of an identity matrix, at most as many as rows; off the tape."""
    like = like.detach()
    ones = diag(like.new_ones(columns))
    if rows == columns:
        return ones
    return cat([ones, like.new_zeros((rows - columns, columns))], -2)


def identity_like(x: Tensor) -> Tensor:
    """Identity matrices of the shape of square ones."""
    return expand(diag(x.detach().new_ones(x.shape[-1])), x.shape)


@cache
def _lu_rule(count: int) -> Any:
    """The gradient of packed triangles to the matrix whose rows are in order already."""

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        (packed,), (g,) = results, grads
        m, n = packed.shape[-2:]
        square = narrow(narrow(packed, -1, 0, count), -2, 0, count)
        lower, upper = tril(square, -1) + identity_like(square), triu(square)
        gs = narrow(narrow(g, -1, 0, count), -2, 0, count)
        gl, gu = tril(gs, -1), triu(gs)
        beside, under = [], []
        if n > count:  # U = [U1, L^-1 A2]
            right, g_right = (narrow(v, -1, count, n - count) for v in (packed, g))
            g_right = solve_triangular(adjoint(lower), g_right, upper=True, unitriangular=True)
            gl = gl - tril(matmul(g_right, adjoint(right)), -1)
            beside = [g_right]
        if m > count:  # L = [L1; A2 U^-1]
            below, g_below = (narrow(v, -2, count, m - count) for v in (packed, g))
            g_below = solve_triangular(adjoint(upper), g_below, upper=False, left=False)
            gu = gu - triu(matmul(adjoint(below), g_below))
            under = [g_below]
        inner = tril(matmul(adjoint(lower), gl), -1) + triu(matmul(gu, adjoint(upper)))
        inner = solve_triangular(adjoint(lower), inner, upper=True, unitriangular=True)
        whole = solve_triangular(adjoint(upper), inner, upper=False, left=False)
        return (cat([cat([whole, *beside], -1), *under], -2),)

    return rule


def _eliminated(name: str, x: Tensor) -> PackedAndInfo:
    """Packed triangles on the tape, exchanges and infos."""
    require_matrix(name, x, complex_too=True)
    if x.dtype.is_complex:
        require_countable(name, x)
        found, pivots, info = complex_eliminated(x)
    else:
        found, pivots, info = apply(LuFactor(), matrices(name, x))
    batch, count = x.shape[:-2], min(x.shape[-2:])
    order = apply(Exchanged(x.shape[-2]), pivots)
    order = expand(unsqueeze(reshape(order, (*batch, x.shape[-2])), -1), x.shape)
    rows = gather_within(x, -2, order) if x.requires_grad and x.detach().numel() else x
    y = derived(name, _lu_rule(count), (rows,), (reshape(found, x.shape),))
    return returned("linalg_lu_factor_ex", PackedAndInfo)(
        y, reshape(pivots, (*batch, count)), reshape(info, batch)
    )


def _require_pivot(name: str, pivot: bool) -> None:  # noqa: FBT001
    if not pivot:
        remedy = "Leave it out: rows are exchanged"
        raise ArgumentError(name, "elimination exchanges rows", pivot=pivot, remedy=remedy)


@op(name="linalg.lu_factor", face=Face.LINALG)
def linalg_lu_factor(x: Tensor, *, pivot: bool = True) -> Packed:
    """Two triangles whose product is ``x`` with its rows exchanged, in one matrix.

    Args:
        x: ``(..., m, n)``, floating or complex.
        pivot: True: rows are exchanged.

    Returns:
        The triangles, of the shape of ``x`` (the lower one's diagonal is 1), and int32 exchanges,
        ``(..., min(m, n))``, from 1.

    Raises:
        LinAlgError: if a pivot is 0.
    """
    found = linalg_lu_factor_ex(x, pivot=pivot, check_errors=True)
    return returned("linalg_lu_factor", Packed)(found.LU, found.pivots)


@op(name="linalg.lu_factor_ex", face=Face.LINALG)
def linalg_lu_factor_ex(
    x: Tensor, *, pivot: bool = True, check_errors: bool = False
) -> PackedAndInfo:
    """:func:`linalg.lu_factor`, and what would be reported: ``check_errors`` does so, too."""
    _require_pivot("lu_factor_ex", pivot)
    found = _eliminated("lu_factor", x)
    if check_errors:
        require_elements(found.info, _SINGULAR, Bad.OUTSIDE)
    return found


@op(_BOTH)
def lu_unpack(
    x: Tensor,
    pivots: Tensor,
    unpack_data: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    unpack_pivots: bool = True,  # noqa: FBT001, FBT002
) -> TriangularFactors:
    """The rows' order as a matrix, and both triangles of what :func:`linalg.lu_factor` gave.

    Args:
        x: ``(..., m, n)``.
        pivots: ``(..., min(m, n))``, int32.
        unpack_data: whether the triangles are wanted; else they are empty.
        unpack_pivots: whether the order is.

    Returns:
        ``(..., m, m)``, ``(..., m, k)`` and ``(..., k, n)``, for ``k = min(m, n)``.

    Raises:
        DtypeError: if they are not int32.
        ShapeError: if the exchanges are not those of such matrices.
    """
    require_matrix("lu_unpack", x, complex_too=True)
    m, n = x.shape[-2:]
    count = min(m, n)
    _require_pivots("lu_unpack", pivots, x, (*x.shape[:-2], count))
    none = x.detach().new_zeros((0,))
    order = lower = upper = none
    if unpack_pivots:
        rows = unsqueeze(row_order(pivots, m), -1)
        order = turned(one_hot(rows, m, rows.ndim - 1).to(x.dtype))
    if unpack_data:
        lower = tril(narrow(x, -1, 0, count), -1) + unit_columns(x, m, count)
        upper = triu(narrow(x, -2, 0, count))
    return returned("lu_unpack", TriangularFactors)(order, lower, upper)


def _require_pivots(name: str, pivots: Tensor, x: Tensor, shape: Shape) -> None:
    if pivots.dtype is not int32:
        raise DtypeError(name, "pivots are int32, as lu_factor has them", pivots=pivots.dtype)
    if pivots.shape != shape:
        raise ShapeError(name, "pivots are those of x", x=x.shape, pivots=pivots.shape)


def row_order(pivots: Tensor, rows: int) -> Tensor:
    """Which row each comes from: ``(..., rows)`` for exchanges ``(..., k)``."""
    flat = contiguous(reshape(pivots.detach(), (prod(pivots.shape[:-1]), pivots.shape[-1])))
    return reshape(apply(Exchanged(rows), flat.to(int32)), (*pivots.shape[:-1], rows))


@op(name="linalg.lu", face=Face.LINALG)
def linalg_lu(x: Tensor, *, pivot: bool = True) -> TriangularFactors:
    """``P``, ``L`` and ``U`` with ``P @ L @ U = x``: see :func:`lu_unpack`."""
    _require_pivot("lu", pivot)
    found = _eliminated("lu", x)
    return returned("linalg_lu", TriangularFactors)(*lu_unpack(found.LU, found.pivots))


@op(_BOTH)
def lu(x: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:  # noqa: FBT001, FBT002
    """:func:`linalg.lu_factor`; with ``get_infos`` infos behind it."""
    _require_pivot("lu", pivot)
    found = _eliminated("lu", x)
    return tuple(found) if get_infos else tuple(found[:2])


_adjoint = adjoint  # beside an argument of that name


@op(name="linalg.lu_solve", face=Face.LINALG)
def linalg_lu_solve(
    x: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """``y`` with ``A @ y = b`` for an ``A`` that :func:`linalg.lu_factor` took.

    Args:
        x: ``(..., n, n)``: the triangles.
        pivots: ``(..., n)``, int32.
        b: ``(..., n, k)``, for ``left=False`` ``(..., k, n)``; batches are broadcast.
        left: ``y @ A = b`` if not.
        adjoint: ``A.mH`` in the place of ``A``.

    Returns:
        The shape of ``b``, with the broadcast batch.

    Raises:
        DtypeError: if pivots are not int32.
        ShapeError: if shapes do not fit.
    """
    require_square("lu_solve", x, complex_too=True)
    require_matrix("lu_solve", b, complex_too=True)
    _require_pivots("lu_solve", pivots, x, x.shape[:-1])
    if not left:
        flipped = linalg_lu_solve(x, pivots, _adjoint(b), adjoint=not adjoint)
        return _adjoint(flipped)
    if b.shape[-2] != x.shape[-1]:
        raise ShapeError("lu_solve", "b has the rows of x", x=x.shape, b=b.shape)
    batch = broadcast_shapes("lu_solve", x.shape[:-2], b.shape[:-2])
    n, k = b.shape[-2:]
    wide, b = expand(x, (*batch, n, n)), expand(b, (*batch, n, k))

    def in_order(rows: Tensor, order: Tensor) -> Tensor:
        if not rows.numel():
            return rows
        return gather_within(rows, -2, expand(unsqueeze(order, -1), (*batch, n, k)))

    order = row_order(pivots, n)
    if not adjoint:
        y = solve_triangular(wide, in_order(b, order), upper=False, unitriangular=True)
        return solve_triangular(wide, y, upper=True)
    y = solve_triangular(_adjoint(wide), b, upper=False)
    y = solve_triangular(_adjoint(wide), y, upper=True, unitriangular=True)
    return in_order(y, order.argsort(-1))


@op(_BOTH)
def lu_solve(b: Tensor, x: Tensor, pivots: Tensor) -> Tensor:
    """:func:`linalg.lu_solve` with ``b`` first."""
    return linalg_lu_solve(x, pivots, b)


@op(name="linalg.inv_ex", face=Face.LINALG)
def inv_ex(x: Tensor, *, check_errors: bool = False) -> InverseAndInfo:
    """The inverse of ``(..., n, n)``, and int32 infos of the shape of the batch.

    Args:
        x: floating or complex.
        check_errors: report a singular matrix at the next synchronisation, too.

    Returns:
        Infinite or NaN where ``x`` is singular.

    Raises:
        ShapeError: if ``x`` is not square.
    """
    require_square("inv_ex", x, complex_too=True)
    found = linalg_lu_factor_ex(x, check_errors=check_errors)
    return returned("linalg_inv_ex", InverseAndInfo)(
        linalg_lu_solve(found.LU, found.pivots, identity_like(x)), found.info
    )


@op(name="linalg.solve_ex", face=Face.LINALG)
def solve_ex(
    x: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False
) -> ResultAndInfo:
    """``y`` with ``x @ y = b`` as :func:`linalg.solve` gives it, and infos.

    Args:
        x: ``(..., n, n)``, floating or complex.
        b: ``(..., n, k)``, or a vector for each matrix; for ``left=False`` ``(..., k, n)``.
        left: on which side ``x`` stands.
        check_errors: report a singular matrix at the next synchronisation, too.

    Returns:
        The solution, and int32 infos of the shape of the batch.

    Raises:
        ShapeError: if ``x`` is not square, or ``b`` does not fit.
    """
    require_square("solve_ex", x, complex_too=True)
    vector = b.ndim == 1 or (b.ndim + 1 == x.ndim and b.shape == x.shape[:-1])
    columns = unsqueeze(b, -1) if vector else b
    found = linalg_lu_factor_ex(x, check_errors=check_errors)
    y = linalg_lu_solve(found.LU, found.pivots, columns, left=left or vector)
    return returned("linalg_solve_ex", ResultAndInfo)(
        reshape(y, y.shape[:-1]) if vector else y, found.info
    )
