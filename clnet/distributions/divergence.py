"""How far one distribution is from another, where a formula says it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

from .. import ops
from ..errors import ArgumentError, UnsupportedError
from ..tensor import Tensor
from ..values.arguments import checked
from .composed import Independent, LogNormal, MultivariateNormal, TransformedDistribution
from .continuous import Cauchy, Exponential, Gumbel, HalfNormal, Laplace, Normal, Uniform
from .counts import Binomial, Poisson
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from .distribution import Distribution, summed
from .gammas import Beta, Dirichlet, Gamma
from .matrices import Wishart, log_gammas
from .relaxed import LowRankMultivariateNormal
from .tails import Pareto

Formula = Callable[[Any, Any], Tensor]
_EULER = 0.5772156649015329
_FORMULAS: dict[tuple[type, type], Formula] = {}
_KL_REGISTRY = _FORMULAS  # PyTorch's name


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Declare a formula of :func:`kl_divergence` for two classes and those below them."""

    def declare(formula: Formula) -> Formula:
        _FORMULAS[type_p, type_q] = formula
        return formula

    return declare


@checked
def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """``E[log p(x) - log q(x)]`` of values ``x`` of ``p``.

    Args:
        p: one distribution.
        q: another.

    Returns:
        Of the batch's shape.

    Raises:
        UnsupportedError: if there is no formula for their classes.

    Example:
        >>> round(kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)).item(), 4)
        0.5
    """
    for kind in type(p).__mro__:
        for other in type(q).__mro__:
            formula = _FORMULAS.get((kind, other))
            if formula is not None:
                return formula(p, q)
    law = f"there is no formula for {type(p).__name__} and {type(q).__name__}"
    remedy = "Declare one with register_kl, or average p.log_prob(x) - q.log_prob(x) over samples"
    raise UnsupportedError("kl_divergence", law, remedy=remedy)


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    apart = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normals(p: LogNormal, q: LogNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    first, second = p.loc / q.scale, q.loc / q.scale
    inside = -ratio.log() - second + first
    return inside + ratio * _EULER + (second + (1 + ratio).lgamma() - first).exp() - (1 + _EULER)


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    inside = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), inf, inside)


@register_kl(Uniform, Normal)
def _uniform_and_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    apart = ((p.high + p.low - 2 * q.loc) / 2) ** 2
    spread = (width * width / 12 + apart) / (2 * q.scale * q.scale)
    return (q.scale * (2 * pi) ** 0.5 / width).log() + spread


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return first + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    total, other = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    first = q.concentration1.lgamma() + q.concentration0.lgamma() + total.lgamma()
    second = p.concentration1.lgamma() + p.concentration0.lgamma() + other.lgamma()
    third = (p.concentration1 - q.concentration1) * p.concentration1.digamma()
    fourth = (p.concentration0 - q.concentration0) * p.concentration0.digamma()
    return first - second + third + fourth + (other - total) * total.digamma()


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return first + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (ops.softplus(-q.logits) - ops.softplus(-p.logits))
    other = (1 - p.probs) * (ops.softplus(q.logits) - ops.softplus(p.logits))
    one = ops.where(ops.eq(q.probs, 0), inf, one)
    other = ops.where(ops.eq(q.probs, 1), inf, other)
    # What p never gives counts for nothing, also where q never gives it.
    return ops.where(ops.eq(p.probs, 0), 0.0, one) + ops.where(ops.eq(p.probs, 1), 0.0, other)


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    inside = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return ops.where(p.total_count > q.total_count, inf, p.total_count * inside)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categoricals(p: Categorical, q: Categorical) -> Tensor:
    inside = p.probs * (p.logits - q.logits)
    inside = ops.where(ops.eq(q.probs, 0), inf, inside)
    return ops.where(ops.eq(p.probs, 0), 0.0, inside).sum(-1)


register_kl(OneHotCategorical, OneHotCategorical)(_categoricals)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ArgumentError(
            "kl_divergence", "events have one shape", p=p.event_shape, q=q.event_shape
        )
    half = q.half_log_det() - p.half_log_det()
    # Not `solve`, which takes a matrix for vectors where it has the shape of a batch of them.
    turned = ops.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    apart = ops.solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    spread = (turned * turned).sum((-2, -1)) + (apart * apart).sum((-2, -1))
    return half + 0.5 * (spread - p.event_shape[0])


@register_kl(Wishart, Wishart)
def _wisharts(p: Wishart, q: Wishart) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ArgumentError(
            "kl_divergence", "events have one shape", p=p.event_shape, q=q.event_shape
        )
    k = p.event_shape[0]
    roots = ops.broadcast_tensors(q.scale_tril.tril(), p.scale_tril.tril())
    turned = ops.solve_triangular(*roots, upper=False)
    scales = q.df * (q.half_log_det() - p.half_log_det())
    spread = 0.5 * p.df * ((turned * turned).sum((-2, -1)) - k)
    slope = (0.5 * p.degrees()).digamma().sum(-1)
    constants = log_gammas(0.5 * q.df, k) - log_gammas(0.5 * p.df, k)
    return scales + spread + constants + 0.5 * (p.df - q.df) * slope


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        axes = (p.reinterpreted_batch_ndims, q.reinterpreted_batch_ndims)
        raise UnsupportedError("kl_divergence", "events have the same axes", axes=axes)
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Pareto, Pareto)
def _paretos(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    inside = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, inf, inside)


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy, q: Cauchy) -> Tensor:
    apart = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return apart.log() - (4 * p.scale * q.scale).log()


def _as_full(p: Any) -> MultivariateNormal:
    """The same distribution by its whole covariance."""
    if isinstance(p, MultivariateNormal):
        return p
    return MultivariateNormal(p.loc, p.covariance_matrix, validate_args=False)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _of_low_rank(p: Any, q: Any) -> Tensor:
    return _multivariate_normals(_as_full(p), _as_full(q))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if list(p.transforms) != list(q.transforms) or p.event_shape != q.event_shape:
        law = "the same transforms of two distributions, with events of one shape"
        kinds = [[type(t).__name__ for t in d.transforms] for d in (p, q)]
        shapes = [tuple(d.event_shape) for d in (p, q)]
        raise UnsupportedError("kl_divergence", law, transforms=kinds, event_shapes=shapes)
    return kl_divergence(p.base_dist, q.base_dist)
