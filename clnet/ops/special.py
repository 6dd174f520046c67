"""Further mathematics of elements: angles, the inverse of erf, powers of 2, tests of sign."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..errors import DtypeError
from ..values.dtypes import Kind, float64
from .arithmetic import Number, clamp, lt, scaled
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate, pointwise
from .machinery.promotion import Operand

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_LN2 = math.log(2)


@pointwise(face=_BOTH, result=Result.floating)
def deg2rad(x):
    """Degrees as radians."""
    return x * (math.pi / 180)


@pointwise(face=_BOTH, result=Result.floating)
def rad2deg(x):
    """Radians as degrees."""
    return x * (180 / math.pi)


def _sinc_gradient(g, y, x):
    # Where x * x is 0, so is the slope; the quotient would be 0 / 0.
    square = x * x
    angle = x * math.pi
    apart = e.where(e.eq(square, 0), 1, square * math.pi)
    return e.where(e.eq(square, 0), 0, g * ((angle * e.cos(angle) - e.sin(angle)) / apart))


@pointwise(face=_BOTH, result=Result.floating, gradient=_sinc_gradient)
def sinc(x):
    """``sin(pi x) / (pi x)``, 1 at 0."""
    apart = e.where(e.eq(x, 0), 1, x * math.pi)
    return e.where(e.eq(x, 0), 1, e.sin(apart) / apart)


@pointwise(face=_BOTH)
def heaviside(x, values):
    """0 below 0, 1 above, ``values`` at 0; its gradient is 0 but for that to ``values``."""
    return e.where(e.eq(x, 0), values, e.where(x > 0, 1, 0))


def _minus(x):
    return e.copysign(1, x) < 0


@op(_BOTH)
def signbit(x: Tensor) -> Tensor:
    """Whether the sign is minus, that of -0 too."""
    return (
        evaluate("signbit", _minus, [x], result=Result.boolean)
        if (x.dtype.is_floating_point)
        else lt(x, 0)
    )


@pointwise(face=_BOTH, result=Result.boolean)
def isposinf(x):
    """Whether an element is plus infinity."""
    return e.logical_and(e.isinf(x), x > 0)


@pointwise(face=_BOTH, result=Result.boolean)
def isneginf(x):
    """Whether an element is minus infinity."""
    return e.logical_and(e.isinf(x), x < 0)


def _logaddexp2_gradient(g, y, x, other):
    return g * e.sigmoid((x - other) * _LN2), g * e.sigmoid((other - x) * _LN2)


@pointwise(face=_BOTH, result=Result.floating, gradient=_logaddexp2_gradient)
def logaddexp2(x, other):
    """``log2(2**x + 2**other)``, without overflow."""
    high, low = e.maximum(x, other), e.minimum(x, other)
    # Equal infinities differ by NaN.
    apart = e.where(e.logical_and(e.isinf(high), e.eq(high, low)), 0, low - high)
    return high + e.log1p(e.exp2(apart)) * 1.4426950408889634


@pointwise(face=_BOTH, result=Result.floating)
def ldexp(x, other):
    """``x * 2**other``."""
    return x * e.exp2(other)


# Giles, "Approximating the erfinv function" (2010), its forms: a polynomial in w = -log(1 - x^2)
# for the middle, another in its root for the ends; here each is minimax for the relative error, of
# 2^-26 at most, so that nothing has to be refined.
_MIDDLE = (
    *(6.377711431e-10, -4.638630104e-09, -2.42089646e-08, 4.263098761e-07, -1.391951003e-06),
    *(-1.389145547e-05, 0.0001867996569, -0.0007406877039, -0.006033730041, 0.2401581742),
    1.653654571,
)
_ENDS = (
    *(-0.000243694427, 0.0009431897004, -0.001744284384, 0.002498239947, -0.003740780912),
    *(0.005370102605, 1.005258436, 3.083885622),
)
_HALF_ROOT_PI = 0.8862269254527580


def _polynomial(coefficients, w):
    y = e.as_number(coefficients[0])
    for c in coefficients[1:]:
        y = y * w + c
    return y


def approximate_erfinv(x: Any) -> Any:
    """An expression for the inverse of erf in float32, within 3 ulp; NaN at 1 and -1."""
    w = -e.log((1 - x) * (1 + x))
    middle = w < 6.25
    near = e.where(middle, w - 3.125, 0)
    far = e.where(middle, 0, e.sqrt(e.where(middle, 9, w)) - 3.25)
    return e.where(middle, _polynomial(_MIDDLE, near), _polynomial(_ENDS, far)) * x


def _erfinv(x):
    return e.where(e.eq(abs(x), 1), x * float("inf"), approximate_erfinv(x))


def _erfinv_in_double(x):
    """As :func:`_erfinv`, to some units in the last place of float64."""
    size = abs(x)
    rest = 1 - size  # exact beside 1, where erf has no digits left and erfc has all
    near = size < 0.99
    start = approximate_erfinv(e.where(near, size, 0))
    y = e.where(near, start, _end_of_erfinv(e.where(near, 0.01, rest)))
    for _ in range(2):  # Halley's steps: each leaves the third power of the error
        wrong = e.where(size < 0.5, e.erf(y) - size, rest - e.erfc(y))
        step = wrong * _HALF_ROOT_PI * e.exp(y * y)
        y = y - step / (1 + y * step)
    return e.copysign(e.where(e.eq(size, 1), float("inf"), y), x)


def _end_of_erfinv(rest):
    """The inverse of ``erfc(y) = exp(-y^2) / (y sqrt(pi)) (1 - 1 / (2 y^2) ...)``, to 0.6%."""
    power = -e.log(rest * (2 * _HALF_ROOT_PI))
    y = e.sqrt(power - e.log(power) / 2)
    return e.sqrt(power - e.log(y) - 0.5 / (y * y))


def _erfinv_gradient(g, y):
    return g * _HALF_ROOT_PI * e.exp(y * y)


@op(_BOTH)
def erfinv(x: Tensor) -> Tensor:
    """The number whose error function is ``x``; infinite at -1 and 1, NaN beyond.

    Args:
        x: any shape; whole numbers become float32.

    Returns:
        The same shape.
    """
    body = _erfinv_in_double if getattr(x, "dtype", None) is float64 else _erfinv
    return evaluate("erfinv", body, [x], result=Result.floating, gradient=_erfinv_gradient)


def _entr(x):
    return e.where(x < 0, -math.inf, e.where(e.eq(x, 0), 0, -x * e.log(x)))


def _entr_gradient(g, y, x):
    return g * (-1 - e.log(x))


@op(Face.SPECIAL, name="special.entr")
def entr(x: Tensor) -> Tensor:
    """``-x log(x)``; 0 at 0, minus infinity below.

    Args:
        x: any shape; whole numbers become float32.

    Returns:
        The same shape.
    """
    return evaluate("entr", _entr, [x], result=Result.floating, gradient=_entr_gradient)


def _ndtr(x):
    return e.erfc(x * -math.sqrt(0.5)) * 0.5


@op(Face.SPECIAL, name="special.ndtr")
def ndtr(x: Tensor) -> Tensor:
    """The area below the normal density up to ``x``; arguments as :func:`special.entr`'s."""
    return evaluate("ndtr", _ndtr, [x], result=Result.floating)


