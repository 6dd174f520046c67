"""Elementwise functions of mathematics beyond arithmetic, in PyTorch's names."""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes

from .. import expr as e
from ..errors import DtypeError
from ..values.dtypes import Kind
from .arithmetic import Number, add, complex_factor, div, lt, mul, where
from .arithmetic import abs as magnitude
from .complex_parts import complex_of, imag, real
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate, pointwise
from .machinery.promotion import Operand

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD


@pointwise(face=_BOTH, result=Result.floating)
def exp2(x):
    """``2 ** x``."""
    return e.exp2(x)


@pointwise(face=_BOTH, result=Result.floating)
def log10(x):
    """The logarithm to base 10."""
    return e.log10(x)


@pointwise(face=_BOTH, result=Result.floating)
def tan(x):
    """The tangent of radians."""
    return e.tan(x)


@pointwise(face=_BOTH, result=Result.floating)
def asin(x):
    """The inverse sine, in radians; NaN outside [-1, 1]."""
    return e.asin(x)


@pointwise(face=_BOTH, result=Result.floating)
def acos(x):
    """The inverse cosine, in radians; NaN outside [-1, 1]."""
    return e.acos(x)


@pointwise(face=_BOTH, result=Result.floating)
def atan(x):
    """The inverse tangent, in radians."""
    return e.atan(x)


@pointwise(face=_BOTH, result=Result.floating)
def atan2(x, other):
    """The angle of the point ``(other, x)``, in radians; its gradient at the origin is 0."""
    return e.atan2(x, other)


@pointwise(face=_BOTH, result=Result.floating)
def sinh(x):
    """The hyperbolic sine."""
    return e.sinh(x)


@pointwise(face=_BOTH, result=Result.floating)
def cosh(x):
    """The hyperbolic cosine."""
    return e.cosh(x)


@pointwise(face=_BOTH, result=Result.floating)
def asinh(x):
    """The inverse hyperbolic sine."""
    return e.asinh(x)


@pointwise(face=_BOTH, result=Result.floating)
def acosh(x):
    """The inverse hyperbolic cosine; NaN below 1."""
    return e.acosh(x)


@pointwise(face=_BOTH, result=Result.floating)
def atanh(x):
    """The inverse hyperbolic tangent; NaN outside [-1, 1]."""
    return e.atanh(x)


@pointwise(face=_BOTH, result=Result.floating)
def hypot(x, other):
    """``sqrt(x * x + other * other)`` without overflow."""
    return e.hypot(x, other)


@pointwise(face=_BOTH, result=Result.floating)
def erfc(x):
    """``1 - erf(x)``, precise for large ``x``."""
    return e.erfc(x)


@pointwise(face=_BOTH)
def trunc(x):
    """The whole part, towards 0."""
    return e.trunc(x)


@pointwise(face=_BOTH)
def frac(x):
    """What :func:`trunc` takes away, with the sign of ``x``."""
    return x - e.trunc(x)


@pointwise(face=_BOTH)
def fmax(x, other):
    """The larger of two; the other one if one is NaN."""
    return e.fmax(x, other)


@pointwise(face=_BOTH)
def fmin(x, other):
    """The smaller of two; the other one if one is NaN."""
    return e.fmin(x, other)


@pointwise(face=_BOTH, result=Result.floating)
def copysign(x, other):
    """``|x|`` with the sign of ``other``."""
    return e.copysign(x, other)


def _complex_logaddexp(x, other):
    """That of the two numbers: beside the larger real part the other's exponential is at most 1."""
    swapped = x.re < other.re
    where_: Any = e.where  # of pairs, too
    high, low = where_(swapped, other, x), where_(swapped, x, other)
    # Equal infinities: their difference would be NaN. Of two zeros the logarithm has no angle.
    equal = e.logical_and(e.eq(high.re, low.re), e.isinf(high.re))
    infinite = where_(high.re < 0, low, e.log(e.exp(high) + e.exp(low)))
    found = where_(equal, infinite, high + e.log1p(e.exp(low - high)))
    return where_(e.logical_or(e.isnan(x), e.isnan(other)), e.Pair(math.nan, math.nan), found)


def _logaddexp_gradient(g, y, x, other):
    return g * e.sigmoid(x - other), g * e.sigmoid(other - x)


