"""Eigenvalues of symmetric matrices and singular values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError
from ..kernels.factor import orthogonal_rows, symmetric_eigen
from ..kernels.reduce import Bad
from ..values.record import NamedTuple
from ..values.returned import returned
from .arithmetic import abs as magnitude
from .arithmetic import eq, where
from .check import of_value, require_elements
from .complex_parts import conj, imag, real
from .doubled import in_blocks, once
from .join import cat
from .machinery.derived import derived
from .machinery.function import Arrays, Face, Function, apply, op
from .matmul import matmul
from .orthogonal import completed, first_columns, reflections
from .rearrange import diag, diagonal, tril, triu
from .reduce import amax
from .shape import contiguous, expand, narrow, reshape, unsqueeze
from .triangular import (
    adjoint,
    diag_of,
    matrices,
    require_countable,
    require_matrix,
    require_square,
    turned,
)
from .unitary import bidiagonal, tridiagonal

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD


ANGLE = 1e-2  # PyTorch's
_WHOSE = {"eig": "eigenvectors", "eigh": "eigenvectors", "svd": "singular vectors"}
ANGLES = {
    name: of_value(name, "what is differentiated", f"it does not depend on the angles of {whose}")
    for name, whose in _WHOSE.items()
}


class Eigen(NamedTuple):
    """Eigenvalues in ascending order, and orthonormal columns."""

    eigenvalues: Any
    eigenvectors: Any


class Singular(NamedTuple):
    """Orthonormal columns, singular values in descending order, and orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


class SingularColumns(NamedTuple):
    """As :class:`Singular`, with columns in the place of the rows."""

    U: Any
    S: Any
    V: Any


class SymmetricEigen(Function):
    """Eigenvalues of ``(batch, n, n)``, of which a triangle counts, and, if wanted, vectors."""

    vectors: bool
    upper: bool = False

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(batch, n)``, and the shape of ``x``."""
        values = Array.abstract(x.shape[:2], x.dtype, x.device)
        return (values, Array.abstract(x.shape, x.dtype, x.device)) if self.vectors else (values,)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A launch."""
        values, *vectors = outputs
        wanted = vectors[0] if vectors else None
        return symmetric_eigen(target, values, wanted, *inputs, upper=self.upper)


class OrthogonalRows(Function):
    """Lengths, rows ``(batch, count, n)`` turned until they are orthogonal, and by what."""

    rotation: bool

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(batch, count)``, the shape of ``x``, and ``(batch, count, count)``."""
        batch, count, _ = x.shape
        found = [
            Array.abstract((batch, count), x.dtype, x.device),
            Array.abstract(x.shape, x.dtype, x.device),
        ]
        if self.rotation:
            found.append(Array.abstract((batch, count, count), x.dtype, x.device))
        return tuple(found)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        lengths, y, *rotation = outputs
        return orthogonal_rows(target, lengths, y, rotation[0] if rotation else None, *inputs)


def scaled_matrices(flat: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices with a largest element of 1, and what they were divided by, ``(batch, 1, 1)``."""
    if flat.numel() == 0:
        return flat, real(flat).new_ones((flat.shape[0], 1, 1))
    size = amax(magnitude(flat), (1, 2), keepdim=True)
    size = where(eq(size, 0), 1.0, size)
    return flat / size, size


def _apart(values: Any) -> Any:
    """``1 / (values[k] - values[j])`` at ``[j, k]``, and 0 on the diagonal."""
    gaps = unsqueeze(values, -2) - unsqueeze(values, -1)
    ones = diag(values.detach().new_ones(values.shape[-1]))
    return (1 - ones) / (gaps + ones)


def _eigen_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    (values, vectors), (g_values, g_vectors) = results, grads
    if g_vectors is None:  # equal eigenvalues are no matter then
        return (matmul(vectors * unsqueeze(g_values, -2), adjoint(vectors)),)
    inner = matmul(adjoint(vectors), g_vectors)
    if vectors.dtype.is_complex:
        require_elements(_angles(inner), ANGLES["eigh"], Bad.OUTSIDE, -ANGLE, ANGLE)
    inner = inner * _apart(values)
    inner = inner if g_values is None else inner + diag_of(g_values)
    return (matmul(vectors, matmul(inner, adjoint(vectors))),)


def _angles(x: Any) -> Any:
    return imag(diagonal(x, 0, -2, -1))


