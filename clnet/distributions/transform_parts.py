"""Transforms made of others: of more axes, one after the other, side by side; and other shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from . import constraint
from .distribution import summed
from .transform_base import Transform, of_axes

__all__ = [
    "CatTransform",
    "ComposeTransform",
    "IndependentTransform",
    "ReshapeTransform",
    "StackTransform",
]


class IndependentTransform(Transform):
    """Another transform, of values with more axes.

    Args:
        base_transform: the other one.
        reinterpreted_batch_ndims: how many more.
        cache_size: taken as PyTorch does.
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform, self._axes = base_transform, reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraint.independent(base_transform.domain, self._axes)
        self.codomain = constraint.independent(base_transform.codomain, self._axes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self._axes})"

    @property
    def sign(self) -> Any:
        """The other's."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the axes."""
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self._axes)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The other's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The other's."""
        return self.base_transform.inverse_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the first is applied first.
        cache_size: taken as PyTorch does.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(p.bijective for p in self.parts)
        if self.parts:
            self.domain, self.codomain = self._ends()

    def _inverted(self) -> ComposeTransform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def _ends(self) -> tuple[constraint.Constraint, constraint.Constraint]:
        """The first one's domain and the last one's codomain, with the axes that others need."""
        first, last = self.parts[0].domain, self.parts[-1].codomain
        given, made = last.event_dim, first.event_dim
        for part in reversed(self.parts):
            axes = part.domain.event_dim
            given = max(given + axes - part.codomain.event_dim, axes)
        for part in self.parts:
            axes = part.codomain.event_dim
            made = max(made + axes - part.domain.event_dim, axes)
        return of_axes(first, given), of_axes(last, made)

    @property
    def sign(self) -> Any:
        """The product of theirs."""
        return math.prod(p.sign for p in self.parts)

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of theirs; 0 of none."""
        del y
        total: Any = 0.0 if self.parts else ops.zeros_like(x)
        axes = self.domain.event_dim
        for part in self.parts:
            after, own = part(x), part.domain.event_dim
            total = total + summed(part.log_abs_det_jacobian(x, after), axes - own)
            x, axes = after, axes + part.codomain.event_dim - own
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the last."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the first."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)


class ReshapeTransform(Transform):
    """The same elements in another shape.

    Args:
        in_shape: of a value.
        out_shape: as many elements.
        cache_size: taken as PyTorch does.

    Raises:
        ShapeError: if the numbers of elements differ.
    """

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            law = "both shapes have as many elements"
            raise ShapeError("ReshapeTransform", law, in_shape=in_shape, out_shape=out_shape)
        self.domain = of_axes(constraint.real, len(self.in_shape))
        self.codomain = of_axes(constraint.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0."""
        del y
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """With the other shape at its end."""
        return (*shape[: len(shape) - len(self.in_shape)], *self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """With the first shape at its end."""
        return (*shape[: len(shape) - len(self.out_shape)], *self.in_shape)


class CatTransform(Transform):
    """A transform for each stretch of an axis.

    Args:
        tseq: the transforms.
        dim: the axis.
        lengths: of the stretches; None: 1 each.
        cache_size: taken as PyTorch does.

    Raises:
        ArgumentError: if there is not a length for each transform.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            law = "there is a length for each transform"
            raise ArgumentError(
                type(self).__name__, law, lengths=self.lengths, transforms=len(self.transforms)
            )
        axes = max((t.event_dim for t in self.transforms), default=0)
        self.domain = self.codomain = of_axes(constraint.real, axes)
        self.bijective = all(t.bijective for t in self.transforms)

    def _each(self, *given: Tensor) -> list[tuple[Any, ...]]:
        """The stretches of tensors, after their transform."""
        if given[0].shape[self.dim] != sum(self.lengths):
            law = f"axis {self.dim} has the lengths' sum"
            raise ShapeError(type(self).__name__, law, x=given[0].shape, lengths=self.lengths)
        starts = [sum(self.lengths[:k]) for k in range(len(self.lengths))]
        return [
            (t, *(x.narrow(self.dim, start, n) for x in given))
            for t, start, n in zip(self.transforms, starts, self.lengths, strict=True)
        ]

    def _call(self, x: Tensor) -> Tensor:
        return ops.cat([t(part) for t, part in self._each(x)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cat([t.inv(part) for t, part in self._each(y)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Theirs, one after the other; sums where the axis belongs to an event."""
        axis = self.dim if self.dim < 0 else self.dim - x.ndim
        parts = [
            summed(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim)
            for t, a, b in self._each(x, y)
        ]
        if axis + self.event_dim >= 0:
            return sum(parts[1:], parts[0])
        return ops.cat(parts, axis + self.event_dim)


class StackTransform(CatTransform):
    """A transform for each slice of an axis.

    Args:
        tseq: the transforms.
        dim: the axis.
        cache_size: taken as PyTorch does.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, None, cache_size)
