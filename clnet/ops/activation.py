"""Activation functions. Each is one expression: its kernel and its gradient follow from it."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

# Bodies are called with symbols and say so here, once.
# pyrefly: ignore-errors[implicit-any-parameter]

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ..errors import ArgumentError, ShapeError
from ..expr import erf, exp, expm1, isnan, logical_and, logical_or, where
from ..expr import sigmoid as sigmoid_of
from ..expr import softplus as softplus_of
from ..expr import tanh as tanh_of
from ..values.shapes import normalize_dim
from .machinery.function import Face, op
from .machinery.pointwise import Result, evaluate, pointwise
from .random import random_like
from .shape import narrow, reshape
from .softmax import softmax

if TYPE_CHECKING:
    from ..tensor import Tensor
    from ..values.dtypes import DType

_SQRT_HALF = 0.7071067811865476
_SQRT_2_OVER_PI = 0.7978845608028654
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805
_SOFT = Face.FUNCTION | Face.FUNCTIONAL


@pointwise(gradient=lambda g, y: where(y <= 0, 0, g), inplace=True)
def relu(x):
    """``max(x, 0)``; its gradient at 0 is 0."""
    return where(x < 0, 0, x)  # NaN stays NaN, and -0 stays -0


@pointwise(result=Result.floating, gradient=lambda g, y: g * (1 - y * y))
def tanh(x):
    """The hyperbolic tangent."""
    return tanh_of(x)


@pointwise(result=Result.floating, gradient=lambda g, y: g * (y * (1 - y)))
def sigmoid(x):
    """``1 / (1 + exp(-x))``."""
    return sigmoid_of(x)


def _leaky_relu_gradient(g, y, x, negative_slope):
    return where(x > 0, g, g * negative_slope)


@pointwise(face=Face.FUNCTIONAL, inplace=True, gradient=_leaky_relu_gradient)
def leaky_relu(x, negative_slope=0.01):
    """``x`` above 0, ``negative_slope * x`` elsewhere."""
    return where(x > 0, x, negative_slope * x)


def _elu_gradient(g, y, x, alpha):
    return where(x <= 0, g * (alpha * exp(_below(x))), g)  # of NaN: that above 0, as PyTorch's


def _below(x):
    return where(x >= 0, 0, x)  # at 0 it ends: second derivatives are PyTorch's there


@pointwise(face=Face.FUNCTIONAL, inplace=True, gradient=_elu_gradient)
def elu(x, alpha=1.0):
    """``x`` above 0, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al. 2015)."""
    return where(x < 0, alpha * expm1(_below(x)), x)  # at 0 it is x, for every alpha


def _silu_gradient(g, y, x):
    s = sigmoid_of(x)
    return g * (s * (1 + x * (1 - s)))


@pointwise(face=Face.FUNCTIONAL, inplace=True, gradient=_silu_gradient)
def silu(x):
    """``x * sigmoid(x)``."""
    return x * sigmoid_of(x)


@pointwise(face=Face.FUNCTIONAL, result=Result.floating)
def softsign(x):
    """``x / (1 + |x|)``."""
    return x / (1 + abs(x))


# PyTorch's: finite, where beta is 0 and the result infinite.
def _softplus_gradient(g, y, x, beta, threshold):
    return where(beta * x > threshold, g, g * sigmoid_of(beta * x))


@pointwise(face=Face.FUNCTIONAL, gradient=_softplus_gradient)
def softplus(x, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``."""
    return where(beta * x > threshold, x, softplus_of(beta * x) / beta)


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


def _held_gradient(g, y, x, low=0, high=6):
    return where(logical_or(x <= low, x >= high), 0, g)


@pointwise(face=Face.FUNCTIONAL, inplace=True, gradient=lambda g, y, x: _held_gradient(g, y, x))
def relu6(x):
    """``min(max(x, 0), 6)``."""
    return _held(x, 0, 6)


