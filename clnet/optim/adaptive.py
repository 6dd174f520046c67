"""Adagrad, Adadelta and NAdam: steps scaled element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..errors import ArgumentError
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .parameter_state import Cells
from .rate import plain
from .state_form import entry_of, filled_like, number_of
from .update_rule import decayed, decays


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
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-2
    lr_decay: float = 0
    weight_decay: float = 0
    initial_accumulator_value: float = 0
    eps: float = 1e-10
    _: KW_ONLY
    maximize: bool = False
    differentiable: bool = False
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
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0
    _: KW_ONLY
    maximize: bool = False
    differentiable: bool = False
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
    lr: Tensor | float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0
    momentum_decay: float = 4e-3
    _: KW_ONLY
    decoupled_weight_decay: bool = False
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "eps", "weight_decay", "momentum_decay")
    derived = ("step", "mu_product")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step sizes of gradient and momentum, the moments' weights, root, decays.

        Further ``product``, of the momenta of so many steps, ``made``, and without the last,
        ``before``.
        """
        return _nadam_settings(group, num_steps, _product_of_momenta(group, num_steps - 1))

    def state_dict(self) -> dict[str, Any]:
        """Beside the rest ``mu_product``, of the momenta so far, which PyTorch's goes on from."""
        state = super().state_dict()
        for (group, p), entry in zip(self._grouped(), state["state"].values(), strict=True):
            cells = self._cells_of(
                p, group
            )  # of the first step to be made, or of the last one made
            made = cells["made"].value == self._kept(p).count
            entry["mu_product"] = float(cells["product" if made else "before"].value)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        found = state.get("state") if isinstance(state, Mapping) else None
        known = found if isinstance(found, Mapping) else {}
        entries = [entry_of(known, k, pytorchs=False) for k in range(len(self._params()))]
        products = [
            None
            if not isinstance(entry, Mapping) or entry.get("mu_product") is None
            else number_of("NAdam", mu_product=entry["mu_product"])
            for entry in entries
        ]
        super().load_state_dict(state)
        for (group, p), product in zip(self._grouped(), products, strict=True):
            made, cells = self._kept(p).count, self._cells_of(p, group)
            if product is None:  # states of old, and PyTorch's of a parameter without a step
                product = _product_of_momenta(group, made)
            cells["product"].value = cells["before"].value = product
            cells["made"].value = float(made)

    def body(self, group: Group) -> Body:
        return _nadam

    def _numbers_after(self, group: Group, num_steps: int, before: Cells) -> dict[str, float]:
        """A momentum that a scheduler changed is a factor of the steps made with it alone."""
        if num_steps == 1:
            return self._numbers(group, 1)
        again = before["made"].value == num_steps  # a step that the device skipped is made again
        product = before["before" if again else "product"].value
        named = {name: group[name] for name in self._named_numbers}
        return named | _nadam_settings(plain(group), num_steps, product)


def _momentum(group: Group, step: int) -> float:
    return group["betas"][0] * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"]))


def _product_of_momenta(group: Group, num_steps: int) -> float:
    """Of so many steps, all with the settings as they stand."""
    return math.prod(_momentum(group, t) for t in range(1, num_steps + 1))


def _nadam_settings(group: Group, num_steps: int, before: float) -> dict[str, float]:
    """The numbers of a step, whose momentum is one factor more of a product."""
    beta1, beta2 = group["betas"]
    now, following = (_momentum(group, t) for t in (num_steps, num_steps + 1))
    product = before * now
    return {
        "by_g": group["lr"] * (1 - now) / (1 - product),
        "by_m": group["lr"] * following / (1 - product * following),
        "before": before,
        "product": product,
        "made": float(num_steps),
        "part1": 1 - beta1,
        "beta2": beta2,
        "part2": 1 - beta2,
        "root": math.sqrt(1 - beta2**num_steps),
        **decays(group),
    }


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
