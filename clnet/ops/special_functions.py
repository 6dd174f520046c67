"""Bessel's functions, the incomplete gamma function, polynomials and others, by one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import expr as e
from ..array import Array
from ..device import Launch, Target
from ..errors import DtypeError
from ..kernels.pointwise import RECURRENCES
from ..kernels.pointwise import special as launches_of
from ..values.dtypes import Kind, default_float, float64, int32
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import broadcast_shapes
from .arithmetic import cos, eq, exp, log, sign, where
from .gamma import lgamma
from .machinery.derived import derived
from .machinery.function import Face, Function, apply, op
from .machinery.pointwise import evaluate
from .machinery.promotion import Operand, result_type
from .mathematics import exp2
from .shape import before, contiguous, expand, settled, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

_BOTH = Face.FUNCTION | Face.METHOD


class Parts(NamedTuple):
    """A number in [0.5, 1) with its sign, and the power of 2 it is to be multiplied by."""

    mantissa: Any
    exponent: Any


class Special(Function):
    """A function of each element, of each pair, or an element's two parts."""

    kind: str

    sixteen_bit = False
    repeats = True
    differentiable = ()

    @property
    def name(self) -> str:
        """The function's."""
        return self.kind

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        """The shape and dtype of the first."""
        x = inputs[0]
        found = [Array.abstract(x.shape, x.dtype, x.device)]
        if self.kind == "frexp":
            found.append(Array.abstract(x.shape, int32, x.device))
        return tuple(found)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        return launches_of(target, self.kind, outputs, inputs)


def _operands(name: str, *operands: Any, whole: bool = False) -> list[Any]:
    """Tensors of one shape and dtype; numbers become tensors without axes.

    Raises:
        DtypeError: if there is no tensor, or numbers are not of the kind that the function takes.
    """
    like = next((x for x in operands if hasattr(x, "__apply_function__")), None)
    if like is None:
        raise DtypeError(name, "one operand is a tensor", operands=operands)
    dtype = result_type(*operands)
    if whole and dtype.kind is not Kind.INTEGER:
        raise DtypeError(name, "operands are whole numbers", dtype=dtype)
    if not whole and not dtype.is_floating_point:
        dtype = default_float()
    found = [
        to_dtype(x, dtype)
        if hasattr(x, "__apply_function__")
        else like.new_full((), x, dtype=dtype)
        for x in operands
    ]
    shape = broadcast_shapes(name, *(x.shape for x in found))
    return [expand(x, shape) for x in found]


def _called(name: str, kind: str, rule: Any, *operands: Any, whole: bool = False) -> Any:
    """A function of tensors and numbers; without a rule its result is off the tape."""
    given = _operands(name, *operands, whole=whole)
    body = None if given[0].dtype is float64 else _VECTORS.get(kind)
    if body is not None:
        y = evaluate(kind, body, [given[0].detach()])
    else:
        y = apply(Special(kind), *(contiguous(x.detach()) for x in given))
    return y if rule is None else derived(name, rule, given, (y,))


@cache
def _rule_of(slope: Callable[[Any, Any], Any]) -> Any:
    """The rule of a function of one number by its derivative, of the number and the result."""

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        return (grads[0] * slope(inputs[0], results[0]),)

    return rule


def _over(y: Any, x: Any, at_zero: Any) -> Any:
    """``y / x``, and its limit up to a rounding of 1 around 0, where quotients have no digits."""
    near = abs(x) <= (2.0**-52 if x.dtype is float64 else 2.0**-23)
    return where(near, at_zero, y / where(near, 1, x))


# Minimax for the relative error of ``exp(a^2) erfc(a) / s``, s = 2 / (a + 2), in ``s - 1/2``; the
# same as in kernels/lib/erfc.mako.
_SCALED = (
    *(0.04235205954, -0.01909494736, -0.07621363069, 0.0553081757, 0.09779284294, -0.1038210075),
    *(-0.1720214917, 0.1457751914, 0.558942861, 0.687160609, 0.5107913569),
)


