"""What is made of singular values and factors: pseudo-inverses, ranks, conditions, exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..values.dtypes import float64, int64
from ..values.plain import shown
from ..values.record import NamedTuple
from ..values.returned import returned
from .arithmetic import abs as magnitude
from .arithmetic import ceil, clamp, log2, maximum, ne, where
from .complex_parts import conj, real
from .doubled import in_blocks, of_blocks
from .elimination import solve
from .join import cat
from .machinery.derived import derived
from .machinery.function import Face, op
from .mathematics import exp2
from .matmul import matmul
from .rearrange import diagonal, movedim
from .reduce import amax
from .reduce import sum as total
from .shape import expand, reshape, to_dtype, unsqueeze
from .spectral import eigh, eigvalsh, linalg_svd, svdvals
from .triangular import identity_like, inv_ex, require_matrix, require_square, turned
from .vector import matrix_norm

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_DRIVERS = ("gelsy", "gelsd", "gelss", "gels")
_SQUARINGS = 16
_TERMS = 20
_MOST = 3.0
"""The norm up to which they are exact in float32; each squaring doubles what was rounded."""


class LeastSquares(NamedTuple):
    """A solution, squared lengths of what remains, ranks and singular values."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def _along(x: Any) -> Any:
    """Numbers for each matrix, beside their values."""
    return unsqueeze(x, -1) if hasattr(x, "ndim") else x


def _require_one(name: str, old: Any, atol: Any, rtol: Any) -> None:
    if old is not None and (atol is not None or rtol is not None):
        law = "the tolerance is given by its old name or by atol and rtol"
        raise ArgumentError(name, law, atol=shown(atol), rtol=shown(rtol))


def _tolerance(values: Any, sizes: Sequence[int], atol: Any, rtol: Any) -> Any:
    """From where on singular values count, ``(..., 1)``."""
    if rtol is None:
        given = atol is not None and not (isinstance(atol, int | float) and atol == 0)
        rtol = 0.0 if given else max(sizes) * values.dtype.eps
    largest = (
        amax(values, -1, keepdim=True)
        if values.shape[-1]
        else values.new_zeros((*values.shape[:-1], 1))
    )
    relative = largest * _along(rtol)
    if atol is None:
        return relative
    return maximum(relative, _along(atol))


def _sizes_of_values(x: Tensor, *, hermitian: bool) -> Any:
    return magnitude(eigvalsh(x)) if hermitian else svdvals(x)


