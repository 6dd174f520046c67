"""What elimination (:mod:`.triangular`) gives: solved systems, inverses, powers, determinants.

Nothing waits to see whether a matrix is singular: the result holds infinities or NaN then, and the
next synchronisation raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LinAlgError, ShapeError
from ..kernels.reduce import Bad
from ..values import mode
from ..values.dtypes import Kind
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import broadcast_shapes
from .arithmetic import abs as magnitude
from .arithmetic import eq, log, sign, where
from .check import of_value, require_elements
from .complex_parts import conj
from .create import positions
from .machinery.derived import derived
from .machinery.function import Face, op
from .matmul import matmul
from .rearrange import diag_embed, diagonal
from .reduce import prod
from .reduce import sum as total
from .shape import clone, expand, fresh, reshape, squeeze, unsqueeze
from .triangular import (
    adjoint,
    identity_like,
    inv_ex,
    linalg_lu_factor_ex,
    linalg_lu_solve,
    require_square,
)

if TYPE_CHECKING:
    from ..tensor import Tensor


_SINGULAR = {
    name: of_value(name, "pivot", "the matrix is not singular", LinAlgError)
    for name in ("inverse", "solve")
}


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """A square matrix times itself, ``n`` factors; of the inverse for ``n`` below 0.

    Args:
        x: ``(..., m, m)``, floating or complex; whole numbers for ``n`` of 0 or more.
        n: how many.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if ``x`` is not square.
    """
    if n < 0 or x.dtype.kind is not Kind.INTEGER:
        require_square("matrix_power", x, complex_too=True)
    elif x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError("matrix_power", "x is a square matrix or a batch of them", x=x.shape)
    if n < 0:
        return matrix_power(inverse(x), -n)
    power, square = None, x
    while n:
        if n % 2:
            power = square if power is None else matmul(power, square)
        n //= 2
        square = matmul(square, square) if n else square
    if power is None:
        return derived("matrix_power", _zero_rule, (x,), (clone(identity_like(x)),))
    return fresh(power, x)


def _zero_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    """Of results that are the same around ``x``: on the tape they can be added to a loss."""
    return (inputs[0].detach().new_zeros(inputs[0].shape),)


class SignAndLogarithm(NamedTuple):
    """A determinant's sign, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def det(x: Tensor) -> Tensor:
    """The determinant of ``(..., n, n)``; 0 of a singular matrix, whose gradient are cofactors.

    The gradient of that gradient, and the gradient with ``create_graph``, is NaN there.
    """
    require_square("det", x, complex_too=True)
    found = linalg_lu_factor_ex(x.detach())
    y = prod(diagonal(found.LU, 0, -2, -1), -1) * _order(x, found.pivots)
    return derived("det", _det_rule, (x,), (y, found.LU, found.pivots), partial=True)[0]


def _det_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    """The determinant times the inverse: the cofactors, which a pivot of 0 leaves as they are.

    It is replaced by a number so small that only its ratio to itself counts.
    """
    (x,), (y, factors, places), g = inputs, results, grads[0]
    if mode.current().grad:  # by whoever differentiates the gradient, which depends on x
        scale = reshape(g * conj(det(x)), (*y.shape, 1, 1))
        return (scale * adjoint(inv_ex(x).inverse),)
    pivots = diagonal(factors, 0, -2, -1)
    least = float(np.finfo(x.dtype.real.numpy).tiny) ** 0.5
    added = eq(pivots, 0).to(x.dtype) * least
    scale = g * conj(prod(pivots + added, -1) * _order(x, places))
    columns = identity_like(x) * reshape(scale, (*y.shape, 1, 1))
    return (linalg_lu_solve(factors + diag_embed(added), places, columns, adjoint=True),)


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def slogdet(x: Tensor) -> SignAndLogarithm:
    """Sign and logarithm of the determinant's magnitude of ``(..., n, n)``."""
    require_square("slogdet", x, complex_too=True)
    pivots, swaps = _eliminated(x)
    size = magnitude(pivots)
    # That of complex numbers is an angle, which has a gradient.
    if x.dtype.is_complex:
        signs = prod(pivots / where(eq(size, 0), 1, size), -1) * swaps
    else:
        given = prod(sign(pivots.detach()), -1) * swaps
        signs = derived("slogdet", _zero_rule, (x,), (given,))
    return returned("linalg_slogdet", SignAndLogarithm)(signs, total(log(size), -1))


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
        LinAlgError: if it is singular.
    """
    require_square("inverse", x, complex_too=True)
    y, _, _ = _solved("inverse", x.detach(), identity_like(x))
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
        b: ``(..., n, k)``, or ``(n,)``, or for several ``x`` as many vectors, ``(..., n)``; for
            ``left=False`` ``(..., k, n)``. Batches are broadcast.
        left: on which side ``x`` stands.

    Returns:
        The shape of ``b``, with the broadcast batch.

    Raises:
        ShapeError: if ``x`` is not square, or ``b`` has another number of rows.
        LinAlgError: if ``x`` is singular.
    """
    require_square("solve", x, complex_too=True)
    if b.ndim == 1 or b.shape == x.shape[:-1]:
        if not left:
            raise ShapeError("solve", "with left=False b is of matrices", x=x.shape, b=b.shape)
        return squeeze(_solve_columns(x, unsqueeze(b, -1)), -1)
    if not left:
        return _solve_columns(x.transpose(-2, -1), b.transpose(-2, -1)).transpose(-2, -1)
    return _solve_columns(x, b)


def _solve_columns(x: Tensor, b: Tensor) -> Tensor:
    """``y`` with ``x @ y = b``, both of matrices; ``x`` is factored once for all of its ``b``."""
    if b.ndim < 2 or b.shape[-2] != x.shape[-1]:
        raise ShapeError("solve", "b has the rows of x", x=x.shape, b=b.shape)
    batch = broadcast_shapes("solve", x.shape[:-2], b.shape[:-2])
    b = expand(b, (*batch, *b.shape[-2:]))
    y, factors, pivots = _solved("solve", x.detach(), b.detach())
    x, factors = (expand(z, (*batch, *z.shape[-2:])) for z in (x, factors))
    found = y, factors, expand(pivots, x.shape[:-1])
    return derived("solve", _solve_rule, (x, b), found, partial=True)[0]


def _solve_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    (x, _), (y, factors, pivots), g = inputs, results, grads[0]
    again = mode.current().grad  # by whoever differentiates the gradient, which depends on x
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
    return diagonal(found.LU, 0, -2, -1), _order(x, found.pivots)


def _order(x: Tensor, pivots: Tensor) -> Tensor:
    """The sign of the rows' order."""
    places = positions(type(x.detach()), x.shape[-1], x.device) + 1
    return prod(where(eq(pivots, places), 1.0, -1.0), -1).to(x.dtype.real)
