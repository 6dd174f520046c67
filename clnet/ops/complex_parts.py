"""Complex tensors and their parts: views as real numbers, and ops on complex numbers part by part.

Of an op's own module is what it does with complex numbers; here is what they share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..errors import DtypeError, ShapeError
from ..values.dtypes import DType, bool_, complex64, complex128, float32, float64
from ..values.shapes import Shape
from .machinery.function import Face, Function, Grads, Needs, Saved, apply, op
from .machinery.pointwise import Result, evaluate, pointwise
from .shape import contiguous

if TYPE_CHECKING:
    from ..tensor import Tensor


_BOTH = Face.FUNCTION | Face.METHOD


class AsReal(Function):
    """Real and imaginary parts along a new last axis, without a copy."""

    takes_complex = True
    views = True

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A view of the parts' dtype."""
        shape, strides = (*x.shape, 2), (*(2 * s for s in x.strides), 1)
        return (Array(x.storage, shape, strides, 2 * x.offset, x.dtype.real),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient's pairs as complex numbers."""
        return (view_as_complex(contiguous(grads[0])),)

    def inverse(self, shape: Shape) -> Function:
        """What gives the input, of ``shape``, from the output."""
        return AsComplex()


class AsComplex(Function):
    """Pairs along the last axis as complex numbers, without a copy."""

    views = True

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A view of the complex dtype."""
        strides = x.strides[:-1]
        if x.strides[-1] != 1 or x.offset % 2 or any(s % 2 for s in strides):
            raise ShapeError(
                "view_as_complex",
                "the two parts of every number lie side by side, in whole pairs",
                shape=x.shape,
                strides=x.strides,
                remedy="Take x.contiguous() first",
            )
        dtype, halved = _complex_of(x.dtype), tuple(s // 2 for s in strides)
        return (Array(x.storage, x.shape[:-1], halved, x.offset // 2, dtype),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient's parts."""
        return (view_as_real(grads[0]),)

    def inverse(self, shape: Shape) -> Function:
        """What gives the input, of ``shape``, from the output."""
        return AsReal()


class Part(Function):
    """The real (0) or imaginary (1) parts of complex numbers, without a copy."""

    takes_complex = True
    views = True

    which: int

    @property
    def name(self) -> str:
        return "imag" if self.which else "real"

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A view of the parts' dtype."""
        return (x.part(self.which),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient as that part."""
        body = _as_imaginary if self.which else _as_real
        return (evaluate(f"{self.name}_backward", body, [grads[0]], result=_complexed),)


class PutPart(Part):
    """The first input with the second as that part, where it was written already."""

    views = False

    def infer(self, x: Array, part: Array) -> tuple[Array, ...]:  # pyrefly: ignore[bad-override] - another input
        return (x,)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient's other part, and that part of it."""
        left, body = None, _as_real if self.which else _as_imaginary
        if needs[0]:
            other = apply(Part(1 - self.which), grads[0])
            left = evaluate(f"put_{self.name}_backward", body, [other], result=_complexed)
        return (left, apply(Part(self.which), grads[0]) if needs[1] else None)


def _as_real(x: Any) -> Any:
    return e.Pair(x)


def _as_imaginary(x: Any) -> Any:
    return e.Pair(0, x)


def _complex_of(dtype: DType) -> DType:
    return complex128 if dtype.compute == "float64" else complex64


def _complexed(dtype: DType) -> tuple[DType, DType]:
    """Computed in the promoted floating dtype, returned as complex numbers of such parts."""
    compute, floating = Result.floating(dtype)
    return compute, _complex_of(floating)


def by_parts(self: Function, *inputs: Any) -> Any:
    """What a linear function gives for complex inputs: what it gives for either part."""
    found = [
        apply(self, *(contiguous(apply(Part(k), x)) if x.dtype.is_complex else x for x in inputs))
        for k in (0, 1)
    ]
    return complex_of(*found)


def complex_of(re: Any, im: Any) -> Tensor:
    """The complex numbers of these parts, tensors or numbers."""
    return evaluate("complex", e.Pair, [re, im], result=_complexed)


def require_complex(name: str, x: Tensor) -> None:
    """Check that an op's operand is complex.

    Raises:
        DtypeError: if it is not.
    """
    if not x.dtype.is_complex:
        hint = "Make one with clnet.complex(real, imag) or .to(clnet.complex64)"
        raise DtypeError(name, "the operand is complex", dtype=x.dtype, remedy=hint)


@op(Face.FUNCTION)
def view_as_real(x: Tensor) -> Tensor:
    """Real and imaginary parts along a new last axis of size 2, without a copy.

    Raises:
        DtypeError: if ``x`` is not complex.
    """
    require_complex("view_as_real", x)
    return apply(AsReal(), x)


@op(Face.FUNCTION)
def view_as_complex(x: Tensor) -> Tensor:
    """Pairs along the last axis as complex numbers, without a copy.

    Args:
        x: ``(..., 2)``, float32 or float64; pairs lie side by side.

    Returns:
        ``(...)``.

    Raises:
        DtypeError: if it is of another dtype.
        ShapeError: if the last axis has not size 2, or pairs are torn.
    """
    if x.dtype not in (float32, float64):
        raise DtypeError("view_as_complex", "parts are float32 or float64", dtype=x.dtype)
    if x.ndim == 0 or x.shape[-1] != 2:
        raise ShapeError("view_as_complex", "the last axis has two elements", shape=x.shape)
    return apply(AsComplex(), x)


@op(Face.FUNCTION)
def real(x: Tensor) -> Tensor:
    """Real parts, as a view of complex numbers; ``x`` itself if it is real."""
    return apply(Part(0), x) if x.dtype.is_complex else x


@op(Face.FUNCTION)
def imag(x: Tensor) -> Tensor:
    """Imaginary parts, as a view.

    Raises:
        DtypeError: if ``x`` is not complex.
    """
    require_complex("imag", x)
    return apply(Part(1), x)


@op(Face.FUNCTION, name="complex")
def complex_(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers of real and imaginary parts.

    Args:
        real: float32 or float64, any shape.
        imag: of its dtype; both are broadcast together.
        out: what to overwrite with the result.

    Returns:
        complex64 or complex128.

    Raises:
        DtypeError: if a dtype is another one.
    """
    if real.dtype is not imag.dtype or real.dtype not in (float32, float64):
        law = "both parts are float32, or both float64"
        raise DtypeError("complex", law, real=real.dtype, imag=imag.dtype)
    return evaluate("complex", e.Pair, [real, imag], result=_complexed, out=out)


def _polar(size: Any, turn: Any) -> Any:
    return e.Pair(size * e.cos(turn), size * e.sin(turn))


@op(Face.FUNCTION)
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:  # noqa: A002 - PyTorch's name
    """``abs * exp(i angle)``: complex numbers of lengths and angles in radians.

    Raises:
        DtypeError: if they are not both float32, or both float64.
    """
    if abs.dtype is not angle.dtype or abs.dtype not in (float32, float64):
        law = "both are float32, or both float64"
        raise DtypeError("polar", law, abs=abs.dtype, angle=angle.dtype)
    return evaluate("polar", _polar, [abs, angle], result=_complexed, out=out)


@pointwise(face=_BOTH, result=Result.floating)
def angle(x):  # pyrefly: ignore[implicit-any-parameter]
    """The angle of complex numbers, in radians; of real ones pi below 0, else 0."""
    if isinstance(x, e.Pair):
        return e.pair_angle(x)
    return e.where(e.isnan(x), math.nan, e.where(x < 0, math.pi, 0))


@pointwise(face=_BOTH)
def sgn(x):  # pyrefly: ignore[implicit-any-parameter]
    """``x / |x|``, 0 for 0; of real numbers -1, 0 or 1."""
    return e.pair_sgn(x) if isinstance(x, e.Pair) else e.sign(x)


def _conjugate(x: Any) -> Any:
    return e.Pair(x.re, -x.im)


@op(_BOTH)
def conj_physical(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex conjugates, in new memory; real numbers themselves."""
    if not x.dtype.is_complex:
        return x if out is None else out.copy_(x)
    return evaluate("conj", _conjugate, [x], out=out)


@op(_BOTH)
def conj(x: Tensor) -> Tensor:
    """Complex conjugates; real numbers themselves. They are computed at once, here."""
    return conj_physical(x)


@op(Face.METHOD)
def conj_physical_(x: Tensor) -> Tensor:
    """Overwrite complex numbers with their conjugates; returns the tensor."""
    return conj_physical(x, out=x) if x.dtype.is_complex else x


@op(_BOTH)
def resolve_conj(x: Tensor) -> Tensor:
    """The tensor itself: conjugates are computed at once."""
    return x


@op(_BOTH)
def resolve_neg(x: Tensor) -> Tensor:
    """The tensor itself: no negation waits to be computed."""
    return x


@op(_BOTH)
def is_conj(x: Tensor) -> bool:
    """False: conjugates are computed at once."""
    return False


@op(_BOTH)
def is_neg(x: Tensor) -> bool:
    """False: no negation waits to be computed."""
    return False


@op(_BOTH)
def isreal(x: Tensor) -> Tensor:
    """Whether imaginary parts are 0; bool."""
    if not x.dtype.is_complex:
        return x.new_ones(x.shape, dtype=bool_)
    return evaluate("isreal", _imaginary_zero, [x], result=Result.boolean)


def _imaginary_zero(x: Any) -> Any:
    return e.eq(x.im, 0)
