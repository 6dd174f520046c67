"""Methods that overwrite a tensor with an op's result, in one pass: ``x.add_(y)``, ``x.exp_()``.

As every write in place they are for tensors off the tape: leaves under ``clnet.no_grad()``,
buffers, results that need no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import activation, arithmetic, mathematics  # noqa: F401 # pyright: ignore[reportUnusedImport]
from .function import PUBLIC_OPS, Face, op

OVERWRITING = (
    *("abs", "neg", "sign", "square", "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "expm1"),
    *("log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh"),
    *("cosh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "round", "trunc"),
    *("frac", "logit", "nan_to_num", "relu", "sigmoid", "tanh", "bitwise_not"),
    *("add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "clamp", "lerp"),
    *("addcmul", "addcdiv", "atan2", "hypot", "copysign", "xlogy", "bitwise_and", "bitwise_or"),
    *("bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
)
"""The ops that have a twin which overwrites its first operand."""


def _overwriting(name: str) -> Callable[..., Any]:
    function = PUBLIC_OPS[name][0]

    def overwrite(x: Any, *args: Any, **given: Any) -> Any:
        return function(x, *args, out=x, **given)

    overwrite.__name__ = overwrite.__qualname__ = f"{name}_"
    overwrite.__doc__ = (
        f"Overwrite ``x`` with its :func:`{name}`; returns ``x``.\n\n"
        "Raises:\n"
        "    GradientError: if an operand is on the tape and gradients are recorded.\n"
        "    DtypeError: if ``x`` cannot hold the result.\n"
    )
    return overwrite


for _name in OVERWRITING:
    globals()[f"{_name}_"] = op(Face.METHOD)(_overwriting(_name))