def _scaled_erfc(a: Any) -> Any:
    """``exp(a * a) * erfc(a)`` of a float not below 0."""
    s = 2 / (a + 2)
    y = e.as_number(_SCALED[0])
    for c in _SCALED[1:]:
        y = y * (s - 0.5) + c
    return s * y


def _log_ndtr_of_floats(x: Any) -> Any:
    size = abs(x) * math.sqrt(0.5)
    far = e.log(_scaled_erfc(size) * 0.5) - x * x * 0.5
    return e.where(x < -1, far, e.log1p(e.erfc(x * math.sqrt(0.5)) * -0.5))


def _slope_of_floats(x: Any) -> Any:
    below = math.sqrt(2 / math.pi) / _scaled_erfc(abs(x) * math.sqrt(0.5))
    density = e.exp(x * x * -0.5) * math.sqrt(0.5 / math.pi)
    return e.where(x < 0, below, density / (1 - e.erfc(x * math.sqrt(0.5)) * 0.5))


# Of floats and narrower numbers in place of the kernel, which goes element by element.
_VECTORS: dict[str, Callable[[Any], Any]] = {"log_ndtr": _log_ndtr_of_floats}


def _slope_of_log_ndtr(x: Any) -> Any:
    """The density over the area, with a derivative that does not overflow either."""
    if x.dtype is float64:
        slope = math.sqrt(2 / math.pi) / _called("erfcx", "erfcx", None, x * -math.sqrt(0.5))
    else:
        slope = evaluate("log_ndtr_slope", _slope_of_floats, [x.detach()])

    def rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
        return (-grads[0] * results[0] * (inputs[0] + results[0]),)

    return derived("log_ndtr", rule, (x,), (slope,))


def _bessel(kind: str, x: Any) -> Any:
    return _called(kind, kind, _rule_of(_SLOPES[kind]), x)


_SLOPES: dict[str, Callable[[Any, Any], Any]] = {
    "i0": lambda x, y: _bessel("i1", x),
    "i0e": lambda x, y: _bessel("i1e", x) - sign(x) * y,
    "i1": lambda x, y: _bessel("i0", x) - _over(y, x, 0.5),
    "i1e": lambda x, y: _bessel("i0e", x) - sign(x) * y - _over(y, x, 0.5 - 0.5 * abs(x)),
    "j0": lambda x, y: -_bessel("j1", x),
    "j1": lambda x, y: _bessel("j0", x) - _over(y, x, 0.5),
    "y0": lambda x, y: -_bessel("y1", x),
    "y1": lambda x, y: _bessel("y0", x) - y / x,
    "k0": lambda x, y: -_bessel("k1", x),
    "k1": lambda x, y: -_bessel("k0", x) - y / x,
    "k0e": lambda x, y: y - _bessel("k1e", x),
    "k1e": lambda x, y: y - _bessel("k0e", x) - y / x,
    "spherical_bessel_j0": lambda x, y: _over(cos(x) - y, x, 0.0),
    "erfcx": lambda x, y: 2 * (x * y) - 2 / math.sqrt(math.pi),
    "log_ndtr": lambda x, y: _slope_of_log_ndtr(x),
}
_SHOWN = {
    "i0": ("i0", _BOTH, "Bessel's modified function of the first kind, order 0."),
    "special.i0e": ("i0e", Face.SPECIAL, "``exp(-|x|)`` times :func:`i0`."),
    "special.i1": ("i1", Face.SPECIAL, "Bessel's modified function of the first kind, order 1."),
    "special.i1e": ("i1e", Face.SPECIAL, "``exp(-|x|)`` times :func:`special.i1`."),
    "special.bessel_j0": ("j0", Face.SPECIAL, "Bessel's function of the first kind, order 0."),
    "special.bessel_j1": ("j1", Face.SPECIAL, "Bessel's function of the first kind, order 1."),
    "special.bessel_y0": ("y0", Face.SPECIAL, "Bessel's function of the second kind, order 0."),
    "special.bessel_y1": ("y1", Face.SPECIAL, "Bessel's function of the second kind, order 1."),
    "special.modified_bessel_i0": ("i0", Face.SPECIAL, "As :func:`i0`."),
    "special.modified_bessel_i1": ("i1", Face.SPECIAL, "As :func:`special.i1`."),
    "special.modified_bessel_k0": (
        "k0",
        Face.SPECIAL,
        "Bessel's modified function of the second kind, order 0.",
    ),
    "special.modified_bessel_k1": (
        "k1",
        Face.SPECIAL,
        "Bessel's modified function of the second kind, order 1.",
    ),
    "special.scaled_modified_bessel_k0": (
        "k0e",
        Face.SPECIAL,
        "``exp(x)`` times :func:`special.modified_bessel_k0`.",
    ),
    "special.scaled_modified_bessel_k1": (
        "k1e",
        Face.SPECIAL,
        "``exp(x)`` times :func:`special.modified_bessel_k1`.",
    ),
    "special.spherical_bessel_j0": ("spherical_bessel_j0", Face.SPECIAL, "``sin(x) / x``."),
    "special.erfcx": ("erfcx", Face.SPECIAL, "``exp(x * x) * erfc(x)``, without overflow."),
    "special.log_ndtr": (
        "log_ndtr",
        Face.SPECIAL,
        "The logarithm of the area below the normal density up to ``x``.",
    ),
    "special.airy_ai": (
        "airy_ai",
        Face.SPECIAL,
        "Airy's function; no gradient flows, as in PyTorch.",
    ),
}


