"""Adam and AdamW: steps scaled by running moments of the gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import expr as e
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .optimizer import Group, Optimizer, require_betas, require_rates


class Adam(Optimizer):
    """``p -= lr * m' / (sqrt(v') + eps)`` with bias-corrected moments, as PyTorch's.

    ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g * g``, in step ``t``
    ``m' = m / (1 - beta1 ** t)`` and ``v' = v / (1 - beta2 ** t)`` (Kingma, Ba 2015); weight decay
    is added to ``g``.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        betas: decay of the two moments, in [0, 1).
        eps: keeps the quotient finite, 0 or more.
        weight_decay: 0 or more.
        amsgrad: divide by the largest ``v`` so far (Reddi et al. 2018).
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Rates are 0 or more, betas lie in [0, 1)."""
        require_rates(type(self).__name__, group, "lr", "eps", "weight_decay")
        require_betas(type(self).__name__, group)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments, and the second one's maximum for AMSGrad."""
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """Step size, weights of the moments, root of the second correction, eps, weight decay.

        All are computed here in double precision: ``1 - 0.999`` in single precision is off by 1e-5.
        """
        beta1, beta2 = group["betas"]
        return (
            group["lr"] / (1 - beta1**num_steps),
            1 - beta1,
            beta2,
            1 - beta2,
            math.sqrt(1 - beta2**num_steps),
            group["eps"],
            group["weight_decay"],
        )

    def body(self, group: Group) -> Body:
        """With or without the maximum."""
        return _adam_amsgrad if group["amsgrad"] else _adam


class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay (Loshchilov, Hutter 2019): ``p *= 1 - lr * decay``.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        betas: decay of the two moments, in [0, 1).
        eps: keeps the quotient finite, 0 or more.
        weight_decay: 0 or more.
        amsgrad: divide by the largest ``v`` so far.
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            maximize=maximize,
        )

    def settings(self, group: Group, num_steps: int) -> tuple[float, ...]:
        """As Adam's, with what remains of the parameter in place of the weight decay."""
        *others, decay = super().settings(group, num_steps)
        return (*others, 1 - group["lr"] * decay)

    def body(self, group: Group) -> Body:
        """With or without the maximum."""
        return _adamw_amsgrad if group["amsgrad"] else _adamw


def _adam(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, root: Any,
    eps: Any, decay: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = _moments(m, v, g + decay * p, part1, beta2, part2)
    return (p - step * m / (e.sqrt(v) / root + eps), m, v)


def _adam_amsgrad(
    p: Any, m: Any, v: Any, top: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any,
    root: Any, eps: Any, decay: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = _moments(m, v, g + decay * p, part1, beta2, part2)
    top = e.maximum(top, v)
    return (p - step * m / (e.sqrt(top) / root + eps), m, v, top)


def _adamw(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, root: Any,
    eps: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = _moments(m, v, g, part1, beta2, part2)
    return (kept * p - step * m / (e.sqrt(v) / root + eps), m, v)


def _adamw_amsgrad(
    p: Any, m: Any, v: Any, top: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any,
    root: Any, eps: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = _moments(m, v, g, part1, beta2, part2)
    top = e.maximum(top, v)
    return (kept * p - step * m / (e.sqrt(top) / root + eps), m, v, top)


def _moments(m: Any, v: Any, g: Any, part1: Any, beta2: Any, part2: Any) -> tuple[Any, Any]:
    return m + part1 * (g - m), beta2 * v + part2 * (g * g)
