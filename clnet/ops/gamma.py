"""The gamma function's logarithm and the derivatives of that; random numbers go by them, too."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .. import expr as e
from ..errors import ArgumentError, DtypeError
from ..values.dtypes import Kind, float32
from .create import positions
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate
from .reduce import sum as summed
from .shape import before, settled, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_INFINITY = float("inf")
_EULER = 0.5772156649015329
# (-1)^k (zeta(k) - 1) / k for k = 2, 3, ...: log(gamma(2 + t)) = (1 - euler) t + sum of these t^k
# (DLMF 5.7.3), which converges as (t / 2)^k.
_NEAR_TWO = (
    *(0.3224670334241133, -0.0673523010531981, 0.020580808427784553, -0.007385551028673988),
    *(0.002890510330741523, -0.0011927539117032612, 0.0005096695247430426, -0.00022315475845357936),
    *(9.945751278180857e-05, -4.4926236738133156e-05, 2.0507212775670688e-05),
    *(-9.439488275268398e-06, 4.3748667899074865e-06, -2.039215753801366e-06),
    *(9.551412130407415e-07, -4.492469198764565e-07, 2.1207184805554667e-07),
    *(-1.0043224823968102e-07, 4.76981016936398e-08, -2.2711094608943164e-08),
    *(1.0838659214896953e-08, -5.183475041970047e-09, 2.4836745438024785e-09),
)
# Stirling's series B(2k) / (2k (2k - 1)) x^(1 - 2k), and the digamma function's (DLMF 5.11).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
_SHIFT = 8  # from here on the series hold


def _polynomial(coefficients, t):
    y = e.as_number(coefficients[-1])
    for c in coefficients[-2::-1]:
        y = y * t + c
    return y


def _positive_lgamma(x):
    """Of ``x > 0``: the series about 2, reached from below by ``gamma(x + 1) = x gamma(x)``."""
    small, low, near = x < 0.5, x < 1.5, x < 2.5
    t = e.where(small, x, e.where(low, x - 1, e.where(near, x - 2, 0)))
    about_two = t * (_polynomial(_NEAR_TWO, t) * t + (1 - _EULER))
    below = about_two - e.log1p(e.where(low, t, 0)) - e.where(small, e.log(e.where(small, x, 1)), 0)
    apart = e.where(near, 3, x)
    product, w = e.as_number(1.0), apart
    for k in range(6):
        product = product * e.where(apart < _SHIFT, apart + k, 1)
    w = e.where(apart < _SHIFT, apart + 6, apart)
    # w (log(w) - 1) rather than w log(w) - w: the difference would lose digits
    stirling = w * (e.log(w) - 1) - 0.5 * e.log(w) + 0.5 * math.log(2 * math.pi)
    stirling = stirling + _polynomial(_STIRLING, 1 / (w * w)) / w - e.log(product)
    return e.where(low, below, e.where(near, about_two, e.where(e.isinf(x), x, stirling)))


def _lgamma(x):
    mirrored = _positive_lgamma(e.where(x > 0, x, 1 - x))
    off = abs(e.where(x > 0, 0.25, x - e.rint(x)))
    pole = e.logical_or(e.eq(off, 0), e.isinf(x))
    off = e.where(pole, 0.25, off)
    # sin(pi off) / pi; below float64's digits it is off, which may be subnormal
    sine = e.where(off < 1e-9, off, e.sin(off * math.pi) * (1 / math.pi))
    return e.where(x > 0, mirrored, e.where(pole, _INFINITY, -e.log(sine) - mirrored))


def _positive_digamma(x):
    total, low = e.as_number(0.0), x < _SHIFT
    for k in range(_SHIFT):
        total = total + e.where(low, 1 / (x + k), 0)
    w = e.where(low, x + _SHIFT, x)
    inverse = 1 / (w * w)
    series = tuple(b / (2 * k) for k, b in enumerate(_BERNOULLI, 1))
    return e.log(w) - 0.5 / w - _polynomial(series, inverse) * inverse - total


def _digamma(x):
    none = e.where(e.eq(x, 0), e.copysign(_INFINITY, -x), float("nan"))
    return _reflected(0, _positive_digamma, x, none)


def _reflected(n, positive, x, pole):
    """``psi_n(x) = (-1)^n psi_n(1 - x) - (d/dx)^n pi cot(pi x)`` where x is not positive.

    DLMF 5.15.6. Derivatives of the cotangent c are polynomials in it, since ``c' = -(1 + c^2)``.
    """
    mirrored = positive(e.where(x > 0, x, 1 - x))
    off = e.where(x > 0, 0.25, x - e.rint(x))
    whole = e.eq(off, 0)
    near = e.logical_and(abs(off) < 0.25, e.logical_not(whole))
    # The multiple of pi is rounded: the tangent is taken where it is small.
    small = e.where(near, off, e.where(off > 0, 0.5, -0.5) - e.where(whole, 0.25, off))
    tangent = e.tan(small * math.pi)
    cotangent = e.where(near, 1 / e.where(near, tangent, 1), tangent)
    powers = [0.0, 1.0]
    for _ in range(n):
        slope = [k * c for k, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    below = (-1.0) ** n * mirrored - math.pi ** (n + 1) * _polynomial(powers, cotangent)
    return e.where(x > 0, mirrored, e.where(whole, pole, below))


def _positive_polygamma(n):
    """``(-1)^(n + 1) n! sum of (x + k)^-(n + 1)``, its tail by Euler and Maclaurin's formula."""

    def body(x):
        total, low = e.as_number(0.0), x < _SHIFT
        for k in range(_SHIFT):
            total = total + e.where(low, (x + k) ** -(n + 1), 0)
        w = e.where(low, x + _SHIFT, x)
        inverse = 1 / (w * w)
        # The coefficients of w^-(n + 2k): B(2k) / (2k)! (n + 1) (n + 2) ... (n + 2k - 1)
        series = tuple(
            b * math.factorial(n + 2 * k - 1) / math.factorial(n) / math.factorial(2 * k)
            for k, b in enumerate(_BERNOULLI, 1)
        )
        tail = w**-n * (1.0 / n + 0.5 / w + _polynomial(series, inverse) * inverse)
        return (tail + total) * ((-1.0) ** (n + 1) * math.factorial(n))

    return body