def _unary(public: str, kind: str, text: str) -> Callable[[Tensor], Tensor]:
    name = public.removeprefix("special.")
    rule = _rule_of(_SLOPES[kind]) if kind in _SLOPES else None

    def function(x: Tensor) -> Tensor:
        return _called(name, kind, rule, x)

    function.__name__ = function.__qualname__ = public.replace(".", "_")
    function.__doc__ = (
        f"{text}\n\n"
        "Args:\n    x: any shape; whole numbers become float32.\n\n"
        "Returns:\n    The same shape.\n"
    )
    return function


def _polynomial(name: str) -> Callable[[Operand, Operand], Tensor]:
    def function(x: Operand, n: Operand) -> Tensor:
        return _called(name, name, None, x, n)

    function.__name__ = function.__qualname__ = f"special_{name}"
    words = name.replace("_polynomial_", "'s polynomial ").replace("_", " ")
    function.__doc__ = (
        f"The {words} of degree ``n`` at ``x``, by its recurrence; no gradient flows.\n\n"
        "Args:\n"
        "    x: any shape, or a number; whole numbers become float32.\n"
        "    n: broadcasts with ``x``, or a number; fractions are cut off. Below 0 the result is\n"
        "        0, and NaN for degrees whose numbers overflow, and for those above 100,000.\n\n"
        "Returns:\n    The broadcast shape.\n"
    )
    return function


for _public, (_kind, _face, _text) in _SHOWN.items():
    _made = _unary(_public, _kind, _text)
    globals()[_made.__name__] = op(_face, name=_public)(_made)
for _name in RECURRENCES:
    _poly = _polynomial(_name)
    globals()[_poly.__name__] = op(Face.SPECIAL, name=f"special.{_name}")(_poly)


def _zeta_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    s, q = inputs
    return None, -grads[0] * s * zeta(s + 1, q)


@op(Face.SPECIAL, name="special.zeta")
def zeta(x: Operand, other: Operand) -> Tensor:
    """Hurwitz's zeta function, the sum of ``(k + other) ** -x`` over ``k`` from 0.

    Args:
        x: above 1: infinite at 1, NaN below. It has no gradient.
        other: broadcasts with ``x``; infinite at whole numbers that are not positive.

    Returns:
        The broadcast shape.
    """
    return _called("zeta", "zeta", _zeta_rule, x, other)


