"""Pointwise ops: nodes that ONNX has under their names, else the expression, node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device import HostScalar
from ...expr import Call, Const, Expr, Input, Scalar, topological
from ...ops.machinery.pointwise import Pointwise
from ...ops.norm import by_statistics
from ...values.dtypes import DType, Kind, bool_
from ..writing import Graph
from .registry import Given, NotExported, exporter

# Ops of one floating operand: the node, and the attributes that are run-time scalars.
_NODES = {
    "relu": ("Relu", ()),
    "leaky_relu": ("LeakyRelu", ("alpha",)),
    "elu": ("Elu", ("alpha",)),
    "celu": ("Celu", ("alpha",)),
    "hardswish": ("HardSwish", ()),
    "softsign": ("Softsign", ()),
    "mish": ("Mish", ()),
}
_BOUNDS = {"relu6": (0.0, 6.0), "hardtanh": ()}
_NORMED = by_statistics(Input(0), Input(1), Input(2), Input(3), Input(4), Scalar(0))
_TANH = 0.044715  # what tells the approximation of GELU from it

_SAME = {
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "minimum": "Min",
    "maximum": "Max",
    "div": "Div",
    "pow": "Pow",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "eq": "Equal",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "logical_not": "Not",
    "where": "Where",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "erf": "Erf",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "bitwise_not": "BitwiseNot",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
}
_OTHERS = frozenset(
    "ne fma rsqrt erfc exp2 expm1 log1p log2 log10 hypot isnan isinf fmax fmin trunc fmod "
    "remainder floor_divide trunc_divide left_shift right_shift copysign atan2".split()
)  # methods of _Writer
_ROUND = {"floor": "Floor", "ceil": "Ceil", "rint": "Round"}


@exporter(Pointwise)
def pointwise(given: Given) -> tuple[str, ...] | str:
    """A node of that name, or the nodes of its expressions."""
    function: Pointwise = given.function
    named = _named(given, function)
    if named is not None:
        return named
    writer = _Writer(given.graph, function, _operands(given, function))
    names = [writer.value(expr) for expr in function.exprs]
    return tuple(
        _stored(given.graph, name, expr, function.compute, dtype)
        for name, expr, dtype in zip(names, function.exprs, function.dtypes, strict=True)
    )


def _named(given: Given, function: Pointwise) -> str | None:
    """The one node of an op that ONNX knows, too."""
    graph, name = given.graph, function.op_name
    dtypes = {x.dtype for x in given.step.inputs}
    scalars = [v.value if isinstance(v, HostScalar) else v for v in function.scalars]
    if dtypes != {function.compute} or not function.compute.is_floating_point:
        return None
    if name == "batch_norm":
        return _batch_norm(given, function, scalars)
    if len(given.names) != 1:
        return None
    (x,) = given.names
    if name in _NODES and graph.has(_NODES[name][0]):
        op, attributes = _NODES[name]
        return graph.add(op, x, **dict(zip(attributes, scalars, strict=True)))
    if name in _BOUNDS:
        kind = function.compute.numpy
        bounds = [graph.constant(v, kind) for v in _BOUNDS[name] or scalars]
        return graph.add("Clip", x, *bounds)
    if name == "hardsigmoid":
        return graph.add("HardSigmoid", x, alpha=1 / 6, beta=0.5)
    if name == "softplus" and scalars == [1.0, 20.0]:
        return graph.add("Softplus", x)
    if name == "gelu" and graph.has("Gelu"):
        by_tanh = any(
            isinstance(e, Const) and e.value == _TANH for e in topological(function.exprs)
        )
        return graph.add("Gelu", x, approximate="tanh" if by_tanh else "none")
    return None


def _batch_norm(given: Given, function: Pointwise, scalars: list[float]) -> str | None:
    """By given statistics, with weight and bias of each channel."""
    x, *vectors = given.names
    if len(vectors) != 4 or function.exprs != (_NORMED,):
        return None
    (channels,) = given.fixed(given.shape()[1:2], "the number of channels")
    mean, var, weight, bias = (given.graph.unreshaped(v, (channels,)) for v in vectors)
    graph = given.graph
    return graph.add("BatchNormalization", x, weight, bias, mean, var, epsilon=scalars[0])


def _operands(given: Given, function: Pointwise) -> list[str]:
    """The inputs in the type that is computed in; truth values stay what they are."""
    made: list[str] = []
    kinds = {e.index: e.boolean for e in topological(function.exprs) if isinstance(e, Input)}
    for i, (name, x) in enumerate(zip(given.names, given.step.inputs, strict=True)):
        plain = kinds.get(i, False) or x.dtype is function.compute
        made.append(name if plain else given.graph.cast(name, function.compute))
    return made


def _stored(graph: Graph, name: str, expr: Expr, compute: DType, dtype: DType) -> str:
    held = bool_ if expr.boolean else compute
    return name if held is dtype else graph.cast(name, dtype)


class _Writer:
    """Writes expressions, each part once."""

    def __init__(self, graph: Graph, function: Pointwise, operands: list[str]) -> None:
        self._graph = graph
        self._op = function.op_name
        self._compute = function.compute
        self._scalars = function.scalars
        self._operands = operands
        self._done: dict[Expr, str] = {}

    def value(self, expr: Expr) -> str:
        """The name of an expression's value."""
        for part in topological((expr,)):
            if part not in self._done:
                self._done[part] = self._written(part)
        return self._done[expr]

    def _written(self, expr: Expr) -> str:
        if isinstance(expr, Input):
            return self._operands[expr.index]
        if isinstance(expr, Const):
            return self._number(expr.value)
        if isinstance(expr, Scalar):
            held = self._scalars[expr.index]
            return self._number(getattr(held, "value", held))
        args = [self._done[a] for a in expr.args]
        name = expr.primitive.name if isinstance(expr, Call) else ""
        integral = not self._compute.is_floating_point
        if name in _ROUND:
            return args[0] if integral else self._graph.add(_ROUND[name], *args)
        if name == "number":
            return self._graph.cast(args[0], self._compute)
        if name in _OTHERS:
            return getattr(self, f"_{name}")(*args)
        if name not in _SAME:
            raise NotExported(self._op, f"ONNX has no node for its {name or 'expression'}")
        return self._graph.add(_SAME[name], *args)

    def _number(self, value: Any) -> str:
        kind = np.bool_ if isinstance(value, bool) else self._compute.numpy
        return self._graph.constant(value, kind)

    def _add(self, op: str, *args: str, **settings: Any) -> str:
        return self._graph.add(op, *args, **settings)

    # What ONNX has in other words.

    def _ne(self, a: str, b: str) -> str:
        return self._add("Not", self._add("Equal", a, b))

    def _fma(self, a: str, b: str, c: str) -> str:
        return self._add("Add", self._add("Mul", a, b), c)

    def _rsqrt(self, x: str) -> str:
        return self._add("Reciprocal", self._add("Sqrt", x))

    def _erfc(self, x: str) -> str:
        return self._add("Sub", self._number(1), self._add("Erf", x))

    def _exp2(self, x: str) -> str:
        return self._add("Pow", self._number(2), x)

    def _expm1(self, x: str) -> str:
        """``2 sinh(x / 2) exp(x / 2)``, exact near 0; far below the first overflows."""
        half = self._add("Mul", x, self._number(0.5))
        both = self._add("Mul", self._add("Sinh", half), self._add("Exp", half))
        near = self._add("Mul", both, self._number(2))
        far = self._add("Less", x, self._number(-100))
        return self._add("Where", far, self._number(-1), near)

    def _log1p(self, x: str) -> str:
        """``2 atanh(x / (x + 2))`` near 0, where that is exact."""
        near = self._add("Less", self._add("Abs", x), self._number(0.5))
        inside = self._add("Where", near, x, self._number(0))
        ratio = self._add("Div", inside, self._add("Add", inside, self._number(2)))
        small = self._add("Mul", self._add("Atanh", ratio), self._number(2))
        large = self._add("Log", self._add("Add", x, self._number(1)))
        return self._add("Where", near, small, large)

    def _log2(self, x: str) -> str:
        return self._add("Div", self._add("Log", x), self._number(float(np.log(2))))

    def _log10(self, x: str) -> str:
        return self._add("Div", self._add("Log", x), self._number(float(np.log(10))))

    def _hypot(self, a: str, b: str) -> str:
        return self._add("Sqrt", self._add("Add", *(self._add("Mul", v, v) for v in (a, b))))

    def _isnan(self, x: str) -> str:
        return self._add("IsNaN", x) if self._compute.is_floating_point else self._never(x)

    def _isinf(self, x: str) -> str:
        return self._add("IsInf", x) if self._compute.is_floating_point else self._never(x)

    def _never(self, x: str) -> str:
        return self._ne(x, x)

    def _fmax(self, a: str, b: str) -> str:
        return self._besides("Max", a, b)

    def _fmin(self, a: str, b: str) -> str:
        return self._besides("Min", a, b)

    def _besides(self, op: str, a: str, b: str) -> str:
        """The other one where one is NaN."""
        both = self._add(op, a, b)
        if not self._compute.is_floating_point:
            return both
        first = self._add("Where", self._add("IsNaN", b), a, both)
        return self._add("Where", self._add("IsNaN", a), b, first)

    def _trunc(self, x: str) -> str:
        if not self._compute.is_floating_point:
            return x
        below = self._add("Less", x, self._number(0))
        return self._add("Where", below, self._add("Ceil", x), self._add("Floor", x))

    def _fmod(self, a: str, b: str) -> str:
        return self._add("Mod", a, b, fmod=1)

    def _remainder(self, a: str, b: str) -> str:
        if not self._compute.is_floating_point:
            return self._add("Mod", a, b)
        rest = self._fmod(a, b)  # a - floor(a / b) * b has few digits, and none beside infinity
        return self._add("Where", self._turned(rest, b), self._add("Add", rest, b), rest)

    def _turned(self, rest: str, b: str) -> str:
        """Whether a rest has another sign than its divisor."""
        zero = self._number(0)
        other = self._add("Xor", *(self._add("Less", v, zero) for v in (b, rest)))
        return self._add("And", self._ne(rest, zero), other)

    def _floor_divide(self, a: str, b: str) -> str:
        if not self._compute.is_floating_point:
            return self._add("Div", self._add("Sub", a, self._add("Mod", a, b)), b)
        # floor(a / b) is one too large where a / b rounds up to a whole number, as 1 / 0.1 does.
        rest = self._fmod(a, b)
        quotient = self._add("Div", self._add("Sub", a, rest), b)
        lower = self._add("Sub", quotient, self._number(1))
        quotient = self._add("Where", self._turned(rest, b), lower, quotient)
        half = self._add("Add", quotient, self._number(0.5))  # quotient is whole but for rounding
        by_zero = self._add("Equal", b, self._number(0))
        return self._add("Where", by_zero, self._add("Div", a, b), self._add("Floor", half))

    def _trunc_divide(self, a: str, b: str) -> str:
        return self._trunc(self._add("Div", a, b))

    def _copysign(self, a: str, b: str) -> str:
        zero = self._number(0)
        below = self._add("Less", self._add("Add", b, self._add("Reciprocal", b)), zero)  # -0, too
        size = self._add("Abs", a)
        return self._add("Where", below, self._add("Neg", size), size)

    def _atan2(self, y: str, x: str) -> str:
        """The angle of the point's absolute values, then of the point's own quadrant."""
        across, up = self._add("Abs", x), self._add("Abs", y)
        steep = self._add("Less", across, up)
        low, high = self._add("Min", across, up), self._add("Max", across, up)
        same = self._add("Equal", low, high)  # 1, also of two infinities, but of two zeros 0
        nowhere = self._add("Equal", high, self._number(0))
        one = self._add("Where", nowhere, self._number(0), self._number(1))
        ratio = self._add("Where", same, one, self._add("Div", low, high))
        angle = self._add("Atan", ratio)
        turned = self._add("Sub", self._number(np.pi / 2), angle)
        angle = self._add("Where", steep, turned, angle)
        left = self._copysign(self._number(1), x)
        behind = self._add("Sub", self._number(np.pi), angle)
        angle = self._add("Where", self._add("Less", left, self._number(0)), behind, angle)
        return self._copysign(angle, y)

    def _shift(self, a: str, b: str, *, left: bool) -> str:
        if self._compute.kind is Kind.INTEGER and self._compute.name.startswith("uint"):
            return self._add("BitShift", a, b, direction="LEFT" if left else "RIGHT")
        raise NotExported(self._op, "ONNX shifts unsigned numbers alone")

    def _left_shift(self, a: str, b: str) -> str:
        return self._shift(a, b, left=True)

    def _right_shift(self, a: str, b: str) -> str:
        return self._shift(a, b, left=False)
