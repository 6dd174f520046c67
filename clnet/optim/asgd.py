"""Averaged stochastic gradient descent: plain steps, and the mean of the parameters on the way."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

from ..ops.machinery.update import Body
from .optimizer import DeclaredOptimizer, Group, ParamsT, decayed


class ASGD(DeclaredOptimizer):
    """``p -= lr' * (g + lambd * p)`` with a falling rate (Polyak, Juditsky 1992), as PyTorch's.

    ``lr' = lr / (1 + lambd * lr * (t - 1)) ** alpha`` in step ``t``. ``state[p]["ax"]`` is the
    mean of the parameter since step ``t0``, and the parameter before. A learning rate that a
    scheduler changes counts at once; PyTorch takes it up a step later.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        lambd: decay of the parameter, 0 or more.
        alpha: the power by which the rate falls.
        t0: the step from which on the mean is taken.
        weight_decay: added to the gradient, 0 or more.
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: float = 1e-2
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False
    rates = ("lr", "lambd", "weight_decay")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The mean of the parameter."""
        return ("ax",)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Rate, what its decay leaves of the parameter, the mean's weights."""
        lr, lambd, before = group["lr"], group["lambd"], num_steps - 1
        rate = lr / (1 + lambd * lr * before) ** group["alpha"]
        part = 1 / max(1, before - group["t0"])
        return {"rate": rate, "kept": 1 - lambd * rate, "part": part, "rest": 1 - part}

    def body(self, group: Group) -> Body:
        return _asgd


def _asgd(
    p: Any, mean: Any, g: Any, rate: Any, kept: Any, part: Any, rest: Any, weight_decay: Any
) -> tuple[Any, ...]:
    p = kept * p - rate * decayed(g, p, weight_decay)
    return (p, part * p + rest * mean)
