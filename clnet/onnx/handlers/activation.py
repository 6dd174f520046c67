"""Activations, softmax and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...nn import functional
from ...random import manual_seed
from ...tensor import Tensor
from ...values.dtypes import bool_, float32
from ..registry import Host, handler

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


@handler("Relu")
def relu(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """``max(x, 0)``."""
    return ops.relu(x)


@handler("Sigmoid")
def sigmoid(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """``1 / (1 + exp(-x))``."""
    return ops.sigmoid(x)


@handler("Tanh")
def tanh(x: Tensor, *, consumed_inputs: Any = None) -> Tensor:
    """The hyperbolic tangent."""
    return ops.tanh(x)


@handler("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Tensor:
    """``x``, or ``alpha x`` where that is negative."""
    return functional.leaky_relu(x, alpha)


@handler("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Tensor:
    """``x``, or ``alpha (exp(x) - 1)`` where that is negative."""
    return functional.elu(x, alpha)


@handler("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x``, or ``alpha (exp(x / alpha) - 1)`` where that is negative."""
    return functional.celu(x, alpha)


@handler("Selu")
def selu(
    x: Tensor,
    *,
    alpha: float = SELU_ALPHA,
    gamma: float = SELU_GAMMA,
    consumed_inputs: Any = None,
) -> Tensor:
    """``gamma x``, or ``gamma alpha (exp(x) - 1)`` where that is negative."""
    return ops.mul(functional.elu(x, alpha), gamma)


@handler("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None
) -> Tensor:
    """``alpha x + beta`` within 0 and 1."""
    return ops.clamp(x * alpha + beta, 0.0, 1.0)


@handler("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    """``x`` times its hard sigmoid."""
    return functional.hardswish(x)


@handler("Softplus")
def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))``."""
    return functional.softplus(x)


@handler("Softsign")
def softsign(x: Tensor) -> Tensor:
    """``x / (1 + |x|)``."""
    return functional.softsign(x)


@handler("Mish")
def mish(x: Tensor) -> Tensor:
    """``x tanh(log(1 + exp(x)))``."""
    return functional.mish(x)


@handler("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x sigmoid(alpha x)``."""
    return functional.silu(x) if alpha == 1 else x * ops.sigmoid(x * alpha)


@handler("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """``x`` times the normal distribution's share below it."""
    return functional.gelu(x, approximate=approximate)


@handler("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """``x`` where that is more than ``alpha``, else 0."""
    return ops.where(ops.gt(x, alpha), x, ops.zeros_like(x))


@handler("Shrink")
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """``x`` moved by the bias towards 0, where it is farther from that than ``lambd``."""
    zero = ops.zeros_like(x)
    low = ops.where(ops.lt(x, -lambd), (x + bias).to(x.dtype), zero)
    return ops.where(ops.gt(x, lambd), (x - bias).to(x.dtype), low)


@handler("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: Any = None, opset: int = 7) -> Tensor:
    """``x``, or ``slope x`` where that is negative; opset 6 has a slope for each channel."""
    if opset < 7 and slope.ndim == 1 and slope.shape[0] != 1:
        slope = slope.reshape((-1,) + (1,) * (x.ndim - 2))
    return ops.where(ops.lt(x, 0), x * slope, x)


def as_matrix(x: Tensor, axis: int) -> Tensor:
    """Axes before and from ``axis`` on, each as one."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@handler("Softmax")
def softmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    """Softmax over all axes from ``axis`` on."""
    return ops.softmax(as_matrix(x, axis), 1).reshape(x.shape)


@handler("Softmax", since=13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """Softmax along an axis."""
    return ops.softmax(x, axis)


@handler("LogSoftmax")
def log_softmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    """The logarithm of softmax over all axes from ``axis`` on."""
    return ops.log_softmax(as_matrix(x, axis), 1).reshape(x.shape)


@handler("LogSoftmax", since=13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """The logarithm of softmax along an axis."""
    return ops.log_softmax(x, axis)


@handler("Hardmax")
def hardmax_old(x: Tensor, *, axis: int = 1) -> Tensor:
    """1 at the first maximum over all axes from ``axis`` on, else 0."""
    return hardmax(as_matrix(x, axis), axis=1).reshape(x.shape)


@handler("Hardmax", since=13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    """1 at the first maximum along an axis, else 0."""
    if not x.numel():
        return ops.zeros_like(x)
    best = ops.argmax(x, axis, keepdim=True)
    return ops.scatter(ops.zeros_like(x), axis, best, ops.ones_like(best).to(x.dtype))


@handler("Dropout")
def dropout_old(
    x: Tensor,
    *,
    ratio: float = 0.5,
    is_test: int = 1,
    consumed_inputs: Any = None,
) -> tuple[Tensor, Tensor]:
    """The operand: models of opset 11 and older are read as for inference."""
    return x, ops.ones_like(x).to(bool_)


@handler("Dropout", since=12)
def dropout(
    x: Tensor,
    ratio: Host | None = None,
    training_mode: Host | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The operand; where the model says it trains, with some elements 0 and others larger."""
    p = 0.5 if ratio is None else float(np.asarray(ratio))
    if training_mode is None or not bool(np.asarray(training_mode)) or p == 0:
        return x, ops.ones_like(x).to(bool_)
    if seed is not None:
        manual_seed(seed)
    kept = ops.ne(functional.dropout(ops.ones_like(x).to(float32), p), 0)
    return ops.where(kept, x / (1 - p), ops.zeros_like(x)), kept
