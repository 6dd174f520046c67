"""Complex numbers as pairs of expressions: the functions of symbols, of a real and imaginary part.

What a pointwise op's body does with symbols it does with pairs, so an op written once is also one
of complex numbers, as far as its functions have a line in ``_RULES``. Gradients need no rule: with
respect to a pair they are those with respect to its parts, which is PyTorch's convention.

Formulas: W. Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse ones; R.
L. Smith, "Algorithm 116: Complex division" (1962). What functions give at infinities and NaN is
C99's Annex G; its conditions hold for no finite number, so gradients are those of the formulas.
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
    re, im = (first + second * ratio) / whole, f.where(wide, turned, -turned)
    # By 0 each part is divided, as PyTorch's; elsewhere by 1 there, for the gradient's sake.
    zero = f.eq(abs(b.re) + abs(b.im), 0)
    by = f.where(zero, abs(large), 1)
    return Pair(f.where(zero, a.re / by, re), f.where(zero, a.im / by, im))


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


def _finite(x: Expr) -> Expr:
    return f.lt(abs(x), math.inf)


def _turning(x: Expr, y: Expr, size: Expr) -> Expr:
    """``size sin(y)``, where the product of infinity and 0, or of 0 and NaN, is 0.

    Args:
        x: what ``size`` is a function of.
        y: the angle.
        size: infinite or 0 where ``x`` is infinite.
    """
    still = f.logical_and(f.eq(y, 0), f.logical_not(_finite(x)))
    gone = f.logical_and(f.eq(x, -math.inf), f.logical_not(_finite(y)))
    return f.where(still, y, f.where(gone, 0, size * f.sin(y)))


def _exp(x: Pair) -> Pair:
    size = f.exp(x.re)
    endless = f.logical_and(f.isinf(x.re), f.logical_not(_finite(x.im)))
    end = f.where(f.lt(x.re, 0), 0, math.inf)
    return Pair(f.where(endless, end, size * f.cos(x.im)), _turning(x.re, x.im, size))


def _expm1(x: Pair) -> Pair:
    half, less = f.sin(0.5 * x.im), f.expm1(x.re)
    endless = f.logical_and(f.isinf(x.re), f.logical_not(_finite(x.im)))
    end = f.where(f.lt(x.re, 0), -1, math.inf)
    real = f.where(endless, end, less * f.cos(x.im) - 2 * (half * half))
    return Pair(real, _turning(x.re, x.im, f.exp(x.re)))


def _log(x: Pair) -> Pair:
    size = f.hypot(x.re, x.im)
    # Where it is around 1, its rounding is as large as its logarithm.
    near = f.logical_and(f.gt(size, 0.5), f.lt(size, 2))
    large = f.where(near, f.maximum(abs(x.re), abs(x.im)), 1)
    small = f.where(near, f.minimum(abs(x.re), abs(x.im)), 0)
    around = 0.5 * f.log1p((large - 1) * (large + 1) + small * small)
    return Pair(f.where(near, around, f.log(size)), f.atan2(x.im, x.re))


def _log1p(x: Pair) -> Pair:
    size = f.hypot(1 + x.re, x.im)
    small = f.lt(f.maximum(abs(x.re), abs(x.im)), 0.5)
    # What is not chosen is 0: beside -1 its slope is infinite, and 0 times that is NaN.
    inner = f.where(small, x.re * (2 + x.re) + x.im * x.im, 0)
    return Pair(f.where(small, 0.5 * f.log1p(inner), f.log(size)), f.atan2(x.im, 1 + x.re))


def _scaled(function: Callable[[Pair], Pair], factor: float) -> Callable[[Pair], Pair]:
    def scaled(x: Pair) -> Pair:
        y = function(x)
        return Pair(y.re * factor, y.im * factor)

    return scaled


def _sqrt(x: Pair) -> Pair:
    zero, safe = _safe(x)
    right, side = f.ge(safe.re, 0), f.copysign(1.0, safe.im)
    # Sizes by a side, not by abs(): its slope at 0, on the axes, is 0, and theirs is not.
    large = f.sqrt(0.5 * (f.hypot(safe.re, safe.im) + f.where(right, safe.re, -safe.re)))
    small = safe.im / (2 * large)
    real = f.where(f.isinf(x.im), math.inf, f.where(right, large, small * side))
    imaginary = f.where(right, small, f.copysign(large, safe.im))
    whole = f.logical_or(zero, f.isinf(x.im))
    return Pair(f.where(zero, 0, real), f.where(whole, x.im, imaginary))


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


def _split(x: Pair) -> tuple[Expr, Expr, Expr]:
    """Where Annex G speaks of hyperbolic functions: ``0 + ia``, ``inf + ia`` and ``a + i0``.

    ``a`` is infinite or NaN.
    """
    lost = f.logical_not(_finite(x.im))
    still = f.logical_and(f.eq(x.im, 0), f.logical_not(_finite(x.re)))
    return f.logical_and(f.eq(x.re, 0), lost), f.logical_and(f.isinf(x.re), lost), still


def _sinh(x: Pair) -> Pair:
    nothing, endless, still = _split(x)
    whole = f.logical_or(nothing, endless)
    imaginary = f.where(still, x.im, f.cosh(x.re) * f.sin(x.im))
    return Pair(f.where(whole, x.re, f.sinh(x.re) * f.cos(x.im)), imaginary)


def _cosh(x: Pair) -> Pair:
    nothing, endless, still = _split(x)
    odd = f.where(f.lt(x.re, 0), -x.im, x.im)
    imaginary = f.where(nothing, 0, f.where(still, odd, f.sinh(x.re) * f.sin(x.im)))
    return Pair(f.where(endless, math.inf, f.cosh(x.re) * f.cos(x.im)), imaginary)


def _tanh(x: Pair) -> Pair:
    nothing, _, still = _split(x)
    # No tangent of the imaginary part: where it is large, differences of its square are slopes.
    t, sine, cosine = f.tanh(x.re), f.sin(x.im), f.cos(x.im)
    slope = 1 / f.cosh(x.re)
    turned = cosine * slope
    whole = t * t + turned * turned
    far = f.isinf(x.re)
    real = f.where(f.logical_or(far, nothing), t, t / whole)
    imaginary = f.where(still, x.im, sine * slope * turned / whole)
    return Pair(real, f.where(far, f.copysign(0.0, x.im), imaginary))


def _turned(x: Pair) -> Pair:
    """``i x``."""
    return Pair(-x.im, x.re)


def _through(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """``-i f(i x)``: the circular function of a hyperbolic one, and the other way round."""

    def turned(x: Pair) -> Pair:
        y = function(_turned(x))
        return Pair(y.im, -y.re)

    return turned


def _around_1(x: Pair) -> tuple[Pair, Pair]:
    """Roots of ``1 - x`` and ``1 + x``; 1 has no imaginary part, so that signs of 0 stay."""
    return _sqrt(Pair(1 - x.re, -x.im)), _sqrt(Pair(1 + x.re, x.im))


def _far(x: Pair) -> tuple[Expr, Pair]:
    """Whether a part is infinite, and then the corner that the number lies in, of -1, 0 and 1.

    The corner has no gradient: that of an angle at 0 would be NaN, also where it is not chosen.
    """
    corner = [
        f.where(f.isinf(v), f.copysign(1.0, v), f.where(f.isnan(v), math.nan, 0))
        for v in (x.re, x.im)
    ]
    return f.logical_or(f.isinf(x.re), f.isinf(x.im)), Pair(*corner)


def _lost(x: Pair) -> Expr:
    """Whether it is ``0 + i NaN``."""
    return f.logical_and(f.eq(x.re, 0), f.isnan(x.im))


def _asin(x: Pair) -> Pair:
    low, high = _around_1(x)
    far, corner = _far(x)
    real = f.atan2(x.re, low.re * high.re - low.im * high.im)
    real = f.where(far, f.copysign(1.0, x.re) * f.atan2(abs(corner.re), abs(corner.im)), real)
    imaginary = f.asinh(low.re * high.im - low.im * high.re)
    endless = f.where(far, f.copysign(math.inf, x.im), imaginary)
    return Pair(f.where(_lost(x), x.re, real), endless)


def _acos(x: Pair) -> Pair:
    low, high = _around_1(x)
    far, corner = _far(x)
    real = f.where(far, f.atan2(abs(corner.im), corner.re), 2 * f.atan2(low.re, high.re))
    imaginary = f.asinh(high.re * low.im - high.im * low.re)
    endless = f.where(far, -f.copysign(math.inf, x.im), imaginary)
    return Pair(f.where(_lost(x), math.pi / 2, real), endless)


def _acosh(x: Pair) -> Pair:
    low, high = _sqrt(Pair(x.re - 1, x.im)), _sqrt(Pair(x.re + 1, x.im))
    far, corner = _far(x)
    real = f.where(far, math.inf, f.asinh(low.re * high.re + low.im * high.im))
    imaginary = f.where(
        far, f.atan2(f.copysign(corner.im, x.im), corner.re), 2 * f.atan2(low.im, high.re)
    )
    return Pair(real, f.where(_lost(x), math.pi / 2, imaginary))


def _atanh(x: Pair) -> Pair:
    far, _ = _far(x)
    # To the right of 0, where the logarithm's argument is not near -1; abs() has no slope at 0.
    side = f.copysign(1.0, x.re)
    size = side * x.re
    rest, square = 1 - size, x.im * x.im
    real = side * 0.25 * f.log1p(4 * size / (rest * rest + square))
    real = f.where(far, f.copysign(0.0, x.re), f.where(_lost(x), x.re, real))
    imaginary = 0.5 * f.atan2(2 * x.im, rest * (1 + size) - square)
    right = f.where(f.isnan(x.im), x.im, f.copysign(math.pi / 2, x.im))
    return Pair(real, f.where(far, right, imaginary))


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
    "sin": _through(_sinh),
    "cos": lambda x: _cosh(_turned(x)),
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
