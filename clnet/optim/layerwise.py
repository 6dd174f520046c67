"""Lamb and LARS: steps scaled tensor by tensor, by norms that stay on the device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .. import expr as e
from ..device import HostScalar
from ..ops import norm
from ..ops.machinery.pointwise import evaluate
from ..ops.machinery.update import Body, update
from ..ops.multi_tensor import update_many
from ..tensor import Tensor
from .optimizer import Group, Optimizer, require_betas, require_rates


class Lamb(Optimizer):
    """``p -= lr * |p| / |d| * d`` with Adam's direction ``d`` (You et al. 2020).

    ``d = m' / (sqrt(v') + eps) + weight_decay * p`` with bias-corrected moments; the ratio of
    the norms is 1 where one is 0.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        betas: decay of the two moments, in [0, 1).
        eps: keeps the quotient finite, 0 or more.
        weight_decay: 0 or more.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Rates are 0 or more, betas lie in [0, 1)."""
        require_rates("Lamb", group, "lr", "eps", "weight_decay")
        require_betas("Lamb", group)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """Learning rate; weights of the moments; their corrections, eps and weight decay."""
        beta1, beta2 = group["betas"]
        return (
            group["lr"],
            1 - beta1,
            beta2,
            1 - beta2,
            1 - beta1**num_steps,
            math.sqrt(1 - beta2**num_steps),
            group["eps"],
            group["weight_decay"],
        )

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _lamb_step

    def apply(
        self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Sequence[HostScalar]
    ) -> None:
        """The moments, the direction, the norms, the step."""
        update_many(_lamb_moments, [(m, v, g) for _, m, v, g in operands], cells[1:4])
        for p, m, v, _ in operands:
            direction = evaluate("lamb", _lamb_direction, [m, v, p], cells[4:])
            ratio = evaluate("lamb", _ratio, [norm(p), norm(direction)])
            update(self.body(group), [p, direction, ratio.expand(p.shape)], cells[:1])


class LARS(Optimizer):
    """``p -= v`` with ``v = momentum * v + lr * ratio * (g + weight_decay * p)`` (You et al. 2017).

    ``ratio = trust_coefficient * |p| / (|g| + weight_decay * |p| + eps)``, and 1 where one of the
    norms is 0.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        momentum: 0 or more.
        weight_decay: 0 or more.
        trust_coefficient: how far a layer may go, as a part of its norm; 0 or more.
        eps: keeps the quotient finite, 0 or more.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 1e-3,
        eps: float = 1e-8,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "eps": eps,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Settings are 0 or more."""
        keys = ("lr", "momentum", "weight_decay", "trust_coefficient", "eps")
        require_rates("LARS", group, *keys)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The momentum."""
        return ("momentum_buffer",)

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """Learning rate, momentum, weight decay; then the ratio's."""
        decay = group["weight_decay"]
        return (
            group["lr"],
            group["momentum"],
            decay,
            group["trust_coefficient"],
            decay,
            group["eps"],
        )

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _lars_step

    def apply(
        self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Sequence[HostScalar]
    ) -> None:
        """The norms, the step."""
        for p, v, g in operands:
            ratio = evaluate("lars", _trust, [norm(p), norm(g)], cells[3:])
            update(self.body(group), [p, v, g, ratio.expand(p.shape)], cells[:3])


def _lamb_moments(m: Any, v: Any, g: Any, part1: Any, beta2: Any, part2: Any) -> tuple[Any, ...]:
    return (m + part1 * (g - m), beta2 * v + part2 * (g * g))


def _lamb_direction(
    m: Any, v: Any, p: Any, correction: Any, root: Any, eps: Any, decay: Any
) -> Any:
    return (m / correction) / (e.sqrt(v) / root + eps) + decay * p


def _ratio(size: Any, length: Any) -> Any:
    known = e.where(size > 0, e.where(length > 0, length, 0), 0)
    return e.where(known > 0, size / e.where(known > 0, known, 1), 1)


def _lamb_step(p: Any, direction: Any, ratio: Any, lr: Any) -> tuple[Any, ...]:
    return (p - lr * (ratio * direction),)


def _trust(size: Any, length: Any, trust: Any, decay: Any, eps: Any) -> Any:
    ratio = trust * size / (length + decay * size + eps)
    return e.where(size > 0, e.where(length > 0, ratio, 1), 1)


def _lars_step(
    p: Any, v: Any, g: Any, ratio: Any, lr: Any, momentum: Any, decay: Any
) -> tuple[Any, ...]:
    v = momentum * v + lr * (ratio * (g + decay * p))
    return (p - v, v)
