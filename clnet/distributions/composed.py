"""Distributions made of others: independent axes, mixtures, transformed values, many normals."""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from ..errors import ArgumentError, UnsupportedError
from ..tensor import Tensor
from . import constraint
from .constraint import Constraint
from .continuous import Normal
from .discrete import Categorical
from .distribution import HALF_LOG_2PI, Distribution, broadcast, solved, summed
from .transform import ComposeTransform, ExpTransform, Transform


class Independent(Distribution):
    """Another distribution, whose last axes of the batch belong to the event.

    Args:
        base_distribution: the other one.
        reinterpreted_batch_ndims: how many axes.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if the batch has fewer.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if not 0 <= reinterpreted_batch_ndims <= len(batch):
            law = "the batch has the axes that are reinterpreted"
            raise ArgumentError(
                "Independent", law, axes=reinterpreted_batch_ndims, batch=tuple(batch)
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        """Whether the other one has."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:
        """Whether the other one has, and no axis is reinterpreted."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def support(self) -> Constraint:
        """The other's, of events."""
        return constraint.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Tensor:
        """The other's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The other's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The other's."""
        return self.base_dist.variance

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self.base_dist.draw(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum over the axes."""
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """The sum over the axes."""
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:  # noqa: FBT002 - PyTorch's
        """The other's; of events they would be all combinations, which is refused."""
        if self.reinterpreted_batch_ndims:
            law, remedy = "of combinations there are too many", "Enumerate base_dist's"
            axes = self.reinterpreted_batch_ndims
            raise UnsupportedError("enumerate_support", law, event_axes=axes, remedy=remedy)
        return self.base_dist.enumerate_support(expand)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution for a larger batch."""
        cut = len(self.base_dist.batch_shape) - self.reinterpreted_batch_ndims
        inner = self.base_dist.batch_shape[cut:]
        base = self.base_dist.expand((*batch_shape, *inner))
        made = self._get_checked_instance(Independent, _instance)
        made.__dict__.update(self.__dict__)
        Independent.__init__(made, base, self.reinterpreted_batch_ndims, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """One of several distributions of a kind, chosen at random.

    Args:
        mixture_distribution: which one, of the batch's shape.
        component_distribution: those, along the last axis of their batch.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if there are not as many components as categories.
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        batch, event = component_distribution.batch_shape, component_distribution.event_shape
        found = mixture_distribution.probs.shape[-1]
        if tuple(batch[-1:]) != (found,):
            law = "there is a component for each category"
            raise ArgumentError("MixtureSameFamily", law, categories=found, components=tuple(batch))
        super().__init__(batch[:-1], event, validate_args=validate_args)

    @property
    def support(self) -> Constraint:
        """The components'."""
        return self.component_distribution.support

    def __repr__(self) -> str:
        parts = f"{self.mixture_distribution},\n  {self.component_distribution}"
        return f"{type(self).__name__}(\n  {parts})"

    def _weights(self) -> Tensor:
        p = self.mixture_distribution.probs
        return p.reshape(*p.shape, *(1,) * len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        """The weighted mean of theirs."""
        axis = -1 - len(self._event_shape)
        return (self._weights() * self.component_distribution.mean).sum(axis)

    @property
    def variance(self) -> Tensor:
        """Within and between them."""
        axis, p = -1 - len(self._event_shape), self._weights()
        between = (self.component_distribution.mean - self.mean.unsqueeze(axis)) ** 2
        return (p * self.component_distribution.variance).sum(axis) + (p * between).sum(axis)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the weighted sum of densities."""
        self._validate_sample(value)
        inside = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self._event_shape)))
        return (inside + self.mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """The weighted sum of theirs."""
        inside = self.component_distribution.cdf(value.unsqueeze(-1))
        return (inside * self.mixture_distribution.probs).sum(-1)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        events = len(self._event_shape)
        chosen = self.mixture_distribution.draw(sample_shape)
        every = self.component_distribution.draw(sample_shape)
        at = chosen.reshape(*chosen.shape, *(1,) * (events + 1))
        at = at.expand((*chosen.shape, 1, *self._event_shape))
        axis = every.ndim - events - 1
        return every.gather(axis, at).squeeze(axis)


class TransformedDistribution(Distribution):
    """Functions of another distribution's values.

    Args:
        base_distribution: the other one.
        transforms: one or several, the first is applied first.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if it has fewer axes than the transforms take.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else list(transforms)
        self.transforms = given
        whole = ComposeTransform(given)
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        more = whole.domain.event_dim - len(base_distribution.event_shape)
        if len(shape) < whole.domain.event_dim:
            law = "the distribution has the axes that the transforms take"
            needed = whole.domain.event_dim
            raise ArgumentError("TransformedDistribution", law, shape=shape, axes=needed)
        wide = whole.inverse_shape(whole.forward_shape(shape))
        if wide != shape:  # else all elements of a transform's tensors would share one draw
            batch = wide[: len(wide) - len(base_distribution.event_shape)]
            base_distribution, shape = base_distribution.expand(batch), wide
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        shape = whole.forward_shape(shape)
        events = whole.codomain.event_dim + max(-more, 0)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self) -> bool:
        """Whether the other one has."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        """The last transform's values."""
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        more = len(self._event_shape) - found.event_dim
        return constraint.independent(found, more) if more else found

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        x = self.base_dist.draw(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """The other's at the value's origin, minus the logarithm of the slope there."""
        self._validate_sample(value)
        total: Any = 0.0
        events = len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(value)
            slope = transform.log_abs_det_jacobian(x, value)
            axes = transform.domain.event_dim
            events += axes - transform.codomain.event_dim
            total = total - summed(slope, events - axes)
            value = x
        own = self.base_dist.log_prob(value)
        return total + summed(own, events - len(self.base_dist.event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        """The other's at the value's origin; what is left of 1, where the transforms fall."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The function of the other's."""
        value = self.base_dist.icdf(self._turned(value))
        for transform in self.transforms:
            value = transform(value)
        return value

    def _turned(self, share: Tensor) -> Tensor:
        """A probability, or what is left of 1 where the transforms fall."""
        sign = math.prod(transform.sign for transform in self.transforms)
        if isinstance(sign, int):
            return share if sign > 0 else 1 - share
        return ops.where(sign < 0, 1 - share, share)


class LogNormal(TransformedDistribution):
    """``exp`` of a normally distributed number.

    Args:
        loc: that number's mean.
        scale: its standard deviation.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real,
        "scale": constraint.positive,
    }

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc  # pyrefly: ignore[missing-attribute] - a Normal

    @property
    def scale(self) -> Tensor:
        """The deviation of the logarithm."""
        return self.base_dist.scale  # pyrefly: ignore[missing-attribute] - a Normal

    @property
    def mean(self) -> Tensor:
        """``exp(loc + scale^2 / 2)``."""
        return (self.loc + self.scale * self.scale / 2).exp()

    @property
    def mode(self) -> Tensor:
        """``exp(loc - scale^2)``."""
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self) -> Tensor:
        """``(exp(scale^2) - 1) exp(2 loc + scale^2)``."""
        square = self.scale * self.scale
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """That of the logarithm, and ``loc``."""
        return self.base_dist.entropy() + self.loc


class MultivariateNormal(Distribution):
    """``loc + L z`` with normally distributed ``z``.

    Args:
        loc: ``(*batch, k)``, the mean.
        covariance_matrix: ``L L^T``, ``(*batch, k, k)``.
        precision_matrix: its inverse.
        scale_tril: ``L``, lower triangular; one of the three.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if not one of the three is given.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real_vector,
        "covariance_matrix": constraint.positive_definite,
        "precision_matrix": constraint.positive_definite,
        "scale_tril": constraint.lower_cholesky,
    }
    has_rsample = True
    support = constraint.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1 or loc.ndim < 1 or given[0].ndim < 2:
            law = "it takes a vector and one of covariance_matrix, precision_matrix and scale_tril"
            raise ArgumentError("MultivariateNormal", law, given=len(given), loc=loc.shape)
        (matrix,) = given
        k = loc.shape[-1]
        batch = broadcast(self, loc[..., 0], matrix[..., 0, 0])[0].shape
        self.loc = loc.expand((*batch, k))
        matrix = matrix.expand((*batch, k, k))
        if scale_tril is not None:
            self.scale_tril = self._unbroadcasted_scale_tril = matrix
        elif covariance_matrix is not None:
            self.covariance_matrix = matrix
            # Both halves are read, so that both get a gradient.
            symmetric = (matrix + matrix.transpose(-1, -2)) / 2
            self._unbroadcasted_scale_tril = ops.cholesky(symmetric)
        else:
            self.precision_matrix = matrix
            self._unbroadcasted_scale_tril = ops.cholesky(ops.inv(matrix))
        super().__init__(batch, (k,), validate_args=validate_args)

    def __getattr__(self, name: str) -> Any:
        """The forms of the matrix that were not given."""
        root = self.__dict__.get("_unbroadcasted_scale_tril")
        if root is None or name not in ("scale_tril", "covariance_matrix", "precision_matrix"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if name == "scale_tril":
            return root
        covariance = root @ root.transpose(-1, -2)
        return covariance if name == "covariance_matrix" else ops.inv(covariance)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The covariance's diagonal."""
        return (self._unbroadcasted_scale_tril**2).sum(-1)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        z = self.normal_numbers(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ z.unsqueeze(-1)).squeeze(-1)

    def half_log_det(self) -> Tensor:
        """``log |L|``."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """``-|L^-1 (x - loc)|^2 / 2 - log |L| - k log(2 pi) / 2``."""
        self._validate_sample(value)
        root = self._unbroadcasted_scale_tril.tril()  # no gradient to what is not read
        z = solved(root, value - self.loc)
        return -0.5 * (z * z).sum(-1) - self.half_log_det() - z.shape[-1] * HALF_LOG_2PI

    def entropy(self) -> Tensor:
        """``k (1 + log(2 pi)) / 2 + log |L|``."""
        return self.loc.shape[-1] * (0.5 + HALF_LOG_2PI) + self.half_log_det()
