"""Adam and AdamW: steps scaled by running moments of the gradient."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .update_rule import decayed, moments_after


class Adam(DeclaredOptimizer):
    """``p -= lr * m' / (sqrt(v') + eps)`` with bias-corrected moments, as PyTorch's.

    ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g * g``, in step ``t``
    ``m' = m / (1 - beta1 ** t)`` and ``v' = v / (1 - beta2 ** t)`` (Kingma, Ba 2015); weight decay
    is added to ``g``, unless it is decoupled.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        betas: decay of the two moments, in [0, 1).
        eps: keeps the quotient finite, 0 or more.
        weight_decay: 0 or more.
        amsgrad: divide by the largest ``v`` so far (Reddi et al. 2018).
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.
        decoupled_weight_decay: shrink the parameter, as :class:`AdamW` does, instead.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    _: KW_ONLY
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0
    amsgrad: bool = False
    maximize: bool = False
    differentiable: bool = False
    decoupled_weight_decay: bool = False
    rates = ("lr", "eps", "weight_decay")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments, and the second one's maximum for AMSGrad."""
        names = ("exp_avg", "exp_avg_sq")
        return (*names, "max_exp_avg_sq") if group["amsgrad"] else names

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step size, weights of the moments, root of the second correction, what is kept.

        All are computed here in double precision: ``1 - 0.999`` in single precision is off by 1e-5.
        """
        beta1, beta2 = group["betas"]
        decay = group["weight_decay"] if group["decoupled_weight_decay"] else 0.0
        return {
            "step": group["lr"] / (1 - beta1**num_steps),
            "part1": 1 - beta1,
            "beta2": beta2,
            "part2": 1 - beta2,
            "root": math.sqrt(1 - beta2**num_steps),
            "kept": 1 - group["lr"] * decay,
        }

    def body(self, group: Group) -> Body:
        """With or without the maximum, with weight decay of either kind."""
        if group["decoupled_weight_decay"]:
            return _adamw_amsgrad if group["amsgrad"] else _adamw
        return _adam_amsgrad if group["amsgrad"] else _adam


class AdamW(Adam):
    """:class:`Adam` with decoupled weight decay (Loshchilov, Hutter 2019): ``p *= 1 - lr * decay``.

    The arguments are those of :class:`Adam`.
    """

    _: KW_ONLY
    weight_decay: float = 1e-2
    decoupled_weight_decay: bool = True


class SparseAdam(DeclaredOptimizer):
    """Adam that leaves rows that a sparse gradient has not as they are, with their moments.

    Of a dense gradient those are elements of which it is 0. The step is ``lr * sqrt(1 - beta2 **
    t) / (1 - beta1 ** t) * m / (sqrt(v) + eps)``; the arguments are among those of :class:`Adam`.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    maximize: bool = False
    rates = ("lr", "eps")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The two moments."""
        return ("exp_avg", "exp_avg_sq")

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Step size and weights of the moments."""
        beta1, beta2 = group["betas"]
        return {
            "step": group["lr"] * math.sqrt(1 - beta2**num_steps) / (1 - beta1**num_steps),
            "part1": 1 - beta1,
            "beta2": beta2,
            "part2": 1 - beta2,
        }

    def takes_rows(self, group: Group) -> bool:
        """Always."""
        return True

    def body(self, group: Group) -> Body:
        return _sparse_adam

    def body_of_rows(self, group: Group) -> Body:
        """All elements of a row, also those of which the gradient is 0."""
        return _row_adam


def _row_adam(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, eps: Any
) -> tuple[Any, ...]:
    m, v = moments_after(m, v, g, part1, beta2, part2)
    return (p - step * m / (e.sqrt(v) + eps), m, v)


def _sparse_adam(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, eps: Any
) -> tuple[Any, ...]:
    new = _row_adam(p, m, v, g, step, part1, beta2, part2, eps)
    return tuple(e.where(e.ne(g, 0), x, old) for x, old in zip(new, (p, m, v), strict=True))


def _adam(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, root: Any,
    eps: Any, weight_decay: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = moments_after(m, v, decayed(g, p, weight_decay), part1, beta2, part2)
    return (p - step * m / (e.sqrt(v) / root + eps), m, v)


def _adam_amsgrad(
    p: Any, m: Any, v: Any, top: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any,
    root: Any, eps: Any, weight_decay: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = moments_after(m, v, decayed(g, p, weight_decay), part1, beta2, part2)
    top = e.maximum(top, v)
    return (p - step * m / (e.sqrt(top) / root + eps), m, v, top)


def _adamw(
    p: Any, m: Any, v: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any, root: Any,
    eps: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = moments_after(m, v, g, part1, beta2, part2)
    return (kept * p - step * m / (e.sqrt(v) / root + eps), m, v)


def _adamw_amsgrad(
    p: Any, m: Any, v: Any, top: Any, g: Any, step: Any, part1: Any, beta2: Any, part2: Any,
    root: Any, eps: Any, kept: Any,
) -> tuple[Any, ...]:  # fmt: skip
    m, v = moments_after(m, v, g, part1, beta2, part2)
    top = e.maximum(top, v)
    return (kept * p - step * m / (e.sqrt(top) / root + eps), m, v, top)