@op(name="linalg.eigh", face=Face.LINALG)
def eigh(x: Tensor, UPLO: str = "L") -> Eigen:  # noqa: N803 - PyTorch's
    """Eigenvalues of symmetric matrices in ascending order, and their vectors.

    Args:
        x: ``(..., n, n)``, floating, or complex and Hermitian; one triangle counts.
        UPLO: which: ``L`` or ``U``.

    Returns:
        ``(..., n)``, and ``(..., n, n)``, whose columns are orthonormal; their signs are
        arbitrary, and gradients that depend on them or on equal eigenvalues have no meaning.

    Raises:
        ShapeError: if ``x`` is not square.
        ArgumentError: if ``UPLO`` is something else.
        DataDomainError: by ``backward``, at the next synchronisation, if what is differentiated
            depends on the angle of a complex vector, which is arbitrary.
    """
    require_square("eigh", x, complex_too=True)
    if x.dtype.is_complex:
        values, vectors = _hermitian_eigen(x, UPLO)
    else:
        upper = not _is_lower("eigh", x, UPLO)
        values, vectors = apply(SymmetricEigen(True, upper), matrices("eigh", x))
    found = (reshape(values, x.shape[:-1]), reshape(vectors, x.shape))
    return returned("linalg_eigh", Eigen)(*derived("eigh", _eigen_rule, (x,), found, partial=True))


def _hermitian_eigen(x: Tensor, half: str) -> tuple[Any, Any]:
    """Eigenvalues and vectors, by a real tridiagonal matrix with the same values."""
    whole = _hermitian("eigh", x.detach(), half)
    flat = reshape(whole, (prod(x.shape[:-2]), *x.shape[-2:]))
    scaled, size = scaled_matrices(flat)
    form, q = tridiagonal(scaled)
    values, vectors = apply(SymmetricEigen(True), contiguous(form))
    return values * reshape(size, (-1, 1)), matmul(q, vectors.to(x.dtype))


def _is_lower(name: str, x: Tensor, half: str) -> bool:
    """Whether the lower triangle counts."""
    require_countable(name, x)
    if half.upper() not in ("L", "U"):
        raise ArgumentError(name, "UPLO is 'L' or 'U'", UPLO=half)
    return half.upper() == "L"


@op(name="linalg.eigvalsh", face=Face.LINALG)
def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:  # noqa: N803 - PyTorch's
    """The eigenvalues of symmetric matrices, ascending; arguments as :func:`linalg.eigh`'s.

    Those of complex, Hermitian ones, too.
    """
    require_square("eigvalsh", x, complex_too=True)
    if x.requires_grad:
        return eigh(x, UPLO).eigenvalues
    if x.dtype.is_complex:
        return once(eigvalsh(in_blocks(_hermitian("eigvalsh", x, UPLO))))
    upper = not _is_lower("eigvalsh", x, UPLO)
    values = apply(SymmetricEigen(False, upper), matrices("eigvalsh", x))
    return reshape(values, x.shape[:-1])


def _hermitian(name: str, x: Tensor, half: str) -> Tensor:
    """Hermitian matrices of one triangle, with the gradient of both, as PyTorch's.

    Imaginary parts on the diagonal do not count.
    """
    lower, plain = _is_lower(name, x, half), x.detach()
    strict = tril(plain, -1) if lower else triu(plain, 1)
    middle = diag_of(plain.diagonal(0, -2, -1).real).to(plain.dtype)
    both = (x + conj(turned(x))) * 0.5
    return (strict + middle + conj(turned(strict))) + (both - both.detach())


@cache
def _singular_rule(full: bool) -> Any:  # noqa: FBT001
    """Of all columns, or the first ones alone: what completes a basis is arbitrary."""

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        (u, s, vh), (gu, gs, gvh) = results, grads
        count = s.shape[-1]
        if gu is None and gvh is None:  # equal values, and those of 0, are no matter then
            columns = narrow(u, -1, 0, count) * unsqueeze(gs, -2)
            return (matmul(columns, narrow(vh, -2, 0, count)),)
        gu, gs, gvh = (
            y.detach().new_zeros(y.shape) if g is None else g
            for g, y in zip(grads, results, strict=True)
        )
        if full:
            u, gu = narrow(u, -1, 0, count), narrow(gu, -1, 0, count)
            vh, gvh = narrow(vh, -2, 0, count), narrow(gvh, -2, 0, count)
        squares = s * s
        apart = _apart(squares)
        down, across = unsqueeze(s, -1), unsqueeze(s, -2)
        left, right = matmul(adjoint(u), gu), matmul(vh, adjoint(gvh))
        turns, others = left - adjoint(left), right - adjoint(right)
        inner = turns * apart * across + down * others * apart
        inner = inner + diag_of(gs)
        if u.dtype.is_complex:
            angles = _angles(turns + others)
            require_elements(angles, ANGLES["svd"], Bad.OUTSIDE, -ANGLE, ANGLE)
            inner = inner + diag_of(diagonal(turns, 0, -2, -1) / (2 * s))
        if u.shape[-2] > count:
            beyond = (gu - matmul(u, left)) / across
            whole = matmul(matmul(u, inner) + beyond, vh)
        else:
            whole = matmul(u, matmul(inner, vh))
        if vh.shape[-1] > count:
            beyond = (gvh - matmul(matmul(gvh, adjoint(vh)), vh)) / down
            whole = whole + matmul(u, beyond)
        return (whole,)

    return rule