@pointwise(face=_BOTH, result=Result.floating, gradient=_logaddexp_gradient)
def logaddexp(x, other):
    """``log(exp(x) + exp(other))`` without overflow."""
    if isinstance(x, e.Pair) or isinstance(other, e.Pair):
        return _complex_logaddexp(*(z if isinstance(z, e.Pair) else e.Pair(z) for z in (x, other)))
    larger = e.maximum(x, other)
    # Equal infinities: their difference would be NaN.
    equal = e.logical_and(e.eq(x, other), e.isinf(x))
    return e.where(equal, x, larger + e.log1p(e.exp(-abs(x - other))))


def _xlogy_gradient(g, y, x, other):
    # Of no gradient nothing comes, also where the logarithm is infinite, as in PyTorch.
    lost = e.logical_and(e.eq(g, 0), e.logical_or(other <= 0, e.isinf(other)))
    nothing = e.logical_or(e.logical_and(e.eq(x, 0), other <= 0), lost)
    return g * e.where(nothing, 0, e.log(other)), g * (x / other)


@pointwise(face=_BOTH, result=Result.floating, gradient=_xlogy_gradient)
def xlogy(x, other):
    """``x * log(other)``, 0 where ``x`` is 0; NaN where ``other`` is."""
    # Where x is 0 and the logarithm is finite, the product is 0 (and not -0) and its gradient
    # log(other).
    zero = e.eq(x, 0)
    infinite = e.logical_or(other <= 0, e.isinf(other))
    product = x * e.log(other)
    product = e.where(e.logical_and(zero, infinite), 0, e.where(zero, product + 0, product))
    return e.where(e.isnan(other), other, product)


@pointwise(face=_BOTH, result=Result.boolean)
def isfinite(x):
    """Whether it is neither infinite nor NaN."""
    return e.logical_not(e.logical_or(e.isnan(x), e.isinf(x)))


def _logit(x):
    return e.log(x / (1 - x))


def _logit_gradient(g, y, x):
    outside = e.logical_or(x < 0, x > 1)
    return e.where(outside, float("nan"), _logit_slope(g, x))


def _logit_slope(g, x):
    return e.where(e.eq(x, 0), g / abs(x), g / (x * (1 - x)))  # of -0 as of 0


def _clamped_logit_gradient(g, y, x, eps):
    # NaN is not outside, and nothing is outside of bounds that are NaN.
    return e.where(e.logical_or(x < eps, x > 1 - eps), 0, _logit_slope(g, x))


def _clamped_logit(x, eps):
    # The lower bound counts where they cross, eps > 0.5: PyTorch's order.
    return _logit(e.where(x < eps, eps, e.where(x > 1 - eps, 1 - eps, x)))


