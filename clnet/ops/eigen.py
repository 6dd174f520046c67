"""Eigenvalues of matrices that need not be symmetric; they are complex."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import DtypeError
from ..kernels.factor import general_eigen
from ..kernels.reduce import Bad
from ..values.dtypes import float32, float64
from ..values.record import NamedTuple
from ..values.returned import returned
from .arithmetic import div
from .check import require_elements
from .complex_parts import conj, imag, real, view_as_complex
from .elimination import solve
from .join import cat
from .machinery.derived import derived
from .machinery.function import Arrays, Face, Function, op, results_of
from .matmul import matmul
from .rearrange import diag, diagonal
from .reduce import sum as total
from .shape import narrow, reshape, unsqueeze
from .spectral import ANGLE, ANGLES, scaled_matrices
from .triangular import adjoint, diag_of, matrices, require_countable, require_square
from .unitary import complex_eigenvalues

if TYPE_CHECKING:
    from ..tensor import Tensor


class EigenPairs(NamedTuple):
    """Complex eigenvalues, and columns of length 1."""

    eigenvalues: Any
    eigenvectors: Any


class GeneralEigen(Function):
    """Eigenvalues of ``(batch, n, n)``, and their vectors where they are wanted, as pairs."""

    vectors: bool

    repeats = True
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(batch, n, 2)``, and ``(batch, n, n, 2)``."""
        values = Array.abstract((*x.shape[:2], 2), x.dtype, x.device)
        if not self.vectors:
            return (values,)
        return values, Array.abstract((*x.shape, 2), x.dtype, x.device)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and two launches, three with vectors."""
        values, *vectors = outputs
        return general_eigen(target, values, vectors[0] if vectors else None, *inputs)


def _complex_solve(a: Any, b: Any) -> Any:
    """The real parts of ``y`` with ``a @ y = b``, of complex matrices."""
    re, im = real(a), imag(a)
    whole = cat([cat([re, -im], -1), cat([im, re], -1)], -2)
    return narrow(solve(whole, cat([real(b), imag(b)], -2)), -2, 0, b.shape[-2])


def _rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    """Of lengths that stay 1: what changes them is taken off; what depends on angles is refused."""
    (values, vectors), (g_values, g_vectors) = results, grads
    back = adjoint(vectors)
    inner: Any = None if g_values is None else diag_of(g_values)
    if g_vectors is not None:
        ones = diag(real(values).detach().new_ones(values.shape[-1]))
        turns = matmul(back, g_vectors)
        angles = imag(diagonal(turns, 0, -2, -1))
        require_elements(angles, ANGLES["eig"], Bad.OUTSIDE, -ANGLE, ANGLE)
        lengths = unsqueeze(total(real(turns) * ones, -2), -2)
        turns = turns - matmul(back, vectors) * lengths
        gaps = conj(unsqueeze(values, -2) - unsqueeze(values, -1))
        turns = div(turns, gaps + ones) * (1 - ones)
        inner = turns if inner is None else inner + turns
    whole = matmul(inner, back)
    return (solve(back, whole) if inputs[0].dtype.is_complex else _complex_solve(back, whole),)


def _eigen(name: str, x: Tensor, *, vectors: bool) -> list[Tensor]:
    require_square(name, x, complex_too=True)
    require_countable(name, x)
    if x.dtype.is_complex:
        scaled, size = scaled_matrices(reshape(x.detach(), (prod(x.shape[:-2]), *x.shape[-2:])))
        values, *rest = complex_eigenvalues(scaled, vectors=vectors)
        eigenvalues = reshape(values * reshape(size, (-1, 1)), x.shape[:-1])
        return [eigenvalues, *(reshape(v, x.shape) for v in rest)]
    if x.dtype not in (float32, float64):
        raise DtypeError(name, "real matrices are float32 or float64", dtype=x.dtype)
    scaled, size = scaled_matrices(matrices(name, x))
    values, *rest = results_of(GeneralEigen(vectors), scaled)
    eigenvalues = view_as_complex(reshape(values * size, (*x.shape[:-1], 2)))
    return [eigenvalues, *(view_as_complex(reshape(v, (*x.shape, 2))) for v in rest)]


@op(name="linalg.eig", face=Face.LINALG)
def eig(x: Tensor) -> EigenPairs:
    """Complex eigenvalues of square matrices, and their vectors.

    Args:
        x: ``(..., n, n)``, float32, float64 or complex.

    Returns:
        ``(..., n)``, in no order of size, and ``(..., n, n)``, whose columns have length 1: those
        of a complex value are turned until their largest element is real. Values that are not
        real come in conjugate pairs, the one with a positive imaginary part first, if the matrix is
        real. Gradients that depend on equal eigenvalues have no meaning. Of a matrix with a NaN or
        an infinity all are NaN.

    Raises:
        ShapeError: if ``x`` is not square.
        DtypeError: if it is of another dtype.
        DataDomainError: by ``backward``, at the next synchronisation, if what is differentiated
            depends on the angle of a vector, which is arbitrary.

    Source: B. Parlett and C. Reinsch; G. Peters and J. Wilkinson, Handbook for Automatic
    Computation II, contributions 13 and 15, 1971.
    """
    found = derived("eig", _rule, (x,), _eigen("eig", x, vectors=True), partial=True)
    return returned("linalg_eig", EigenPairs)(*found)


@op(name="linalg.eigvals", face=Face.LINALG)
def eigvals(x: Tensor) -> Tensor:
    """The complex eigenvalues of square matrices; ``x`` as :func:`linalg.eig`'s."""
    if x.requires_grad:
        return eig(x).eigenvalues
    return _eigen("eigvals", x, vectors=False)[0]
