"""Averaged stochastic gradient descent: plain steps, and the mean of the parameters on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..ops.machinery.update import Body
from ..tensor import Tensor
from .optimizer import Group, Optimizer, require_rates


class ASGD(Optimizer):
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

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Rates are 0 or more."""
        require_rates("ASGD", group, "lr", "lambd", "weight_decay")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The mean of the parameter."""
        return ("ax",)

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """Rate, what its decay leaves of the parameter, the mean's weights, weight decay."""
        lr, lambd, before = group["lr"], group["lambd"], num_steps - 1
        rate = lr / (1 + lambd * lr * before) ** group["alpha"]
        part = 1 / max(1, before - group["t0"])
        return (rate, 1 - lambd * rate, part, 1 - part, group["weight_decay"])

    def body(self, group: Group) -> Body:
        """The only one."""
        return _asgd


def _asgd(
    p: Any, mean: Any, g: Any, rate: Any, kept: Any, part: Any, rest: Any, decay: Any
) -> tuple[Any, ...]:
    p = kept * p - rate * (g + decay * p)
    return (p, part * p + rest * mean)
