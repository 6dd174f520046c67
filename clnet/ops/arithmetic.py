"""Pointwise arithmetic, mathematics, comparisons and selection, in PyTorch's names.

Bodies are called once with symbols (see :mod:`.machinery.pointwise`); what PyTorch writes with two
names has two names here.
"""

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import expr as e
from ..errors import ArgumentError, DtypeError
from ..values.dtypes import DType, Kind, bool_, int64
from ..values.varying import as_known
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate, pointwise
from .machinery.promotion import Operand, result_type

if TYPE_CHECKING:
    from ..tensor import Tensor

Number = complex | float
_BOTH = Face.FUNCTION | Face.METHOD
_WHOLE_POWERS = (0, 1, 2, 3)
_MULTIPLIED_OUT = (-2, -1, -0.5, 0.5, *_WHOLE_POWERS)


def _sum(x, other):
    return x + other


def _difference(x, other):
    return x - other


def _scaled_sum(x, other, alpha):
    return x + alpha * other


def _scaled_difference(x, other, alpha):
    return x - alpha * other


def complex_factor(name: str, value: complex, x: Operand) -> complex:
    """A complex factor of an op whose first operand is complex, too.

    Raises:
        DtypeError: if that operand is real.
    """
    dtype = getattr(x, "dtype", None)
    if dtype is None or not dtype.is_complex:
        raise DtypeError(name, "a complex factor is of complex operands", x=dtype, factor=value)
    return value


def scaled(name: str, x: Tensor, factor: Number) -> Tensor:
    """``x`` times a factor of an op; a complex one is of complex operands.

    Raises:
        DtypeError: if ``x`` is real, and the factor is not.
    """
    if isinstance(factor, complex):
        factor = complex_factor(name, factor, x)
    return x if factor == 1 else x * factor


