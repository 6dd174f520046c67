"""Eigenvalues of real matrices that need not be symmetric; they are complex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..array import Array
from ..device import Launch, Target
from ..errors import DtypeError
from ..kernels.factor import general_eigen
from ..kernels.reduce import Bad
from ..values.dtypes import float32, float64
from .arithmetic import div
from .check import of_value, require_elements
from .complex_parts import conj, imag, real, view_as_complex
from .factor import solve
from .machinery.derived import derived
from .machinery.function import Arrays, Face, Function, apply, op
from .matmul import matmul
from .rearrange import diag, diagonal
from .reduce import sum as total
from .shape import cat, narrow, reshape, unsqueeze
from .spectral import scaled_matrices
from .triangular import diag_of, matrices, require_square, turned

if TYPE_CHECKING:
    from ..tensor import Tensor


class ComplexEigen(NamedTuple):
    """Complex eigenvalues, and columns of length 1."""

    eigenvalues: Any
    eigenvectors: Any


_ANGLE = 1e-2  # PyTorch's
_ANGLES = of_value(
    "eig", "what is differentiated", "it does not depend on the angles of eigenvectors"
)


class GeneralEigen(Function):
    """Eigenvalues of ``(batch, n, n)``, and their vectors where they are wanted, as pairs."""

    vectors: bool

    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(batch, n, 2)``, and ``(batch, n, n, 2)``."""
        values = Array.abstract((*x.shape[:2], 2), x.dtype, x.device)
        if not self.vectors:
            return (values,)
        return values, Array.abstract((*x.shape, 2), x.dtype, x.device)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Four launches, two without vectors."""
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
    back = turned(conj(vectors))
    inner: Any = None if g_values is None else diag_of(g_values)
    if g_vectors is not None:
        ones = diag(real(values).detach().new_ones(values.shape[-1]))
        turns = matmul(back, g_vectors)
        angles = imag(diagonal(turns, 0, -2, -1))
        require_elements(angles, _ANGLES, Bad.OUTSIDE, -_ANGLE, _ANGLE)
        lengths = unsqueeze(total(real(turns) * ones, -2), -2)
        turns = turns - matmul(back, vectors) * lengths
        gaps = conj(unsqueeze(values, -2) - unsqueeze(values, -1))
        turns = div(turns, gaps + ones) * (1 - ones)
        inner = turns if inner is None else inner + turns
    return (_complex_solve(back, matmul(inner, back)),)


def _eigen(name: str, x: Tensor, *, vectors: bool) -> list[Tensor]:
    require_square(name, x)
    if x.dtype not in (float32, float64):
        raise DtypeError(name, "matrices are float32 or float64", dtype=x.dtype)
    scaled, size = scaled_matrices(matrices(name, x))
    found = apply(GeneralEigen(vectors), scaled)
    values, *rest = found if isinstance(found, tuple) else (found,)
    eigenvalues = view_as_complex(reshape(values * size, (*x.shape[:-1], 2)))
    return [eigenvalues, *(view_as_complex(reshape(v, (*x.shape, 2))) for v in rest)]


@op(name="linalg.eig", face=Face.LINALG)
def eig(x: Tensor) -> ComplexEigen:
    """Complex eigenvalues of real square matrices, and their vectors.

    Args:
        x: ``(..., n, n)``, float32 or float64.

    Returns:
        ``(..., n)``, in no order of size, and ``(..., n, n)``, whose columns have length 1: those
        of a complex value are turned until their largest element is real. Values that are not
        real come in conjugate pairs, the one with a positive imaginary part first. Gradients that
        depend on equal eigenvalues have no meaning. Of a matrix with a NaN or an infinity all are
        NaN.

    Raises:
        ShapeError: if ``x`` is not square.
        DtypeError: if it is of another dtype: complex matrices have no kernels.
        DataDomainError: by ``backward``, at the next synchronisation, if what is differentiated
            depends on the angle of a vector, which is arbitrary.

    Source: B. Parlett and C. Reinsch; G. Peters and J. Wilkinson, Handbook for Automatic
    Computation II, contributions 13 and 15, 1971.
    """
    found = derived("eig", _rule, (x,), _eigen("eig", x, vectors=True), partial=True)
    return ComplexEigen(*found)


@op(name="linalg.eigvals", face=Face.LINALG)
def eigvals(x: Tensor) -> Tensor:
    """The complex eigenvalues of real square matrices; ``x`` as :func:`linalg.eig`'s."""
    if x.requires_grad:
        return eig(x).eigenvalues
    return _eigen("eigvals", x, vectors=False)[0]