def _polygamma(n):
    positive, pole = _positive_polygamma(n), (-1.0) ** (n + 1) * _INFINITY
    return lambda x: _reflected(n, positive, x, pole)


@op(_BOTH)
def lgamma(x: Tensor) -> Tensor:
    """``log(|gamma(x)|)``; infinite at 0 and the negative whole numbers.

    Args:
        x: any shape; whole numbers become float32.

    Returns:
        The same shape.
    """
    return evaluate(
        "lgamma",
        _lgamma,
        [x],
        result=Result.floating,
        gradient=lambda g, y, x: g * _digamma(x),
    )


@op(_BOTH)
def digamma(x: Tensor) -> Tensor:
    """The derivative of :func:`lgamma`; NaN at the negative whole numbers, infinite at 0.

    Args:
        x: any shape; whole numbers become float32.

    Returns:
        The same shape.
    """
    return evaluate(
        "digamma",
        _digamma,
        [x],
        result=Result.floating,
        gradient=lambda g, y, x: g * _polygamma(1)(x),
    )


@op(Face.FUNCTION)
def polygamma(n: int, input: Tensor) -> Tensor:  # noqa: A002 - PyTorch's
    """The derivative of order ``n`` of :func:`digamma`; infinite at 0 and below at whole numbers.

    Args:
        n: 0 or more, at most 20.
        input: any shape; whole numbers become float32.

    Returns:
        The same shape.

    Raises:
        ArgumentError: if ``n`` lies outside.
    """
    if not 0 <= n <= 20:
        raise ArgumentError("polygamma", "n lies between 0 and 20", n=n)
    if n == 0:
        return digamma(input)
    slope = _polygamma(n + 1)
    return evaluate(
        f"polygamma_{n}",
        _polygamma(n),
        [input],
        result=Result.floating,
        gradient=lambda g, y, x: g * slope(x),
    )


@op(Face.METHOD, name="Tensor.polygamma")
def tensor_polygamma(x: Tensor, n: int) -> Tensor:
    """:func:`polygamma` with the order last."""
    return polygamma(n, x)


@op(Face.METHOD)
def polygamma_(x: Tensor, n: int) -> Tensor:
    """:func:`polygamma` in place; returns the tensor."""
    return settled(x, polygamma(n, before(x)), inplace=True, name="polygamma_")


