"""QR by Householder's reflections, and products with the reflections as LAPACK keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, GradientError, ShapeError
from ..kernels.factor import householder, reflect
from ..values.record import NamedTuple
from ..values.returned import returned
from .arithmetic import where
from .complex_parts import conj, real
from .join import cat
from .machinery.derived import derived
from .machinery.function import Arrays, Face, Function, apply, op, require_same_dtype
from .matmul import matmul
from .rearrange import diagonal, tril, triu
from .shape import contiguous, expand, narrow, reshape, unsqueeze
from .triangular import (
    adjoint,
    diag_of,
    matrices,
    require_countable,
    require_matrix,
    solve_triangular,
    unit_columns,
)
from .unitary import complex_reflected, complex_reflections

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD


class Factors(NamedTuple):
    """Orthonormal columns, and an upper triangular matrix: their product is what was factored."""

    Q: Any
    R: Any


class Reflections(NamedTuple):
    """An upper triangle with reflections below it, and their factors."""

    a: Any
    tau: Any


class Householder(Function):
    """``(batch, m, n)`` as a triangle and reflections."""

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """The shape of ``x``, and factors ``(batch, min(m, n))``."""
        batch, m, n = x.shape
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract((batch, min(m, n)), x.dtype, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return householder(target, *outputs, *inputs)


class Reflect(Function):
    """``Q @ c`` for reflections, ``Q.T @ c`` if turned."""

    turned: bool

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, a: Array, tau: Array, c: Array) -> tuple[Array, ...]:
        """The shape of ``c``."""
        return (Array.abstract(c.shape, c.dtype, c.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return reflect(target, *outputs, *inputs, turned=self.turned)


def reflections(name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """``(batch, m, n)`` and ``(batch, k)``, off the tape, of any floating or complex matrices."""
    require_matrix(name, x, complex_too=True)
    require_countable(name, x)
    if x.dtype.is_complex:
        return complex_reflections(x)
    return apply(Householder(), matrices(name, x))


def first_columns(a: Tensor, tau: Tensor, columns: int) -> Tensor:
    """The first columns of the product of reflections, ``(batch, m, columns)``."""
    m = a.shape[-2]
    start = contiguous(expand(unit_columns(a, m, columns), (a.shape[0], m, columns)))
    if a.dtype.is_complex:
        return complex_reflected(a, tau, start, back=False)
    return apply(Reflect(False), a, tau, start)


def _qr_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    """Of at least as many rows as columns (Walter and Lehmann, "Algorithmic differentiation")."""
    (q, r), (gq, gr) = results, grads
    upper = triu(matmul(gr, adjoint(r)) - matmul(adjoint(q), gq))
    whole = upper + adjoint(upper) - diag_of(real(diagonal(upper, 0, -2, -1)))
    return (solve_triangular(adjoint(r), gq + matmul(q, whole), upper=False, left=False),)


def _undefined_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    raise GradientError(
        "qr",
        "columns beyond those of x are arbitrary, and R alone does not keep Q",
        remedy="Take mode='reduced'",
    )


@op(name="linalg.qr", face=Face.LINALG)
def linalg_qr(x: Tensor, mode: str = "reduced") -> Factors:
    """Orthonormal columns ``Q`` and upper triangular ``R`` with ``Q @ R = x``.

    Args:
        x: ``(..., m, n)``, floating or complex.
        mode: ``reduced``, ``complete`` (``Q`` is square), or ``r`` (``Q`` is empty). There are
            gradients where ``Q`` has no more columns than ``x``.

    Returns:
        ``(..., m, k)`` and ``(..., k, n)``, for ``k = min(m, n)``, or ``m`` if complete. Signs are
        LAPACK's: a diagonal element of ``R`` is real, and may be negative.

    Raises:
        ArgumentError: if the mode is another.
        GradientError: in backward, where there are no gradients.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError("qr", "mode is 'reduced', 'complete' or 'r'", mode=mode)
    require_matrix("qr", x, complex_too=True)
    (*batch, m, n), count = x.shape, min(x.shape[-2:])
    made = returned("linalg_qr", Factors)
    if m < n and mode != "r":  # the square in front decides
        q, front = linalg_qr(narrow(x, -1, 0, m))
        rest = matmul(adjoint(q), narrow(x, -1, m, n - m))
        return made(q, cat([front, rest], -1))
    a, tau = reflections("qr", x)
    columns = m if mode == "complete" else count
    r = reshape(triu(narrow(a, -2, 0, count)), (*batch, count, n))
    if columns > count:
        r = cat([r, r.new_zeros((*batch, columns - count, n))], -2)
    if mode == "r":
        return made(x.detach().new_zeros((0,)), derived("qr", _undefined_rule, (x,), (r,)))
    q = reshape(first_columns(a, tau, columns), (*batch, m, columns))
    rule = _qr_rule if columns == n else _undefined_rule
    return made(*derived("qr", rule, (x,), (q, r)))


