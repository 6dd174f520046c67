"""Symmetric matrices, definite or not, as ``L D L.T``, and systems solved with them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import DtypeError, LinAlgError, ShapeError
from ..kernels.factor import ldl, ldl_substitute
from ..kernels.reduce import Bad
from ..values.dtypes import Kind, int32
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import broadcast_shapes
from .check import of_value, require_elements
from .machinery.function import Arrays, Face, Function, apply, op
from .rearrange import tril
from .shape import contiguous, expand, reshape
from .triangular import matrices, require_countable, require_matrix, require_square, turned

if TYPE_CHECKING:
    from ..tensor import Tensor

_SINGULAR = of_value("ldl_factor", "block", "no block of D is 0", LinAlgError)


class SymmetricFactors(NamedTuple):
    """``L`` and ``D`` in one matrix, and the exchanges as LAPACK's ``sytrf`` gives them."""

    LD: Any
    pivots: Any


class SymmetricFactorsAndInfo(NamedTuple):
    """As :class:`SymmetricFactors`; ``info`` is the first block, from 1, that is 0, else 0."""

    LD: Any
    pivots: Any
    info: Any


class LdlFactor(Function):
    """``(batch, n, n)`` as factors, exchanges and infos."""

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """The shape of ``x``, int32 exchanges and infos."""
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract(x.shape[:2], int32, x.device),
            Array.abstract(x.shape[:1], int32, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return ldl(target, *outputs, *inputs)


class LdlSubstitute(Function):
    """The solutions of systems that were factored."""

    repeats = True
    sixteen_bit = False
    differentiable = ()

    def infer(self, a: Array, pivots: Array, b: Array) -> tuple[Array, ...]:
        """The shape of ``b``."""
        return (Array.abstract(b.shape, b.dtype, b.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return ldl_substitute(target, *outputs, *inputs)


@op(name="linalg.ldl_factor", face=Face.LINALG)
def ldl_factor(x: Tensor, *, hermitian: bool = False) -> SymmetricFactors:
    """Symmetric matrices as ``L D L.T`` with exchanged rows, for :func:`linalg.ldl_solve`.

    Args:
        x: ``(..., n, n)``, floating; the lower triangle counts. It has no gradient.
        hermitian: the same for real numbers.

    Returns:
        The shape of ``x``, and int32 ``(..., n)``.

    Raises:
        ShapeError: if ``x`` is not square.
        LinAlgError: if a block of ``D`` is 0.
    """
    found = ldl_factor_ex(x, hermitian=hermitian, check_errors=True)
    return returned("linalg_ldl_factor", SymmetricFactors)(found.LD, found.pivots)


@op(name="linalg.ldl_factor_ex", face=Face.LINALG)
def ldl_factor_ex(
    x: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> SymmetricFactorsAndInfo:
    """:func:`linalg.ldl_factor`, and what would be reported: ``check_errors`` does so, too."""
    del hermitian
    require_square("ldl_factor", x)
    require_countable("ldl_factor", x)
    flat = matrices("ldl_factor", x)
    whole = tril(flat) + turned(tril(flat, -1))
    factors, pivots, info = apply(LdlFactor(), contiguous(whole))
    batch = x.shape[:-2]
    info = reshape(info, batch)
    if check_errors:
        require_elements(info, _SINGULAR, Bad.OUTSIDE)
    return returned("linalg_ldl_factor_ex", SymmetricFactorsAndInfo)(
        reshape(factors, x.shape), reshape(pivots, (*batch, x.shape[-1])), info
    )


@op(name="linalg.ldl_solve", face=Face.LINALG)
def ldl_solve(x: Tensor, pivots: Tensor, b: Tensor, *, hermitian: bool = False) -> Tensor:
    """``y`` with ``A @ y = b`` for an ``A`` that :func:`linalg.ldl_factor` took.

    Args:
        x: ``(..., n, n)``, floating.
        pivots: ``(..., n)``, int32.
        b: ``(..., n, k)``; batches are broadcast.
        hermitian: the same for real numbers.

    Returns:
        The shape of ``b``, with the broadcast batch. It has no gradient.

    Raises:
        ShapeError: if shapes do not fit.
    """
    del hermitian
    require_square("ldl_solve", x)
    require_matrix("ldl_solve", b)
    if pivots.dtype.kind is not Kind.INTEGER:
        law = "pivots are whole numbers, as ldl_factor has them"
        raise DtypeError("ldl_solve", law, pivots=pivots.dtype)
    n, columns = b.shape[-2:]
    if n != x.shape[-1] or pivots.shape != x.shape[:-1]:
        law = "b has the rows of x, and pivots are those of x"
        raise ShapeError("ldl_solve", law, x=x.shape, pivots=pivots.shape, b=b.shape)
    batch = broadcast_shapes("ldl_solve", x.shape[:-2], b.shape[:-2])
    wide = matrices("ldl_solve", expand(x, (*batch, n, n)))
    exchanges = reshape(expand(pivots.detach(), (*batch, n)), (prod(batch), n)).to(int32)
    given = matrices("ldl_solve", expand(b, (*batch, n, columns)))
    y = apply(LdlSubstitute(), wide, contiguous(exchanges), given)
    return reshape(y, (*batch, n, columns))
