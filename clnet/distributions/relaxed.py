"""Continuous stand-ins of categories, counts until failures, angles, normals of low rank."""

# ruff: noqa: FBT001 - PyTorch's validate_args

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .. import ops
from .. import special as _special
from ..creation import eye
from ..errors import ArgumentError
from ..tensor import Tensor
from . import constraint
from .composed import TransformedDistribution
from .constraint import Constraint
from .continuous import Normal
from .counts import Poisson
from .discrete import Binary, OneHotCategorical, Shares, one_of
from .distribution import HALF_LOG_2PI, Distribution, broadcast, solved
from .gammas import Gamma
from .transform import ExpTransform, SigmoidTransform, StickBreakingTransform

_BESSEL: Any = _special  # its names are made of a table
_ATTEMPTS = 24
"""Of a sample of angles; a third at most is refused, all are once in 10^11 numbers."""


class NegativeBinomial(Binary):
    """Successes before a number of failures.

    Args:
        total_count: of failures, 0 or more.
        probs: of success, below 1.
        logits: its logit; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "total_count": constraint.greater_than_eq(0),
        "probs": constraint.half_open_interval(0.0, 1.0),
        "logits": constraint.real,
    }
    support = constraint.nonnegative_integer

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of("NegativeBinomial", probs, logits)
        given = probs if logits is None else logits
        given, self.total_count = broadcast(self, given, total_count)
        self.total_count = self.total_count.to(given.dtype)
        super().__init__(
            given if logits is None else None, None if logits is None else given, validate_args
        )

    @property
    def mean(self) -> Tensor:
        """``n p / (1 - p)``."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """``floor((n - 1) p / (1 - p))``, 0 at least."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The mean over ``1 - p``."""
        return self.mean / (-self.logits).sigmoid()

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Counts at rates that are gamma variables."""
        rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
        return Poisson(rate.draw(sample_shape), validate_args=False).draw(())

    def log_prob(self, value: Tensor) -> Tensor:
        """``n log(1 - p) + x log(p)``, and the logarithm of the ways."""
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        ways = ops.where(ops.eq(n + value, 0), 0.0, ways)  # of nothing there is one, not inf - inf
        return ops.logsigmoid(-logits) * n + value * ops.logsigmoid(logits) + ways


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """As :class:`OneHotCategorical`; gradients of samples go to the probabilities as they are."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Vectors of one 1, whose gradient is that of the probabilities."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class LogitRelaxedBernoulli(Binary):
    """The logit of :class:`RelaxedBernoulli` (Maddison et al. 2017).

    Args:
        temperature: above 0.
        probs: the probability.
        logits: its logit; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    has_rsample = True
    support = constraint.real
    _shared = ("temperature",)

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """A logit and logistic noise, over the temperature."""
        u = self.uniform_numbers(self._extended_shape(sample_shape), self.logits)
        return (self.logits + u.log() - (-u).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """``log(t) + d - 2 softplus(d)`` with ``d = logits - t x``."""
        self._validate_sample(value)
        apart = self.logits - value * self.temperature
        return _log(self.temperature) + apart - 2 * ops.softplus(apart)


class ExpRelaxedCategorical(Shares):
    """The logarithm of :class:`RelaxedOneHotCategorical` (Maddison et al. 2017).

    Args:
        temperature: above 0.
        probs: ``(..., k)``, in proportion to the probabilities.
        logits: their logarithms; one of the two.
        validate_args: as for :class:`Distribution`.
    """

    has_rsample = True
    support = constraint.real_vector
    _shared = ("temperature",)

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Logits and Gumbel's noise, over the temperature; their ``exp`` sum to 1."""
        u = self.uniform_numbers(self._extended_shape(sample_shape), self.logits)
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return ops.log_softmax(scores, -1)

    def log_prob(self, value: Tensor) -> Tensor:
        """``log((k - 1)! t^(k - 1))``, and the sum of normalised ``logits - t x``."""
        self._validate_sample(value)
        k = value.shape[-1]
        scores = ops.log_softmax(self.logits - value * self.temperature, -1).sum(-1)
        return scores + math.lgamma(k) + (k - 1) * _log(self.temperature)


def _log(temperature: Any) -> Any:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)


class _Relaxed(TransformedDistribution):
    """What both relaxed distributions show of their base."""

    @property
    def temperature(self) -> Any:
        """How far from 0 and 1 values are."""
        return self.base_dist.temperature  # pyrefly: ignore[missing-attribute] - relaxed

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs  # pyrefly: ignore[missing-attribute] - relaxed

    @property
    def logits(self) -> Tensor:
        """Their logits, or logarithms."""
        return self.base_dist.logits  # pyrefly: ignore[missing-attribute] - relaxed


class RelaxedBernoulli(_Relaxed):
    """Numbers between 0 and 1 that are near either where the temperature is low.

    The arguments are those of :class:`LogitRelaxedBernoulli`.
    """

    arg_constraints = Binary.arg_constraints

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of("RelaxedBernoulli", probs, logits)
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)


class RelaxedOneHotCategorical(_Relaxed):
    """Shares of which one is near 1 where the temperature is low.

    The arguments are those of :class:`ExpRelaxedCategorical`.
    """

    arg_constraints = Shares.arg_constraints
    support = constraint.simplex

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of("RelaxedOneHotCategorical", probs, logits)
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)


