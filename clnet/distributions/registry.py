"""Transforms of any numbers into a set: ``biject_to(constraint)``, ``transform_to(constraint)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError, UnsupportedError
from ..tensor import Tensor
from .constraint import Constraint
from .transform import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
    Transform,
)

__all__ = ["ConstraintRegistry", "biject_to", "identity_transform", "transform_to"]

Factory = Callable[[Any], Transform]
identity_transform = ComposeTransform([])
"""Numbers themselves."""


class ConstraintRegistry:
    """Which transform leads into a set, by the constraint's name.

    Args:
        name: its own, for errors.
    """

    def __init__(self, name: str = "biject_to") -> None:
        self.__name__ = name
        self._factories: dict[str, Factory] = {}

    def register(self, constraint: Constraint, factory: Factory | None = None) -> Any:
        """Declare the transform for a constraint and all of its name; also as a decorator.

        Args:
            constraint: one of them.
            factory: gives the transform for a constraint of that name.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._factories[constraint.name] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform for a constraint.

        Raises:
            UnsupportedError: if none is declared.
        """
        if not isinstance(constraint, Constraint):
            law = "it takes a constraint"
            raise ArgumentError(self.__name__, law, type=type(constraint).__name__)
        base = constraint.base_constraint
        if base is not None:
            return IndependentTransform(self(base), constraint.event_dim - base.event_dim)
        if constraint.name not in self._factories:
            law, remedy = f"there is no transform to {constraint!r}", "register() one"
            raise UnsupportedError(self.__name__, law, remedy=remedy)
        return self._factories[constraint.name](constraint)


def _above(constraint: Any) -> Transform:
    low = constraint.lower_bound
    if not isinstance(low, Tensor) and low == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(low, 1)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float | int) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _pieces(registry: ConstraintRegistry) -> Factory:
    return lambda c: CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)


def _slices(registry: ConstraintRegistry) -> Factory:
    return lambda c: StackTransform([registry(part) for part in c.cseq], c.dim)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry("transform_to")
for _registry in (biject_to, transform_to):
    _registry._factories.update(  # pyrefly: ignore[protected-access] - its own module
        {
            "Real": lambda _: identity_transform,
            "GreaterThan": _above,
            "GreaterThanEq": _above,
            "LessThan": _below,
            "Interval": _between,
            "HalfOpenInterval": _between,
            "LowerCholesky": lambda _: LowerCholeskyTransform(),
            "PositiveDefinite": lambda _: PositiveDefiniteTransform(),
            "Simplex": lambda _: StickBreakingTransform(),
            "CorrCholesky": lambda _: CorrCholeskyTransform(),
            "Cat": _pieces(_registry),
            "Stack": _slices(_registry),
        }
    )
transform_to._factories["Simplex"] = lambda _: SoftmaxTransform()  # pyrefly: ignore[protected-access]
