"""The functions that pointwise ops are written in; what Python's operators write has no name here.

``abs(x)``, ``x ** y`` and the arithmetic, bitwise and order operators work on expressions as they
are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .nodes import Expr, Operand, as_boolean, as_expr, bitwise, call

Unary = Callable[[Operand], Expr]
Binary = Callable[[Operand, Operand], Expr]


def _unary(primitive: str, doc: str) -> Unary:
    def function(x: Operand) -> Expr:
        return call(primitive, x)

    function.__name__ = function.__qualname__ = primitive
    function.__doc__ = doc
    return function


def _binary(primitive: str, doc: str) -> Binary:
    def function(a: Operand, b: Operand) -> Expr:
        return call(primitive, a, b)

    function.__name__ = function.__qualname__ = primitive
    function.__doc__ = doc
    return function


exp = _unary("exp", "``e ** x``.")
exp2 = _unary("exp2", "``2 ** x``.")
expm1 = _unary("expm1", "``e ** x - 1``, precise near 0.")
log = _unary("log", "Natural logarithm.")
log1p = _unary("log1p", "``log(1 + x)``, precise near 0.")
log2 = _unary("log2", "Logarithm to base 2.")
log10 = _unary("log10", "Logarithm to base 10.")
sqrt = _unary("sqrt", "Square root.")
rsqrt = _unary("rsqrt", "``1 / sqrt(x)``.")
sin = _unary("sin", "Sine of radians.")
cos = _unary("cos", "Cosine of radians.")
tan = _unary("tan", "Tangent of radians.")
asin = _unary("asin", "Inverse sine, in radians.")
acos = _unary("acos", "Inverse cosine, in radians.")
atan = _unary("atan", "Inverse tangent, in radians.")
sinh = _unary("sinh", "Hyperbolic sine.")
cosh = _unary("cosh", "Hyperbolic cosine.")
tanh = _unary("tanh", "Hyperbolic tangent.")
asinh = _unary("asinh", "Inverse hyperbolic sine.")
acosh = _unary("acosh", "Inverse hyperbolic cosine.")
atanh = _unary("atanh", "Inverse hyperbolic tangent.")
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``.")
softplus = _unary("softplus", "``log(1 + exp(x))`` without overflow.")
erf = _unary("erf", "Error function.")
erfc = _unary("erfc", "``1 - erf(x)``, precise for large ``x``.")
floor = _unary("floor", "Largest whole number not above.")
ceil = _unary("ceil", "Smallest whole number not below.")
rint = _unary("rint", "Nearest whole number, halves to even.")
trunc = _unary("trunc", "Whole part, towards 0.")
sign = _unary("sign", "-1, 0 or 1; 0 for NaN, as PyTorch.")
isnan = _unary("isnan", "Whether it is NaN; false for integers.")
isinf = _unary("isinf", "Whether it is infinite; false for integers.")

minimum = _binary("minimum", "The smaller; NaN if either is.")
maximum = _binary("maximum", "The larger; NaN if either is.")
fmin = _binary("fmin", "The smaller; the other one if one is NaN.")
fmax = _binary("fmax", "The larger; the other one if one is NaN.")
fmod = _binary(
    "fmod", "``a - trunc(a / b) * b``, with the sign of ``a``; 0 for an integer ``b == 0``."
)
remainder = _binary("remainder", "``a - floor(a / b) * b``, with the sign of ``b``.")
floor_divide = _binary("floor_divide", "``floor(a / b)``; 0 for an integer ``b == 0``.")
trunc_divide = _binary("trunc_divide", "``trunc(a / b)``; 0 for an integer ``b == 0``.")
atan2 = _binary("atan2", "Angle of the point ``(b, a)``, in radians.")
hypot = _binary("hypot", "``sqrt(a * a + b * b)`` without overflow.")
copysign = _binary("copysign", "``|a|`` with the sign of ``b``.")
logical_and = _binary("logical_and", "Whether both are not 0.")
logical_or = _binary("logical_or", "Whether one is not 0.")
logical_xor = _binary("logical_xor", "Whether exactly one is not 0.")
logical_not = _unary("logical_not", "Whether it is 0.")


def _both_boolean(a: Operand, b: Operand) -> bool:
    """Whether both are truth values, and neither is a complex number."""
    return not any(hasattr(x, "of_primitive") or not as_expr(x).boolean for x in (a, b))


def eq(a: Operand, b: Operand) -> Expr:
    """Whether the values are equal (``==`` compares the structure of expressions)."""
    if _both_boolean(a, b):
        return logical_not(logical_xor(a, b))
    return call("eq", a, b)


def ne(a: Operand, b: Operand) -> Expr:
    """Whether the values differ (``!=`` compares the structure of expressions)."""
    if _both_boolean(a, b):
        return logical_xor(a, b)
    return call("ne", a, b)


def lt(a: Operand, b: Operand) -> Expr:
    """Whether ``a < b``."""
    return call("lt", a, b)


def le(a: Operand, b: Operand) -> Expr:
    """Whether ``a <= b``."""
    return call("le", a, b)


def gt(a: Operand, b: Operand) -> Expr:
    """Whether ``a > b``."""
    return call("gt", a, b)


def ge(a: Operand, b: Operand) -> Expr:
    """Whether ``a >= b``."""
    return call("ge", a, b)


def where(condition: Operand, a: Operand, b: Operand) -> Expr:
    """``a`` where the condition holds, else ``b``; a boolean if both are."""
    if _both_boolean(a, b):
        chosen = as_boolean(condition)
        return logical_or(logical_and(chosen, a), logical_and(logical_not(chosen), b))
    return call("where", condition, a, b)


def fma(a: Operand, b: Operand, c: Operand) -> Expr:
    """``a * b + c``, rounded once."""
    return call("fma", a, b, c)


def as_stored(x: Operand, dtype: str) -> Expr:
    """The nearest number of 16 bits, as if ``x`` were stored and read again.

    Args:
        x: of float32.
        dtype: ``"float16"`` or ``"bfloat16"``.
    """
    return call(f"to_{dtype}", x)


def cast_boolean(x: Any) -> Expr:
    """``x != 0``, a boolean; true for NaN."""
    return ne(x, 0) if hasattr(x, "of_primitive") else as_boolean(x)


def bitwise_and(a: Operand, b: Operand) -> Expr:
    """``a & b``: logical if both are booleans."""
    return bitwise("and", a, b)


def bitwise_or(a: Operand, b: Operand) -> Expr:
    """``a | b``: logical if both are booleans."""
    return bitwise("or", a, b)


def bitwise_xor(a: Operand, b: Operand) -> Expr:
    """``a ^ b``: logical if both are booleans."""
    return bitwise("xor", a, b)


def bitwise_not(x: Operand) -> Expr:
    """``~x``: logical if it is a boolean."""
    return bitwise("not", x)
