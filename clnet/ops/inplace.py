"""Methods that overwrite a tensor with an op's result, in one pass: ``x.add_(y)``, ``x.exp_()``.

On the tape the tensor becomes the op's result, and gradients flow as if it were a new one. Leaves
that require gradients are overwritten under ``clnet.no_grad()`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import activation, arithmetic, complex_parts, mathematics  # noqa: F401
from .machinery.function import PUBLIC_OPS, Face, op
from .rearrange import tril, triu
from .shape import settled

if TYPE_CHECKING:
    from ..tensor import Tensor

OVERWRITING = (
    *("abs", "neg", "sign", "sgn", "square", "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1"),
    *("log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
    *("cosh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "round", "trunc"),
    *("frac", "logit", "nan_to_num", "relu", "sigmoid", "tanh", "bitwise_not"),
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "clamp", "lerp"),
    *("addcmul", "addcdiv", "atan2", "hypot", "copysign", "xlogy", "bitwise_and", "bitwise_or"),
    *("bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
    *("logical_and", "logical_or", "logical_xor", "logical_not"),
)
"""The ops that have a twin which overwrites its first operand."""
ACTIVATIONS = ("celu", "elu", "hardtanh", "leaky_relu", "relu", "rrelu", "selu", "threshold")
"""Those whose twin is a function of ``clnet.nn.functional``."""


_SCALED = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
"""Ops that take a factor, which PyTorch once took first."""


def _overwriting(name: str) -> Callable[..., Any]:
    function = PUBLIC_OPS[name][0]

    def overwrite(x: Any, *args: Any, **given: Any) -> Any:
        if name in _SCALED and len(args) > 1 and isinstance(args[0], int | float):
            args, given = args[1:], {**given, _SCALED[name]: args[0]}  # PyTorch's old order
        place = {"inplace": True} if name in ACTIVATIONS else {"out": x}
        return function(x, *args, **given, **place)

    overwrite.__name__ = overwrite.__qualname__ = f"{name}_"
    overwrite.__doc__ = (
        f"Overwrite ``x`` with its :func:`{name}`; returns ``x``.\n\n"
        "Raises:\n"
        "    GradientError: if ``x`` is a leaf that requires gradients, while they are recorded.\n"
        "    DtypeError: if ``x`` cannot hold the result.\n"
    )
    return overwrite


for _name in {**dict.fromkeys(OVERWRITING), **dict.fromkeys(ACTIVATIONS)}:
    _face = Face.FUNCTIONAL if _name in ACTIVATIONS else Face.METHOD
    _face |= Face.METHOD | Face.FUNCTION if _name == "relu" else _face
    globals()[f"{_name}_"] = op(_face)(_overwriting(_name))


@op(Face.METHOD)
def tril_(x: Tensor, diagonal: int = 0) -> Tensor:
    """:func:`tril` in place; returns the tensor."""
    return settled(x, tril(x, diagonal), inplace=True)


@op(Face.METHOD)
def triu_(x: Tensor, diagonal: int = 0) -> Tensor:
    """:func:`triu` in place; returns the tensor."""
    return settled(x, triu(x, diagonal), inplace=True)