@op(_BOTH)
def logit(x: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``, the inverse of :func:`sigmoid`.

    Args:
        x: any shape.
        eps: hold ``x`` between ``eps`` and ``1 - eps`` first; None or less than 0: not.
        out: what to overwrite with the result.

    Returns:
        The same shape; NaN outside [0, 1] without ``eps``.
    """
    if eps is None or eps < 0:
        return evaluate(
            "logit", _logit, [x], result=Result.floating, gradient=_logit_gradient, out=out
        )
    return evaluate(
        "logit",
        _clamped_logit,
        [x],
        [eps],
        result=Result.floating,
        gradient=_clamped_logit_gradient,
        out=out,
    )


def _lerp(x, end, weight):
    # From the nearer end: so weight 1 gives ``end`` exactly.
    step = end - x
    near = e.where(weight < 0, -weight, weight) < 0.5
    return e.where(near, x + weight * step, end - step * (1 - weight))


def _lerp_gradient(g, y, x, end, weight):
    return g * (1 - weight), g * weight, g * (end - x)


@op(_BOTH)
def lerp(x: Tensor, end: Tensor, weight: Operand, *, out: Tensor | None = None) -> Tensor:
    """``x + weight * (end - x)``, broadcast; exact at weights 0 and 1.

    Args:
        x: any shape, floating or complex.
        end: broadcasts with ``x``, same dtype.
        weight: a number, or a tensor that broadcasts with both.
        out: what to overwrite with the result.

    Returns:
        The broadcast shape.

    Raises:
        DtypeError: if ``x`` and ``end`` differ in dtype, or are whole numbers.
    """
    if x.dtype is not end.dtype or x.dtype.kind < Kind.FLOATING:
        raise DtypeError("lerp", "both ends have one floating dtype", x=x.dtype, end=end.dtype)
    if x.dtype.is_complex:
        far = end - (end - x) * (1 - weight)
        near = lt(magnitude(mul(x.new_ones(()), weight)), 0.5)
        y = where(near, x + weight * (end - x), far)
        return y if out is None else out.copy_(y)
    operands = [x, end, weight]
    return evaluate("lerp", _lerp, operands, promoted=[x, end], gradient=_lerp_gradient, out=out)


def _add_product(x, first, second, value):
    return x + value * first * second


def _add_quotient(x, first, second, value):
    return x + value * (first / second)


@op(_BOTH)
def addcmul(
    x: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``x + value * tensor1 * tensor2``, broadcast, in one pass."""
    if isinstance(value, complex):
        return add(x, mul(mul(tensor1, complex_factor("addcmul", value, x)), tensor2), out=out)
    return evaluate("addcmul", _add_product, [x, tensor1, tensor2], [value], out=out)


@op(_BOTH)
def addcdiv(
    x: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``x + value * tensor1 / tensor2``, broadcast, in one pass; floating or complex operands.

    Raises:
        DtypeError: if both divided operands are whole numbers.
    """
    if builtins.max(tensor1.dtype.kind, tensor2.dtype.kind) < Kind.FLOATING:
        raise DtypeError(
            "addcdiv",
            "whole numbers are not divided",
            tensor1=tensor1.dtype,
            tensor2=tensor2.dtype,
            remedy="Convert one with .float()",
        )
    if isinstance(value, complex):
        return add(x, mul(div(tensor1, tensor2), complex_factor("addcdiv", value, x)), out=out)
    return evaluate("addcdiv", _add_quotient, [x, tensor1, tensor2], [value], out=out)


def _itself(x):
    return x


def _numbers_only(x, nan, posinf, neginf):
    finite = e.where(e.isinf(x), e.where(x > 0, posinf, neginf), x)
    return e.where(e.isnan(x), nan, finite)


@op(_BOTH)
def nan_to_num(
    x: Tensor,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN and infinities replaced by numbers.

    Args:
        x: any shape.
        nan: what replaces NaN.
        posinf: what replaces infinity; None: the largest number of the dtype.
        neginf: what replaces -infinity; None: the least.
        out: what to overwrite with the result.

    Returns:
        The same shape and dtype; the gradient is 0 where a number was replaced. Of complex numbers
        the parts are replaced.
    """
    if x.dtype.is_complex:
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x)))
        y = complex_of(*parts)
        return y if out is None else out.copy_(y)
    if not x.dtype.is_floating_point:
        return evaluate("nan_to_num", _itself, [x], out=out)
    largest = float(ml_dtypes.finfo(x.dtype.numpy).max)
    ends = [largest if posinf is None else posinf, -largest if neginf is None else neginf]
    return evaluate("nan_to_num", _numbers_only, [x], [nan, *ends], out=out)


def _whole(name: str) -> Callable[[Any], tuple[Any, Any]]:
    """What gives the dtypes of an op on bits."""

    def dtypes(dtype: Any) -> tuple[Any, Any]:
        if dtype.is_floating_point:
            raise DtypeError(
                name,
                "only booleans and integers have bits",
                dtype=dtype,
                remedy="Compare it, or convert it with .to(dtype)",
            )
        return Result.promoted(dtype)

    return dtypes


@pointwise(face=_BOTH, result=_whole("bitwise_not"))
def bitwise_not(x):
    """``~x``: every bit flipped; of booleans, the opposite."""
    return e.bitwise_not(x)


@pointwise(face=_BOTH, result=_whole("bitwise_and"))
def bitwise_and(x, other):
    """``x & other``, bit by bit; of booleans, whether both are true."""
    return e.bitwise_and(x, other)


@pointwise(face=_BOTH, result=_whole("bitwise_or"))
def bitwise_or(x, other):
    """``x | other``, bit by bit; of booleans, whether one is true."""
    return e.bitwise_or(x, other)


@pointwise(face=_BOTH, result=_whole("bitwise_xor"))
def bitwise_xor(x, other):
    """``x ^ other``, bit by bit; of booleans, whether exactly one is true."""
    return e.bitwise_xor(x, other)


@pointwise(face=_BOTH, result=_whole("bitwise_left_shift"))
def bitwise_left_shift(x, other):
    """``x << other``; 0 when as many bits as there are, or more, are shifted out."""
    return x << other


@pointwise(face=_BOTH, result=_whole("bitwise_right_shift"))
def bitwise_right_shift(x, other):
    """``x >> other``: the sign stays."""
    return x >> other


@pointwise(face=_BOTH, result=Result.boolean)
def logical_xor(x, other):
    """Whether exactly one is true (not 0)."""
    return e.logical_xor(x, other)
