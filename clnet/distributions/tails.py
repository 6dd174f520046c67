"""Densities of one formula whose tails are powers, and those that are drawn by their inverse."""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..tensor import Tensor
from . import constraint
from .constraint import Constraint
from .distribution import Distribution, broadcast
from .gammas import Gamma

_EULER = 0.5772156649015329
_POSITIVE = constraint.positive


class _Inverted(Distribution):
    """One that is drawn by its inverse, with gradients."""

    has_rsample = True

    def _first(self) -> Tensor:
        """A parameter, of the batch's shape."""
        return next(v for k, v in self.__dict__.items() if k in self.arg_constraints)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return self.icdf(self.uniform_numbers(self._extended_shape(sample_shape), self._first()))


class HalfCauchy(_Inverted):
    """The magnitude of a Cauchy variable around 0; it has no mean.

    Args:
        scale: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"scale": _POSITIVE}
    support = constraint.nonnegative

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast(self, scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return ops.full_like(self.scale, math.inf)

    @property
    def mode(self) -> Tensor:
        """0."""
        return ops.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return ops.full_like(self.scale, math.inf)

    def log_prob(self, value: Tensor) -> Tensor:
        """``log(2 / pi) - log(scale) - log(1 + z^2)``; minus infinity below 0."""
        self._validate_sample(value)
        z = value / self.scale
        found = math.log(2 / math.pi) - self.scale.log() - (z * z).log1p()
        return ops.where(value >= 0, found, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """``2 / pi atan(z)``."""
        self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value: Tensor) -> Tensor:
        """``scale tan(pi p / 2)``."""
        return self.scale * (value * (math.pi / 2)).tan()

    def entropy(self) -> Tensor:
        """``log(2 pi scale)``."""
        return (self.scale * (2 * math.pi)).log()


class Pareto(_Inverted):
    """The density ``alpha scale^alpha / x^(alpha + 1)`` of numbers not below ``scale``.

    Args:
        scale: above 0.
        alpha: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"alpha": _POSITIVE, "scale": _POSITIVE}

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast(self, scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def support(self) -> Constraint:
        """Numbers not below ``scale``."""
        return constraint.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """``alpha scale / (alpha - 1)``; infinite for ``alpha`` up to 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """``scale``."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Infinite for ``alpha`` up to 2."""
        a = self.alpha.clamp(min=2)
        return self.scale * self.scale * a / ((a - 1) ** 2 * (a - 2))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        head = self.alpha.log() + self.alpha * self.scale.log()
        return head - (self.alpha + 1) * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - (scale / x)^alpha``."""
        self._validate_sample(value)
        return -((self.scale / value).log() * self.alpha).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``scale (1 - p)^(-1 / alpha)``."""
        return self.scale * (-(-value).log1p() / self.alpha).exp()

    def entropy(self) -> Tensor:
        """``log(scale / alpha) + 1 + 1 / alpha``."""
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Weibull(_Inverted):
    """The density ``k / scale z^(k - 1) exp(-z^k)`` of ``z = x / scale``.

    Args:
        scale: above 0.
        concentration: ``k``, above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "scale": _POSITIVE,
        "concentration": _POSITIVE,
    }
    support = constraint.positive

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast(self, scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``scale gamma(1 + 1 / k)``."""
        return self.scale * ops.lgamma(1 + 1 / self.concentration).exp()

    @property
    def mode(self) -> Tensor:
        """``scale (1 - 1 / k)^(1 / k)``, 0 for ``k`` up to 1."""
        k = self.concentration.clamp(min=1)
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        """``scale^2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)^2)``."""
        one = ops.lgamma(1 + 1 / self.concentration)
        two = ops.lgamma(1 + 2 / self.concentration)
        return self.scale * self.scale * (two.exp() - (2 * one).exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z**k

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - exp(-z^k)``, from 0 on, where there is no density yet."""
        self._validate_sample(value, constraint.nonnegative)
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``scale (-log(1 - p))^(1 / k)``."""
        return self.scale * (-(-value).log1p()) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        """``euler (1 - 1 / k) + log(scale / k) + 1``."""
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Kumaraswamy(_Inverted):
    """The density ``a b x^(a - 1) (1 - x^a)^(b - 1)`` of numbers in [0, 1].

    Args:
        concentration1: ``a``, above 0.
        concentration0: ``b``, above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration1": _POSITIVE,
        "concentration0": _POSITIVE,
    }
    support = constraint.unit_interval

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast(self, concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        b, more = self.concentration0, 1 + n / self.concentration1
        return b * (ops.lgamma(more) + ops.lgamma(b) - ops.lgamma(more + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The first moment."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``((a - 1) / (a b - 1))^(1 / a)``; NaN if one of them is below 1."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** (1 / a)
        return ops.where((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Tensor:
        """The second moment less the square of the first."""
        return self._moment(2) - self._moment(1) ** 2

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return (a * b).log() + (a - 1) * value.log() + (b - 1) * (-(value**a)).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - (1 - x^a)^b``."""
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return -(b * (-(value**a)).log1p()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``(1 - (1 - p)^(1 / b))^(1 / a)``."""
        a, b = self.concentration1, self.concentration0
        return (-((-value).log1p() / b).expm1()) ** (1 / a)

    def entropy(self) -> Tensor:
        """``(1 - 1 / b) + (1 - 1 / a) (psi(b + 1) + gamma) - log(a b)``."""
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * ((b + 1).digamma() + _EULER) - (a * b).log()


class GeneralizedPareto(_Inverted):
    """The density ``(1 + k z)^(-1 / k - 1) / scale`` of ``z = (x - loc) / scale``.

    Args:
        loc: the least value.
        scale: above 0.
        concentration: ``k``; 0: exponential.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real,
        "scale": _POSITIVE,
        "concentration": constraint.real,
    }

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast(self, loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _powers(self, z: Tensor) -> Tensor:
        """``log(1 + k z) / k``, ``z`` for ``k`` of 0."""
        none = ops.eq(self.concentration, 0)
        k = ops.where(none, 1.0, self.concentration)
        return ops.where(none, z, (k * z).log1p() / k)

    @property
    def support(self) -> Constraint:
        """Numbers not below ``loc``, for negative ``k`` up to ``loc - scale / k``."""
        k = ops.where(self.concentration < 0, self.concentration, -1.0)
        end = ops.where(self.concentration < 0, self.loc - self.scale / k, math.inf)
        return constraint.interval(self.loc, end)

    @property
    def mean(self) -> Tensor:
        """``loc + scale / (1 - k)``; infinite for ``k`` from 1."""
        k = self.concentration
        return ops.where(k < 1, self.loc + self.scale / (1 - k), math.inf)

    @property
    def variance(self) -> Tensor:
        """``scale^2 / ((1 - k)^2 (1 - 2 k))``; infinite for ``k`` from 1/2."""
        k = self.concentration
        return ops.where(k < 0.5, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.inf)

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -self.scale.log() - (1 + self.concentration) * self._powers(z)

    def cdf(self, value: Tensor) -> Tensor:
        """``1 - (1 + k z)^(-1 / k)``."""
        self._validate_sample(value)
        return -(-self._powers((value - self.loc) / self.scale)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """``loc + scale ((1 - p)^(-k) - 1) / k``."""
        lost = -(-value).log1p()
        none = ops.eq(self.concentration, 0)
        k = ops.where(none, 1.0, self.concentration)
        return self.loc + self.scale * ops.where(none, lost, (k * lost).expm1() / k)

    def entropy(self) -> Tensor:
        """``1 + k + log(scale)``."""
        return 1 + self.concentration + self.scale.log()


class InverseGamma(Distribution):
    """The inverse of a gamma variable.

    Args:
        concentration: above 0.
        rate: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "concentration": _POSITIVE,
        "rate": _POSITIVE,
    }
    has_rsample = True
    support = constraint.positive

    def __init__(
        self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.base_dist = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(self.base_dist.batch_shape, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The gamma variable's."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The gamma variable's."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """``rate / (a - 1)``; infinite for ``a`` up to 1."""
        a = self.concentration
        return ops.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """``rate / (a + 1)``."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """``rate^2 / ((a - 1)^2 (a - 2))``; infinite for ``a`` up to 2."""
        a = self.concentration
        return ops.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        return 1 / self.base_dist.draw(sample_shape)

    def cdf(self, value: Tensor) -> Tensor:
        """What of the gamma variable lies above ``1 / x``: nothing for 0."""
        self._validate_sample(value, constraint.nonnegative)
        return 1 - self.base_dist.cdf(1 / value)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.base_dist.log_prob(1 / value) - 2 * value.log()

    def entropy(self) -> Tensor:
        """``a + log(rate) + lgamma(a) - (1 + a) digamma(a)``."""
        a = self.concentration
        return a + self.rate.log() + ops.lgamma(a) - (1 + a) * ops.digamma(a)


class FisherSnedecor(Distribution):
    """The quotient of two chi-square variables, each by its degrees of freedom.

    Args:
        df1: above 0.
        df2: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {"df1": _POSITIVE, "df2": _POSITIVE}
    has_rsample = True
    support = constraint.positive

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast(self, df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``df2 / (df2 - 2)``; NaN for ``df2`` up to 2."""
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """``(df1 - 2) df2 / (df1 (df2 + 2))``; NaN for ``df1`` up to 2."""
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, found, math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN for ``df2`` up to 4."""
        a, b = self.df1, self.df2
        found = 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4))
        return ops.where(b > 4, found, math.nan)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        parts = [Gamma(df / 2, df / 2, validate_args=False) for df in (self.df1, self.df2)]
        above, below = (part.draw(sample_shape) for part in parts)
        return above / below  # a gamma variable is above 0

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        share = self.df1 / self.df2
        head = ops.lgamma(a + b) - ops.lgamma(a) - ops.lgamma(b) + a * share.log()
        return head + (a - 1) * value.log() - (a + b) * (share * value).log1p()
