"""Averaged stochastic gradient descent: plain steps, and the mean of the parameters on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

from ..ops.machinery.update import Body
from ..tensor import Tensor
from .declared import DeclaredOptimizer
from .optimizer import Group, ParamsT
from .parameter_state import Cells
from .rate import plain
from .state_form import number_of
from .update_rule import decayed


class ASGD(DeclaredOptimizer):
    """``p -= lr' * (g + lambd * p)`` with a falling rate (Polyak, Juditsky 1992), as PyTorch's.

    ``lr' = lr / (1 + lambd * lr * (t - 1)) ** alpha`` in step ``t``, with the learning rate of the
    step before: one that a scheduler has changed counts a step later. ``state[p]["ax"]`` is the
    mean of the parameter since step ``t0``, and the parameter before.

    Args:
        params: parameters or groups.
        lr: learning rate, 0 or more.
        lambd: decay of the parameter, 0 or more.
        alpha: the power by which the rate falls.
        t0: the step from which on the mean is taken.
        weight_decay: added to the gradient, 0 or more.
        maximize: go along the gradient instead of against it.
        differentiable: steps are on the tape: gradients go through them to old values, gradients
            and a rate that is a tensor.

    Raises:
        ArgumentError: if a setting is out of range.
    """

    params: ParamsT
    lr: Tensor | float = 1e-2
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6
    weight_decay: float = 0
    _: KW_ONLY
    maximize: bool = False
    differentiable: bool = False
    rates = ("lr", "lambd", "weight_decay")
    derived = ("step", "eta", "mu")

    def state_names(self, group: Group) -> tuple[str, ...]:
        """The mean of the parameter."""
        return ("ax",)

    def settings(self, group: Group, num_steps: int) -> dict[str, float]:
        """Rate, what its decay leaves of the parameter, the mean's weights, the next step's rate.

        The last, ``eta``, is the one after so many steps, ``made``.
        """
        rate, part = _rate(group, num_steps - 1), 1 / max(1, num_steps - 1 - group["t0"])
        mean = {"part": part, "rest": 1 - part}
        eta = {"eta": _rate(group, num_steps), "made": float(num_steps)}
        return {"rate": rate, "kept": 1 - group["lambd"] * rate, **mean, **eta}

    def _numbers_after(self, group: Group, num_steps: int, before: Cells) -> dict[str, float]:
        numbers = self._numbers(group, num_steps)
        if num_steps > 1:
            # A step that the device skipped is made again, at its own rate.
            again = before["made"].value == num_steps
            rate = before["rate" if again else "eta"].value
            numbers |= {"rate": rate, "kept": 1 - group["lambd"] * rate}
        return numbers

    def add_param_group(self, group: Group) -> None:
        super().add_param_group(group)
        self._show(self.param_groups[-1:])

    def _advance(self, updated: Sequence[tuple[Group, Tensor]]) -> None:
        super()._advance(updated)
        self._show([group for group, _ in updated])

    def _show(self, groups: Iterable[Group]) -> None:
        """Have the state show PyTorch's ``eta``, the next step's rate, and ``mu``, of the mean.

        Programs read them; a step computes its own.
        """
        for group in {id(group): group for group in groups}.values():
            for p in group["params"]:
                own, cells = self._kept(p), self._cells_of(p, group)
                eta = cells["eta"].value if own.count else group["lr"]
                own.complete({"eta": float(eta), "mu": 1 / max(1, own.count - group["t0"])})

    def state_dict(self) -> dict[str, Any]:
        """As every optimiser's, with ``eta`` and ``mu``."""
        self._clnet_settle()
        self._show(self.param_groups)
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        given = state.get("state") if isinstance(state, Mapping) else None
        if not isinstance(given, Mapping):
            super().load_state_dict(state)
            return
        entries = {k: e for k, e in given.items() if isinstance(e, Mapping)}
        etas = {
            k: number_of("ASGD", eta=e["eta"])
            for k, e in entries.items()
            if e.get("eta") is not None
        }
        plain = {k: {n: v for n, v in e.items() if n != "eta"} for k, e in entries.items()}
        super().load_state_dict({**state, "state": plain})
        groups = [group for group in self.param_groups for _ in group["params"]]
        for i, (p, group) in enumerate(zip(self._params(), groups, strict=True)):
            cells, made = self._cells_of(p, group), self._kept(p).count
            eta = etas.get(str(i), etas.get(i))  # states of old have none
            cells["eta"].value = _rate(group, made) if eta is None else eta
            cells["made"].value = float(made)
        self._show(self.param_groups)

    def body(self, group: Group) -> Body:
        return _asgd


def _rate(group: Group, num_steps: int) -> float:
    group = plain(group)
    return group["lr"] / (1 + group["lambd"] * group["lr"] * num_steps) ** group["alpha"]


def _asgd(
    p: Any, mean: Any, g: Any, rate: Any, kept: Any, part: Any, rest: Any, weight_decay: Any
) -> tuple[Any, ...]:
    p = kept * p - rate * decayed(g, p, weight_decay)
    return (p, part * p + rest * mean)
