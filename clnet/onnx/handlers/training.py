"""Steps of optimisers as nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ..registry import Host, handler

TRAINING = "ai.onnx.preview.training"


def _each(
    tensors: tuple[Tensor, ...], kinds: int, step: Callable[..., tuple[Tensor, ...]]
) -> tuple[Any, ...]:
    """A step of every parameter: operands come kind by kind, and so do the results."""
    count = len(tensors) // kinds
    made = [step(*tensors[i::count]) for i in range(count)]
    return tuple(result for column in zip(*made, strict=True) for result in column)


@handler("Adagrad", domain=TRAINING)
def adagrad(
    rate: Host,
    count: Host,
    *tensors: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Any, ...]:
    """Steps divided by the root of all squared gradients so far."""
    r = float(np.asarray(rate)) / (1 + int(np.asarray(count)) * decay_factor)

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        g = x * norm_coefficient + g
        h = h + g * g
        return x - g * r / (ops.sqrt(h) + epsilon), h

    return _each(tensors, 3, step)


@handler("Adam", domain=TRAINING)
def adam(
    rate: Host,
    count: Host,
    *tensors: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Any, ...]:
    """Steps by moving means of gradients and of their squares."""
    t, r = int(np.asarray(count)), float(np.asarray(rate))
    if t > 0:
        r = r * float(np.sqrt(1 - beta**t)) / (1 - alpha**t)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g = x * norm_coefficient + g
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        y = x - v * r / (ops.sqrt(h) + epsilon)
        return y * (1 - norm_coefficient_post), v, h

    return _each(tensors, 4, step)


@handler("Momentum", domain=TRAINING)
def momentum(
    rate: Host,
    count: Host,
    *tensors: Tensor,
    alpha: float,
    beta: float,
    mode: str = "standard",
    norm_coefficient: float,
) -> tuple[Any, ...]:
    """Steps by a moving sum of gradients, of the standard or of Nesterov's kind."""
    r = float(np.asarray(rate))
    share = beta if int(np.asarray(count)) > 0 else 1.0

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        g = x * norm_coefficient + g
        v = v * alpha + g * share
        return (x - (g + v * alpha) * r if mode == "nesterov" else x - v * r), v

    return _each(tensors, 3, step)
