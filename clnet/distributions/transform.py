"""Invertible functions of random values, and the logarithms of their slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor
from ..values.arguments import checked_class
from . import constraint
from .distribution import summed

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
]


class Transform:
    """``y = f(x)``; a subclass writes ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    Args:
        cache_size: taken as PyTorch does.

    Attributes:
        bijective: whether each ``y`` comes of one ``x``.
        event_dim: axes of one value.
        sign: 1 if it grows, -1 if it falls; a tensor where that is each element's.
    """

    bijective = True
    event_dim = 0
    sign: Any = 1
    domain: Any = constraint.real
    codomain: Any = constraint.real

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if cls.__module__.startswith(f"{__package__}."):
            checked_class(cls)

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size

    def __call__(self, x: Tensor) -> Tensor:
        """``f(x)``."""
        return self._call(x)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}._inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |dy / dx|``, summed over the axes of an event."""
        raise NotImplementedError(f"{type(self).__name__}.log_abs_det_jacobian")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _InverseTransform(self)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of ``y``."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        """Whether it is of the same class, with the same settings."""
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return mine.keys() == theirs.keys() and all(_same(mine[k], theirs[k]) for k in mine)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return bool(ops.eq(one, other).all().item())
    return bool(one == other)


class _InverseTransform(Transform):
    def __init__(self, given: Transform) -> None:
        super().__init__()
        self._given = given
        self.event_dim, self.bijective, self.sign = given.event_dim, given.bijective, given.sign
        self.domain, self.codomain = given.codomain, given.domain

    def _call(self, x: Tensor) -> Tensor:
        return self._given._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._given(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._given.log_abs_det_jacobian(y, x)

    @property
    def inv(self) -> Transform:
        return self._given


class ExpTransform(Transform):
    """``exp(x)``."""

    codomain = constraint.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``x``."""
        return x


class AffineTransform(Transform):
    """``loc + scale x``.

    Args:
        loc: a number or tensor.
        scale: a number or tensor, not 0.
        event_dim: axes of one value.
        cache_size: taken as PyTorch does.
    """

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        self.sign = scale.sign() if isinstance(scale, Tensor) else -1 if scale < 0 else 1

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |scale|``."""
        if isinstance(self.scale, Tensor):
            found = self.scale.abs().log().expand(x.shape)
        else:
            found = ops.full_like(x, math.log(abs(self.scale)))
        return summed(found, self.event_dim)


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``."""

    codomain = constraint.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.logit()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``-softplus(x) - softplus(-x)``."""
        return -ops.softplus(-x) - ops.softplus(x)


class TanhTransform(Transform):
    """``tanh(x)``."""

    codomain = constraint.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``2 (log(2) - x - softplus(-2 x))``."""
        return 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``."""

    codomain = constraint.positive

    def _call(self, x: Tensor) -> Tensor:
        return ops.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``-softplus(-x)``."""
        return -ops.softplus(-x)


class PowerTransform(Transform):
    """``x^exponent`` of positive numbers.

    Args:
        exponent: a number or tensor.
        cache_size: taken as PyTorch does.
    """

    domain = constraint.positive
    codomain = constraint.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent
        self.sign = exponent.sign() if isinstance(exponent, Tensor) else -1 if exponent < 0 else 1

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """``log |exponent y / x|``."""
        return (self.exponent * y / x).abs().log()


class AbsTransform(Transform):
    """``|x|``, which has no inverse: the one that is not negative stands for it."""

    bijective = False
    codomain = constraint.nonnegative

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class StickBreakingTransform(Transform):
    """``k`` numbers to ``k + 1`` shares that sum to 1."""

    event_dim = 1
    domain = constraint.real_vector
    codomain = constraint.simplex

    def _offset(self, x: Tensor) -> Tensor:
        left = ops.ones_like(x).cumsum(-1)
        return x.shape[-1] + 1 - left

    def _call(self, x: Tensor) -> Tensor:
        z = (x - self._offset(x).log()).sigmoid()
        rest = (1 - z).cumprod(-1)
        one = ops.ones_like(z[..., :1])
        return ops.cat((z, one), -1) * ops.cat((one, rest), -1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        rest = (1 - cropped.cumsum(-1)).clamp(min=1.2e-38)
        return cropped.log() - rest.log() + self._offset(cropped).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the volume."""
        x = x - self._offset(x).log()
        return (-x - ops.softplus(-x) + y[..., :-1].log()).sum(-1) + 0 * x.sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """One more share than numbers."""
        return (*shape[:-1], shape[-1] + 1)


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
        self.event_dim = base_transform.event_dim + reinterpreted_batch_ndims
        self.sign = base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the axes."""
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self._axes)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: the first is applied first.
        cache_size: taken as PyTorch does.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((p.event_dim for p in self.parts), default=0)
        self.bijective = all(p.bijective for p in self.parts)
        self.sign = math.prod(p.sign for p in self.parts)
        self.codomain = self.parts[-1].codomain if self.parts else constraint.real
        self.domain = self.parts[0].domain if self.parts else constraint.real

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
        for part in self.parts:
            after = part(x)
            found = part.log_abs_det_jacobian(x, after)
            total = total + summed(found, self.event_dim - part.event_dim)
            x = after
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """That of the last."""
        for part in self.parts:
            shape = part.forward_shape(shape)
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
        self.event_dim = max(len(self.in_shape), len(self.out_shape))

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


class SoftmaxTransform(Transform):
    """Shares in proportion to ``exp(x)``; the logarithms stand for the inverse."""

    bijective = False
    event_dim = 1
    domain = constraint.real_vector
    codomain = constraint.simplex

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class LowerCholeskyTransform(Transform):
    """The lower triangle of matrices, with ``exp`` of the diagonal."""

    event_dim = 2
    codomain = constraint.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """The product of :class:`LowerCholeskyTransform`'s triangle with its transpose."""

    event_dim = 2
    codomain = constraint.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ops.cholesky(y))


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
        self.event_dim = max((t.event_dim for t in self.transforms), default=0)
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


class CumulativeDistributionTransform(Transform):
    """The probability of values up to ``x`` of a distribution.

    Args:
        distribution: has ``cdf``, ``icdf`` and ``log_prob``.
        cache_size: taken as PyTorch does.
    """

    codomain = constraint.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The density's logarithm."""
        return self.distribution.log_prob(x)