def _tall_singular(flat: Tensor, *, vectors: bool, full: bool) -> tuple[Any, ...]:
    """``(batch, m, n)``, ``m >= n``, off the tape: left vectors, values, right columns."""
    m, n = flat.shape[-2:]
    scaled, size = scaled_matrices(flat)
    # The triangle of a QR has the same singular values, and rows of a size that rotations like.
    a, tau = reflections("svd", scaled)
    triangle = contiguous(triu(narrow(a, -2, 0, n)))
    columns = m if full else n
    if flat.dtype.is_complex:
        inner, s, right = _complex_singular(triangle)
        s = s * reshape(size, (-1, 1))
    else:
        lengths, rows, *rotation = apply(OrthogonalRows(vectors), triangle)
        s = lengths * reshape(size, (-1, 1))
        if not vectors:
            return None, s, None
        right = completed(turned(rows))
        inner = turned(rotation[0])  # the left vectors of the triangle
    if columns > n:
        inner = _beside_ones(inner, columns)
    q = first_columns(a, tau, columns)
    return matmul(q, inner), s, right


def _complex_singular(triangle: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`_tall_singular` of square matrices, by real ones with the same values."""
    form, q, p = bidiagonal(triangle)
    left, s, right = _tall_singular(contiguous(form), vectors=True, full=False)
    return matmul(q, left.to(triangle.dtype)), s, matmul(p, right.to(triangle.dtype))


def _beside_ones(x: Tensor, size: int) -> Tensor:
    """Square matrices made larger by ones on the diagonal."""
    batch, n, _ = x.shape
    below = x.new_zeros((batch, size - n, n))
    ones = expand(diag(x.new_ones(size - n)), (batch, size - n, size - n))
    return cat([cat([x, below], -2), cat([turned(below), ones], -2)], -1)


def _decomposed(name: str, x: Tensor, *, full: bool) -> Singular:
    (*batch, m, n), wide = x.shape, x.shape[-2] < x.shape[-1]
    flat = contiguous(reshape(x.detach(), (prod(batch), m, n)))
    left, s, right = _tall_singular(adjoint(flat) if wide else flat, vectors=True, full=full)
    u, v = (right, left) if wide else (left, right)
    u, s = reshape(u, (*batch, m, u.shape[-1])), reshape(s, (*batch, min(m, n)))
    vh = reshape(adjoint(v), (*batch, v.shape[-1], n))
    rule = _singular_rule(full and m != n)
    return returned("linalg_svd", Singular)(*derived(name, rule, (x,), (u, s, vh), partial=True))


@op(name="linalg.svd", face=Face.LINALG)
def linalg_svd(x: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Singular:  # noqa: FBT001, FBT002
    """``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh = x``.

    Args:
        x: ``(..., m, n)``, floating or complex.
        full_matrices: ``U`` and ``Vh`` are square; else they have ``k = min(m, n)`` columns and
            rows.
        driver: taken for PyTorch's sake: there is one method, a QR and Jacobi's rotations.

    Returns:
        ``(..., m, k)``, ``(..., k)`` in descending order, ``(..., k, n)``. Vectors' signs are
        arbitrary, and gradients that depend on them or on equal values have no meaning.

    Raises:
        ShapeError: if there is no matrix.
        DataDomainError: by ``backward``, at the next synchronisation, if what is differentiated
            depends on the angles of complex vectors, which are arbitrary.
    """
    del driver
    require_matrix("svd", x, complex_too=True)
    return _decomposed("svd", x, full=full_matrices)


@op(name="linalg.svdvals", face=Face.LINALG)
def svdvals(x: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices, descending; arguments as :func:`linalg.svd`'s.

    Those of complex ones, too.
    """
    del driver
    require_matrix("svdvals", x, complex_too=True)
    if x.requires_grad:
        return _decomposed("svdvals", x, full=False).S
    if x.dtype.is_complex:  # twice each, which no gradient of a gradient may meet
        return once(svdvals(in_blocks(x)))
    flat = matrices("svdvals", x)
    wide = x.shape[-2] < x.shape[-1]
    _, s, _ = _tall_singular(turned(flat) if wide else flat, vectors=False, full=False)
    return reshape(s, (*x.shape[:-2], min(x.shape[-2:])))


@op(_BOTH)
def svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> SingularColumns:  # noqa: FBT001, FBT002
    """:func:`linalg.svd` with columns in the place of rows.

    Args:
        x: ``(..., m, n)``, floating or complex.
        some: give ``min(m, n)`` columns; else the matrices are square.
        compute_uv: without, they are square and 0.

    Returns:
        Columns, values, columns.
    """
    require_matrix("svd", x, complex_too=True)
    made = returned("svd", SingularColumns)
    if not compute_uv:
        (*batch, m, n) = x.shape
        none = x.detach()
        return made(none.new_zeros((*batch, m, m)), svdvals(x), none.new_zeros((*batch, n, n)))
    u, s, vh = _decomposed("svd", x, full=not some)
    return made(u, s, adjoint(vh))