# Wichura, "The percentage points of the normal distribution" (1988), AS 241: quotients of
# polynomials for the middle, and in the root of -log(share) for the ends and the far ends.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_END = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR_END = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def _quotient(coefficients, x):
    above, below = coefficients
    return _polynomial(above, x) / _polynomial(below, x)


def _ndtri(x):
    share = e.minimum(x, 1 - x)
    apart = x - 0.5
    central = abs(apart) <= 0.425
    root = e.sqrt(-e.log(e.where(central, 0.25, share)))
    ends = e.where(root <= 5, _quotient(_END, root - 1.6), _quotient(_FAR_END, root - 5))
    ends = e.where(e.eq(share, 0), math.inf, ends)
    middle = apart * _quotient(_CENTRE, 0.180625 - apart * apart)
    return e.where(central, middle, e.copysign(ends, apart))


def _ndtri_gradient(g, y):
    return g * math.sqrt(2 * math.pi) * e.exp(y * y * 0.5)


@op(Face.SPECIAL, name="special.ndtri")
def ndtri(x: Tensor) -> Tensor:
    """The inverse of :func:`special.ndtr`; infinite at 0 and 1, NaN beyond; arguments as its."""
    return evaluate("ndtri", _ndtri, [x], result=Result.floating, gradient=_ndtri_gradient)


def _xlog1py(x, other):
    nothing = e.logical_and(e.eq(x, 0), e.eq(other, other))
    return e.where(nothing, 0, x * e.log1p(other))


def _xlog1py_gradient(g, y, x, other):
    nothing = e.logical_and(e.eq(x, 0), other <= -1)
    return g * e.where(nothing, 0, e.log1p(other)), g * (x / (other + 1))


@op(Face.SPECIAL, name="special.xlog1py")
def xlog1py(x: Operand, other: Operand) -> Tensor:
    """``x log(1 + other)``; 0 where ``x`` is 0, unless ``other`` is NaN.

    Args:
        x: any shape, or a number; whole numbers become float32.
        other: broadcasts with ``x``, or a number.

    Returns:
        The broadcast shape.
    """
    return evaluate(
        "xlog1py", _xlog1py, [x, other], result=Result.floating, gradient=_xlog1py_gradient
    )


@op(_BOTH)
def positive(x: Tensor) -> Tensor:
    """``x`` itself.

    Raises:
        DtypeError: if it is boolean.
    """
    if x.dtype.kind is Kind.BOOL:
        raise DtypeError("positive", "The `+` operator, on a bool tensor is not supported")
    return x


@op(_BOTH)
def clamp_min(x: Tensor, min: Operand) -> Tensor:  # noqa: A002 - PyTorch's
    """The elements, none below ``min``; arguments as :func:`clamp`'s."""
    return clamp(x, min=min)


@op(_BOTH)
def clamp_max(x: Tensor, max: Operand) -> Tensor:  # noqa: A002 - PyTorch's
    """The elements, none above ``max``; arguments as :func:`clamp`'s."""
    return clamp(x, max=max)


@op(Face.METHOD)
def clamp_min_(x: Tensor, min: Operand) -> Tensor:  # noqa: A002 - PyTorch's
    """:func:`clamp_min` in place; returns the tensor."""
    return clamp(x, min=min, out=x)


@op(Face.METHOD)
def clamp_max_(x: Tensor, max: Operand) -> Tensor:  # noqa: A002 - PyTorch's
    """:func:`clamp_max` in place; returns the tensor."""
    return clamp(x, max=max, out=x)


@op(Face.FUNCTION)
def rsub(x: Tensor, other: Operand, *, alpha: Number = 1) -> Tensor:
    """``other - alpha * x``."""
    return other - scaled("rsub", x, alpha)
