"""Distributions of powers, and transforms of matrices, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import clnet
from clnet import distributions as d
from clnet.errors import ArgumentError, ShapeError

pytestmark = pytest.mark.device

CASES = {
    "HalfCauchy": (d.HalfCauchy(1.5), scipy.stats.halfcauchy(scale=1.5), True),
    "Pareto": (d.Pareto(1.5, 5.0), scipy.stats.pareto(5.0, scale=1.5), True),
    "Weibull": (d.Weibull(1.5, 2.5), scipy.stats.weibull_min(2.5, scale=1.5), True),
    "GeneralizedPareto": (
        d.GeneralizedPareto(0.5, 2.0, 0.2),
        scipy.stats.genpareto(0.2, loc=0.5, scale=2.0),
        True,
    ),
    "InverseGamma": (d.InverseGamma(5.0, 2.0), scipy.stats.invgamma(5.0, scale=2.0), False),
    "FisherSnedecor": (d.FisherSnedecor(6.0, 12.0), scipy.stats.f(6.0, 12.0), False),
}


@pytest.mark.parametrize("name", CASES)
def test_figures_are_scipys(name):
    ours, wanted, inverted = CASES[name]
    x = wanted.ppf([0.1, 0.4, 0.6, 0.95]).astype(np.float32)
    found = ours.log_prob(clnet.tensor(x))
    np.testing.assert_allclose(found.numpy(), wanted.logpdf(x), rtol=2e-5, atol=2e-5)
    if inverted:
        shares = ours.cdf(clnet.tensor(x))
        np.testing.assert_allclose(shares.numpy(), wanted.cdf(x), rtol=2e-5)
        np.testing.assert_allclose(ours.icdf(shares).numpy(), x, rtol=1e-3)
    mean, variance = wanted.stats("mv")
    np.testing.assert_allclose(ours.mean.item(), mean, rtol=2e-5)
    np.testing.assert_allclose(ours.variance.item(), variance, rtol=1e-4)
    if name != "FisherSnedecor":
        np.testing.assert_allclose(ours.entropy().item(), wanted.entropy(), rtol=1e-4)
    clnet.manual_seed(5)
    drawn = ours.sample((2000,)).numpy()
    assert scipy.stats.kstest(drawn, wanted.cdf).pvalue > 1e-3
    assert (ours.support.check(clnet.tensor(drawn))).all()


def test_kumaraswamy():
    ours = d.Kumaraswamy(2.0, 3.0)
    x = np.linspace(0.05, 0.95, 7).astype(np.float32)
    density = 6 * x * (1 - x**2) ** 2
    np.testing.assert_allclose(ours.log_prob(clnet.tensor(x)).numpy(), np.log(density), atol=1e-5)
    np.testing.assert_allclose(ours.cdf(clnet.tensor(x)).numpy(), 1 - (1 - x**2) ** 3, rtol=1e-5)
    grid = np.linspace(0, 1, 20001)
    weights = 6 * grid * (1 - grid**2) ** 2
    mean = np.trapezoid(grid * weights, grid)
    np.testing.assert_allclose(ours.mean.item(), mean, rtol=1e-5)
    spread = np.trapezoid((grid - mean) ** 2 * weights, grid)
    np.testing.assert_allclose(ours.variance.item(), spread, rtol=1e-4)
    clnet.manual_seed(5)
    found = ours.sample((2000,)).numpy()
    assert scipy.stats.kstest(found, lambda v: 1 - (1 - v**2) ** 3).pvalue > 1e-3


def test_modes_gradients_and_ends():
    assert d.Weibull(2.0, 1.0).mode.item() == 0
    assert d.Pareto(1.0, 0.5).mean.item() == float("inf")
    assert d.Pareto(1.0, 0.5).mode.item() == 1
    assert d.HalfCauchy(1.0).mode.item() == 0
    assert d.HalfCauchy(1.0, validate_args=False).log_prob(clnet.tensor(-1.0)).item() == -np.inf
    assert d.InverseGamma(1.0, 3.0).mode.item() == 1.5
    assert np.isnan(d.FisherSnedecor(1.0, 1.0).mode.item())
    flat = d.GeneralizedPareto(0.0, 2.0, 0.0)
    assert flat.mode.item() == 0
    np.testing.assert_allclose(flat.log_prob(clnet.tensor(3.0)).item(), -1.5 - np.log(2), rtol=1e-6)
    scale = clnet.tensor(2.0, requires_grad=True)
    d.Weibull(scale, 1.5).rsample((3,)).sum().backward()
    assert scale.grad.item() > 0
    with pytest.raises(ArgumentError, match="scale lies in"):
        d.Pareto(-1.0, 1.0)
    assert d.Pareto(1.0, 2.0).expand((3,)).sample().shape == (3,)


def test_transforms_of_matrices_and_shapes():
    x = clnet.tensor(np.random.default_rng(0).standard_normal((2, 3, 3)).astype(np.float32))
    low = d.LowerCholeskyTransform()(x)
    assert d.constraints.lower_cholesky.check(low).all()
    np.testing.assert_allclose(
        d.LowerCholeskyTransform().inv(low).numpy(), x.tril().numpy(), rtol=1e-5, atol=1e-6
    )
    whole = d.PositiveDefiniteTransform()(x)
    back = d.PositiveDefiniteTransform().inv(whole).numpy()
    np.testing.assert_allclose(back, x.tril().numpy(), rtol=1e-3, atol=1e-3)
    shares = d.SoftmaxTransform()(x)
    np.testing.assert_allclose(shares.sum(-1).numpy(), 1, rtol=1e-6)
    again = d.SoftmaxTransform()(d.SoftmaxTransform().inv(shares))
    np.testing.assert_allclose(again.numpy(), shares.numpy(), rtol=1e-5)
    turn = d.ReshapeTransform((3, 3), (9,))
    assert turn(x).shape == turn.forward_shape((2, 3, 3)) == (2, 9)
    assert turn.inv(turn(x)).tolist() == x.tolist()
    assert turn.log_abs_det_jacobian(x, turn(x)).tolist() == [0, 0]
    with pytest.raises(ShapeError, match="as many elements"):
        d.ReshapeTransform((2,), (3,))
