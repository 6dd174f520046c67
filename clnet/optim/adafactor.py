"""Adafactor: second moments of matrices as a row and a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

from .. import expr as e
from ..errors import ArgumentError
from ..ops import mean, norm, zeros_like
from ..ops.machinery.pointwise import evaluate
from ..ops.machinery.update import Body, update
from ..tensor import Tensor
from ..values.dtypes import DType, bfloat16, float16, float32, float64
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .parameter_state import Cells

_FLOATS = (bfloat16, float16, float32, float64)
_FACTORS = ("row_var", "col_var")


class Adafactor(DeclaredOptimizer):
    """``p -= alpha * u / max(1, rms(u) / d)`` with ``u = g / sqrt(v)``, as PyTorch's.

    Of a vector ``v`` is a running mean of ``g * g``; of a matrix (the last two axes) only the
    running means over its rows ``r`` and columns ``c`` are kept, and ``v = r * c / mean(r)``. In
    step ``t`` their weight is ``t ** beta2_decay``, and ``alpha = max(eps[1], rms(p)) * min(lr,
    t ** -0.5)`` (Shazeer, Stern 2018). Weight decay is decoupled: ``p *= 1 - lr * weight_decay``.

    Args:
        params: parameters or groups.
        lr: the largest relative step, 0 or more.
        beta2_decay: 0 or less.
        eps: the least of ``sqrt(v)`` and ``mean(r)`` (None: the distance from 1 to the dtype's next
            number), and the least size that a parameter counts with; both 0 or more.
        d: how long an update may be, 1 or more.
        weight_decay: 0 or more.
        maximize: go along the gradient instead of against it.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0
    _: KW_ONLY
    maximize: bool = False
    rates = ("lr", "weight_decay")
    takes_complex = False

    def check(self, group: Group) -> None:
        """Check a group's settings, as all optimisers do, and those of its own."""
        super().check(group)
        name, eps = type(self).__name__, group["eps"]
        if len(eps) != 2 or not all(least is None or least >= 0 for least in eps):
            raise ArgumentError(name, "eps are two, 0 or more", eps=eps)
        if not group["beta2_decay"] <= 0:
            raise ArgumentError(name, "it is 0 or less", beta2_decay=group["beta2_decay"])
        if not group["d"] >= 1:
            raise ArgumentError(name, "it is 1 or more", d=group["d"])

    def names_of(self, p: Tensor, group: Group) -> tuple[str, ...]:
        """A row and a column, or the whole of a vector."""
        return _FACTORS if p.ndim > 1 else ("variance",)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """The mean's weight, the relative step, what remains of ``p``, the least of each dtype."""
        least, small = group["eps"]
        return {
            "part": float(num_steps) ** group["beta2_decay"],
            "rho": min(group["lr"], num_steps**-0.5),
            "kept": 1 - group["lr"] * group["weight_decay"],
            "small": small,
            "way": -1.0 if group["maximize"] else 1.0,
            **{_least(t): t.eps if least is None else least for t in _FLOATS},
        }

    def body(self, group: Group) -> Body:
        """The last of the passes."""
        return _step

    def apply(self, group: Group, operands: Sequence[Sequence[Tensor]], cells: Cells) -> None:
        """The moments, the direction, the lengths, the step."""
        for p, *state, g in operands:
            part, least = [cells["part"]], [cells[_least(p.dtype)]]
            if p.ndim > 1:
                row, column = state
                for x, axis in zip(state, (-1, -2), strict=True):
                    update(_mean, [x, norm(g, 2, axis, True)], [*part, float(g.shape[axis])])
                whole = mean(row, -2, True)
                direction = evaluate("adafactor", _factored, [g, row, column, whole], least)
            else:
                update(_variance, [*state, g], part)
                direction = evaluate("adafactor", _whole, [g, *state], least)
            root = float(max(p.numel(), 1)) ** 0.5
            lengths = [norm(p), norm(direction)]
            rates = [cells["small"], cells["rho"], cells["d"], cells["way"], root]
            rate = evaluate("adafactor", _rate, lengths, rates)
            update(self.body(group), [p, direction, rate.expand(p.shape)], [cells["kept"]])

    def _first_state(self, p: Tensor, group: Group) -> dict[str, Any]:
        whole = p.detach()
        if p.ndim > 1:
            return {
                name: zeros_like(whole.narrow(axis, 0, 1).contiguous())
                for name, axis in zip(_FACTORS, (-1, -2), strict=True)
            }
        return {"variance": zeros_like(whole)}


def _least(dtype: DType) -> str:
    return f"least_{dtype.name}"


def _mean(x: Any, length: Any, part: Any, n: Any) -> tuple[Any, ...]:
    return (x + part * (length * length / n - x),)


def _variance(v: Any, g: Any, part: Any) -> tuple[Any, ...]:
    return (v + part * (g * g - v),)


def _whole(g: Any, v: Any, least: Any) -> Any:
    return g / e.sqrt(e.maximum(v, least * least))


def _factored(g: Any, row: Any, column: Any, whole: Any, least: Any) -> Any:
    return _whole(g, row * column / e.maximum(whole, least), least)


def _rate(size: Any, length: Any, small: Any, rho: Any, d: Any, way: Any, root: Any) -> Any:
    return way * rho * e.maximum(small, size / root) / e.maximum(1, length / (root * d))


def _step(p: Any, direction: Any, rate: Any, kept: Any) -> tuple[Any, ...]:
    return (kept * p - rate * direction,)
