"""What every transform is: a function of values, its inverse, and where values lie."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any
from weakref import ref

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.arguments import checked_class
from . import constraint

__all__ = ["Transform", "of_axes"]


def _no_sign(self: Transform) -> Any:
    raise NotImplementedError(f"{type(self).__name__}.sign")


class Transform:
    """``y = f(x)``; a subclass writes ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    Args:
        cache_size: 1: the last ``x`` is kept with its ``y``, so that one gives the other without
            being computed anew; 0: nothing is kept.

    Raises:
        ArgumentError: if it is neither.

    Attributes:
        bijective: whether each ``y`` comes of one ``x``.
        domain: where ``x`` lies.
        codomain: where ``y`` lies.
    """

    bijective = True
    domain: Any = constraint.real
    codomain: Any = constraint.real
    sign: Any = property(_no_sign)
    """1 if it grows, -1 if it falls; a tensor where that is each element's."""
    _inv: Any = None

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__.startswith(f"{__package__}."):
            checked_class(cls)

    def __init__(self, cache_size: int = 0) -> None:
        self._keep(cache_size)
        super().__init__()  # of programs' transforms that are modules, too

    def _keep(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            law = "cache_size is 0 or 1"
            raise ArgumentError(type(self).__name__, law, cache_size=cache_size)
        self._cache_size = cache_size
        if cache_size:
            self._cached_x_y: tuple[Tensor | None, Tensor | None] = None, None

    @property
    def event_dim(self) -> int:
        """Axes of one value.

        Raises:
            ArgumentError: if ``x`` has others than ``y``.
        """
        axes = self.domain.event_dim
        if axes != self.codomain.event_dim:
            law, remedy = "x has as many axes as y", "Ask domain or codomain for event_dim"
            raise ArgumentError(
                *(f"{type(self).__name__}.event_dim", law),
                x=axes,
                y=self.codomain.event_dim,
                remedy=remedy,
            )
        return axes

    def with_cache(self, cache_size: int = 1) -> Transform:
        """One of the same settings that keeps as many results; itself, if it does.

        Raises:
            ArgumentError: if ``cache_size`` is neither 0 nor 1.
        """
        if cache_size == self._cache_size:
            return self
        made = copy(self)
        made._keep(cache_size)
        return made

    def __call__(self, x: Tensor) -> Tensor:
        """``f(x)``."""
        if not self._cache_size:
            return self._call(x)
        before, kept = self._cached_x_y
        if x is before and kept is not None:
            return kept
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """``x`` of ``y = f(x)``."""
        if not self._cache_size:
            return self._inverse(y)
        kept, after = self._cached_x_y
        if y is after and kept is not None:
            return kept
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |dy / dx|``, summed over the axes of an event."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    @property
    def inv(self) -> Transform:
        """The inverse; while somebody holds it, the same."""
        kept = None if self._inv is None else self._inv()
        if kept is None:
            kept = self._inverted()
            self._inv, kept._inv = ref(kept), ref(self)
        return kept

    def _inverted(self) -> Transform:
        return _InverseTransform(self)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_inv"}

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of ``y``."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of ``x``."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same class, with the same settings."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = _settings(self), _settings(other)
        return mine.keys() == theirs.keys() and all(_same(mine[k], theirs[k]) for k in mine)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _settings(transform: Transform) -> dict[str, Any]:
    """What it was made of; where values lie follows."""
    left_out = ("domain", "codomain", "_cache_size", "_cached_x_y", "_inv")
    return {k: v for k, v in vars(transform).items() if k not in left_out}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return bool(ops.eq(one, other).all().item())
    return bool(one == other)


class _InverseTransform(Transform):
    def __init__(self, given: Transform) -> None:
        super().__init__()
        self._given = given
        self.bijective, self.domain, self.codomain = given.bijective, given.codomain, given.domain

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._given!r})"

    @property
    def sign(self) -> Any:
        return self._given.sign

    def _call(self, x: Tensor) -> Tensor:
        return self._given._inv_call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._given(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._given.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._given.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._given.forward_shape(shape)

    @property
    def inv(self) -> Transform:
        return self._given


def of_axes(found: constraint.Constraint, axes: int) -> constraint.Constraint:
    """A constraint of values with so many axes, where it has fewer."""
    more = axes - found.event_dim
    return constraint.independent(found, more) if more > 0 else found
