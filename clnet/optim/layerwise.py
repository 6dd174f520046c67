"""Lamb and LARS: steps scaled tensor by tensor, by norms that stay on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..ops import norm
from ..ops.machinery.pointwise import evaluate
from ..ops.machinery.update import Body, update
from ..ops.multi_tensor import update_many
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .parameter_state import Cells
from .update_rule import decayed, moments_after, scalars_of


class Lamb(DeclaredOptimizer):
    """``p -= lr * |p| / |d| * d`` with Adam's direction ``d`` (You et al. 2020).

    ``d = m' / (sqrt(v') + eps) + weight_decay * p`` with bias-corrected moments; the ratio of the
    norms is 1 where one is 0. The arguments are among those of :class:`.adam.Adam`.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    _: KW_ONLY
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 0.0
    rates = ("lr", "eps", "weight_decay")
    takes_complex = False

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Weights of the moments, their corrections."""
        beta1, beta2 = group["betas"]
        return {
            "part1": 1 - beta1,
            "beta2": beta2,
            "part2": 1 - beta2,
            "correction": 1 - beta1**num_steps,
            "root": math.sqrt(1 - beta2**num_steps),
        }

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _lamb_step

    def apply(self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells) -> None:
        """The moments, the direction, the norms, the step."""
        moments, direct = (scalars_of(f, 3, cells) for f in (_lamb_moments, _lamb_direction))
        update_many(_lamb_moments, [(m, v, g) for _, m, v, g in operands], moments)
        for p, m, v, _ in operands:
            direction = evaluate("lamb", _lamb_direction, [m, v, p], direct)
            ratio = evaluate("lamb", _ratio, [norm(p), norm(direction)])
            step = scalars_of(_lamb_step, 3, cells)
            update(self.body(group), [p, direction, ratio.expand(p.shape)], step)


class LARS(DeclaredOptimizer):
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

    params: ParamsT
    lr: Tensor | float = 1e-3
    _: KW_ONLY
    momentum: float = 0.9
    weight_decay: float = 0.0
    trust_coefficient: float = 1e-3
    eps: float = 1e-8
    rates = ("lr", "momentum", "weight_decay", "trust_coefficient", "eps")
    takes_complex = False

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The momentum."""
        return ("momentum_buffer",)

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _lars_step

    def apply(self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells) -> None:
        """The norms, the step."""
        for p, v, g in operands:
            ratio = evaluate("lars", _trust, [norm(p), norm(g)], scalars_of(_trust, 2, cells))
            step = scalars_of(_lars_step, 4, cells)
            update(self.body(group), [p, v, g, ratio.expand(p.shape)], step)


def _lamb_moments(m: Any, v: Any, g: Any, part1: Any, beta2: Any, part2: Any) -> tuple[Any, ...]:
    return moments_after(m, v, g, part1, beta2, part2)


def _lamb_direction(
    m: Any, v: Any, p: Any, correction: Any, root: Any, eps: Any, weight_decay: Any
) -> Any:
    return decayed((m / correction) / (e.sqrt(v) / root + eps), p, weight_decay)


def _ratio(size: Any, length: Any) -> Any:
    known = e.where(size > 0, e.where(length > 0, length, 0), 0)
    return e.where(known > 0, size / e.where(known > 0, known, 1), 1)


def _lamb_step(p: Any, direction: Any, ratio: Any, lr: Any) -> tuple[Any, ...]:
    return (p - lr * (ratio * direction),)


def _trust(size: Any, length: Any, trust_coefficient: Any, weight_decay: Any, eps: Any) -> Any:
    ratio = trust_coefficient * size / (decayed(length, size, weight_decay) + eps)
    return e.where(size > 0, e.where(length > 0, ratio, 1), 1)


def _lars_step(
    p: Any, v: Any, g: Any, ratio: Any, lr: Any, momentum: Any, weight_decay: Any
) -> tuple[Any, ...]:
    v = momentum * v + lr * (ratio * decayed(g, p, weight_decay))
    return (p - v, v)
