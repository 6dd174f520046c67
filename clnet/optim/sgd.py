"""Stochastic gradient descent, with momentum, Nesterov's momentum and weight decay."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from ..errors import ArgumentError
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .update_rule import decayed


class SGD(DeclaredOptimizer):
    """``p -= lr * v``, as PyTorch's.

    ``v = momentum * v + (1 - dampening) * (g + weight_decay * p)``. The first step is
    without dampening. A sparse gradient changes its rows alone, without momentum and decay.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        momentum: 0 or more.
        dampening: of the gradient's part in the momentum.
        weight_decay: 0 or more.
        nesterov: look ahead along the momentum (Sutskever et al. 2013), which needs momentum and
            no dampening.
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    _: KW_ONLY
    momentum: float = 0
    dampening: float = 0
    weight_decay: float = 0
    nesterov: bool = False
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "momentum", "weight_decay")

    def check(self, group: Group) -> None:
        """Rates are 0 or more; Nesterov's momentum needs momentum and no dampening."""
        super().check(group)
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ArgumentError(
                "SGD",
                "nesterov needs momentum and no dampening",
                momentum=group["momentum"],
                dampening=group["dampening"],
            )

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The momentum, if there is any."""
        return ("momentum_buffer",) if group["momentum"] else ()

    def takes_rows(self, group: Group) -> bool:
        """Where nothing moves a row without a gradient."""
        return not (group["momentum"] or group["weight_decay"])

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """The gradient's part in the momentum."""
        return {"part": 1.0 if num_steps == 1 else 1.0 - group["dampening"]}

    def body(self, group: Group) -> Body:
        """Without momentum, with it, or with Nesterov's."""
        if not group["momentum"]:
            return _sgd
        return _sgd_nesterov if group["nesterov"] else _sgd_momentum


def _sgd(p: Any, g: Any, lr: Any, weight_decay: Any) -> tuple[Any, ...]:
    return (p - lr * decayed(g, p, weight_decay),)


def _sgd_momentum(
    p: Any, v: Any, g: Any, lr: Any, weight_decay: Any, momentum: Any, part: Any
) -> tuple[Any, ...]:
    v = momentum * v + part * decayed(g, p, weight_decay)
    return (p - lr * v, v)


def _sgd_nesterov(
    p: Any, v: Any, g: Any, lr: Any, weight_decay: Any, momentum: Any, part: Any
) -> tuple[Any, ...]:
    g = decayed(g, p, weight_decay)
    v = momentum * v + part * g
    return (p - lr * (g + momentum * v), v)
