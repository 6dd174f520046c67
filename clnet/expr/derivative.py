"""Derivatives of expressions, which are expressions again: so they can be taken to any order.

The rules are PyTorch's, also at kinks, ties and poles; they mask where PyTorch masks, so that an
infinite or NaN branch that was not taken stays out of the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..errors import ArgumentError
from .functions import (
    cos,
    cosh,
    eq,
    exp,
    floor_divide,
    isnan,
    log,
    logical_and,
    logical_or,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    trunc_divide,
    where,
)
from .nodes import PRIMITIVES, Call, Const, Expr, Operand, as_number, topological

# (cotangent of the result, result, arguments) -> cotangent of one argument.
Rule = Callable[..., Expr]


def vjp(
    outputs: Sequence[Expr], cotangents: Sequence[Operand], *, wrt: Sequence[Expr]
) -> tuple[Expr, ...]:
    """``sum_k cotangents[k] * d outputs[k] / d w`` for every ``w``, sharing what they share.

    Args:
        outputs: the expressions to differentiate.
        cotangents: for each output, the gradient that arrives at it.
        wrt: leaves (an input or a scalar); a boolean one has gradient 0.

    Returns:
        For each of ``wrt``, its gradient; the constant 0 where no output depends on it smoothly.

    Raises:
        ArgumentError: if ``outputs`` and ``cotangents`` differ in number, or ``wrt`` has a
            non-leaf.
    """
    if len(outputs) != len(cotangents):
        raise ArgumentError(
            "vjp",
            "needs one cotangent for each output",
            outputs=len(outputs),
            cotangents=len(cotangents),
        )
    if any(w.args or isinstance(w, Const) for w in wrt):
        raise ArgumentError(
            "vjp", "differentiates with respect to inputs and scalars", wrt=tuple(wrt)
        )
    order = topological(outputs)
    reaches = _reaching(order, wrt)
    gradients: dict[Expr, Expr] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if cotangent is Const(0) or (not isinstance(cotangent, Expr) and cotangent == 0):
            continue  # nothing arrives: a product with 0 would be NaN where the slope is infinite
        _accumulate(gradients, output, as_number(cotangent))
    for node in reversed(order):
        if not isinstance(node, Call) or node not in gradients:
            continue
        for arg, rule in zip(node.args, RULES[node.primitive.name], strict=True):
            if rule is not None and arg in reaches:
                _accumulate(gradients, arg, rule(gradients[node], node, *node.args))
    return tuple(Const(0) if w.boolean else gradients.get(w, Const(0)) for w in wrt)


def derivative(expr: Expr, wrt: Expr) -> Expr:
    """``d expr / d wrt``, by PyTorch's conventions.

    Args:
        expr: the expression.
        wrt: an input or a scalar.

    Returns:
        The derivative, which can be differentiated again.

    Raises:
        ArgumentError: if ``wrt`` is neither an input nor a scalar.

    Example:
        >>> from clnet.expr import Input, derivative
        >>> x = Input(0)
        >>> derivative(x * x, x) == x + x
        True
    """
    return vjp([expr], [1], wrt=[wrt])[0]


def _reaching(order: Sequence[Expr], wrt: Sequence[Expr]) -> set[Expr]:
    # Numbers that depend on a leaf of `wrt`: nothing flows through a boolean.
    found = {w for w in wrt if not w.boolean}
    for node in order:
        if not node.boolean and any(a in found for a in node.args):
            found.add(node)
    return found


def _accumulate(gradients: dict[Expr, Expr], node: Expr, gradient: Expr) -> None:
    gradients[node] = gradients[node] + gradient if node in gradients else gradient


def _tie(below: Callable[[Expr, Expr], Expr]) -> Rule:
    # Of maximum and minimum: an argument gets nothing where it loses, half at a tie.
    def rule(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
        return where(below(a, b), 0, where(eq(a, b), g * 0.5, g))

    return rule


def _swapped(rule: Rule) -> Rule:
    return lambda g, y, a, b: rule(g, y, b, a)


def _picks(better: Callable[[Expr, Expr], Expr], *, first: bool) -> Rule:
    # Of fmax and fmin: the first argument wins ties, and against NaN.
    def rule(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
        wins = logical_or(better(a, b), isnan(b))
        return where(wins, g, 0) if first else where(wins, 0, g)

    return rule


def _pow_base(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
    # A constant exponent is never 0 here: x ** 0 is folded to 1.
    if isinstance(b, Const):
        return g * (b * a ** (b.value - 1))
    return where(eq(b, 0), 0, g * (b * a ** (b - 1)))


def _pow_exponent(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
    return g * where(logical_and(eq(a, 0), b >= 0), 0, y * log(a))


def _angle(g: Expr, a: Expr, b: Expr) -> Expr:
    # PyTorch gives 0 at the origin, not NaN.
    square = a * a + b * b
    return g * where(eq(square, 0), 0, 1 / square)


def _gauss(g: Expr, x: Expr) -> Expr:
    return g * (2 / math.sqrt(math.pi) * exp(-(x * x)))


_LN2, _LN10 = math.log(2), math.log(10)

# For each primitive, one rule for each argument; None where no gradient flows.
RULES: dict[str, tuple[Rule | None, ...]] = {
    "neg": (lambda g, y, x: -g,),
    "abs": (lambda g, y, x: g * sign(x),),
    "sign": (None,),
    "floor": (None,),
    "ceil": (None,),
    "rint": (None,),
    "trunc": (None,),
    "add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "sub": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "mul": (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "div": (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * (y / b)),
    "fma": (lambda g, y, a, b, c: g * b, lambda g, y, a, b, c: g * a, lambda g, y, a, b, c: g),
    "minimum": (_tie(lambda a, b: a > b), _swapped(_tie(lambda a, b: a > b))),
    "maximum": (_tie(lambda a, b: a < b), _swapped(_tie(lambda a, b: a < b))),
    "fmin": (
        _picks(lambda a, b: a <= b, first=True),
        _picks(lambda a, b: a <= b, first=False),
    ),
    "fmax": (
        _picks(lambda a, b: a >= b, first=True),
        _picks(lambda a, b: a >= b, first=False),
    ),
    "fmod": (lambda g, y, a, b: g, lambda g, y, a, b: -g * trunc_divide(a, b)),
    "remainder": (lambda g, y, a, b: g, lambda g, y, a, b: -g * floor_divide(a, b)),
    "floor_divide": (None, None),
    "trunc_divide": (None, None),
    "pow": (_pow_base, _pow_exponent),
    "atan2": (
        lambda g, y, a, b: _angle(g, a, b) * b,
        lambda g, y, a, b: _angle(g, a, b) * -a,
    ),
    "hypot": (lambda g, y, a, b: g * (a / y), lambda g, y, a, b: g * (b / y)),
    "copysign": (lambda g, y, a, b: g * where(eq(a, 0), 0, y / a), None),
    "where": (None, lambda g, y, c, a, b: where(c, g, 0), lambda g, y, c, a, b: where(c, 0, g)),
    "exp": (lambda g, y, x: g * y,),
    "exp2": (lambda g, y, x: g * (y * _LN2),),
    "expm1": (lambda g, y, x: g * (y + 1),),
    "log": (lambda g, y, x: g / x,),
    "log1p": (lambda g, y, x: g / (x + 1),),
    "log2": (lambda g, y, x: g / (x * _LN2),),
    "log10": (lambda g, y, x: g / (x * _LN10),),
    "sqrt": (lambda g, y, x: g / (y * 2),),
    "rsqrt": (lambda g, y, x: g * -0.5 * (y * y * y),),
    "sigmoid": (lambda g, y, x: g * (y * (1 - y)),),
    "softplus": (lambda g, y, x: g * sigmoid(x),),
    "erf": (lambda g, y, x: _gauss(g, x),),
    "erfc": (lambda g, y, x: -_gauss(g, x),),
    "sin": (lambda g, y, x: g * cos(x),),
    "cos": (lambda g, y, x: g * -sin(x),),
    "tan": (lambda g, y, x: g * (y * y + 1),),
    "asin": (lambda g, y, x: g * rsqrt(1 - x * x),),
    "acos": (lambda g, y, x: -(g * rsqrt(1 - x * x)),),
    "atan": (lambda g, y, x: g / (x * x + 1),),
    "sinh": (lambda g, y, x: g * cosh(x),),
    "cosh": (lambda g, y, x: g * sinh(x),),
    "tanh": (lambda g, y, x: g * (1 - y * y),),
    "asinh": (lambda g, y, x: g * rsqrt(x * x + 1),),
    "acosh": (lambda g, y, x: g * rsqrt(x * x - 1),),
    "atanh": (lambda g, y, x: g / (1 - x * x),),
    "to_float16": (lambda g, y, x: g,),
    "to_bfloat16": (lambda g, y, x: g,),
}
# Booleans, bits and conversions of booleans pass no gradient.
_DISCRETE = (
    "lt le gt ge eq ne isnan isinf logical_and logical_or logical_xor logical_not number "
    "bitwise_not bitwise_and bitwise_or bitwise_xor left_shift right_shift"
)
RULES.update({name: (None,) * len(PRIMITIVES[name].takes) for name in _DISCRETE.split()})
