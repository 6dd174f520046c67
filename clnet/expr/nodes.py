"""Expression nodes: leaves, calls of primitives, and what rebuilds them; no calculus, no C.

A node is immutable and exists once: building the same expression again returns the same object. So
``==`` and ``hash`` are those of identity, cost nothing, and mean structural equality. Every node is
either a boolean or a number of the *compute type*, which is one type for the whole kernel and
chosen at printing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from ..errors import ArgumentError, DtypeError
from ..values.process import process_lock

_NODES: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_NODES_LOCK = process_lock()
_REMEMBERED = 4096  # Layers that are alike ask for the same expressions again and again.


class Domain(Enum):
    """The compute types a primitive is defined for."""

    ANY = "any"
    FLOATING = "floating"
    INTEGER = "integer"
    SINGLE = "float32"


@dataclass(frozen=True)
class Primitive:
    """One elementary function.

    Attributes:
        name: its name, unique.
        takes: for each argument, whether it is a boolean.
        boolean: whether the result is a boolean.
        domain: the compute types it is defined for.
        flops: what it counts for: 1 for arithmetic, a comparison or a transcendental function, 2
            for ``fma``, 0 for selection, logic and conversion.
    """

    name: str
    takes: tuple[bool, ...]
    boolean: bool
    domain: Domain
    flops: int


def _primitives() -> dict[str, Primitive]:
    table: dict[str, Primitive] = {}

    def add(names: str, signature: str, domain: Domain, flops: int = 1) -> None:
        takes, result = signature.split(">")
        for name in names.split():
            table[name] = Primitive(
                name, tuple(c == "b" for c in takes), result == "b", domain, flops
            )

    add("neg abs sign floor ceil rint trunc", "n>n", Domain.ANY)
    add("add sub mul minimum maximum fmin fmax", "nn>n", Domain.ANY)
    add("fmod remainder floor_divide trunc_divide", "nn>n", Domain.ANY)
    add("fma", "nnn>n", Domain.ANY, 2)
    add("lt le gt ge eq ne", "nn>b", Domain.ANY)
    add("isnan isinf", "n>b", Domain.ANY)
    add("logical_and logical_or logical_xor", "bb>b", Domain.ANY, 0)
    add("logical_not", "b>b", Domain.ANY, 0)
    add("where", "bnn>n", Domain.ANY, 0)
    add("number", "b>n", Domain.ANY, 0)
    add("exp exp2 expm1 log log1p log2 log10 sqrt rsqrt erf erfc", "n>n", Domain.FLOATING)
    add("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", "n>n", Domain.FLOATING)
    # Written as one so that their derivatives hold everywhere: no kink at 0, no overflow.
    add("sigmoid", "n>n", Domain.FLOATING, 4)
    add("softplus", "n>n", Domain.FLOATING, 6)
    add("div pow atan2 hypot copysign", "nn>n", Domain.FLOATING)
    # To the nearest number of 16 bits, as storing it and reading it back would give.
    add("to_float16 to_bfloat16", "n>n", Domain.SINGLE, 0)
    add("bitwise_not", "n>n", Domain.INTEGER)
    add("bitwise_and bitwise_or bitwise_xor left_shift right_shift", "nn>n", Domain.INTEGER)
    return table


PRIMITIVES = _primitives()


class Expr:
    """A pointwise expression: an :class:`Input`, :class:`Scalar`, :class:`Const` or :class:`Call`.

    The operators of Python build expressions, and Python numbers become constants, except that
    ``==`` and ``!=`` compare structure (:func:`eq` and :func:`ne` build the comparisons).

    Attributes:
        args: the expressions it is made of; empty for a leaf.
        boolean: whether its value is a boolean rather than a number of the compute type.
    """

    __slots__ = ("__weakref__", "_key", "args", "boolean")

    args: tuple[Expr, ...]
    boolean: bool
    _key: tuple[Any, ...]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"expressions are immutable; got {name}={value!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self._key)

    def __repr__(self) -> str:
        return _text(self, 4)

    def __bool__(self) -> NoReturn:
        raise DtypeError(
            "expr", "a symbol has no truth value", expr=self, remedy="Use where() or &, |, ~"
        )

    def __add__(self, other: Operand) -> Expr:
        return call("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return call("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return call("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return call("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return call("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return call("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return call("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return call("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return call("remainder", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return call("remainder", other, self)

    def __pow__(self, other: Operand) -> Expr:
        return call("pow", self, other)

    def __rpow__(self, other: Operand) -> Expr:
        return call("pow", other, self)

    def __neg__(self) -> Expr:
        return call("neg", self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __and__(self, other: Operand) -> Expr:
        return bitwise("and", self, other)

    def __rand__(self, other: Operand) -> Expr:
        return bitwise("and", other, self)

    def __or__(self, other: Operand) -> Expr:
        return bitwise("or", self, other)

    def __ror__(self, other: Operand) -> Expr:
        return bitwise("or", other, self)

    def __xor__(self, other: Operand) -> Expr:
        return bitwise("xor", self, other)

    def __rxor__(self, other: Operand) -> Expr:
        return bitwise("xor", other, self)

    def __invert__(self) -> Expr:
        return bitwise("not", self)

    def __lshift__(self, other: Operand) -> Expr:
        return call("left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Expr:
        return call("left_shift", other, self)

    def __rshift__(self, other: Operand) -> Expr:
        return call("right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Expr:
        return call("right_shift", other, self)

    def __lt__(self, other: Operand) -> Expr:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return call("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return call("ge", self, other)


Operand = Expr | bool | int | float


def _interned(cls: type[Any], key: tuple[Any, ...], *, identity: object, **fields: Any) -> Any:
    # `identity` tells nodes apart where `key`, the constructor's arguments, does not: 1, 1.0 and
    # True.
    with _NODES_LOCK:
        node = _NODES.get((cls, identity))
        if node is None:
            node = object.__new__(cls)
            for name, value in {"_key": key, "args": (), **fields}.items():
                object.__setattr__(node, name, value)
            _NODES[cls, identity] = node
    return node


class Input(Expr):
    """The element of an array operand.

    Args:
        index: the operand's position.
        boolean: whether the array holds booleans; all others are converted to the compute type.
    """

    __slots__ = ("index",)
    index: int

    def __new__(cls, index: int, boolean: bool = False) -> Input:  # noqa: FBT001, FBT002 - documented by the class; a value
        return _interned(
            cls, (index, boolean), identity=(index, boolean), index=index, boolean=boolean
        )


class Scalar(Expr):
    """A scalar argument of the kernel, of the compute type, whose value is known at the launch.

    Args:
        index: the scalar's position.
    """

    __slots__ = ("index",)
    index: int

    def __new__(cls, index: int) -> Scalar:
        return _interned(cls, (index,), identity=index, index=index, boolean=False)


class Const(Expr):
    """A Python number; ``2`` and ``2.0`` are the same constant.

    Args:
        value: a bool (a boolean constant), an int of 64 bits, or a float.

    Raises:
        DtypeError: if ``value`` is not of these types.
        ArgumentError: if an int needs more than 64 bits.
    """

    __slots__ = ("value",)
    value: bool | int | float

    def __new__(cls, value: bool | float) -> Const:  # noqa: FBT001 - documented by the class; a value, no switch
        if not isinstance(value, (bool, int, float)):
            raise DtypeError(
                "expr", "a constant is a bool, an int or a float", type=type(value).__name__
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ArgumentError("expr", "a constant fits 64 bits", value=value)
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:  # pyrefly: ignore[missing-attribute] - a float
            value = value if value == 0.0 and math.copysign(1, value) < 0 else int(value)
        identity = value.hex() if isinstance(value, float) else repr(value)  # pyrefly: ignore[missing-attribute] - a float
        return _interned(
            cls, (value,), identity=identity, value=value, boolean=isinstance(value, bool)
        )


class Call(Expr):
    """A primitive applied to expressions of the types it takes (:func:`call` converts them).

    Args:
        primitive: the name of an entry of ``PRIMITIVES``.
        *args: its arguments.

    Raises:
        DtypeError: if the arguments do not match the primitive's signature.
    """

    __slots__ = ("primitive",)
    primitive: Primitive

    def __new__(cls, primitive: str, *args: Expr) -> Call:
        entry = PRIMITIVES[primitive]
        if tuple(a.boolean for a in args) != entry.takes:
            raise DtypeError(primitive, "its arguments do not match its signature", args=args)
        return _interned(
            cls,
            (primitive, *args),
            identity=(primitive, *args),
            primitive=entry,
            args=args,
            boolean=entry.boolean,
        )


def _text(expr: Expr, depth: int) -> str:
    if not isinstance(expr, Call):
        return f"{type(expr).__name__}({', '.join(map(repr, expr._key))})"  # pyrefly: ignore[protected-access] - this module's own
    inside = ", ".join(_text(a, depth - 1) for a in expr.args) if depth else "..."
    return f"{expr.primitive.name}({inside})"


def as_expr(value: Operand) -> Expr:
    """The expression of an operand: itself, or the constant of a Python number."""
    return value if isinstance(value, Expr) else Const(value)


def as_boolean(value: Operand) -> Expr:
    """``value != 0`` as a boolean; a boolean is returned as it is."""
    expr = as_expr(value)
    if expr.boolean:
        return expr
    return Const(bool(expr.value)) if isinstance(expr, Const) else Call("ne", expr, Const(0))


def as_number(value: Operand) -> Expr:
    """A boolean as 0 or 1 of the compute type; a number is returned as it is."""
    expr = as_expr(value)
    if not expr.boolean:
        return expr
    return Const(int(expr.value)) if isinstance(expr, Const) else Call("number", expr)


def call(primitive: str, *args: Operand) -> Expr:
    """A primitive of operands, which are converted to the types it takes.

    Foldings that keep every bit of the result (IEEE 754, signed zeros included) are made here: so
    ``x * 1`` is ``x``, but ``x + 0`` is not, since it turns -0 into 0.

    Args:
        primitive: the name of an entry of ``PRIMITIVES``.
        *args: expressions or Python numbers.

    Returns:
        The expression.
    """
    for a in args:
        if hasattr(a, "of_primitive"):  # a complex number, of which nothing here knows
            return a.of_primitive(primitive, args)
    takes = PRIMITIVES[primitive].takes
    if len(args) != len(takes):
        raise ArgumentError(primitive, f"takes {len(takes)} operands", operands=len(args))
    lifted = [
        as_boolean(a) if boolean else as_number(a) for a, boolean in zip(args, takes, strict=True)
    ]
    fold = _FOLDS.get(primitive)
    folded = None if fold is None else fold(*lifted)
    return Call(primitive, *lifted) if folded is None else folded


def bitwise(name: str, *args: Operand) -> Expr:
    """``and``, ``or``, ``xor`` or ``not``: logical if all operands are booleans, else by bits."""
    for a in args:
        if hasattr(a, "of_primitive"):
            return a.of_primitive(f"bitwise_{name}", args)
    exprs = [as_expr(a) for a in args]
    kind = "logical" if all(e.boolean for e in exprs) else "bitwise"
    return call(f"{kind}_{name}", *exprs)


def _exact(expr: Expr) -> bool:
    # Whole numbers to 2**24 are exact in all compute types of 32 bits and more: folding them is
    # safe before the type is known.
    return isinstance(expr, Const) and isinstance(expr.value, int) and abs(expr.value) <= 2**24


def _constants(operate: Callable[[Any, Any], Any], a: Expr, b: Expr) -> Expr | None:
    if isinstance(a, Const) and isinstance(b, Const) and _exact(a) and _exact(b):
        result = Const(operate(a.value, b.value))
        return result if _exact(result) else None
    return None


def _fold_add(a: Expr, b: Expr) -> Expr | None:
    return _constants(operator.add, a, b)


def _fold_sub(a: Expr, b: Expr) -> Expr | None:
    return a if b is Const(0) else _constants(operator.sub, a, b)


def _fold_mul(a: Expr, b: Expr) -> Expr | None:
    if a is Const(1):
        return b
    if b is Const(1):
        return a
    # (-1) * 0 is -0, which the product of Python's ints is not: zeros are left to the device.
    return None if Const(0) in (a, b) else _constants(operator.mul, a, b)


def _fold_div(a: Expr, b: Expr) -> Expr | None:
    if b is Const(1):
        return a
    return None if b is Const(0) else _constants(operator.truediv, a, b)


def _fold_neg(a: Expr) -> Expr | None:
    if isinstance(a, Const):
        return Const(-float(a.value) if a.value == 0 else -a.value)
    return a.args[0] if isinstance(a, Call) and a.primitive.name == "neg" else None


def _fold_not(a: Expr) -> Expr | None:
    if isinstance(a, Const):
        return Const(not a.value)
    return a.args[0] if isinstance(a, Call) and a.primitive.name == "logical_not" else None


def _fold_where(condition: Expr, a: Expr, b: Expr) -> Expr | None:
    if isinstance(condition, Const):
        return a if condition.value else b
    return a if a is b else None


def _fold_pow(a: Expr, b: Expr) -> Expr | None:
    # Roots and quotients stay powers until they are printed: their derivatives are powers, which
    # are right at 0, where those of a product's quotient would be NaN.
    if not isinstance(b, Const):
        return None
    rules: dict[float, Callable[[], Expr]] = {
        0: lambda: Const(1),
        1: lambda: a,
        2: lambda: a * a,
        3: lambda: a * a * a,
    }
    rule = rules.get(b.value)
    return None if rule is None else rule()


def _fold_abs(a: Expr) -> Expr | None:
    return call("abs", a.args[0]) if isinstance(a, Call) and a.primitive.name == "neg" else None


_FOLDS: dict[str, Callable[..., Expr | None]] = {
    "add": _fold_add,
    "sub": _fold_sub,
    "mul": _fold_mul,
    "div": _fold_div,
    "neg": _fold_neg,
    "abs": _fold_abs,
    "logical_not": _fold_not,
    "where": _fold_where,
    "pow": _fold_pow,
}


def topological(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
    """All nodes of the expressions, each once, arguments first, in a reproducible order.

    It does not recurse: a fused chain may be deeper than Python's stack.
    """
    return _topological(tuple(exprs))


@lru_cache(maxsize=_REMEMBERED)
def _topological(exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    order: dict[Expr, None] = {}
    stack = [(e, False) for e in reversed(exprs)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready or not node.args:
            order[node] = None
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return tuple(order)


def rebuild(
    exprs: Sequence[Expr], replace: Callable[[Expr, tuple[Expr, ...]], Expr]
) -> tuple[Expr, ...]:
    """The expressions with every node replaced, arguments first.

    Args:
        exprs: the expressions.
        replace: takes a node and its replaced arguments and returns the node's replacement.

    Returns:
        The replacements of ``exprs``.
    """
    done: dict[Expr, Expr] = {}
    for node in topological(exprs):
        done[node] = replace(node, tuple(done[a] for a in node.args))
    return tuple(done[e] for e in exprs)


def substitute(expr: Expr, leaves: Mapping[Expr, Expr]) -> Expr:
    """Compose: ``expr`` with some of its leaves replaced by expressions, all at once.

    Args:
        expr: the expression.
        leaves: for each leaf to replace, its replacement, which is converted to the leaf's type.

    Returns:
        The composed expression.
    """
    return _substituted(expr, tuple(leaves.items()))


@lru_cache(maxsize=_REMEMBERED)
def _substituted(expr: Expr, leaves: tuple[tuple[Expr, Expr], ...]) -> Expr:
    replacements = dict(leaves)

    def replace(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if isinstance(node, Call):
            return node if args == node.args else call(node.primitive.name, *args)
        found = replacements.get(node, node)
        return as_boolean(found) if node.boolean else as_number(found)

    return rebuild([expr], replace)[0]


@lru_cache(maxsize=_REMEMBERED)
def inputs_of(*exprs: Expr) -> tuple[Input, ...]:
    """The array operands that the expressions read, by index."""
    found = [n for n in topological(exprs) if isinstance(n, Input)]
    return tuple(sorted(found, key=lambda n: n.index))


@lru_cache(maxsize=_REMEMBERED)
def scalars_of(*exprs: Expr) -> tuple[Scalar, ...]:
    """The scalar arguments that the expressions read, by index."""
    found = [n for n in topological(exprs) if isinstance(n, Scalar)]
    return tuple(sorted(found, key=lambda n: n.index))


@lru_cache(maxsize=_REMEMBERED)
def flops(*exprs: Expr) -> int:
    """Operations for one element, shared sub-expressions counted once (see :class:`Primitive`)."""
    return sum(n.primitive.flops for n in topological(exprs) if isinstance(n, Call))