# Of exp(p / q), polynomials of u = log(x / a) and v = log(a): rows are u^0, u^1, u^2, with v^0 to
# v^3 of p, then of q (Jankowiak and Obermeyer 2018, as PyTorch has it).
_SLOPE = (
    (
        *(0.16009398, -0.094634809, 0.025146376, -0.0030648343),
        *(1.0, 0.32668115, 0.10406089, 0.0014179084),
    ),
    (
        *(0.53487893, 0.1298071, 0.065735949, -0.0015649758),
        *(0.16639465, 0.020070113, -0.0035938915, -0.00058392623),
    ),
    (
        *(0.040121004, -0.0065914022, -0.0026286047, -0.0013441777),
        *(0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07),
    ),
)


def gamma_slope(a: Tensor, x: Tensor) -> Tensor:
    """``dx / da`` of gamma variables of rate 1 and concentration ``a``, at the same probability.

    Args:
        a: above 0; any shape.
        x: the variables, the shape of ``a``.

    Returns:
        The same shape, right to about 0.0005.
    """
    return evaluate("gamma_slope", _gamma_slope, [a, x], result=Result.floating)


def _gamma_slope(a, x):
    small, large = x < 0.8, a > 8
    near = e.logical_and(x >= 0.9 * a, x <= 1.1 * a)
    below = _slope_of_small(a, e.where(small, e.where(x > 0, x, 1), 0.5))
    b = e.where(large, a, 9)
    about = _slope_about(b, e.where(large, x, b))
    # Where the saddle point's expansion divides by 0, or a root is of what is not positive, it is
    # not used.
    apart = _slope_apart(b, e.where(e.logical_or(near, e.logical_not(large)), 2 * b, x))
    middle = _slope_between(e.where(large, 1, a), e.where(large, 1, e.where(small, 1, x)))
    other = e.where(large, e.where(near, about, apart), middle)
    return e.where(small, e.where(x > 0, below, 0), other)


def _slope_of_small(a, x):
    """By the Taylor series of the incomplete gamma function."""
    factor, first, second = e.as_number(1.0), 1 / a, 1 / (a * a)
    for i in range(1, 6):
        factor = factor * x * (-1.0 / i)
        first, second = first + factor / (a + i), second + factor / ((a + i) * (a + i))
    return -x * e.exp(x) * ((e.log(x) - _positive_digamma(a)) * first - second)


def _slope_about(a, x):
    """By Rice's saddle point expansion, near the mean of many."""
    first = 1 + 24 * a * (1 + 12 * a)
    second = 1440 * a * a + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
    return first / (a * a) * (second / (a * a)) / 1244160


def _slope_apart(a, x):
    ratio, gap = e.log(x / a), a - x
    third = (x - a - a * ratio) ** -1.5
    both = e.sqrt(8 * a) / gap + e.where(x < a, -third, third)
    first = ratio * both - e.sqrt(2 / a) * (a + x) / (gap * gap)
    stirling = 1 + (1 + 1 / (24 * a)) / (12 * a)
    return -stirling * x * first / e.sqrt(8 * a)


def _slope_between(a, x):
    u, v = e.log(x / a), e.log(a)
    c = [_polynomial([row[i] for row in _SLOPE], u) for i in range(8)]
    p, q = (c[k] + v * (c[k + 1] + v * (c[k + 2] + v * c[k + 3])) for k in (0, 4))
    return e.exp(p / q)


_MOST_DIMENSIONS = 10**6


@op(_BOTH)
def mvlgamma(x: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of ``p`` dimensions, at ``x``.

    Args:
        x: any shape, above ``(p - 1) / 2``.
        p: from 1 to a million; so many times the elements of ``x`` take room for a while.

    Returns:
        The same shape.

    Raises:
        ArgumentError: if ``p`` is out of range.
        DtypeError: if ``x`` is of booleans or complex numbers.
    """
    if not 1 <= p <= _MOST_DIMENSIONS:
        raise ArgumentError("mvlgamma", f"p lies in [1, {_MOST_DIMENSIONS}]", p=p)
    if x.dtype.kind in (Kind.BOOL, Kind.COMPLEX):
        raise DtypeError(
            "mvlgamma", "x is real numbers", x=x.dtype, remedy="Convert it with .float()"
        )
    x = x if x.dtype.is_floating_point else to_dtype(x, float32)
    steps = to_dtype(positions(type(x.detach()), p, x.device), float32) * -0.5
    terms = lgamma(unsqueeze(x, -1) + to_dtype(steps, x.dtype))
    return summed(terms, -1) + 0.25 * p * (p - 1) * math.log(math.pi)