@op(_BOTH)
def add(x: Operand, other: Operand, *, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """``x + alpha * other``, broadcast; written into ``out`` if given."""
    if type(alpha) in (int, float) and alpha == 1:
        return evaluate("add", _sum, [x, other], out=out)
    if hasattr(alpha, "__apply_function__"):  # a number that the host need not know
        return evaluate("add", _scaled_sum, [x, other, alpha], promoted=[x, other], out=out)
    if isinstance(alpha, complex):
        return add(x, mul(complex_factor("add", alpha, x), other), out=out)
    return evaluate("add", _scaled_sum, [x, other], [alpha], out=out)


def _require_numbers(*operands: Operand) -> None:
    """Refuse booleans, as PyTorch does: their difference is taken for one of masks."""
    found = [getattr(x, "dtype", None) is bool_ or isinstance(x, bool) for x in operands]
    if any(found):
        both = "two bool tensors" if all(found) else "a bool tensor"
        hint = "^ or logical_xor()" if all(found) else "~ or logical_not()"
        law = f"Subtraction, the `-` operator, with {both} is not supported"
        raise DtypeError("sub", law, remedy=f"Use {hint} instead")


@op(_BOTH)
def sub(x: Operand, other: Operand, *, alpha: Operand = 1, out: Tensor | None = None) -> Tensor:
    """``x - alpha * other``, broadcast; written into ``out`` if given. ``numpy.bool_`` is a float.

    Raises:
        DtypeError: if one is boolean.
    """
    _require_numbers(x, other)
    x, other = (float(v) if isinstance(v, np.bool_) else v for v in (x, other))  # as PyTorch
    if type(alpha) in (int, float) and alpha == 1:
        return evaluate("sub", _difference, [x, other], out=out)
    if hasattr(alpha, "__apply_function__"):
        return evaluate("sub", _scaled_difference, [x, other, alpha], promoted=[x, other], out=out)
    if isinstance(alpha, complex):
        return sub(x, mul(complex_factor("sub", alpha, x), other), out=out)
    return evaluate("sub", _scaled_sum, [x, other], [-alpha], out=out)


@pointwise(face=_BOTH)
def mul(x, other):
    """``x * other``, broadcast."""
    return x * other


def _quotient(x, other):
    return x / other


_QUOTIENTS = {"floor": e.floor_divide, "trunc": e.trunc_divide}


@op(_BOTH)
def div(
    x: Operand,
    other: Operand,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``x / other``, broadcast; integers give float32, unless the quotient is rounded.

    Args:
        x: a tensor or a number.
        other: a tensor or a number; whole numbers over 0 give 0 when rounded.
        rounding_mode: ``"floor"``, ``"trunc"`` (towards 0), or None.
        out: what to overwrite with the result.

    Returns:
        The broadcast shape, of the promoted dtype when rounded; then its gradient is 0.

    Raises:
        ArgumentError: if there is no such ``rounding_mode``.
    """
    if rounding_mode is None:
        return evaluate("div", _quotient, [x, other], result=Result.floating, out=out)
    if rounding_mode not in _QUOTIENTS:
        raise ArgumentError(
            "div",
            "rounding_mode is None, 'floor' or 'trunc'",
            rounding_mode=repr(rounding_mode),
        )
    return evaluate("div", _QUOTIENTS[rounding_mode], [x, other], out=out)


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


def _negated(dtype: DType) -> tuple[DType, DType]:
    if dtype.kind is Kind.BOOL:
        law = "Negation, the `-` operator, on a bool tensor is not supported"
        raise DtypeError("neg", law, remedy="Use ~ or logical_not() instead")
    return Result.promoted(dtype)


@pointwise(face=_BOTH, result=_negated)
def neg(x):
    """``-x``, of no booleans."""
    return -x


@pointwise(face=_BOTH)
def abs(x):  # noqa: A001 - PyTorch's name
    """``|x|``; its gradient at 0 is 0."""
    return builtins.abs(x)


@pointwise(face=_BOTH)
def sign(x):
    """-1, 0 or 1."""
    return e.sign(x)


def _squared(dtype: DType) -> tuple[DType, DType]:
    """Booleans are squared as numbers."""
    return Result.promoted(int64 if dtype.kind is Kind.BOOL else dtype)


@pointwise(face=_BOTH, result=_squared)
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


def _nearest(x):
    return e.rint(x)


def _nearest_part(x, parts):
    return e.rint(x * parts) / parts


def _nearest_multiple(x, unit):
    return e.rint(x / unit) * unit


@op(_BOTH)
def round(  # noqa: A001 - PyTorch's name
    x: Tensor, *, decimals: int = 0, out: Tensor | None = None
) -> Tensor:
    """The nearest number with so many decimals, halves to even.

    Args:
        x: any shape.
        decimals: digits behind the point; below 0 those before it are rounded away.
        out: what to overwrite with the result.

    Returns:
        The same shape and dtype; its gradient is 0.
    """
    if decimals == 0 or not x.dtype.is_floating_point:
        return evaluate("round", _nearest, [x], out=out)
    body = _nearest_part if decimals > 0 else _nearest_multiple
    digits = builtins.abs(decimals)
    power = 10.0**digits if digits <= 308 else math.inf
    return evaluate("round", body, [x], [power], out=out)


def _power(x, exponent):
    return x**exponent


@lru_cache(maxsize=64)
def _fixed_power(exponent: float) -> Callable[[Any], Any]:
    def power(x):
        return x**exponent

    return power


@lru_cache(maxsize=64)
def _whole_power(bits: int) -> Callable[[Any, Any], Any]:
    """Repeated squaring, exact (modulo the type's range) for exponents of so many bits."""

    def power(x, exponent):
        result, square = e.where(exponent & 1, x, 1), x
        for bit in range(1, bits):
            square = square * square
            result = e.where((exponent >> bit) & 1, result * square, result)
        parity = e.where(exponent & 1, x, 1)
        below_one = e.where(e.eq(builtins.abs(x), 1), parity, 0)
        return e.where(exponent < 0, below_one, result)

    return power


def _multiplied_out(exponent: Any) -> bool:
    return isinstance(exponent, Real) and exponent in _MULTIPLIED_OUT


def _power_of_whole_numbers(
    x: Operand, exponent: Operand, dtype: DType, out: Tensor | None
) -> Tensor:
    given = exponent if isinstance(exponent, Real) else None
    if given is not None and given < 0:
        raise ArgumentError(
            "pow",
            "whole numbers are not raised to a power below 0",
            exponent=given,
            remedy="Convert them with .float()",
        )
    if dtype.kind is Kind.BOOL:
        raise DtypeError("pow", "booleans have no powers", dtype=dtype)
    signed = dtype.name != "uint8"
    bits = 8 * dtype.itemsize - signed
    if isinstance(given, int):
        bits = builtins.max(given.bit_length(), 1)
    return evaluate("pow", _whole_power(bits), [x, exponent], out=out)


@op(_BOTH)
def pow(  # noqa: A001 - PyTorch's name
    x: Operand, exponent: Operand, *, out: Tensor | None = None
) -> Tensor:
    """``x ** exponent``, broadcast; whole numbers by repeated products.

    Args:
        x: a tensor or a number.
        exponent: a tensor or a number; half and whole numbers up to 3 are multiplied out.
        out: what to overwrite with the result.

    Returns:
        The broadcast shape. Whole numbers wrap around; to a power below 0 (of a tensor) they give
        0 but for 1 and -1.

    Raises:
        ArgumentError: if whole numbers are raised to a number below 0.
        DtypeError: if both operands are booleans.
    """
    dtype = result_type(x, exponent)
    exponent = bool(exponent) if isinstance(exponent, np.bool_) else exponent
    fixed = _multiplied_out(exponent)
    if fixed:  # another kernel for each
        exponent = as_known(exponent)
    whole = not dtype.differentiable
    if whole and not (fixed and exponent >= 0):
        return _power_of_whole_numbers(x, exponent, dtype, out)
    if fixed:
        return evaluate("pow", _fixed_power(exponent), [x], promoted=[x, exponent], out=out)
    return evaluate("pow", _power, [x, exponent], out=out)


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


def where(condition: Tensor, x: Operand, other: Operand) -> Tensor:
    """``x`` where the condition is true, else ``other``, broadcast (public in ``masked``)."""
    return evaluate("where", _select, [condition, x, other], promoted=[x, other])


# A bound that is NaN takes over everywhere, as PyTorch has it.
def _at_least(x, low):
    return e.where(e.logical_or(x < low, e.isnan(low)), low, x)


def _at_most(x, high):
    return e.where(e.logical_or(x > high, e.isnan(high)), high, x)


def _between(x, low, high):
    return _at_most(_at_least(x, low), high)


# At a bound the gradient is the operand's; a NaN is inside of nothing.
def _at_least_gradient(g, y, x, low):
    return e.where(x >= low, g, 0), e.where(low > x, g, 0)


def _at_most_gradient(g, y, x, high):
    return e.where(x <= high, g, 0), e.where(high < x, g, 0)


def _between_gradient(g, y, x, low, high):
    inside = e.logical_and(x >= low, x <= high)
    below = e.logical_and(low < high, x < low)
    above = e.logical_or(x > high, high < low)
    return e.where(inside, g, 0), e.where(below, g, 0), e.where(above, g, 0)


_HELD = {
    (True, False): (_at_least, _at_least_gradient),
    (False, True): (_at_most, _at_most_gradient),
    (True, True): (_between, _between_gradient),
}


@op(_BOTH)
def clamp(
    x: Tensor,
    min: Operand | None = None,  # noqa: A002 - PyTorch's name
    max: Operand | None = None,  # noqa: A002 - PyTorch's name
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``x`` held between ``min`` and ``max``, either of which may be None.

    Args:
        x: any shape.
        min: a number, or a tensor that broadcasts with ``x``.
        max: the same.
        out: what to overwrite with the result.

    Returns:
        The broadcast shape; the gradient is 0 where a bound took over, 1 at a bound.

    Raises:
        ArgumentError: if both are None.
    """
    bounds = [b for b in (min, max) if b is not None]
    if not bounds:
        raise ArgumentError("clamp", "min or max is given")
    body, gradient = _HELD[min is not None, max is not None]
    return evaluate("clamp", body, [x, *bounds], gradient=gradient, out=out)
