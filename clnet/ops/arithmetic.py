"""Pointwise arithmetic, mathematics, comparisons and selection, in PyTorch's names.

Bodies are called once with symbols (see :mod:`clnet.ops.pointwise`); what PyTorch writes with two
names has two names here.
"""

from __future__ import annotations

# Bodies are called with symbols and say so here, once.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
import builtins
from collections.abc import Callable
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..dtypes import Kind
from ..errors import ArgumentError, DtypeError
from .function import Face, op
from .pointwise import Operand, Result, evaluate, pointwise, result_type

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD
_WHOLE_POWERS = (0, 1, 2, 3)
_MULTIPLIED_OUT = (-2, -1, -0.5, 0.5, *_WHOLE_POWERS)


def _sum(x, other):
    return x + other


def _difference(x, other):
    return x - other


def _scaled_sum(x, other, alpha):
    return x + alpha * other


@op(_BOTH)
def add(x: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """``x + alpha * other``, broadcast."""
    if alpha == 1:
        return evaluate("add", _sum, [x, other])
    return evaluate("add", _scaled_sum, [x, other], [alpha])


@op(_BOTH)
def sub(x: Operand, other: Operand, *, alpha: float = 1) -> Tensor:
    """``x - alpha * other``, broadcast."""
    if alpha == 1:
        return evaluate("sub", _difference, [x, other])
    return evaluate("sub", _scaled_sum, [x, other], [-alpha])


@pointwise(face=_BOTH)
def mul(x, other):
    """``x * other``, broadcast."""
    return x * other


@pointwise(face=_BOTH, result=Result.floating)
def div(x, other):
    """``x / other``, broadcast; integers give float32."""
    return x / other


@pointwise(face=_BOTH)
def floor_divide(x, other):
    """``floor(x / other)``, broadcast."""
    return e.floor_divide(x, other)


@pointwise(face=_BOTH)
def remainder(x, other):
    """``x - other * floor(x / other)``: the sign of ``other``, as Python's ``%``."""
    return e.remainder(x, other)


@pointwise(face=_BOTH)
def fmod(x, other):
    """``x - other * trunc(x / other)``: the sign of ``x``, as C's."""
    return e.fmod(x, other)


@pointwise(face=_BOTH)
def neg(x):
    """``-x``."""
    return -x


@pointwise(face=_BOTH)
def abs(x):  # noqa: A001 - PyTorch's name
    """``|x|``; its gradient at 0 is 0."""
    return builtins.abs(x)


@pointwise(face=_BOTH)
def sign(x):
    """-1, 0 or 1."""
    return e.sign(x)


@pointwise(face=_BOTH)
def square(x):
    """``x * x``."""
    return x * x


@pointwise(face=_BOTH, result=Result.floating)
def reciprocal(x):
    """``1 / x``."""
    return 1 / x


@pointwise(face=_BOTH, result=Result.floating, gradient=lambda g, y: g / (2 * y))
def sqrt(x):
    """The square root; NaN below 0."""
    return e.sqrt(x)


@pointwise(face=_BOTH, result=Result.floating)
def rsqrt(x):
    """``1 / sqrt(x)``."""
    return e.rsqrt(x)


@pointwise(face=_BOTH, result=Result.floating, gradient=lambda g, y: g * y)
def exp(x):
    """``e ** x``."""
    return e.exp(x)


@pointwise(face=_BOTH, result=Result.floating)
def expm1(x):
    """``e ** x - 1``, precise near 0."""
    return e.expm1(x)


@pointwise(face=_BOTH, result=Result.floating)
def log(x):
    """The natural logarithm."""
    return e.log(x)


@pointwise(face=_BOTH, result=Result.floating)
def log1p(x):
    """``log(1 + x)``, precise near 0."""
    return e.log1p(x)


@pointwise(face=_BOTH, result=Result.floating)
def log2(x):
    """The logarithm to base 2."""
    return e.log2(x)


@pointwise(face=_BOTH, result=Result.floating)
def sin(x):
    """The sine of radians."""
    return e.sin(x)


@pointwise(face=_BOTH, result=Result.floating)
def cos(x):
    """The cosine of radians."""
    return e.cos(x)


@pointwise(face=_BOTH, result=Result.floating)
def erf(x):
    """The error function."""
    return e.erf(x)


@pointwise(face=_BOTH)
def floor(x):
    """The largest whole number not above ``x``."""
    return e.floor(x)


@pointwise(face=_BOTH)
def ceil(x):
    """The smallest whole number not below ``x``."""
    return e.ceil(x)


@pointwise(face=_BOTH)
def round(x):  # noqa: A001 - PyTorch's name
    """The nearest whole number, halves to even."""
    return e.rint(x)


def _power(x, exponent):
    return x**exponent


@lru_cache(maxsize=64)
def _fixed_power(exponent: float) -> Callable[[Any], Any]:
    def power(x):
        return x**exponent

    return power


@op(_BOTH)
def pow(x: Operand, exponent: Operand) -> Tensor:  # noqa: A001 - PyTorch's name
    """``x ** exponent``, broadcast; whole and half exponents up to 3 are multiplied out.

    Raises:
        DtypeError: if both operands are whole and the exponent is not 0, 1, 2 or 3.
    """
    number = float(exponent) if isinstance(exponent, Real) else None
    whole = result_type(x, exponent).kind is not Kind.FLOATING
    if whole and number not in _WHOLE_POWERS:
        raise DtypeError(
            "pow",
            "whole numbers are raised to 0, 1, 2 or 3 only",
            exponent=exponent,
            remedy="Convert one with .float()",
        )
    if number is not None and number in _MULTIPLIED_OUT:
        return evaluate("pow", _fixed_power(number), [x], promoted=[x, exponent])
    return evaluate("pow", _power, [x, exponent])


@pointwise(face=_BOTH)
def maximum(x, other):
    """The larger of two; NaN if either is; a tie shares the gradient."""
    return e.maximum(x, other)


@pointwise(face=_BOTH)
def minimum(x, other):
    """The smaller of two; NaN if either is; a tie shares the gradient."""
    return e.minimum(x, other)


@pointwise(face=_BOTH, result=Result.boolean)
def eq(x, other):
    """``x == other``, element by element."""
    return e.eq(x, other)


@pointwise(face=_BOTH, result=Result.boolean)
def ne(x, other):
    """``x != other``, element by element."""
    return e.ne(x, other)


@pointwise(face=_BOTH, result=Result.boolean)
def lt(x, other):
    """``x < other``."""
    return x < other


@pointwise(face=_BOTH, result=Result.boolean)
def le(x, other):
    """``x <= other``."""
    return x <= other


@pointwise(face=_BOTH, result=Result.boolean)
def gt(x, other):
    """``x > other``."""
    return x > other


@pointwise(face=_BOTH, result=Result.boolean)
def ge(x, other):
    """``x >= other``."""
    return x >= other


@pointwise(face=_BOTH, result=Result.boolean)
def isnan(x):
    """Whether it is NaN."""
    return e.isnan(x)


@pointwise(face=_BOTH, result=Result.boolean)
def isinf(x):
    """Whether it is infinite."""
    return e.isinf(x)


@pointwise(face=_BOTH, result=Result.boolean)
def logical_and(x, other):
    """Whether both are true (not 0)."""
    return e.logical_and(x, other)


@pointwise(face=_BOTH, result=Result.boolean)
def logical_or(x, other):
    """Whether one is true (not 0)."""
    return e.logical_or(x, other)


@pointwise(face=_BOTH, result=Result.boolean)
def logical_not(x):
    """Whether it is false (0)."""
    return e.logical_not(x)


def _select(condition, x, other):
    return e.where(condition, x, other)


@op(_BOTH)
def where(condition: Tensor, x: Operand, other: Operand) -> Tensor:
    """``x`` where the condition is true, else ``other``, broadcast."""
    return evaluate("where", _select, [condition, x, other], promoted=[x, other])


def _at_least(x, low):
    return e.where(x < low, low, x)


def _at_most(x, high):
    return e.where(x > high, high, x)


def _between(x, low, high):
    return _at_most(_at_least(x, low), high)


@op(_BOTH)
def clamp(x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:  # noqa: A002 - PyTorch's names
    """``x`` held between ``min`` and ``max``, either of which may be None.

    Args:
        x: any shape.
        min: a number, or a tensor that broadcasts with ``x``.
        max: the same.

    Returns:
        The broadcast shape; the gradient is 0 where a bound took over, 1 at a bound.

    Raises:
        ArgumentError: if both are None.
    """
    bounds = [b for b in (min, max) if b is not None]
    if not bounds:
        raise ArgumentError("clamp", "min or max is given")
    body = _between if len(bounds) == 2 else _at_most if min is None else _at_least
    return evaluate("clamp", body, [x, *bounds])
