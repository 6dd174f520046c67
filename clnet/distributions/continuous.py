"""Distributions of real numbers whose samples are functions of uniform or normal ones."""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import expr as e
from .. import ops
from ..errors import ArgumentError
from ..ops.machinery.pointwise import evaluate
from ..tensor import Tensor
from . import constraint
from .constraint import Constraint
from .distribution import HALF_LOG_2PI, Distribution, broadcast

_ROOT2 = math.sqrt(2)
_EULER = 0.5772156649015329


def _normal_log_prob(value: Any, loc: Any, scale: Any) -> Any:
    z = (value - loc) / scale
    return -0.5 * z * z - e.log(scale) - HALF_LOG_2PI


class _Located(Distribution):
    """Distributions with ``loc`` and ``scale``."""

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real,
        "scale": constraint.positive,
    }
    has_rsample = True
    support = constraint.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast(self, loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    def _standard(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_Located):
    """``loc + scale z`` with a normally distributed ``z``.

    Args:
        loc: the mean.
        scale: the standard deviation.
        validate_args: as for :class:`Distribution`.

    Example:
        >>> import clnet
        >>> round(Normal(0.0, 1.0).log_prob(clnet.tensor(1.0)).item(), 4)
        -1.4189
    """

    @property
    def stddev(self) -> Tensor:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """``scale^2``."""
        return self.scale * self.scale

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * self.normal_numbers(shape, self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        """``-z^2 / 2 - log(scale) - log(2 pi) / 2``."""
        self._validate_sample(value)
        return evaluate("normal_log_prob", _normal_log_prob, [value, self.loc, self.scale])

    def cdf(self, value: Tensor) -> Tensor:
        """``(1 + erf(z / sqrt(2))) / 2``."""
        return 0.5 * (1 + (self._standard(value) / _ROOT2).erf())

    def icdf(self, value: Tensor) -> Tensor:
        """``loc + scale sqrt(2) erfinv(2 p - 1)``."""
        return self.loc + self.scale * _ROOT2 * (2 * value - 1).erfinv()

    def entropy(self) -> Tensor:
        """``1/2 + log(2 pi) / 2 + log(scale)``."""
        return 0.5 + HALF_LOG_2PI + self.scale.log()


class Laplace(_Located):
    """The density ``exp(-|z|) / (2 scale)`` of ``z = (x - loc) / scale``."""

    @property
    def variance(self) -> Tensor:
        """``2 scale^2``."""
        return 2 * self.scale * self.scale

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        u = self.uniform_numbers(self._extended_shape(sample_shape), self.loc)
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        """``-|z| - log(2 scale)``."""
        return -self._standard(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """``1/2 + sign(z) (1 - exp(-|z|)) / 2``."""
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``loc + scale sign(1/2 - p) log(2 p)``, with ``1 - p`` for ``p`` above a half.

        ``p`` is not taken from a half first: little of a small one would be left.
        """
        tail = ops.minimum(value, 1 - value)
        return self.loc - self.scale * (value - 0.5).sign() * (2 * tail).log()

    def entropy(self) -> Tensor:
        """``1 + log(2 scale)``."""
        return 1 + (2 * self.scale).log()


class Cauchy(_Located):
    """The density ``1 / (pi scale (1 + z^2))``; it has no mean and no variance."""

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return ops.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return ops.full_like(self.loc, math.inf)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self.icdf(self.uniform_numbers(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """``-log(pi scale) - log(1 + z^2)``."""
        z = self._standard(value)
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """``atan(z) / pi + 1/2``."""
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """``loc + scale tan(pi (p - 1/2))``."""
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self) -> Tensor:
        """``log(4 pi scale)``."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_Located):
    """``loc - scale log(-log(u))``: the largest of many."""

    @property
    def mean(self) -> Tensor:
        """``loc + scale euler``."""
        return self.loc + self.scale * _EULER

    @property
    def variance(self) -> Tensor:
        """``pi^2 scale^2 / 6``."""
        return math.pi**2 / 6 * self.scale * self.scale

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self.icdf(self.uniform_numbers(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        """``-z - exp(-z) - log(scale)``."""
        z = self._standard(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """``exp(-exp(-z))``."""
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """``loc - scale log(-log(p))``."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """``log(scale) + 1 + euler``."""
        return self.scale.log() + (1 + _EULER)


class Uniform(Distribution):
    """Numbers between two, each as likely as another.

    Args:
        low: the least.
        high: not reached.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if ``low`` is not below ``high``.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "low": constraint.dependent,
        "high": constraint.dependent,
    }
    has_rsample = True

    def __init__(
        self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast(self, low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._checks() and not bool((self.low < self.high).all().item()):
            raise ArgumentError("Uniform", "low is below high", shape=self.low.shape)

    @constraint.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """From ``low`` to ``high``."""
        return constraint.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """``(low + high) / 2``."""
        return (self.low + self.high) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: none is more likely than others."""
        return ops.full_like(self.low, math.nan)

    @property
    def variance(self) -> Tensor:
        """``(high - low)^2 / 12``."""
        return (self.high - self.low) ** 2 / 12

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        u = ops.uniform_(self._numbers(self._extended_shape(sample_shape), self.low))
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """``-log(high - low)`` inside, else minus infinity."""
        self._validate_sample(value)
        inside = ((value >= self.low) & (value < self.high)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """``(x - low) / (high - low)``, between 0 and 1."""
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """``low + p (high - low)``."""
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        """``log(high - low)``."""
        return (self.high - self.low).log()


class Exponential(Distribution):
    """The density ``rate exp(-rate x)``.

    Args:
        rate: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"rate": constraint.positive}
    has_rsample = True
    support = constraint.nonnegative

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast(self, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``1 / rate``."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return ops.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        """``1 / rate^2``."""
        return self.rate**-2

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        u = self.uniform_numbers(self._extended_shape(sample_shape), self.rate)
        return -u.log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """``log(rate) - rate x``."""
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - exp(-rate x)``."""
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``-log(1 - p) / rate``."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """``1 - log(rate)``."""
        return 1 - self.rate.log()


class HalfNormal(Distribution):
    """The absolute value of a normally distributed number.

    Args:
        scale: of that number.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": constraint.positive}
    has_rsample = True
    support = constraint.nonnegative

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast(self, scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``scale sqrt(2 / pi)``."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """0."""
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """``scale^2 (1 - 2 / pi)``."""
        return self.scale * self.scale * (1 - 2 / math.pi)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return (
            self.scale * self.normal_numbers(self._extended_shape(sample_shape), self.scale)
        ).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """The normal density's logarithm and ``log(2)``, from 0 on."""
        self._validate_sample(value)
        z = value / self.scale
        inside = math.log(2) - 0.5 * z * z - self.scale.log() - HALF_LOG_2PI
        return ops.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """``erf(z / sqrt(2))``."""
        self._validate_sample(value)
        return (value / (self.scale * _ROOT2)).erf()

    def icdf(self, value: Tensor) -> Tensor:
        """``scale sqrt(2) erfinv(p)``."""
        return self.scale * _ROOT2 * value.erfinv()

    def entropy(self) -> Tensor:
        """``1/2 + log(pi / 2) / 2 + log(scale)``."""
        return 0.5 + 0.5 * math.log(math.pi / 2) + self.scale.log()
