"""Adagrad, Adadelta and NAdam: steps scaled element by element."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..errors import ArgumentError
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .optimizer import DeclaredOptimizer, Group, ParamsT, decayed, decays
from .state_form import filled_like


class Adagrad(DeclaredOptimizer):
    """``p -= lr' * g / (sqrt(s) + eps)`` with ``s += g * g`` (Duchi et al. 2011), as PyTorch's.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        lr_decay: in step ``t``, ``lr' = lr / (1 + (t - 1) * lr_decay)``; 0 or more.
        weight_decay: added to the gradient, 0 or more.
        initial_accumulator_value: of ``s``, 0 or more.
        eps: keeps the quotient finite, 0 or more.
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    _: KW_ONLY
    maximize: bool = False
    rates = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The sum of squares."""
        return ("sum",)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """The decayed learning rate."""
        return {"rate": group["lr"] / (1 + (num_steps - 1) * group["lr_decay"])}

    def body(self, group: Group) -> Body:
        return _adagrad

    def _first_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        """Sums begin with the initial value, also where the state is made later."""
        return {"sum": filled_like(p, float(group["initial_accumulator_value"]))}


class Adadelta(DeclaredOptimizer):
    """``p -= lr * d`` with ``d = g * sqrt(u + eps) / sqrt(s + eps)`` (Zeiler 2012), as PyTorch's.

    ``s`` and ``u`` are running means of ``g * g`` and ``d * d``.

    Args:
        params: parameters or groups.
        lr: factor of the step, 0 or more.
        rho: decay of the means, in [0, 1].
        eps: keeps the quotient finite, 0 or more.
        weight_decay: added to the gradient, 0 or more.
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False
    rates = ("lr", "eps", "weight_decay")

    def check(self, group: Group) -> None:
        """Rates are 0 or more, rho lies in [0, 1]."""
        super().check(group)
        if not 0 <= group["rho"] <= 1:
            raise ArgumentError("Adadelta", "rho lies in [0, 1]", rho=group["rho"])

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two means."""
        return ("square_avg", "acc_delta")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """What the means do not keep."""
        return {"part": 1 - group["rho"]}

    def body(self, group: Group) -> Body:
        return _adadelta


class NAdam(DeclaredOptimizer):
    """Adam with Nesterov's momentum (Dozat 2016), as PyTorch's.

    The other arguments are those of :class:`.adam.Adam`.

    Args:
        momentum_decay: by how much the momentum rises to ``betas[0]``, 0 or more.
        decoupled_weight_decay: shrink the parameter, as AdamW does, instead of adding to ``g``.
    """

    params: ParamsT
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum_decay: float = 4e-3
    _: KW_ONLY
    decoupled_weight_decay: bool = False
    maximize: bool = False
    rates = ("lr", "eps", "weight_decay", "momentum_decay")
    derived = ("step", "mu_product")

    def _assign(self, values: dict[str, Any]) -> None:
        self._products: dict[tuple[float, float], tuple[int, float]] = {}
        super()._assign(values)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step sizes of gradient and momentum, the moments' weights, root, decays."""
        beta1, beta2 = group["betas"]
        product = self._product_of_momenta(group, num_steps)
        now, following = (_momentum(group, t) for t in (num_steps, num_steps + 1))
        return {
            "by_g": group["lr"] * (1 - now) / (1 - product),
            "by_m": group["lr"] * following / (1 - product * following),
            "part1": 1 - beta1,
            "beta2": beta2,
            "part2": 1 - beta2,
            "root": math.sqrt(1 - beta2**num_steps),
            **decays(group),
        }

    def state_dict(self) -> dict[str, Any]:
        """Beside the rest ``mu_product``, of the momenta so far, which PyTorch's goes on from."""
        state, entries = super().state_dict(), iter(range(len(self._params())))
        for group in self.param_groups:
            for p, i in zip(group["params"], entries, strict=False):
                made = self._num_steps[id(p)]
                state["state"][i]["mu_product"] = self._product_of_momenta(group, made)
        return state

    def body(self, group: Group) -> Body:
        return _nadam

    def _product_of_momenta(self, group: Group, num_steps: int) -> float:
        """Of all steps so far, as the settings stand: a state needs no more than their number."""
        key = (group["betas"][0], group["momentum_decay"])
        done, product = self._products.get(key, (0, 1.0))
        if done > num_steps:
            done, product = 0, 1.0
        for t in range(done + 1, num_steps + 1):
            product *= _momentum(group, t)
        self._products[key] = num_steps, product
        return product


def _momentum(group: Group, step: int) -> float:
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


def _adagrad(p: Any, s: Any, g: Any, rate: Any, eps: Any, weight_decay: Any) -> tuple[Any, ...]:
    g = decayed(g, p, weight_decay)
    s = s + g * g
    return (p - rate * (g / (e.sqrt(s) + eps)), s)


def _adadelta(
    p: Any, s: Any, u: Any, g: Any, lr: Any, rho: Any, part: Any, eps: Any, weight_decay: Any
) -> tuple[Any, ...]:
    g = decayed(g, p, weight_decay)
    s = rho * s + part * (g * g)
    step = g * (e.sqrt(u + eps) / e.sqrt(s + eps))
    return (p - lr * step, s, rho * u + part * (step * step))


def _nadam(
    p: Any, m: Any, v: Any, g: Any, by_g: Any, by_m: Any, part1: Any, beta2: Any, part2: Any,
    root: Any, eps: Any, decay: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    p = kept * p
    g = decayed(g, p, decay)
    m = m + part1 * (g - m)
    v = beta2 * v + part2 * (g * g)
    size = e.sqrt(v) / root + eps
    return (p - by_g * (g / size) - by_m * (m / size), m, v)
