"""Complex matrices in the hands of the kernels that factor them; what is made of it is elsewhere.

They are ``(batch, m, n)``, dense and off the tape, and given to kernels as pairs of numbers.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..kernels.factor import (
    complex_eigen,
    complex_lu,
    unitary,
    unitary_form,
    unitary_reflect,
)
from ..values.dtypes import int32
from .complex_parts import real, view_as_complex, view_as_real
from .machinery.function import Arrays, Function, apply, results_of
from .shape import contiguous, reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


class Unitary(Function):
    """``(batch, m, n, 2)`` as a triangle and reflections."""

    repeats = True
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """The shape of ``x``, and factors ``(batch, min(m, n), 2)``."""
        batch, m, n, _ = x.shape
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract((batch, min(m, n), 2), x.dtype, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return unitary(target, *outputs, *inputs)


class UnitaryReflect(Function):
    """``Q @ c`` for reflections, ``Q.mH @ c`` if turned."""

    turned: bool

    repeats = True
    differentiable = ()

    def infer(self, a: Array, tau: Array, c: Array) -> tuple[Array, ...]:
        """The shape of ``c``."""
        return (Array.abstract(c.shape, c.dtype, c.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return unitary_reflect(target, *outputs, *inputs, turned=self.turned)


class UnitaryForm(Function):
    """A bidiagonal matrix between two unitary ones, or Hessenberg's form and one."""

    both: bool

    repeats = True
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Three, or two, of the shape of ``x``."""
        return tuple(
            Array.abstract(x.shape, x.dtype, x.device) for _ in range(3 if self.both else 2)
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        a, q, *p = outputs
        return unitary_form(target, a, q, p[0] if p else None, *inputs)


class ComplexEigen(Function):
    """Eigenvalues of ``(batch, n, n, 2)``, and their vectors where they are wanted."""

    vectors: bool

    repeats = True
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(batch, n, 2)``, and the shape of ``x``."""
        values = Array.abstract((*x.shape[:2], 2), x.dtype, x.device)
        return (values, Array.abstract(x.shape, x.dtype, x.device)) if self.vectors else (values,)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and two launches, three with vectors."""
        values, *vectors = outputs
        return complex_eigen(target, values, vectors[0] if vectors else None, *inputs)


class ComplexLu(Function):
    """``(batch, m, n, 2)`` as triangles, exchanges and infos."""

    repeats = True
    differentiable = ()

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Triangles of the shape of ``x``, int32 exchanges and infos."""
        batch, m, n, _ = x.shape
        return (
            Array.abstract(x.shape, x.dtype, x.device),
            Array.abstract((batch, min(m, n)), int32, x.device),
            Array.abstract((batch,), int32, x.device),
        )

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy and a launch."""
        return complex_lu(target, *outputs, *inputs)


def _pairs(x: Tensor) -> Tensor:
    flat = reshape(x.detach(), (prod(x.shape[:-2]), *x.shape[-2:]))
    return view_as_real(contiguous(flat))


def complex_reflections(x: Tensor) -> tuple[Tensor, Tensor]:
    """``(batch, m, n)`` and ``(batch, k)`` of any complex matrices."""
    a, tau = apply(Unitary(), _pairs(x))
    return view_as_complex(a), view_as_complex(tau)


def complex_reflected(a: Tensor, tau: Tensor, c: Tensor, *, back: bool) -> Tensor:
    """``Q @ c``, or ``Q.mH @ c``, ``(batch, m, p)``."""
    factors = view_as_real(contiguous(reshape(tau.detach(), (prod(tau.shape[:-1]), tau.shape[-1]))))
    return view_as_complex(apply(UnitaryReflect(back), _pairs(a), factors, _pairs(c)))


def tridiagonal(x: Tensor) -> tuple[Tensor, Tensor]:
    """Of Hermitian matrices real ones, of which the lower triangle counts, and ``q``."""
    form, q = apply(UnitaryForm(False), _pairs(x))
    return real(view_as_complex(form)), view_as_complex(q)


def bidiagonal(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Real matrices between ``q`` and ``p.mH`` whose product is ``x``, which is square."""
    form, q, p = apply(UnitaryForm(True), _pairs(x))
    return real(view_as_complex(form)), view_as_complex(q), view_as_complex(p)


def complex_eigenvalues(x: Tensor, *, vectors: bool) -> list[Any]:
    """Eigenvalues ``(batch, n)``, and vectors ``(batch, n, n)`` where they are wanted."""
    return [view_as_complex(y) for y in results_of(ComplexEigen(vectors), _pairs(x))]


def complex_eliminated(x: Tensor) -> tuple[Any, Any, Any]:
    """Packed triangles ``(batch, m, n)``, exchanges and infos."""
    packed, pivots, info = apply(ComplexLu(), _pairs(x))
    return view_as_complex(packed), pivots, info