@op(name="linalg.matrix_rank", face=Face.LINALG)
def matrix_rank(
    x: Tensor,
    tol: Any = None,
    hermitian: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """How many singular values exceed ``max(atol, rtol * the largest)``.

    Args:
        x: ``(..., m, n)``, floating or complex.
        tol: an absolute tolerance, PyTorch's old name of ``atol``.
        hermitian: take the matrices for symmetric.
        atol: a number or a tensor of the shape of the batch.
        rtol: the same; without both ``max(m, n)`` times the dtype's ``eps``.

    Returns:
        int64, the shape of the batch.

    Raises:
        ArgumentError: if ``tol`` is given and one of the others, too.
        ShapeError: if there is no matrix.
    """
    (require_square if hermitian else require_matrix)("matrix_rank", x, complex_too=True)
    _require_one("matrix_rank", tol, atol, rtol)
    values = _sizes_of_values(x.detach(), hermitian=hermitian)
    found = _tolerance(values, x.shape[-2:], atol, rtol)
    limit = found if tol is None else _along(tol)
    return total((values > limit).to(int64), -1)


def _pinv_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    (x,), (y,), (g,) = inputs, results, grads
    across = turned(y)
    rows = matmul(turned(g), matmul(y, across))  # moves of the rows that x does not reach
    columns = matmul(matmul(across, y), turned(g))
    rows = rows - matmul(x, matmul(y, rows))
    columns = columns - matmul(matmul(columns, y), x)
    return (rows + columns - matmul(matmul(across, g), across),)


@op(name="linalg.pinv", face=Face.LINALG)
def pinv(
    x: Tensor,
    rcond: Any = None,
    hermitian: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The pseudo-inverse (Moore's and Penrose's) of matrices.

    Args:
        x: ``(..., m, n)``, floating or complex.
        rcond: PyTorch's old name of ``rtol``.
        hermitian: take the matrices for symmetric, or for equal to their conjugate transpose.
        atol: singular values not above ``max(atol, rtol * the largest)`` are taken for 0; a number
            or a tensor of the shape of the batch.
        rtol: the same; without both ``max(m, n)`` times the dtype's ``eps``.

    Returns:
        ``(..., n, m)``. The gradient holds where the rank does not change.

    Raises:
        ArgumentError: if ``rcond`` is given and a tolerance, too.
        ShapeError: if there is no matrix.
    """
    if x.dtype.is_complex:
        return _complex_pinv(x, rcond, atol, rtol, hermitian=hermitian)
    (require_square if hermitian else require_matrix)("pinv", x)
    _require_one("pinv", rcond, atol, rtol)
    plain = x.detach()
    relative = rtol if rcond is None else rcond
    if hermitian:
        signed, columns = eigh(plain)
        values, left, right = magnitude(signed), columns, columns
        inverse = where(values > _tolerance(values, x.shape[-2:], atol, relative), 1 / signed, 0.0)
    else:
        left, values, rows = linalg_svd(plain, False)
        right = turned(rows)
        inverse = where(values > _tolerance(values, x.shape[-2:], atol, relative), 1 / values, 0.0)
    y = matmul(right * unsqueeze(inverse, -2), turned(left))
    if y.shape[:-2] != x.shape[:-2]:  # tolerances of a batch that x has not
        x = expand(x, (*y.shape[:-2], *x.shape[-2:]))
    return derived("pinv", _pinv_rule, (x,), (y,))


def _complex_pinv(x: Tensor, rcond: Any, atol: Any, rtol: Any, *, hermitian: bool) -> Tensor:
    """By the real matrix of twice the sizes, whose singular values are those of ``x``, twice."""
    if rcond is None and rtol is None and atol is None:
        rtol = max(x.shape[-2:]) * x.dtype.eps
    return of_blocks(pinv(in_blocks(x), rcond, hermitian, atol=atol, rtol=rtol))


@op(_BOTH)
def pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """:func:`linalg.pinv`, for singular values above ``rcond`` times the largest."""
    return pinv(x, rtol=rcond)


@op(name="linalg.cond", face=Face.LINALG)
def linalg_cond(x: Tensor, p: float | str | None = None) -> Tensor:
    """The condition of matrices: the norm of ``x`` times that of its inverse.

    Args:
        x: ``(..., m, n)``, floating or complex; square unless ``p`` is None, 2 or -2.
        p: which norm: None or 2 (the largest singular value by the smallest), -2 (the inverse of
            that), ``"fro"``, ``"nuc"``, ``inf``, ``-inf``, 1, -1.

    Returns:
        The shape of the batch; infinite for a singular matrix.

    Raises:
        ShapeError: if a matrix is not square.
        ArgumentError: if ``p`` is another.
    """
    require_matrix("cond", x, complex_too=True)
    if p is None or p in (2, -2):
        values = svdvals(x)
        first, last = (values[..., 0], values[..., -1]) if values.shape[-1] else (None, None)
        if first is None:
            return real(x.detach()).new_zeros(x.shape[:-2])
        return last / first if p == -2 else first / last
    require_square("cond", x, complex_too=True)
    if x.shape[-1] == 0:
        return real(x.detach()).new_zeros(x.shape[:-2])
    inverse, info = inv_ex(x)
    found = matrix_norm(x, p) * matrix_norm(inverse, p)
    return where(ne(info, 0), float("inf"), found)


def _squares(x: Any) -> Any:
    return real(conj(x) * x) if x.dtype.is_complex else x * x


@op(name="linalg.lstsq", face=Face.LINALG)
def lstsq(
    x: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None
) -> LeastSquares:
    """The ``y`` of least ``|x @ y - b|``, and of these the shortest.

    Args:
        x: ``(..., m, n)``, floating or complex.
        b: ``(..., m, k)``, of as many axes, whose batches are broadcast; or a vector for each
            matrix, one axis less.
        rcond: singular values up to so many times the largest are taken for 0; None: ``max(m, n)``
            times the dtype's ``eps``.
        driver: PyTorch's names. The method is one, by singular values; ``gels`` and ``gelsy``
            leave the singular values out, ``gelsy`` the residuals, too.

    Returns:
        ``(..., n, k)``; the residuals ``(..., k)`` if ``m > n``, else none; int64 ranks; the
        singular values. Where a rank is below ``n`` residuals are given all the same.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: if the driver is unknown.
    """
    require_matrix("lstsq", x, complex_too=True)
    how = "gelsy" if driver is None else driver
    if how not in _DRIVERS:
        raise ArgumentError("lstsq", f"driver is one of {', '.join(_DRIVERS)}", driver=driver)
    vector = b.ndim == x.ndim - 1 and b.shape == x.shape[:-1]
    columns = unsqueeze(b, -1) if vector else b
    if columns.ndim != x.ndim or columns.shape[-2] != x.shape[-2]:
        law = "b has the rows and axes of x, or is a vector for each matrix"
        raise ShapeError("lstsq", law, x=x.shape, b=b.shape)
    if any(
        1 not in sizes and sizes[0] != sizes[1]
        for sizes in zip(x.shape[:-2], columns.shape[:-2], strict=True)
    ):
        raise ShapeError("lstsq", "batches are broadcast", x=x.shape, b=b.shape)
    m, n = x.shape[-2:]
    inverse = pinv(x, rtol=rcond)
    y = matmul(inverse, columns)
    # What rounding the pseudo-inverse left behind is solved for once more.
    y = y + matmul(inverse, columns - matmul(x, y))
    none = real(x.detach()).new_zeros((0,))
    apart = matmul(x, y) - columns
    residuals = total(_squares(apart), -2) if m > n and how != "gelsy" else none
    rank = matrix_rank(x, rtol=rcond) if how != "gels" else none.to(int64)
    values = svdvals(x.detach()) if how in ("gelsd", "gelss") else none
    return returned("linalg_lstsq", LeastSquares)(
        reshape(y, y.shape[:-1]) if vector else y, residuals, rank, values
    )


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def matrix_exp(x: Tensor) -> Tensor:
    """``1 + x + x @ x / 2 + ...`` of square matrices.

    Args:
        x: ``(..., n, n)``, floating or complex.

    Returns:
        The shape of ``x``: Taylor's polynomial of a matrix scaled to a norm of at most 1 (float32:
        3), squared as often as it was halved; NaN for a norm of 65536 times that and more.

    Raises:
        ShapeError: if ``x`` is not square.
    """
    if x.dtype.is_complex:
        return of_blocks(matrix_exp(in_blocks(x)))
    require_square("matrix_exp", x)
    if x.numel() == 0:
        return x * 1
    size = matrix_norm(x.detach(), 1, keepdim=True)
    most = 1.0 if x.dtype is float64 else _MOST
    halvings = ceil(log2(clamp(size / most, min=1.0)))
    scaled = x * exp2(-halvings)
    ones = identity_like(x)
    powers = [ones, scaled]
    for _ in range(3):
        powers.append(matmul(powers[-1], scaled))
    y: Any = None
    for start in reversed(range(0, _TERMS, 4)):
        terms = [p * (1 / math.factorial(start + k)) for k, p in enumerate(powers[:4])]
        block = terms[0] + terms[1] + terms[2] + terms[3]
        y = block if y is None else block + matmul(powers[4], y)
    for k in range(_SQUARINGS):
        y = where(halvings > k, matmul(y, y), y)
    return where(halvings > _SQUARINGS, float("nan"), y)


@op(name="linalg.diagonal", face=Face.LINALG)
def linalg_diagonal(x: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as :func:`diagonal`."""
    return diagonal(x, offset, dim1, dim2)


@op(name="linalg.vander", face=Face.LINALG)
def vander(x: Tensor, N: int | None = None) -> Tensor:  # noqa: N803 - PyTorch's
    """Powers ``1, x, x**2 ...`` along a new last axis.

    Args:
        x: ``(..., n)``; a number is ``(1,)``.
        N: how many; None: ``n``.

    Returns:
        ``(..., n, N)``; of whole numbers int64.

    Raises:
        ArgumentError: if ``N`` is below 2.
    """
    x = reshape(x, (1,)) if x.ndim == 0 else x
    x = x if x.dtype.is_floating_point or x.dtype.is_complex else to_dtype(x, int64)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise ArgumentError("vander", "N is 2 or more", N=count)
    columns = [x.detach().new_ones(x.shape)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return cat([unsqueeze(c, -1) for c in columns], -1)


@op(name="linalg.tensorinv", face=Face.LINALG)
def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse of ``x`` as a matrix of its first ``ind`` axes by the others.

    Args:
        x: floating; the products of both groups' sizes agree.
        ind: how many axes are the rows'.

    Returns:
        The axes of the columns, then those of the rows.

    Raises:
        ArgumentError: if ``ind`` is not positive.
        ShapeError: if the groups' sizes differ.
    """
    if ind <= 0:
        raise ArgumentError("tensorinv", "ind is 1 or more", ind=ind)
    rows, columns = x.shape[:ind], x.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError("tensorinv", "both groups of axes have one size", x=x.shape, ind=ind)
    flat = reshape(x, (math.prod(rows), math.prod(columns)))
    return reshape(solve(flat, identity_like(flat)), (*columns, *rows))


@op(name="linalg.tensorsolve", face=Face.LINALG)
def tensorsolve(x: Tensor, b: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """``y`` with ``tensordot(x, y, y.ndim) = b``.

    Args:
        x: floating; its first axes are those of ``b``.
        b: as many elements as ``x`` has along its other axes.
        dims: axes of ``x`` that are moved to its end first.

    Returns:
        The other axes of ``x``.

    Raises:
        ShapeError: if sizes do not fit.
    """
    moved = x if dims is None else movedim(x, tuple(dims), tuple(range(-len(dims), 0)))
    columns = moved.shape[b.ndim :]
    if math.prod(columns) != b.numel() or moved.numel() != b.numel() ** 2:
        raise ShapeError("tensorsolve", "x is square by the axes of b", x=x.shape, b=b.shape)
    flat = reshape(moved, (b.numel(), b.numel()))
    return reshape(solve(flat, reshape(b, (b.numel(), 1))), columns)
