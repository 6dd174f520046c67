"""Complex numbers as pairs of expressions: the functions of symbols, of a real and imaginary part.

What a pointwise op's body does with symbols it does with pairs, so an op written once is also one
of complex numbers, as far as its functions have a line in ``_RULES``. Gradients need no rule: with
respect to a pair they are those with respect to its parts, which is PyTorch's convention.

Formulas: W. Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse ones; R.
L. Smith, "Algorithm 116: Complex division" (1962).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..errors import DtypeError
from . import functions as f
from .nodes import Const, Expr, Operand, as_boolean, as_number, call

_call: Callable[..., Any] = call


class Unpaired(DtypeError):
    """A function that has no complex form was asked for one."""

    def __init__(self, function: str) -> None:
        super().__init__("expr", "the function has a complex form", function=function)


class Pair:
    """A complex number: two expressions of the compute type.

    Attributes:
        re: the real part.
        im: the imaginary part.
    """

    boolean = False
    __slots__ = ("im", "re")

    def __init__(self, re: Operand, im: Operand = 0) -> None:
        self.re = as_number(re)
        self.im = as_number(im)

    def of_primitive(self, primitive: str, args: tuple[Any, ...]) -> Any:
        """What a primitive gives for arguments of which some are pairs."""
        rule = _RULES.get(primitive)
        if rule is None:
            raise Unpaired(primitive)
        return rule(*args)

    def __add__(self, other: Any) -> Any:
        return _call("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _call("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _call("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _call("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _call("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _call("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _call("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _call("div", other, self)

    def __pow__(self, other: Any) -> Any:
        return _call("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _call("pow", other, self)

    def __neg__(self) -> Any:
        return _call("neg", self)

    def __abs__(self) -> Any:
        return _call("abs", self)

    def _refuse(self, *other: Any) -> Any:
        raise Unpaired("order")

    __lt__ = __le__ = __gt__ = __ge__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __xor__ = __rxor__ = __invert__ = __lshift__ = __rlshift__ = __rshift__ = _refuse
    __rrshift__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse


def pair(x: Any) -> Pair:
    """A number as a pair; a pair itself."""
    return x if isinstance(x, Pair) else Pair(x)


def truth(x: Pair) -> Expr:
    """Whether it is not 0."""
    return f.logical_or(as_boolean(x.re), as_boolean(x.im))


def _mul(a: Any, b: Any) -> Pair:
    if not isinstance(a, Pair):
        a, b = b, a
    if not isinstance(b, Pair):
        return Pair(a.re * b, a.im * b)
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _div(a: Any, b: Any) -> Pair:
    a = pair(a)
    if not isinstance(b, Pair):
        return Pair(a.re / b, a.im / b)
    wide = f.ge(abs(b.re), abs(b.im))  # the larger part divides the other: no overflow
    large, small = f.where(wide, b.re, b.im), f.where(wide, b.im, b.re)
    first, second = f.where(wide, a.re, a.im), f.where(wide, a.im, a.re)
    ratio = small / large
    whole = large + small * ratio
    turned = (second - first * ratio) / whole
    return Pair((first + second * ratio) / whole, f.where(wide, turned, -turned))


def _safe(x: Pair) -> tuple[Expr, Pair]:
    """Whether it is 0, and the number with 1 in the place of 0, where gradients are numbers."""
    zero = f.logical_not(truth(x))
    return zero, Pair(f.where(zero, 1, x.re), x.im)


def _abs(x: Pair) -> Expr:
    zero, safe = _safe(x)
    return f.where(zero, 0, f.hypot(safe.re, safe.im))


def angle(x: Pair) -> Expr:
    """The angle of the number, in radians; its gradient at 0 is 0."""
    zero, safe = _safe(x)
    return f.where(zero, f.atan2(x.im, x.re), f.atan2(safe.im, safe.re))


def sgn(x: Pair) -> Pair:
    """``x / |x|``; 0 for 0."""
    zero, safe = _safe(x)
    size = f.hypot(safe.re, safe.im)
    return Pair(f.where(zero, 0, safe.re / size), f.where(zero, 0, safe.im / size))


def _exp(x: Pair) -> Pair:
    size = f.exp(x.re)
    return Pair(size * f.cos(x.im), size * f.sin(x.im))


def _expm1(x: Pair) -> Pair:
    half = f.sin(0.5 * x.im)
    real = f.expm1(x.re) * f.cos(x.im) - 2 * (half * half)
    return Pair(real, f.exp(x.re) * f.sin(x.im))


def _log(x: Pair) -> Pair:
    return Pair(f.log(f.hypot(x.re, x.im)), f.atan2(x.im, x.re))


def _log1p(x: Pair) -> Pair:
    near = 0.5 * f.log1p(x.re * (2 + x.re) + x.im * x.im)
    size = f.hypot(1 + x.re, x.im)
    small = f.lt(f.maximum(abs(x.re), abs(x.im)), 0.5)
    return Pair(f.where(small, near, f.log(size)), f.atan2(x.im, 1 + x.re))


def _scaled(function: Callable[[Pair], Pair], factor: float) -> Callable[[Pair], Pair]:
    def scaled(x: Pair) -> Pair:
        y = function(x)
        return Pair(y.re * factor, y.im * factor)

    return scaled


def _sqrt(x: Pair) -> Pair:
    zero, safe = _safe(x)
    large = f.sqrt(0.5 * (f.hypot(safe.re, safe.im) + abs(safe.re)))
    small = safe.im / (2 * large)
    right = f.ge(safe.re, 0)
    real = f.where(right, large, abs(small))
    imaginary = f.where(right, small, f.copysign(large, safe.im))
    return Pair(f.where(zero, 0, real), f.where(zero, x.im, imaginary))


def _pow(a: Any, b: Any) -> Pair:
    exponent = b.value if isinstance(b, Const) else b
    if isinstance(exponent, int) and 0 <= exponent <= 3:
        result: Any = Pair(1) if exponent == 0 else a
        for _ in range(exponent - 1):
            result = result * a
        return result
    if isinstance(exponent, int) and exponent in (-1, -2):
        return 1 / (a if exponent == -1 else a * a)
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return _sqrt(a) if exponent > 0 else 1 / _sqrt(a)
    a, b = pair(a), pair(b)
    zero, safe = _safe(a)
    found = _exp(_mul(_log(safe), b))
    # Powers of 0: 1, 0 and, unless the exponent's real part is above 0, NaN.
    odd = f.where(f.gt(b.re, 0), 0, f.where(truth(b), float("nan"), 0))
    nothing = f.where(truth(b), odd, 1)
    return Pair(f.where(zero, nothing, found.re), f.where(zero, odd, found.im))


def _sin(x: Pair) -> Pair:
    return Pair(f.sin(x.re) * f.cosh(x.im), f.cos(x.re) * f.sinh(x.im))


def _cos(x: Pair) -> Pair:
    return Pair(f.cos(x.re) * f.cosh(x.im), -(f.sin(x.re) * f.sinh(x.im)))


def _sinh(x: Pair) -> Pair:
    return Pair(f.sinh(x.re) * f.cos(x.im), f.cosh(x.re) * f.sin(x.im))


def _cosh(x: Pair) -> Pair:
    return Pair(f.cosh(x.re) * f.cos(x.im), f.sinh(x.re) * f.sin(x.im))


def _tanh(x: Pair) -> Pair:
    t, u = f.tanh(x.re), f.tan(x.im)
    slope = 1 / f.cosh(x.re)
    whole = 1 + (t * u) * (t * u)
    return Pair(t * (1 + u * u) / whole, u * (slope * slope) / whole)


def _turned(x: Pair) -> Pair:
    """``i x``."""
    return Pair(-x.im, x.re)


def _through(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """``-i f(i x)``: the circular function of a hyperbolic one, and the other way round."""

    def turned(x: Pair) -> Pair:
        y = function(_turned(x))
        return Pair(y.im, -y.re)

    return turned


def _asin(x: Pair) -> Pair:
    low, high = _sqrt(1 - x), _sqrt(1 + x)
    real = f.atan2(x.re, low.re * high.re - low.im * high.im)
    return Pair(real, f.asinh(low.re * high.im - low.im * high.re))


def _acos(x: Pair) -> Pair:
    low, high = _sqrt(1 - x), _sqrt(1 + x)
    return Pair(2 * f.atan2(low.re, high.re), f.asinh(high.re * low.im - high.im * low.re))


def _acosh(x: Pair) -> Pair:
    low, high = _sqrt(x - 1), _sqrt(x + 1)
    return Pair(f.asinh(low.re * high.re + low.im * high.im), 2 * f.atan2(low.im, high.re))


def _atanh(x: Pair) -> Pair:
    rest, square = 1 - x.re, x.im * x.im
    real = 0.25 * f.log1p(4 * x.re / (rest * rest + square))
    return Pair(real, 0.5 * f.atan2(2 * x.im, rest * (1 + x.re) - square))


def _where(condition: Any, a: Any, b: Any) -> Pair:
    chosen = truth(condition) if isinstance(condition, Pair) else condition
    a, b = pair(a), pair(b)
    return Pair(f.where(chosen, a.re, b.re), f.where(chosen, a.im, b.im))


def _parts(join: Callable[[Expr, Expr], Any]) -> Callable[[Any, Any], Pair]:
    def joined(a: Any, b: Any) -> Pair:
        a, b = pair(a), pair(b)
        return Pair(join(a.re, b.re), join(a.im, b.im))

    return joined


def _of_truths(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda *args: function(*(truth(a) if isinstance(a, Pair) else a for a in args))


def _eq(a: Any, b: Any) -> Expr:
    a, b = pair(a), pair(b)
    return f.logical_and(f.eq(a.re, b.re), f.eq(a.im, b.im))


_RULES: dict[str, Callable[..., Any]] = {
    "neg": lambda x: Pair(-x.re, -x.im),
    "abs": _abs,
    "add": _parts(lambda a, b: a + b),
    "sub": _parts(lambda a, b: a - b),
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "fma": lambda a, b, c: a * b + c,
    "exp": _exp,
    "exp2": lambda x: _exp(_mul(x, math.log(2))),
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "log2": _scaled(_log, 1 / math.log(2)),
    "log10": _scaled(_log, 1 / math.log(10)),
    "sqrt": _sqrt,
    "rsqrt": lambda x: 1 / _sqrt(x),
    "sin": _sin,
    "cos": _cos,
    "tan": _through(_tanh),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asin": _asin,
    "acos": _acos,
    "atan": _through(_atanh),
    "asinh": _through(_asin),
    "acosh": _acosh,
    "atanh": _atanh,
    "sigmoid": lambda x: 1 / (1 + _exp(-x)),
    "eq": _eq,
    "ne": lambda a, b: f.logical_not(_eq(a, b)),
    "isnan": lambda x: f.logical_or(f.isnan(x.re), f.isnan(x.im)),
    "isinf": lambda x: f.logical_or(f.isinf(x.re), f.isinf(x.im)),
    "where": _where,
    "logical_and": _of_truths(f.logical_and),
    "logical_or": _of_truths(f.logical_or),
    "logical_xor": _of_truths(f.logical_xor),
    "logical_not": _of_truths(f.logical_not),
}