class LogisticNormal(TransformedDistribution):
    """Shares made of normally distributed numbers by breaking sticks.

    Args:
        loc: ``(..., k)``, their means; numbers are of one stick.
        scale: their deviations.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real,
        "scale": constraint.positive,
    }

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def _normal(self) -> Any:
        return self.base_dist.base_dist  # pyrefly: ignore[missing-attribute] - independent

    @property
    def loc(self) -> Tensor:
        """The means."""
        return self._normal.loc

    @property
    def scale(self) -> Tensor:
        """The deviations."""
        return self._normal.scale


class VonMises(Distribution):
    """Angles of density in proportion to ``exp(c cos(x - loc))``.

    Args:
        loc: the mean angle.
        concentration: above 0.
        validate_args: as for :class:`Distribution`.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real,
        "concentration": constraint.positive,
    }
    support = constraint.real

    def __init__(
        self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.concentration = broadcast(self, loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean angle."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean angle."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Of the circle: 1 less the mean vector's length."""
        c = self.concentration
        return 1 - _BESSEL.i1e(c) / _BESSEL.i0e(c)

    def log_prob(self, value: Tensor) -> Tensor:
        """``c (cos(x - loc) - 1) - log(2 pi exp(-c) I0(c))``."""
        self._validate_sample(value)
        c = self.concentration
        return c * ((value - self.loc).cos() - 1) - _BESSEL.i0e(c).log() - 2 * HALF_LOG_2PI

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        """Best and Fisher's rejection (1979) from a wrapped Cauchy, in so many attempts."""
        shape = self._extended_shape(sample_shape)
        c = self.concentration.clamp(min=1e-2 if self.concentration.dtype.itemsize < 8 else 1e-5)
        root = (1 + 4 * c * c).sqrt()
        rho = (1 + root - (2 * (1 + root)).sqrt()) / (2 * c)
        r = (1 + rho * rho) / (2 * rho)
        u, v, w = (self.uniform_numbers((_ATTEMPTS, *shape), c) for _ in range(3))
        z = (u * math.pi).cos()
        f = (1 + r * z) / (r + z)
        level = c * (r - f)
        accepted = (level * (2 - level) - v > 0) | ((level / v).log() + 1 - level >= 0)
        chosen = f[_ATTEMPTS - 1]
        for k in range(_ATTEMPTS - 2, -1, -1):
            chosen = ops.where(accepted[k], f[k], chosen)
        angle = chosen.clamp(-1, 1).acos() * (w[0] - 0.5).sign()
        turned: Any = ops.remainder(angle + self.loc + math.pi, 2 * math.pi)
        return turned - math.pi


class LowRankMultivariateNormal(Distribution):
    """Many normals whose covariance is ``W W^T`` and a diagonal.

    Args:
        loc: ``(*batch, k)``, the mean.
        cov_factor: ``W``, ``(*batch, k, rank)``.
        cov_diag: the diagonal, ``(*batch, k)``, above 0.
        validate_args: as for :class:`Distribution`.

    Raises:
        ArgumentError: if shapes do not fit.
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {
        "loc": constraint.real_vector,
        "cov_factor": constraint.independent(constraint.real, 2),
        "cov_diag": constraint.independent(constraint.positive, 1),
    }
    has_rsample = True
    support = constraint.real_vector

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if min(loc.ndim, cov_diag.ndim, cov_factor.ndim - 1) < 1:
            law = "loc and cov_diag are (..., k), cov_factor (..., k, rank)"
            raise ArgumentError("LowRankMultivariateNormal", law, cov_factor=cov_factor.shape)
        k, rank = cov_factor.shape[-2:]
        if loc.shape[-1] != k or cov_diag.shape[-1] != k:
            law = "loc, cov_factor and cov_diag have one k"
            raise ArgumentError(
                "LowRankMultivariateNormal",
                law,
                loc=loc.shape,
                cov_factor=cov_factor.shape,
                cov_diag=cov_diag.shape,
            )
        batch = broadcast(self, loc[..., 0], cov_factor[..., 0, 0], cov_diag[..., 0])[0].shape
        self.loc, self.cov_diag = loc.expand((*batch, k)), cov_diag.expand((*batch, k))
        self.cov_factor = cov_factor.expand((*batch, k, rank))
        super().__init__(batch, (k,), validate_args=validate_args)

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
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """``W W^T + diag``."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        return ops.inv(self.covariance_matrix)

    @property
    def scale_tril(self) -> Tensor:
        """The covariance's triangle."""
        return ops.cholesky(self.covariance_matrix)

    def _small_root(self) -> Tensor:
        """The triangle of ``I + W^T diag^-1 W``, as large as the rank."""
        scaled = self.cov_factor / self.cov_diag.unsqueeze(-1)
        rank = self.cov_factor.shape[-1]
        one = eye(rank, dtype=self.loc.dtype, device=self.loc.device)
        return ops.cholesky(self.cov_factor.mT @ scaled + one)

    def draw(self, sample_shape: Sequence[int]) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        wide = self.normal_numbers((*shape[:-1], rank, 1), self.loc)
        own = self.normal_numbers(shape, self.loc)
        return self.loc + (self.cov_factor @ wide).squeeze(-1) + self.cov_diag.sqrt() * own

    def _half_log_det(self, root: Tensor) -> Tensor:
        return root.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """By Woodbury's identity: no matrix of ``k`` rows and columns is made."""
        self._validate_sample(value)
        apart, root = value - self.loc, self._small_root()
        scaled = apart / self.cov_diag
        z = solved(root, (self.cov_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1))
        length = (apart * scaled).sum(-1) - (z * z).sum(-1)
        return -0.5 * length - self._half_log_det(root) - self.loc.shape[-1] * HALF_LOG_2PI

    def entropy(self) -> Tensor:
        """``k (1 + log(2 pi)) / 2``, and half the logarithm of the determinant."""
        k = self.loc.shape[-1]
        return k * (0.5 + HALF_LOG_2PI) + self._half_log_det(self._small_root())