def _gamma_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    a, x = inputs
    return None, grads[0] * exp((a - 1) * log(x) - x - lgamma(a))


def _gamma_above_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    return None, -_gamma_rule(inputs, results, grads)[1]


@op(_BOTH)
def igamma(x: Tensor, other: Tensor) -> Tensor:
    """The share of the gamma function's integral of order ``x`` that lies below ``other``.

    Args:
        x: 0 or more. It has no gradient.
        other: 0 or more; broadcasts with ``x``.

    Returns:
        The broadcast shape; NaN where an operand is below 0.
    """
    return _called("igamma", "igamma", _gamma_rule, x, other)


@op(_BOTH)
def igammac(x: Tensor, other: Tensor) -> Tensor:
    """``1 - igamma(x, other)``, precise where that is small; arguments as :func:`igamma`'s."""
    return _called("igammac", "igammac", _gamma_above_rule, x, other)


@op(_BOTH)
def gcd(x: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of whole numbers; both are broadcast together."""
    return _called("gcd", "gcd", None, x, other, whole=True)


@op(_BOTH)
def lcm(x: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of whole numbers; both are broadcast together."""
    return _called("lcm", "lcm", None, x, other, whole=True)


@op(_BOTH)
def nextafter(x: Tensor, other: Tensor) -> Tensor:
    """The next number after ``x`` on the way to ``other``, whose gradient is that to ``x``.

    Args:
        x: float32 or float64.
        other: broadcasts with ``x``.

    Returns:
        The broadcast shape.

    Raises:
        DtypeError: for other dtypes.
    """
    dtype = result_type(x, other)
    if dtype.name not in ("float32", "float64"):
        raise DtypeError("nextafter", "operands are float32 or float64", dtype=dtype)
    return _called("nextafter", "nextafter", _next_rule, x, other)


def _next_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    x, other = inputs
    return where(eq(x, other), 0.0, grads[0]), None


def _frexp_rule(inputs: Any, results: Any, grads: Any) -> Sequence[Any]:
    first = inputs[1] // 2  # in two steps: a subnormal number's power alone overflows
    rest = inputs[1] - first
    dtype = grads[0].dtype
    return grads[0] * exp2(-first.to(dtype)) * exp2(-rest.to(dtype)), None


@op(_BOTH)
def frexp(x: Tensor) -> Parts:
    """Numbers as ``mantissa * 2 ** exponent``.

    Args:
        x: any shape, floating.

    Returns:
        Mantissas in [0.5, 1) with the sign, and int32 exponents.

    Raises:
        DtypeError: if ``x`` is not floating.
    """
    if not x.dtype.is_floating_point:
        raise DtypeError("frexp", "x is floating", dtype=x.dtype)
    mantissa, exponent = apply(Special("frexp"), contiguous(x.detach()))
    return returned("frexp", Parts)(
        derived("frexp", _frexp_rule, (x, exponent), (mantissa,)), exponent
    )


def _binary_twin(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def overwrite(x: Tensor, other: Tensor) -> Any:
        return settled(x, function(before(x), other), inplace=True, name=f"{name}_")

    overwrite.__name__ = overwrite.__qualname__ = f"{name}_"
    overwrite.__doc__ = f":func:`{name}` in place; returns the tensor."
    return overwrite


@op(Face.METHOD)
def i0_(x: Tensor) -> Tensor:
    """:func:`i0` in place; returns the tensor."""
    return settled(x, _bessel("i0", before(x)), inplace=True, name="i0_")


for _function in (igamma, igammac, gcd, lcm, nextafter):
    _both = _binary_twin(_function.__name__, _function)
    globals()[_both.__name__] = op(Face.METHOD)(_both)
