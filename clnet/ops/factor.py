"""Matrices solved, inverted and factored, products of several, and what vectors make.

Systems are solved by elimination (:mod:`.triangular`). Nothing waits to see whether a matrix is
singular: the result holds infinities or NaN then, and the next synchronisation raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ArgumentError, DtypeError, LinAlgError, ShapeError
from ..expr import Input
from ..kernels.reduce import Bad
from ..values import mode
from ..values.dtypes import Kind, from_name
from ..values.shapes import normalize_dim
from .arithmetic import abs as magnitude
from .arithmetic import eq, log, sign, where
from .check import of_value, require_elements
from .complex_parts import conj
from .create import positions
from .machinery.autocast import computes_as_one
from .machinery.derived import derived
from .machinery.function import Face, apply, op, require_floating
from .machinery.pointwise import Pointwise
from .matmul import matmul
from .rearrange import diag, diagonal
from .reduce import mean, prod
from .reduce import sum as total
from .shape import cat, dense_copy, expand, fresh, narrow, reshape, unsqueeze
from .triangular import adjoint, linalg_lu_factor_ex, linalg_lu_solve
from .vector import norm

if TYPE_CHECKING:
    from ..tensor import Tensor


_SINGULAR = {
    name: of_value(name, "pivot", "the matrix is not singular", LinAlgError)
    for name in ("inverse", "solve")
}


@op()
def trace(x: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    Raises:
        ShapeError: if ``x`` is no matrix.
    """
    if x.ndim != 2:
        raise ShapeError("trace", "x is a matrix", x=x.shape)
    return total(diagonal(x))


@op(name="linalg.vecdot", face=Face.LINALG)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """``sum(conj(x) * y)`` along an axis; both are broadcast together."""
    return total(conj(x) * y, dim)


@op()
def vdot(x: Tensor, other: Tensor) -> Tensor:
    """As :func:`dot`, of the conjugate of the first vector."""
    return conj(x).dot(other)


