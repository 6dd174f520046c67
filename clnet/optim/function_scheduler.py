"""Schedules whose rates are functions that a program wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from ..errors import ArgumentError
from .optimizer import Optimizer
from .scheduler import LRScheduler

Factor = Callable[[int], float]
"""A number for a number of steps."""


class _OfFunctions(LRScheduler):
    """What schedules by functions of programs share: their state is that of objects among them."""

    lr_lambdas: list[Factor]

    def state_dict(self) -> dict[str, Any]:
        """As every scheduler's; of an object in a function's place its attributes, as PyTorch's."""
        kept = [
            None if isinstance(f, FunctionType) else dict(getattr(f, "__dict__", ()))
            for f in self.lr_lambdas
        ]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As every scheduler's; objects in functions' places get the attributes that were kept."""
        if not isinstance(state, Mapping):
            return super().load_state_dict(state)
        rest = {k: v for k, v in state.items() if k != "lr_lambdas"}
        if not self._written():
            self._require(rest, 0)
        for function, kept in zip(self.lr_lambdas, state.get("lr_lambdas", ()), strict=False):
            if kept:
                vars(function).update(kept)
        return super().load_state_dict(rest)


class LambdaLR(_OfFunctions):
    """``lr = base * lr_lambda(steps)``.

    Args:
        optimizer: whose rates are set.
        lr_lambda: a function of the steps, or one for each group.

    Raises:
        ArgumentError: if there is not one function for each group.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor]) -> None:
        self.lr_lambdas = _functions_of("LambdaLR", optimizer, lr_lambda)
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """What the group's function gives, times the base rate."""
        return base_lr * self.lr_lambdas[group](steps)


class MultiplicativeLR(_OfFunctions):
    """``lr = base * lr_lambda(1) * lr_lambda(2) * ... * lr_lambda(steps)``.

    Args:
        optimizer: whose rates are set.
        lr_lambda: a function of the steps, or one for each group.

    Raises:
        ArgumentError: if there is not one function for each group.
    """

    _carries = True

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor]) -> None:
        self.lr_lambdas = _functions_of("MultiplicativeLR", optimizer, lr_lambda)
        self._products = [[1.0] for _ in self.lr_lambdas]
        super().__init__(optimizer)

    def rate(self, base_lr: float, steps: int, group: int) -> float:
        """The product of the factors of all steps so far, times the base rate."""
        products = self._products[group]
        while len(products) <= steps:
            products.append(products[-1] * self.lr_lambdas[group](len(products)))
        return base_lr * products[steps]


def _functions_of(
    name: str, optimizer: Optimizer, given: Factor | Sequence[Factor]
) -> list[Factor]:
    groups = len(optimizer.param_groups)
    functions = [given] * groups if callable(given) else list(given)
    if len(functions) != groups:
        raise ArgumentError(
            name, "there is a function for each group", functions=len(functions), groups=groups
        )
    return functions