@pointwise(
    face=Face.FUNCTIONAL,
    inplace=True,
    gradient=_held_gradient,
    laws={"min_val is at most max_val": lambda min_val, max_val: not min_val > max_val},
)
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """``min(max(x, min_val), max_val)``; its gradient at a bound is 0."""
    # A bound that is NaN takes over everywhere, as in clamp.
    return where(logical_or(isnan(min_val), isnan(max_val)), min_val + max_val,
                 _held(x, min_val, max_val))  # fmt: skip


def _hardsigmoid_gradient(g, y, x):
    return where(logical_and(x > -3, x < 3), g * (1 / 6), 0)


@pointwise(
    face=Face.FUNCTIONAL, inplace=True, result=Result.floating, gradient=_hardsigmoid_gradient
)
def hardsigmoid(x):
    """``min(max(x + 3, 0), 6) / 6``."""
    return where(x <= -3, 0, where(x >= 3, 1, x * (1 / 6) + 0.5))


def _hardswish_gradient(g, y, x):
    inner = where(x < 3, g * (x * (1 / 3) + 0.5), g)  # of NaN: that above 3, as PyTorch's
    return where(x <= -3, 0, inner)


@pointwise(face=Face.FUNCTIONAL, inplace=True, result=Result.floating, gradient=_hardswish_gradient)
def hardswish(x):
    """``x * hardsigmoid(x)`` (Howard et al. 2019)."""
    # Below it is x times 0: PyTorch's -0, and NaN for -infinity.
    return where(x <= -3, x * 0, where(x >= 3, x, x * (x * (1 / 6) + 0.5)))


def _selu_gradient(g, y, x):
    return g * where(x <= 0, _SELU_SCALE * _SELU_ALPHA * exp(_below(x)), _SELU_SCALE)


@pointwise(face=_SOFT, inplace=True, gradient=_selu_gradient)
def selu(x):
    """A scaled :func:`elu` that keeps mean 0 and variance 1 (Klambauer et al. 2017)."""
    below = where(x > 0, 0, x)
    return _SELU_SCALE * where(x > 0, x, _SELU_ALPHA * expm1(below))


def _celu_gradient(g, y, x, alpha):
    inner = 1 / alpha  # NaN, where alpha or this is infinite: PyTorch's
    return where(x <= 0, g * (alpha * inner * exp(_below(x) * inner)), g)


@pointwise(
    face=_SOFT,
    inplace=True,
    gradient=_celu_gradient,
    laws={"alpha is not 0": lambda alpha: alpha != 0},
)
def celu(x, alpha=1.0):
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron 2017)."""
    return where(x < 0, alpha * expm1(_below(x) / alpha), x)


def _mish_gradient(g, y, x):
    t = tanh_of(softplus_of(x))
    return g * (t + x * (sigmoid_of(x) * (1 - t * t)))


@pointwise(face=Face.FUNCTIONAL, inplace=True, gradient=_mish_gradient)
def mish(x):
    """``x * tanh(softplus(x))`` (Misra 2019)."""
    return x * tanh_of(softplus_of(x))


@pointwise(face=Face.FUNCTIONAL, result=Result.floating)
def tanhshrink(x):
    """``x - tanh(x)``."""
    return x - tanh_of(x)


@pointwise(face=Face.FUNCTIONAL)
def logsigmoid(x):
    """``log(1 / (1 + exp(-x)))``, stable for large ``|x|``."""
    return 0 - softplus_of(-x)  # 0 for large x, not -0


@pointwise(face=_SOFT | Face.METHOD)
def hardshrink(x, lambd=0.5):
    """0 where ``|x| <= lambd``, else ``x``."""
    return where(logical_and(x >= -lambd, x <= lambd), 0, x)


def _softshrink_gradient(g, y, x, lambd):
    return where(logical_and(x >= -lambd, x <= lambd), 0, g)  # of NaN: g, as PyTorch's


@pointwise(
    face=Face.FUNCTIONAL,
    gradient=_softshrink_gradient,
    laws={"lambd is 0 or more, and finite": lambda lambd: 0 <= lambd < inf},
)
def softshrink(x, lambd=0.5):
    """``x`` drawn towards 0 by ``lambd``, 0 or more: 0 where ``|x| <= lambd``."""
    return where(x > lambd, x - lambd, where(x < -lambd, x + lambd, x - x))  # NaN stays NaN


def _held(x, low, high):
    raised = where(x < low, low, x)  # so that the upper bound counts where they cross, as in clamp
    return where(raised > high, high, raised)


def _threshold(x, threshold, value):
    return where(x <= threshold, value, x)


@op(_SOFT)
def threshold(x: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` above ``threshold``, ``value`` elsewhere.

    Args:
        x: any shape.
        threshold: the bound, itself not above.
        value: what replaces the others.
        inplace: whether to overwrite ``x``, and return it.

    Returns:
        The same shape and dtype.
    """
    out = x if inplace else None
    return evaluate("threshold", _threshold, [x], [threshold, value], out=out)