@op()
@computes_as_one
def dist(x: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """The ``p``-norm of ``x - other``, taken as one vector."""
    return norm(x - other, p)


@op(name="linalg.cross", face=Face.LINALG)
def linalg_cross(x: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis.

    Args:
        x: any shape with three elements along the axis.
        other: broadcasts with it.
        dim: the axis.

    Returns:
        The broadcast shape.

    Raises:
        ShapeError: if the axis has another size.
    """
    axis = normalize_dim("cross", dim, x.ndim)
    if x.ndim != other.ndim or x.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError("cross", "the axis has three elements", x=x.shape, other=other.shape)
    parts = [narrow(v, axis, i, 1) for v in (x, other) for i in range(3)]
    kind = x.dtype
    if kind is other.dtype and kind.is_floating_point:
        function = Pointwise("cross", _CROSS, (), from_name(kind.compute), (kind,) * 3)
        return cat(apply(function, *parts), axis)
    return cat(_crossed(*parts), axis)


def _crossed(a0: Any, a1: Any, a2: Any, b0: Any, b1: Any, b2: Any) -> list[Any]:
    return [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]


_CROSS = tuple(_crossed(*map(Input, range(6))))


@op()
@computes_as_one
def cross(x: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """As :func:`linalg.cross`; without ``dim`` along the first axis of three elements."""
    if dim is None:
        axes = [d for d, n in enumerate(x.shape) if n == 3]
        if not axes:
            raise ShapeError("cross", "an axis has three elements", x=x.shape, other=other.shape)
        dim = axes[0]
    return linalg_cross(x, other, dim=dim)


@op(name="linalg.multi_dot", face=Face.LINALG)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications.

    Args:
        tensors: two or more; the first and the last may be vectors.

    Returns:
        Their product.

    Raises:
        ArgumentError: if there are fewer than two.
        ShapeError: if neighbours do not fit.
    """
    if len(tensors) < 2:
        raise ArgumentError("multi_dot", "there are two or more", tensors=len(tensors))
    axes = [x.ndim for x in tensors]
    if {*axes[1:-1]} - {2} or {axes[0], axes[-1]} - {1, 2}:
        law = "matrices are multiplied; the first and the last may be vectors"
        raise ShapeError("multi_dot", law, shapes=[x.shape for x in tensors])
    first, last = tensors[0], tensors[-1]
    chain = [unsqueeze(first, 0) if first.ndim == 1 else first, *tensors[1:-1]]
    chain.append(unsqueeze(last, 1) if last.ndim == 1 else last)
    y = _product(chain, _cuts([x.shape[0] for x in chain] + [chain[-1].shape[1]]), 0, len(chain))
    y = reshape(y, y.shape[:-1]) if last.ndim == 1 else y
    return reshape(y, y.shape[1:]) if first.ndim == 1 else y


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where each part of a chain is cut in two, by its first matrix and the one behind its last."""
    count = len(sizes) - 1
    costs = {(i, i + 1): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            k = i + length
            each = {
                j: costs[i, j] + costs[j, k] + sizes[i] * sizes[j] * sizes[k]
                for j in range(i + 1, k)
            }
            cuts[i, k] = min(each, key=lambda j: each[j])
            costs[i, k] = each[cuts[i, k]]
    return cuts


def _product(chain: Sequence[Tensor], cuts: dict[tuple[int, int], int], i: int, k: int) -> Tensor:
    if k == i + 1:
        return chain[i]
    j = cuts[i, k]
    return matmul(_product(chain, cuts, i, j), _product(chain, cuts, j, k))


@op(Face.FUNCTION)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, as :func:`linalg.multi_dot`.

    Raises:
        ShapeError: if one is no matrix.
    """
    if any(m.ndim != 2 for m in matrices):
        raise ShapeError(
            "chain_matmul", "operands are matrices", shapes=[m.shape for m in matrices]
        )
    return dense_copy(matrices[0]) if len(matrices) == 1 else multi_dot(matrices)


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """A square matrix times itself, ``n`` factors; of the inverse for ``n`` below 0.

    Args:
        x: ``(..., m, m)``, floating or complex.
        n: how many.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if ``x`` is not square.
    """
    _require_square("matrix_power", x)
    if n < 0:
        return matrix_power(inverse(x), -n)
    power, square = None, x
    while n:
        if n % 2:
            power = square if power is None else matmul(power, square)
        n //= 2
        square = matmul(square, square) if n else square
    return _identity(x) if power is None else fresh(power, x)


class SignAndLogarithm(NamedTuple):
    """A determinant's sign, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def det(x: Tensor) -> Tensor:
    """The determinant of ``(..., n, n)``; 0 of a singular matrix, whose gradient is NaN."""
    _require_square("det", x)
    pivots, swaps = _eliminated(x)
    return prod(pivots, -1) * swaps


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def slogdet(x: Tensor) -> SignAndLogarithm:
    """Sign and logarithm of the determinant's magnitude of ``(..., n, n)``."""
    _require_square("slogdet", x)
    pivots, swaps = _eliminated(x)
    size = magnitude(pivots)
    # That of complex numbers is an angle, which has a gradient.
    signs = pivots / where(eq(size, 0), 1, size) if x.dtype.is_complex else sign(pivots).detach()
    return SignAndLogarithm(prod(signs, -1) * swaps, total(log(size), -1))


@op()
def logdet(x: Tensor) -> Tensor:
    """The logarithm of the determinant of ``(..., n, n)``; NaN where a real one is below 0."""
    found = slogdet(x)
    if x.dtype.is_complex:
        return log(found.sign) + found.logabsdet
    return where(found.sign < 0, float("nan"), found.logabsdet)


@op(Face.FUNCTION | Face.METHOD)
def inverse(x: Tensor) -> Tensor:
    """The inverse of ``(..., n, n)``.

    Raises:
        ShapeError: if ``x`` is not square.
        LinAlgError: at the next synchronisation, if it is singular.
    """
    _require_square("inverse", x)
    y, _, _ = _solved("inverse", x.detach(), _identity(x))
    return derived("inverse", _inverse_rule, (x,), (y,))


def _inverse_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    back = adjoint(results[0])
    return (-matmul(matmul(back, grads[0]), back),)


@op(name="linalg.inv", face=Face.LINALG)
def inv(x: Tensor) -> Tensor:
    """The inverse of ``(..., n, n)``, as :func:`inverse`."""
    return inverse(x)


@op(name="linalg.solve", face=Face.LINALG)
def solve(x: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """``y`` with ``x @ y = b``, by elimination with row pivots; ``y @ x = b`` with ``left=False``.

    Args:
        x: ``(..., n, n)``, floating or complex.
        b: ``(..., n, k)``, or ``(n,)``; for ``left=False`` ``(..., k, n)``.
        left: on which side ``x`` stands.

    Returns:
        The shape of ``b``.

    Raises:
        ShapeError: if ``x`` is not square, or ``b`` has another number of rows.
        LinAlgError: at the next synchronisation, if ``x`` is singular.
    """
    _require_square("solve", x)
    if not left:
        return solve(x.transpose(-2, -1), b.transpose(-2, -1)).transpose(-2, -1)
    columns = unsqueeze(b, -1) if b.ndim == 1 else b
    if columns.shape[:-1] != x.shape[:-1]:
        raise ShapeError("solve", "b has the rows of x", x=x.shape, b=b.shape)
    found = _solved("solve", x.detach(), columns.detach())
    y, *_ = derived("solve", _solve_rule, (x, columns), found, partial=True)
    return reshape(y, b.shape)


def _solve_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    (x, _), (y, factors, pivots), g = inputs, results, grads[0]
    again = mode.current().grad  # by who differentiates the gradient, which depends on x
    gb = solve(adjoint(x), g) if again else linalg_lu_solve(factors, pivots, g, adjoint=True)
    return -matmul(gb, adjoint(y)), gb


def _solved(name: str, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The solution, packed triangles and exchanges; a pivot of 0 is told."""
    found = linalg_lu_factor_ex(x)
    pivots = diagonal(found.LU, 0, -2, -1)
    require_elements(magnitude(pivots), _SINGULAR[name], Bad.EQUAL, 0)
    return linalg_lu_solve(found.LU, found.pivots, b), found.LU, found.pivots


def _eliminated(x: Tensor) -> tuple[Tensor, Tensor]:
    """The pivots of Gauss's elimination in order, and the sign of the rows' order."""
    found = linalg_lu_factor_ex(x)
    places = positions(type(x.detach()), x.shape[-1], x.device) + 1
    swaps = prod(where(eq(found.pivots, places), 1.0, -1.0), -1)
    return diagonal(found.LU, 0, -2, -1), swaps.to(x.dtype.real)


@op()
def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables, each a row of observations.

    Args:
        x: ``(variables, observations)``, or ``(observations,)``, floating.
        correction: subtracted from the number of observations.
        fweights: ``(observations,)``, how often each was made: whole numbers.
        aweights: ``(observations,)``, how much each counts: floating.

    Returns:
        ``(variables, variables)``, or of one variable a number.

    Raises:
        ShapeError: if ``x`` has more axes, or weights are not those of its observations.
        DtypeError: if weights are of another kind.
        DataDomainError: if a weight is below 0; told at the next synchronisation.
    """
    if x.ndim > 2:
        raise ShapeError("cov", "x has two axes at most", x=x.shape)
    rows = reshape(x, (-1, x.shape[-1] if x.ndim else 1))
    for given in (fweights, aweights):
        if given is not None and given.shape != rows.shape[1:]:
            law = "a weight belongs to each observation"
            raise ShapeError("cov", law, x=x.shape, weights=given.shape)
        if given is not None and given.numel():
            not_below = of_value("cov", "weights", "they are not below 0")
            require_elements(given, not_below, Bad.BELOW, 0)
    if fweights is not None and fweights.dtype.kind is not Kind.INTEGER:
        law = "fweights are whole numbers: how often each was observed"
        raise DtypeError("cov", law, dtype=fweights.dtype)
    if aweights is not None and not aweights.dtype.is_floating_point:
        raise DtypeError("cov", "aweights are floating", dtype=aweights.dtype)
    weights: Any = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    if weights is None:
        apart = rows - mean(rows, 1, keepdim=True)
        y = matmul(apart, conj(apart.transpose(0, 1))) / (rows.shape[1] - correction)
        return y if y.shape[0] != 1 else reshape(y, ())
    weights = weights.to(rows.dtype)
    whole = total(weights)
    lost: Any = correction
    if aweights is not None and correction:
        lost = correction * total(weights * aweights) / whole
    apart = rows - total(rows * weights, 1, keepdim=True) / whole
    y = matmul(apart, conj((apart * weights).transpose(0, 1))) / (whole - lost)
    return y if y.shape[0] != 1 else reshape(y, ())


@op()
def corrcoef(x: Tensor) -> Tensor:
    """The correlations of variables, each a row of observations; arguments as :func:`cov`'s."""
    y = cov(x)
    if y.ndim == 0:
        return y / y
    spread = diag(y) ** 0.5
    return y / (unsqueeze(spread, 0) * unsqueeze(spread, 1))


def _identity(x: Tensor) -> Tensor:
    n = x.shape[-1]
    return expand(diag(x.new_ones(n)), x.shape)


def _require_matrix(name: str, x: Tensor) -> None:
    if not x.dtype.is_complex:
        require_floating(name, x.array)
    if x.ndim < 2:
        raise ShapeError(name, "x is a matrix or a batch of them", x=x.shape)


def _require_square(name: str, x: Tensor) -> None:
    _require_matrix(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(name, "matrices are square", x=x.shape)
