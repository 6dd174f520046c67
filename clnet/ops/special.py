"""Further mathematics of elements: angles, the inverse of erf, powers of 2, tests of sign."""

from __future__ import annotations

# Bodies are called with symbols and say so here, once.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
import math
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..values.dtypes import float64
from .arithmetic import clamp, lt
from .machinery.function import Face, op
from .machinery.pointwise import Operand, Result, evaluate, pointwise

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


# Giles, "Approximating the erfinv function" (2010): a polynomial in w = -log(1 - x^2) for the
# middle, another in its root for the ends; each in float32, and refined once with erf itself.
_MIDDLE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_ENDS = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
_HALF_ROOT_PI = 0.8862269254527580


def _polynomial(coefficients, w):
    y = e.as_number(coefficients[0])
    for c in coefficients[1:]:
        y = y * w + c
    return y


def approximate_erfinv(x: Any) -> Any:
    """An expression for the inverse of erf in float32, to some units in the last places."""
    w = -e.log((1 - x) * (1 + x))
    near = e.where(w < 5, w - 2.5, 0)
    far = e.where(w < 5, 0, e.sqrt(e.where(w < 5, 9, w)) - 3)
    return e.where(w < 5, _polynomial(_MIDDLE, near), _polynomial(_ENDS, far)) * x


def _erfinv(x):
    y = approximate_erfinv(x)
    y = y - (e.erf(y) - x) * _HALF_ROOT_PI * e.exp(y * y)
    return e.where(e.eq(abs(x), 1), x * float("inf"), y)


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


@op(_BOTH)
def positive(x: Tensor) -> Tensor:
    """``x`` itself."""
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
def rsub(x: Tensor, other: Operand, *, alpha: float = 1) -> Tensor:
    """``other - alpha * x``."""
    return other - (x if alpha == 1 else x * alpha)
