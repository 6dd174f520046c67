"""Muon: momentum of matrices, made nearly orthogonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ArgumentError, ShapeError
from ..ops import addmm, clamp, div, matmul, norm
from ..ops.machinery.pointwise import evaluate
from ..ops.machinery.update import Body, update
from ..tensor import Tensor
from ..values.dtypes import bfloat16
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .parameter_state import Cells

_WAYS = (None, "original", "match_rms_adamw")


class Muon(DeclaredOptimizer):
    """``p -= lr' * orthogonal(u)`` of matrices, with momentum ``u``, as PyTorch's.

    ``b += (1 - momentum) * (g - b)``, and ``u`` is ``g + momentum * (b - g)`` with Nesterov's
    momentum, else ``b``. ``orthogonal`` takes ``u`` to about the nearest matrix with orthonormal
    rows or columns, by steps of Newton and Schulz in bfloat16 (Jordan et al. 2024). Weight decay is
    decoupled: ``p *= 1 - lr * weight_decay``.

    Args:
        params: matrices, or groups of them; other parameters are another optimiser's.
        lr: learning rate, 0 or more.
        weight_decay: 0 or more.
        momentum: 0 or more.
        nesterov: whether the gradient is mixed in once more.
        ns_coefficients: ``a``, ``b``, ``c`` of the step ``a x + b (x x') x + c (x x')^2 x``.
        eps: the least length that ``u`` is divided by.
        ns_steps: how many such steps, below 100.
        adjust_lr_fn: what ``lr'`` is for ``m`` rows and ``n`` columns: ``lr * sqrt(max(1, m /
            n))`` for ``original`` and None, ``0.2 * lr * sqrt(max(m, n))`` for
            ``match_rms_adamw``, so that AdamW's rates fit.

    Raises:
        ArgumentError: if a setting is out of range.
        ShapeError: if a parameter is no matrix.
    """

    params: ParamsT
    lr: Tensor | float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315)
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None
    rates = ("lr", "weight_decay", "momentum", "eps", "ns_steps")
    takes_complex = False

    def check(self, group: Group) -> None:
        """Check a group's settings, as all optimisers do, and those of its own."""
        super().check(group)
        name, way = type(self).__name__, group["adjust_lr_fn"]
        if way not in _WAYS:
            law = "it is None, 'original' or 'match_rms_adamw'"
            raise ArgumentError(name, law, adjust_lr_fn=way)
        if len(group["ns_coefficients"]) != 3:
            given = group["ns_coefficients"]
            raise ArgumentError(name, "ns_coefficients are three", ns_coefficients=given)
        if group["ns_steps"] >= 100:
            raise ArgumentError(name, "ns_steps is below 100", ns_steps=group["ns_steps"])
        for p in group["params"]:
            if p.ndim != 2:
                raise ShapeError(name, "parameters are matrices", shape=p.shape)

    @property
    def _clnet_version(self) -> tuple[Any, ...]:
        """Changes with what decides which ops a step is made of, too."""
        fixed = ("nesterov", "ns_coefficients", "eps", "ns_steps", "adjust_lr_fn")
        kinds = [tuple(map(repr, map(group.get, fixed))) for group in self.param_groups]
        return (*super()._clnet_version, *kinds)

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The momentum."""
        return ("momentum_buffer",)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """The gradient's weight, and what remains of the parameter."""
        return {
            "part": 1 - group["momentum"],
            "kept": 1 - group["lr"] * group["weight_decay"],
        }

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _step

    def apply(self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells) -> None:
        """The momentum, the steps of Newton and Schulz, the step."""
        for p, buffer, g in operands:
            update(_momentum, [buffer, g], [cells["part"]])
            mixed = buffer
            if group["nesterov"]:
                mixed = evaluate("muon", _nesterov, [g, buffer], [cells["momentum"]])
            u = _orthogonal(mixed, group).to(p.dtype)
            scalars = [cells["kept"], cells["lr"], _ratio(group["adjust_lr_fn"], *p.shape)]
            update(self.body(group), [p, u], scalars)


def _orthogonal(x: Tensor, group: Group) -> Tensor:
    """Singular values near 1, in bfloat16, whose few digits the rule was made for."""
    a, b, c = group["ns_coefficients"]
    wide = x.shape[0] <= x.shape[1]
    y = (x if wide else x.T).to(bfloat16)
    y = div(y, clamp(norm(y), min=group["eps"]))
    for _ in range(group["ns_steps"]):
        gram = matmul(y, y.T)
        y = addmm(y, addmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y if wide else y.T


def _ratio(way: str | None, rows: int, columns: int) -> float:
    if way == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / max(columns, 1)))


def _momentum(buffer: Any, g: Any, part: Any) -> tuple[Any, ...]:
    return (buffer + part * (g - buffer),)


def _nesterov(g: Any, buffer: Any, momentum: Any) -> Any:
    return g + momentum * (buffer - g)


def _step(p: Any, u: Any, kept: Any, lr: Any, ratio: Any) -> tuple[Any, ...]:
    return (kept * p - lr * ratio * u,)
