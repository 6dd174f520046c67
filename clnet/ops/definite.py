"""Cholesky's factors of positive definite matrices, and systems solved with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import LinAlgError, ShapeError
from ..kernels.factor import cholesky as launch_cholesky
from ..kernels.reduce import Bad
from ..values.dtypes import int32
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import broadcast_shapes
from .check import of_value, require_elements
from .complex_parts import conj, real
from .doubled import interleaved, of_interleaved
from .machinery.derived import derived
from .machinery.function import Arrays, Face, Function, apply, op
from .matmul import matmul
from .rearrange import diagonal, tril
from .shape import expand, reshape
from .triangular import (
    adjoint,
    diag_of,
    identity_like,
    matrices,
    require_matrix,
    require_square,
    solve_triangular,
    turned,
)

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_INDEFINITE = of_value("cholesky", "diagonal", "the matrix is positive definite", LinAlgError)


class FactorAndInfo(NamedTuple):
    """A triangle; ``info`` is the first leading block that is not positive definite, else 0."""

    L: Any
    info: Any


class CholeskyFactor(Function):
    """``(batch, n, n)`` as a triangle, and infos."""

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """The shape of ``x``, and int32 infos."""
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract(x.shape[:1], int32, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, and for each panel a launch or two."""
        return launch_cholesky(target, *outputs, *inputs)


def _cholesky_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    (factor,), (g,) = results, grads
    inner = tril(matmul(turned(factor), g))
    inner = inner - diag_of(diagonal(inner, 0, -2, -1)) * 0.5
    over = turned(factor)
    half = solve_triangular(over, inner, upper=True)
    whole = solve_triangular(over, turned(half), upper=True)
    return ((whole + turned(whole)) * 0.5,)


def _factored(name: str, x: Tensor, *, upper: bool) -> tuple[Tensor, Tensor]:
    """Cholesky's lower factor on the tape, of the triangle that counts, and infos."""
    require_square(name, x, complex_too=True)
    x = conj(turned(x)) if upper else x
    if x.dtype.is_complex:  # of the real form the factor is the factor's real form
        y, rows = _factored(name, interleaved(x), upper=False)
        info: Any = (rows + 1) // 2
        return of_interleaved(y), info.to(int32)
    factor, info = apply(CholeskyFactor(), matrices(name, x))
    y = derived(name, _cholesky_rule, (x,), (reshape(factor, x.shape),))
    return y, reshape(info, x.shape[:-2])


@op(Face.FUNCTION | Face.METHOD | Face.LINALG)
def cholesky(x: Tensor, upper: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - PyTorch's
    """The lower triangular ``L`` with ``L @ L.T = x`` for symmetric, positive definite matrices.

    Args:
        x: ``(..., n, n)``, floating; or complex and Hermitian, with ``L.mH`` for ``L.T``; the
            lower triangle counts.
        upper: give ``L.T``; the upper triangle counts.

    Returns:
        The shape of ``x``; NaN where it is not positive definite.

    Raises:
        ShapeError: if ``x`` is not square.
        LinAlgError: if it is not positive definite.
    """
    y, _ = _factored("cholesky", x, upper=upper)
    require_elements(real(diagonal(y.detach(), 0, -2, -1)), _INDEFINITE, Bad.NOT_ABOVE, 0)
    return conj(turned(y)) if upper else y


@op(name="linalg.cholesky_ex", face=Face.LINALG)
def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> FactorAndInfo:
    """:func:`cholesky`, and what would be reported.

    Args:
        x: ``(..., n, n)``, floating.
        upper: give the upper triangle, of which it is made.
        check_errors: report it, too.

    Returns:
        The factor, and int32 infos of the shape of the batch.

    Raises:
        ShapeError: if ``x`` is not square.
    """
    y, info = _factored("cholesky_ex", x, upper=upper)
    if check_errors:
        require_elements(info, _INDEFINITE, Bad.OUTSIDE)
    return returned("linalg_cholesky_ex", FactorAndInfo)(conj(turned(y)) if upper else y, info)


@cache
def _cholesky_solve_rule(upper: bool) -> Any:  # noqa: FBT001
    """The factor's gradient is that of any matrix in its place, as PyTorch's."""

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        (_, x), (y,) = inputs, results
        gb = cholesky_solve(grads[0], x, upper)
        common = matmul(gb, adjoint(y))
        common = common + adjoint(common)
        return gb, -(matmul(x, common) if upper else matmul(common, x))

    return rule


@op(_BOTH)
def cholesky_solve(b: Tensor, x: Tensor, upper: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """``y`` with ``x @ x.T @ y = b``, for a factor that :func:`cholesky` gave.

    Args:
        b: ``(..., n, k)``, floating; or complex, with ``x.mH`` for ``x.T``.
        x: ``(..., n, n)``.
        upper: whether ``x`` is the upper factor: ``x.T @ x @ y = b``.

    Returns:
        The shape of ``b``, with the broadcast batch.

    Raises:
        ShapeError: if shapes do not fit.
    """
    require_square("cholesky_solve", x, complex_too=True)
    require_matrix("cholesky_solve", b, complex_too=True)
    if b.shape[-2] != x.shape[-1]:
        raise ShapeError("cholesky_solve", "b has the rows of x", x=x.shape, b=b.shape)
    batch = broadcast_shapes("cholesky_solve", x.shape[:-2], b.shape[:-2])
    x, b = expand(x, (*batch, *x.shape[-2:])), expand(b, (*batch, *b.shape[-2:]))
    factor = x.detach()
    lower, higher = (adjoint(factor), factor) if upper else (factor, adjoint(factor))
    y = solve_triangular(lower, b.detach(), upper=False)
    y = solve_triangular(higher, y, upper=True)
    return derived("cholesky_solve", _cholesky_solve_rule(upper), (b, x), (y,))


@op(_BOTH)
def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """The inverse of what :func:`cholesky` factored; arguments as :func:`cholesky_solve`'s."""
    require_square("cholesky_inverse", x, complex_too=True)
    return cholesky_solve(identity_like(x), x, upper)
