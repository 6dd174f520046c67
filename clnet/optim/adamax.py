"""Adamax and RAdam: Adam by the largest gradient, and Adam whose first steps are rectified."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .update_rule import decayed, decays


class Adamax(DeclaredOptimizer):
    """``p -= lr * m' / u`` with ``u = max(beta2 * u, |g| + eps)`` (Kingma, Ba 2015), as PyTorch's.

    ``m = beta1 * m + (1 - beta1) * g``, in step ``t`` ``m' = m / (1 - beta1 ** t)``.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        betas: decay of the moment and of the largest gradient, in [0, 1).
        eps: keeps the quotient finite, 0 or more.
        weight_decay: added to the gradient, 0 or more.
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0
    _: KW_ONLY
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "eps", "weight_decay")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The moment and the largest gradient."""
        return ("exp_avg", "exp_inf")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step size, the moment's weight, decay of the largest gradient."""
        beta1, beta2 = group["betas"]
        return {"step": group["lr"] / (1 - beta1**num_steps), "part1": 1 - beta1, "beta2": beta2}

    def body(self, group: Group) -> Body:
        return _adamax


class RAdam(DeclaredOptimizer):
    """Adam with a rectified step size (Liu et al. 2020), as PyTorch's.

    The first steps, in which the second moment tells too little, are SGD's with momentum. The other
    arguments are those of :class:`.adam.Adam`.

    Args:
        decoupled_weight_decay: shrink the parameter, as AdamW does, instead of adding to ``g``.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0
    _: KW_ONLY
    decoupled_weight_decay: bool = False
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "eps", "weight_decay")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step size, the moments' weights, factor of the quotient (0: no quotient), decays."""
        beta1, beta2 = group["betas"]
        return {
            "step": group["lr"] / (1 - beta1**num_steps),
            "part1": 1 - beta1,
            "beta2": beta2,
            "part2": 1 - beta2,
            "factor": _rectification(beta2, num_steps) * math.sqrt(1 - beta2**num_steps),
            **decays(group),
        }

    def body(self, group: Group) -> Body:
        """The only one: that the steps become Adam's is no other update, but another factor."""
        return _radam


def _rectification(beta2: float, num_steps: int) -> float:
    """What corrects the variance of Adam's step size; 0 as long as it is not finite."""
    longest = 2 / (1 - beta2) - 1
    faded = beta2**num_steps
    length = longest - 2 * num_steps * faded / (1 - faded)
    # The variance is finite from 4 on; PyTorch waits until 5, as the article's authors do.
    if length <= 5:
        return 0.0
    return math.sqrt(
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    )


def _adamax(
    p: Any, m: Any, top: Any, g: Any, step: Any, part1: Any, beta2: Any, eps: Any,
    weight_decay: Any,
) -> tuple[Any, ...]:  # fmt: skip
    g = decayed(g, p, weight_decay)
    m = m + part1 * (g - m)
    top = e.maximum(beta2 * top, abs(g) + eps)
    return (p - step * (m / top), m, top)


def _radam(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, factor: Any,
    eps: Any, decay: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    p = kept * p
    g = decayed(g, p, decay)
    m = m + part1 * (g - m)
    v = beta2 * v + part2 * (g * g)
    scale = e.where(factor > 0, factor / (e.sqrt(v) + eps), 1)
    return (p - step * (m * scale), m, v)
