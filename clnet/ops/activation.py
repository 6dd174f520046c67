"""Activation functions. Each is one expression: its kernel and its gradient follow from it."""

from __future__ import annotations

# Bodies are called with symbols and say so here, once.
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false
from typing import TYPE_CHECKING

from ..errors import ArgumentError
from ..expr import erf, exp, expm1, log1p, maximum, where
from ..expr import tanh as tanh_of
from .function import Face, op
from .pointwise import Result, evaluate, pointwise

if TYPE_CHECKING:
    from ..tensor import Tensor

_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654


@pointwise(gradient=lambda g, y: where(y <= 0, 0, g))
def relu(x):
    """``max(x, 0)``; its gradient at 0 is 0."""
    return where(x <= 0, 0, x)  # NaN stays NaN


@pointwise(result=Result.floating, gradient=lambda g, y: g * (1 - y * y))
def tanh(x):
    """The hyperbolic tangent."""
    return tanh_of(x)


@pointwise(result=Result.floating, gradient=lambda g, y: g * (y * (1 - y)))
def sigmoid(x):
    """``1 / (1 + exp(-x))``."""
    return 1 / (1 + exp(-x))


@pointwise(face=Face.FUNCTIONAL)
def leaky_relu(x, negative_slope=0.01):
    """``x`` above 0, ``negative_slope * x`` elsewhere."""
    return where(x > 0, x, negative_slope * x)


@pointwise(face=Face.FUNCTIONAL)
def elu(x, alpha=1.0):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al. 2015)."""
    below = where(x > 0, 0, x)  # so that no overflow reaches the gradient of large x
    return where(x > 0, x, alpha * expm1(below))


@pointwise(face=Face.FUNCTIONAL)
def silu(x):
    """``x * sigmoid(x)``."""
    e = exp(where(x >= 0, -x, x))  # at most 1: neither it nor its gradient overflows
    return x * (where(x >= 0, 1, e) / (1 + e))


@pointwise(face=Face.FUNCTIONAL, result=Result.floating)
def softsign(x):
    """``x / (1 + |x|)``."""
    return x / (1 + abs(x))


@pointwise(face=Face.FUNCTIONAL)
def softplus(x):
    """``log(1 + exp(x))``, stable for large ``|x|``."""
    return log1p(exp(-abs(x))) + maximum(x, 0)


def _gelu(x):
    return 0.5 * x * (1 + erf(x * _SQRT_HALF))


def _gelu_tanh(x):
    return 0.5 * x * (1 + tanh_of(_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))


@op(Face.FUNCTIONAL)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution function (Hendrycks and Gimpel 2016).

    Args:
        x: any shape, floating.
        approximate: ``"none"``, or ``"tanh"`` for the paper's approximation.

    Returns:
        The same shape and dtype.

    Raises:
        ArgumentError: if ``approximate`` is neither.
    """
    bodies = {"none": _gelu, "tanh": _gelu_tanh}
    if approximate not in bodies:
        raise ArgumentError(
            "gelu", "approximate is 'none' or 'tanh'", approximate=repr(approximate)
        )
    return evaluate("gelu", bodies[approximate], [x], result=Result.floating)
