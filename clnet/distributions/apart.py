"""How far distributions of different families are from each other."""

from __future__ import annotations

from math import inf, pi
from typing import Any

from .. import ops
from ..tensor import Tensor
from .bounded import ContinuousBernoulli
from .continuous import Exponential, Gumbel, Laplace, Normal, Uniform
from .counts import Binomial, Poisson
from .discrete import Bernoulli
from .distribution import Distribution
from .divergence import register_kl
from .gammas import Beta, Gamma
from .tails import Pareto

_EULER = 0.5772156649015329
_UNIT = (Beta, ContinuousBernoulli, Uniform)
_POSITIVE = (Exponential, Gamma, Pareto)


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """Of a family that has values where the other has none."""
    del q
    return ops.full_like(p.mean, inf)


for _wider, _narrower in (
    *((wide, (*_UNIT, Pareto)) for wide in (Exponential, Gamma)),
    *((wide, (*_UNIT, *_POSITIVE)) for wide in (Gumbel, Laplace, Normal)),
    (Pareto, _UNIT),
    (Beta, (Pareto,)),
    (ContinuousBernoulli, (Pareto,)),
    (Poisson, (Bernoulli, Binomial)),
):
    for _one in _narrower:
        register_kl(_wider, _one)(_infinite)


# For others: what -log q is on the average, less the entropy of p.


def _square(p: Distribution) -> Tensor:
    """``E[x^2]``."""
    return p.variance + p.mean**2


def _logarithm(p: Any) -> Tensor:
    """``E[log x]``."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    if isinstance(p, Uniform):
        return (_own_log(p.high) - _own_log(p.low)) / (p.high - p.low) - 1
    return -p.rate.log() - _EULER


def _own_log(x: Tensor) -> Tensor:
    """``x log(x)``."""
    return ops.xlogy(x, x)


def _generating(p: Any, t: Tensor) -> Tensor:
    """``E[exp(-t x)]``."""
    if isinstance(p, Normal):
        return (-t * p.loc + (t * p.scale) ** 2 / 2).exp()
    if isinstance(p, Gamma):
        return (1 + t / p.rate) ** -p.concentration
    return p.rate / (p.rate + t)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    spread = (_square(p) - 2 * q.loc * p.mean + q.loc**2) / (2 * q.scale**2)
    return (q.scale * (2 * pi) ** 0.5).log() + spread - p.entropy()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Gamma, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a, head = q.concentration, q.concentration.lgamma() - q.concentration * q.rate.log()
    return head - (a - 1) * _logarithm(p) + q.rate * p.mean - p.entropy()


@register_kl(Normal, Gumbel)
@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    steep = (q.loc / q.scale).exp() * _generating(p, 1 / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + steep - p.entropy()


@register_kl(Normal, Laplace)
def _normal_and_laplace(p: Normal, q: Laplace) -> Tensor:
    apart = (p.loc - q.loc) / p.scale
    near = (2 / pi) ** 0.5 * (-apart * apart / 2).exp() + apart * (apart / 2**0.5).erf()
    return (2 * q.scale).log() + p.scale / q.scale * near - p.entropy()


@register_kl(Uniform, Exponential)
def _uniform_and_exponential(p: Uniform, q: Exponential) -> Tensor:
    inside = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return ops.where(p.low < 0, inf, inside)


@register_kl(Bernoulli, Poisson)
def _bernoulli_and_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Pareto, Normal)
def _pareto_and_normal(p: Pareto, q: Normal) -> Tensor:
    return ops.where(p.alpha <= 2, inf, _to_normal(p, q))


@register_kl(Uniform, Gamma)
def _uniform_and_gamma(p: Uniform, q: Gamma) -> Tensor:
    return ops.where(p.low < 0, inf, _to_gamma(p, q))


@register_kl(Uniform, Pareto)
def _uniform_and_pareto(p: Uniform, q: Pareto) -> Tensor:
    head = q.alpha.log() + q.alpha * q.scale.log()
    return ops.where(p.low < q.scale, inf, (q.alpha + 1) * _logarithm(p) - head - p.entropy())


@register_kl(Uniform, Gumbel)
def _uniform_and_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    share = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return share.log() + (high + low) / 2 - share * ((-high).exp() - (-low).exp())


def _is_outside(p: Uniform) -> Tensor:
    return (p.high > 1) | (p.low < 0)


@register_kl(Uniform, Beta)
def _uniform_and_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    other = (_own_log(1 - p.low) - _own_log(1 - p.high)) / (p.high - p.low) - 1  # E[log(1 - x)]
    head = a.lgamma() + b.lgamma() - (a + b).lgamma()
    inside = head - (a - 1) * _logarithm(p) - (b - 1) * other - p.entropy()
    return ops.where(_is_outside(p), inf, inside)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    crossed = p.mean * q.logits + (-q.probs).log1p() + q.log_normalizer()
    return -p.entropy() - crossed


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_and_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    return ops.where(_is_outside(p), inf, _to_continuous_bernoulli(p, q))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _from_unit_to_uniform(p: Any, q: Uniform) -> Tensor:
    narrower = (q.low > 0) | (q.high < 1)
    return ops.where(narrower, inf, (q.high - q.low).log() - p.entropy())
