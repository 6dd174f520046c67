"""Expressions as OpenCL C; it decides how a primitive is written, not what it means.

Statements assume that contraction is off (:data:`PRAGMA`) and that relaxed mathematics is too: then
a value does not depend on which expressions it was printed with.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..errors import ArgumentError, DtypeError
from ..values.record import NamedTuple
from .functions import (
    copysign,
    eq,
    floor,
    fmod,
    logical_and,
    logical_xor,
    ne,
    trunc,
    trunc_divide,
    where,
)
from .nodes import (
    PRIMITIVES,
    Call,
    Const,
    Domain,
    Expr,
    Input,
    Scalar,
    as_number,
    call,
    rebuild,
    topological,
)

PRAGMA = "#pragma OPENCL FP_CONTRACT OFF"
"""What a kernel source says once, before its kernels: ``a * b + c`` rounds twice everywhere."""

ELEMENTARY = (
    *("exp", "expm1", "log", "log2", "log1p"),
    *("tanh", "erf", "erfc", "sigmoid", "sin", "cos", "tan", "pow", "fmod"),
)
"""Functions that float kernels define themselves, named ``clnet_exp``, of vectors ``clnet_exp16``:
inlined where the device's own are not, and with the same bits on every device; sigmoid's are the
same on devices that contract products and sums, those of sin, cos and tan below 3200."""

_LONGEST = (
    72  # A longer text gets a name: readable, and C compilers limit the depth of parentheses.
)

_BITS = {"char": 8, "uchar": 8, "short": 16, "int": 32, "long": 64}
_FLOATING = {"float": 32, "double": 64}
_TYPE = re.compile(r"(float|double|char|uchar|short|int|long)(2|3|4|8|16)?")


Names = Sequence[str] | Mapping[int, str]


class Printed(NamedTuple):
    """C text of expressions.

    Attributes:
        statements: declarations of temporaries, in order, each with its semicolon.
        results: for each expression, C text of its value, without side effects.
        functions: names of the ``ELEMENTARY`` functions that the kernel must define.
    """

    statements: tuple[str, ...]
    results: tuple[str, ...]
    functions: tuple[str, ...]


@dataclass(frozen=True)
class CType:
    """An OpenCL C type of the compute type.

    Attributes:
        name: as C writes it, ``"float"`` or ``"float16"``.
        element: its element's type.
        width: its number of elements; 1 for a scalar.
    """

    name: str
    element: str
    width: int

    @staticmethod
    def parse(name: str) -> CType:
        """The type of a name.

        Raises:
            DtypeError: if arithmetic is not done in it.
        """
        match = _TYPE.fullmatch(name)
        if match is None:
            raise DtypeError(
                "print_c",
                "the compute type is a signed integer, uchar, float or double, or a vector of them",
                ctype=repr(name),
            )
        return CType(name, match[1], int(match[2] or 1))

    @property
    def floating(self) -> bool:
        """Whether it is float or double."""
        return self.element in _FLOATING

    @property
    def boolean(self) -> str:
        """The C type of booleans: int, 0 or 1; of vectors, lanes of the same size, 0 or -1."""
        if self.width == 1:
            return "int"
        element = {"float": "int", "double": "long", "uchar": "char"}.get(
            self.element, self.element
        )
        return f"{element}{self.width}"

    def literal(self, value: float) -> str:
        """C text of a constant, exactly the nearest value of the type."""
        text = self._float(value) if self.floating else self._integer(value)
        if self.width > 1:
            return f"(({self.name})({text}))"
        return f"({text})" if text[0] in "-(" else text

    def _float(self, value: float) -> str:
        single = self.element == "float"
        value = _nearest_single(value) if single else float(value)
        suffix = "f" if single else ""
        if math.isnan(value):
            return f"({self.element})NAN"
        if math.isinf(value):
            return f"{'-' if value < 0 else ''}({self.element})INFINITY"
        rounded = _nearest_single if single else float
        texts = (f"{value:.{digits}g}" for digits in range(1, 18))
        text = next(t for t in texts if rounded(float(t)) == value)
        return (text if set(text) & set(".e") else text + ".0") + suffix

    def _integer(self, value: float) -> str:
        if not float(value).is_integer():
            raise DtypeError(
                "print_c", "a fraction has no integer value", value=value, ctype=self.name
            )
        value = int(value)
        bits = _BITS[self.element]
        low = 0 if self.element == "uchar" else -(2 ** (bits - 1))
        if not low <= value < low + 2**bits:
            raise ArgumentError("print_c", "a constant fits the type", value=value, ctype=self.name)
        if (
            value == low and bits >= 32
        ):  # -2147483648 in C is the negative of a number that does not fit
            return f"{self.element.upper()}_MIN"
        return f"{value}L" if bits == 64 else str(value)


def _nearest_single(value: float) -> float:
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:  # Beyond float32's range
        return math.copysign(math.inf, value)


def _common() -> dict[str, str]:
    """Of all element types."""
    infix = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    infix |= {"eq": "==", "ne": "!=", "logical_and": "&", "logical_or": "|", "logical_xor": "^"}
    both = {name: f"({{0}} {symbol} {{1}})" for name, symbol in infix.items()}
    return both | {
        "neg": "(-{0})",
        "logical_not": "(!{0})",
        "where": "({0} ? {1} : {2})",
        "number": "({0} ? {one} : {zero})",
        "sign": "(({0} > {zero} ? {one} : {zero}) - ({0} < {zero} ? {one} : {zero}))",
    }


def _c_floating() -> tuple[dict[str, str], dict[str, str]]:
    """Of doubles, then of floats."""
    floating = _common() | {
        name: f"{name}({', '.join(f'{{{i}}}' for i in range(len(p.takes)))})"
        for name, p in PRIMITIVES.items()
        if p.domain is Domain.FLOATING
        or name in ("floor", "ceil", "rint", "trunc", "fmin", "fmax", "fmod", "fma")
    }
    floating |= {
        "div": "({0} / {1})",
        "abs": "fabs({0})",
        "isnan": "({0} != {0})",
        "isinf": "(fabs({0}) == {inf})",
        # The first if it wins or is NaN, else the second: a select, which vectorises.
        "minimum": "((({0} < {1}) | ({0} != {0})) ? {0} : {1})",
        "maximum": "((({0} > {1}) | ({0} != {0})) ? {0} : {1})",
    }
    # A kernel's own functions, or operations on bits, instead of calls of OpenCL's library.
    magnitude = "as_{t}(as_{mask}({0}) & 0x7fffffff)"
    single = floating | {name: f"clnet_{name}{{lanes}}({{0}})" for name in ELEMENTARY}
    single |= {name: f"clnet_{name}{{lanes}}({{0}}, {{1}})" for name in ("pow", "fmod")}
    single |= {"abs": magnitude, "isinf": f"({magnitude} == {{inf}})", **_rounded()}
    return floating, single


def _rounded() -> dict[str, str]:
    """Of floats: the nearest number of 16 bits, halves to even, as ``lib/stored.mako`` stores it.

    A number below 2**-14 has half's subnormal steps of 2**-24, which are float's at 0.5.
    """
    bits, size = "as_{mask}({0})", "(as_{mask}({0}) & 0x7fffffff)"
    tiny = f"as_{{mask}}((as_{{t}}({size}) + 0.5f) - 0.5f)"
    short = f"(({size} + 0xfff + (({size} >> 13) & 1)) & -8192)"
    bounded = f"({short} >= 0x47800000 ? ({{mask}})(0x7f800000) : {short})"
    half = f"({size} < 0x38800000 ? {tiny} : {bounded})"
    nan, sign = "({mask})(0x7fc00000)", f"({bits} & ({{mask}})(-0x7fffffff - 1))"
    upper = f"(({bits} + 0x7fff + (({bits} >> 16) & 1)) & -65536)"
    return {
        "to_float16": f"as_{{t}}(({{0}} != {{0}}) ? {nan} : ({half} | {sign}))",
        "to_bfloat16": f"as_{{t}}(({{0}} != {{0}}) ? {nan} : {upper})",
    }


def _c_whole() -> tuple[dict[str, str], dict[str, str]]:
    """Of signed whole numbers, then of unsigned ones."""
    smaller, larger = "({0} < {1} ? {0} : {1})", "({0} > {1} ? {0} : {1})"
    # Division by 0 and of the least value by -1 would trap on CPUs: they divide by 1 instead.
    divisor = "((({1} == {zero}) | ({1} == {minus})) ? {one} : {1})"
    beyond = "(({1} < {zero}) | ({1} >= {bits}))"
    signed = _common() | {
        "abs": "as_{t}(abs({0}))",
        "minimum": smaller,
        "maximum": larger,
        "fmin": smaller,
        "fmax": larger,
        "fma": "({0} * {1} + {2})",
        "fmod": f"({{0}} % {divisor})",
        "trunc_divide": f"({{1}} == {{zero}} ? {{zero}} : {{1}} == {{minus}} ? -{{0}}"
        f" : {{0}} / {divisor})",
        "bitwise_and": "({0} & {1})",
        "bitwise_or": "({0} | {1})",
        "bitwise_xor": "({0} ^ {1})",
        "bitwise_not": "(~{0})",
        "left_shift": f"({beyond} ? {{zero}} : {{0}} << {{1}})",
        "right_shift": f"({{0}} >> ({beyond} ? {{top}} : {{1}}))",
    }
    unsigned = signed | {
        "fmod": "({0} % ({1} == {zero} ? {one} : {1}))",
        "trunc_divide": "({1} == {zero} ? {zero} : {0} / ({1} == {zero} ? {one} : {1}))",
        "right_shift": "({1} >= {bits} ? {zero} : {0} >> {1})",
    }
    return signed, unsigned


_C_DOUBLE, _C_SINGLE = _c_floating()
_C_SIGNED, _C_UNSIGNED = _c_whole()


def _remainder(a: Expr, b: Expr) -> Expr:
    rest = fmod(a, b)
    return where(logical_and(ne(rest, 0), logical_xor(b < 0, rest < 0)), rest + b, rest)


def _floor_divide_floating(a: Expr, b: Expr) -> Expr:
    # Python's and PyTorch's way: floor(a / b) alone is off by one where a / b rounds up to a whole
    # number.
    rest = fmod(a, b)
    quotient = (a - rest) / b
    quotient = where(logical_and(ne(rest, 0), logical_xor(b < 0, rest < 0)), quotient - 1, quotient)
    whole = floor(quotient)
    whole = where(quotient - whole > 0.5, whole + 1, whole)
    return where(eq(b, 0), a / b, where(eq(quotient, 0), copysign(0, a / b), whole))


def _floor_divide_integer(a: Expr, b: Expr) -> Expr:
    # What is left by a product: a processor takes 20 cycles to divide, and more of 64 bits.
    quotient = trunc_divide(a, b)
    rest = where(eq(b, 0), 0, a - quotient * b)
    return quotient - as_number(logical_and(ne(rest, 0), logical_xor(b < 0, rest < 0)))


def _power(a: Expr, b: Expr) -> Expr:
    # The exponents PyTorch computes without pow.
    rules: dict[float, Callable[[], Expr]] = {
        0.5: lambda: call("sqrt", a),
        -0.5: lambda: call("rsqrt", a),
        -1: lambda: 1 / a,
        -2: lambda: 1 / (a * a),
    }
    rule = rules.get(b.value) if isinstance(b, Const) else None
    return call("pow", a, b) if rule is None else rule()


# Primitives whose C would be long, in terms of others.
_LOWER_FLOATING: dict[str, Callable[..., Expr]] = {
    "remainder": _remainder,
    "floor_divide": _floor_divide_floating,
    "trunc_divide": lambda a, b: trunc(a / b),
    "pow": _power,
    "sigmoid": lambda x: 1 / (1 + call("exp", -x)),
    "softplus": lambda x: call("log1p", call("exp", -abs(x))) + where(x > 0, x, 0),
}
_LOWER_SINGLE = {name: rule for name, rule in _LOWER_FLOATING.items() if name not in ELEMENTARY}
_LOWER_SINGLE["pow"] = _power
_LOWER_INTEGER: dict[str, Callable[..., Expr]] = {
    "remainder": _remainder,
    "floor_divide": _floor_divide_integer,
    "floor": lambda x: x,
    "ceil": lambda x: x,
    "rint": lambda x: x,
    "trunc": lambda x: x,
    "isnan": lambda x: Const(False),
    "isinf": lambda x: Const(False),
}


@lru_cache(maxsize=256)
def _lowered(exprs: tuple[Expr, ...], ctype: CType) -> tuple[Expr, ...]:
    rules = _LOWER_FLOATING if ctype.floating else _LOWER_INTEGER
    rules = _LOWER_SINGLE if ctype.element == "float" else rules
    wrong = Domain.INTEGER if ctype.floating else Domain.FLOATING

    def replace(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if not isinstance(node, Call):
            return node
        name = node.primitive.name
        single = node.primitive.domain is Domain.SINGLE
        if node.primitive.domain is wrong or (single and ctype.element != "float"):
            raise DtypeError(
                name, f"is defined for {node.primitive.domain.value} types only", ctype=ctype.name
            )
        return rules[name](*args) if name in rules else call(name, *args)

    return rebuild(exprs, replace)


def check_domains(exprs: tuple[Expr, ...], ctype: str) -> None:
    """What :func:`print_c` refuses of a compute type, where nothing is printed.

    Raises:
        DtypeError: if a primitive does not exist in the compute type.
    """
    _lowered(exprs, CType.parse(ctype))


class _Printer:
    """Spells nodes in one C type, with given names of the leaves."""

    def __init__(self, ctype: CType, inputs: Names, scalars: Names) -> None:
        self.ctype = ctype
        self.inputs = inputs
        self.scalars = scalars
        literal = ctype.literal
        self.words = {"t": ctype.name, "zero": literal(0), "one": literal(1)}
        if ctype.floating:
            self.templates = _C_SINGLE if ctype.element == "float" else _C_DOUBLE
            self.words |= {"inf": literal(math.inf), "mask": ctype.boolean}
            self.words["lanes"] = str(ctype.width) if ctype.width > 1 else ""
        else:
            bits = _BITS[ctype.element]
            self.templates = _C_UNSIGNED if ctype.element == "uchar" else _C_SIGNED
            self.words |= {"bits": literal(bits), "top": literal(bits - 1)}
            if ctype.element != "uchar":
                self.words["minus"] = literal(-1)

    def uses(self, node: Expr) -> list[Expr]:
        """The arguments of a node, each as often as its C text repeats it."""
        if not isinstance(node, Call):
            return []
        template = self.templates[node.primitive.name]
        return [a for i, a in enumerate(node.args) for _ in range(template.count(f"{{{i}}}"))]

    def text(self, node: Expr, args: Sequence[str]) -> str:
        """C text of a node, whose arguments have the given texts."""
        if isinstance(node, Call):
            text = self.templates[node.primitive.name].format(*args, **self.words)
            # C computes narrow integers in int; without the cast, naming a value would change it.
            narrow = self.ctype.width == 1 and self.ctype.element in ("char", "uchar", "short")
            return f"(({self.ctype.name}){text})" if narrow and not node.boolean else text
        if isinstance(node, Const):
            if node.boolean:
                return self._boolean(bool(node.value))
            return self.ctype.literal(node.value)
        if isinstance(node, Input):
            return _name_of(self.inputs, node, node.index)
        if isinstance(node, Scalar):
            name = _name_of(self.scalars, node, node.index)
            return name if self.ctype.width == 1 else f"(({self.ctype.name})({name}))"
        raise DtypeError("print_c", "there are four kinds of expressions", type=type(node).__name__)

    def _boolean(self, value: bool) -> str:  # noqa: FBT001 - a value, no switch
        if self.ctype.width == 1:
            return str(int(value))
        return f"(({self.ctype.boolean})({-int(value)}))"


def _name_of(names: Names, leaf: Expr, index: int) -> str:
    try:
        return names[index]
    except LookupError:
        raise ArgumentError("print_c", "every leaf needs a name", leaf=leaf, names=names) from None


def print_c(
    exprs: Sequence[Expr], ctype: str, *, inputs: Names, scalars: Names = (), prefix: str = "t"
) -> Printed:
    """OpenCL C that computes expressions, with shared sub-expressions computed once.

    Booleans are of C type ``int``, 0 or 1. Where ``ctype`` is a vector they are vectors of integers
    as wide as its elements, 0 or -1.

    Args:
        exprs: the expressions.
        ctype: the compute type: float, double, int, long, short, char, uchar, or a vector of one,
            as ``float16``.
        inputs: for each input's index, the C name of a variable that holds its element, of the
            compute type or a boolean.
        scalars: for each scalar's index, the C name of a (never vector) variable of the compute
            type.
        prefix: what the names of temporaries begin with.

    Returns:
        The statements, for each expression its value, and what both need.

    Raises:
        DtypeError: if a primitive or a constant does not exist in the compute type.
        ArgumentError: if a leaf has no name, or an integer constant is out of range.

    Example:
        >>> from clnet.expr import Input, print_c
        >>> x = Input(0)
        >>> print_c([x * x + 1, x * x], "float", inputs=["x"])
        Printed(statements=('const float t0 = (x * x);',), results=('(t0 + 1.0f)', 't0'),
                functions=())
    """
    target = CType.parse(ctype)
    printer = _Printer(target, inputs, scalars)
    exprs = _lowered(tuple(exprs), target)
    order = topological(exprs)
    uses = Counter(exprs)
    for node in order:
        uses.update(printer.uses(node))
    texts: dict[Expr, str] = {}
    statements: list[str] = []
    for node in order:
        text = printer.text(node, [texts[a] for a in node.args])
        if node.args and (uses[node] > 1 or len(text) > _LONGEST):
            name = f"{prefix}{len(statements)}"
            kind = target.boolean if node.boolean else target.name
            statements.append(f"const {kind} {name} = {text};")
            text = name
        texts[node] = text
    called = {node.primitive.name for node in order if isinstance(node, Call)}
    own = [name for name in ELEMENTARY if name in called and target.element == "float"]
    return Printed(tuple(statements), tuple(texts[e] for e in exprs), tuple(own))