def _prelu(x, weight):
    return where(x > 0, x, weight * x)


def _prelu_gradients(g, y, x, weight):
    return where(x > 0, g, g * weight), where(x > 0, 0, g * x)


@op(_SOFT | Face.METHOD)
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """``x`` above 0, ``weight * x`` elsewhere, with a learnt slope (He et al. 2015).

    Args:
        x: any shape, floating.
        weight: one slope, or ``(c,)``: one for each index of axis 1.

    Returns:
        The same shape and dtype.

    Raises:
        ShapeError: if there are neither one nor ``c`` slopes.
    """
    channels = x.shape[1] if x.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(
            "prelu", "weight has one slope, or one a channel", x=x.shape, weight=weight.shape
        )
    ones = (1,) * (x.ndim - 2)
    slopes = reshape(weight, (weight.numel(), *ones) if x.ndim > 1 else ())
    return evaluate("prelu", _prelu, [x, slopes], gradient=_prelu_gradients)


@op(_SOFT)
def rrelu(
    x: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``x`` above 0, else times a slope: random in training, the mean in evaluation (Xu 2015).

    Args:
        x: any shape, floating.
        lower: the least slope.
        upper: the largest.
        training: whether each element draws its own slope.
        inplace: whether to overwrite ``x``, and return it.

    Returns:
        The same shape and dtype.

    Raises:
        ArgumentError: if ``lower > upper``, or one of them is not finite.
    """
    if not -inf < lower <= upper < inf:
        law = "lower is at most upper, and both are finite"
        raise ArgumentError("rrelu", law, lower=lower, upper=upper)
    out = x if inplace else None
    if not training:
        return evaluate("rrelu", _prelu, [x], [(lower + upper) / 2], out=out)
    slopes = random_like(x, low=lower, high=upper)
    return evaluate("rrelu", _prelu, [x, slopes], promoted=[x], out=out)


@op(_SOFT)
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)`` for the halves ``a`` and ``b`` of an axis (Dauphin et al. 2016).

    Args:
        x: any shape, floating.
        dim: the axis, of even size.

    Returns:
        ``x``'s shape with half of ``dim``.

    Raises:
        ShapeError: if the axis is odd.
        BoundsError: if ``x`` has no such axis.
    """
    axis = normalize_dim("glu", dim, x.ndim)
    if x.ndim == 0 or x.shape[axis] % 2:
        raise ShapeError("glu", "the axis halved has an even size", x=x.shape, dim=dim)
    half = x.shape[axis] // 2
    return evaluate("glu", _gated, [narrow(x, axis, 0, half), narrow(x, axis, half, half)])


def _gated(a, b):
    return a * sigmoid_of(b)


@op(Face.FUNCTIONAL)
def softmin(x: Tensor, dim: int | None = None, *, dtype: DType | None = None) -> Tensor:
    """``softmax(-x)``; arguments as :func:`softmax`'s."""
    return softmax(-x, dim, dtype=dtype)
