"""RMSprop: steps divided by a running root mean square of the gradient."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..errors import ArgumentError
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .update_rule import decayed


class RMSprop(DeclaredOptimizer):
    """``p -= lr * g / (sqrt(s) + eps)`` with ``s = alpha * s + (1 - alpha) * g * g``, as PyTorch's.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        alpha: decay of the mean square, in [0, 1].
        eps: keeps the quotient finite, 0 or more.
        weight_decay: added to the gradient, 0 or more.
        momentum: sum up the steps with this decay, 0 or more.
        centered: subtract the squared running mean of the gradient from ``s`` (Graves 2013).
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-2
    _: KW_ONLY
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0
    momentum: float = 0
    centered: bool = False
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "eps", "weight_decay", "momentum")

    def check(self, group: Group) -> None:
        """Rates are 0 or more, alpha lies in [0, 1]."""
        super().check(group)
        if not 0 <= group["alpha"] <= 1:
            raise ArgumentError("RMSprop", "alpha lies in [0, 1]", alpha=group["alpha"])

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The mean square, the mean if it is centred, the momentum if there is any."""
        mean = ("grad_avg",) if group["centered"] else ()
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        return ("square_avg", *mean, *momentum)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """What the mean square does not keep."""
        return {"part": 1 - group["alpha"]}

    def body(self, group: Group) -> Body:
        """One of four: centred or not, with momentum or without."""
        if group["centered"]:
            return _rmsprop_centered_momentum if group["momentum"] else _rmsprop_centered
        return _rmsprop_momentum if group["momentum"] else _rmsprop


def _rmsprop(
    p: Any, s: Any, g: Any, lr: Any, alpha: Any, part: Any, eps: Any, weight_decay: Any
) -> tuple[Any, ...]:
    g = decayed(g, p, weight_decay)
    s = alpha * s + part * (g * g)
    return (p - lr * (g / (e.sqrt(s) + eps)), s)


def _rmsprop_momentum(
    p: Any, s: Any, v: Any, g: Any, lr: Any, alpha: Any, part: Any, eps: Any, weight_decay: Any,
    momentum: Any,
) -> tuple[Any, ...]:  # fmt: skip
    g = decayed(g, p, weight_decay)
    s = alpha * s + part * (g * g)
    v = momentum * v + g / (e.sqrt(s) + eps)
    return (p - lr * v, s, v)


def _rmsprop_centered(
    p: Any, s: Any, mean: Any, g: Any, lr: Any, alpha: Any, part: Any, eps: Any, weight_decay: Any
) -> tuple[Any, ...]:
    g = decayed(g, p, weight_decay)
    s = alpha * s + part * (g * g)
    mean = mean + part * (g - mean)
    return (p - lr * (g / (e.sqrt(s - mean * mean) + eps)), s, mean)


def _rmsprop_centered_momentum(
    p: Any, s: Any, mean: Any, v: Any, g: Any, lr: Any, alpha: Any, part: Any, eps: Any,
    weight_decay: Any, momentum: Any,
) -> tuple[Any, ...]:  # fmt: skip
    g = decayed(g, p, weight_decay)
    s = alpha * s + part * (g * g)
    mean = mean + part * (g - mean)
    v = momentum * v + g / (e.sqrt(s - mean * mean) + eps)
    return (p - lr * v, s, mean, v)