@op(_BOTH)
def qr(x: Tensor, some: bool = True) -> Factors:  # noqa: FBT001, FBT002 - PyTorch's
    """:func:`linalg.qr`, reduced for ``some``, else complete."""
    return returned("qr", Factors)(*linalg_qr(x, "reduced" if some else "complete"))


@op(_BOTH)
def geqrf(x: Tensor) -> Reflections:
    """The triangle ``R`` of a QR with the reflections below it, as LAPACK keeps them.

    Args:
        x: ``(..., m, n)``, floating or complex. It has no gradient: :func:`linalg.qr` has.

    Returns:
        The shape of ``x``, and factors ``(..., min(m, n))``; :func:`linalg.householder_product`
        makes ``Q`` of them.
    """
    a, tau = reflections("geqrf", x)
    batch = x.shape[:-2]
    return returned("geqrf", Reflections)(
        reshape(a, x.shape), reshape(tau, (*batch, tau.shape[-1]))
    )


def _require_factors(name: str, x: Tensor, tau: Tensor) -> None:
    require_matrix(name, x, complex_too=True)
    require_countable(name, x)
    require_same_dtype(name, x=x.array, tau=tau.array)
    fits = tau.ndim == x.ndim - 1 and tau.shape[:-1] == x.shape[:-2]
    if not fits or tau.shape[-1] > min(x.shape[-2:]):
        law = "tau has the batch of x, and at most as many factors as x has columns"
        raise ShapeError(name, law, x=x.shape, tau=tau.shape)


def _reflected(x: Tensor, tau: Tensor, c: Tensor, *, back: bool) -> Tensor:
    """``Q @ c``, or ``Q.mH @ c``: by a kernel, or in steps that have gradients."""
    count = tau.shape[-1]
    if not (x.requires_grad or tau.requires_grad or c.requires_grad):
        if x.dtype.is_complex:
            return reshape(complex_reflected(x, tau, c, back=back), c.shape)
        flat = reshape(tau, (prod(tau.shape[:-1]), count))
        name = "householder_product"
        y = apply(Reflect(back), matrices(name, x), contiguous(flat), matrices(name, c))
        return reshape(y, c.shape)
    below = tril(narrow(x, -1, 0, count), -1)
    vectors = below + unit_columns(x, x.shape[-2], count)
    for k in range(count) if back else reversed(range(count)):
        v = narrow(vectors, -1, k, 1)
        share = unsqueeze(narrow(tau, -1, k, 1), -1)
        factor = conj(share) if back else share
        c = c - factor * matmul(v, matmul(adjoint(v), c))
    return c


@op(name="linalg.householder_product", face=Face.LINALG)
def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections, as :func:`geqrf` gives them.

    Args:
        x: ``(..., m, n)`` with ``m >= n``, floating or complex; what lies on or above the diagonal
            is not read.
        tau: ``(..., k)``, ``k <= n``.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if shapes do not fit.
    """
    _require_factors("householder_product", x, tau)
    m, n = x.shape[-2:]
    if m < n:
        raise ShapeError("householder_product", "x has no more columns than rows", x=x.shape)
    return _reflected(x, tau, expand(unit_columns(x, m, n), x.shape), back=False)


@op(_BOTH)
def orgqr(x: Tensor, tau: Tensor) -> Tensor:
    """:func:`linalg.householder_product`."""
    return householder_product(x, tau)


@op(_BOTH)
def ormqr(
    x: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    transpose: bool = False,  # noqa: FBT001, FBT002
) -> Tensor:
    """The product of the whole orthogonal matrix of reflections with another.

    Args:
        x: ``(..., m, k)``, floating or complex, as :func:`geqrf` gives it.
        tau: ``(..., k)`` at most.
        other: ``(..., m, n)``, for ``left=False`` ``(..., n, m)``, with the batch of ``x``.
        left: on which side the orthogonal matrix stands.
        transpose: take its transpose; of complex numbers the conjugate one.

    Returns:
        The shape of ``other``.

    Raises:
        ShapeError: if shapes do not fit.
    """
    _require_factors("ormqr", x, tau)
    require_matrix("ormqr", other, complex_too=True)
    rows = other if left else adjoint(other)
    if rows.shape[:-2] != x.shape[:-2] or rows.shape[-2] != x.shape[-2]:
        law = "other has the batch and the rows of x"
        raise ShapeError("ormqr", law, x=x.shape, other=other.shape)
    y = _reflected(x, tau, rows, back=transpose == left)
    return y if left else adjoint(y)


def completed(columns: Tensor) -> Tensor:
    """Orthonormal columns in the directions of orthogonal ones, also where those are 0.

    Args:
        columns: ``(batch, m, n)``, ``m >= n``, off the tape, the longest first.

    Returns:
        The shape of ``columns``.
    """
    a, tau = apply(Householder(), contiguous(columns))
    q = first_columns(a, tau, columns.shape[-1])
    signs = where(diagonal(a, 0, -2, -1) < 0, -1.0, 1.0)
    return q * unsqueeze(narrow(signs, -1, 0, columns.shape[-1]), -2)
