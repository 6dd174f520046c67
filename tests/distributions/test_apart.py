"""How far distributions of different families are from each other, beside PyTorch."""

from __future__ import annotations

import pytest

import clnet
from clnet import distributions as ours
from clnet.errors import UnsupportedError
from tests.distributions.test_distributions import close

pytestmark = pytest.mark.device

FAMILIES = {
    "Normal": lambda d, v: d.Normal(v, v + 1),
    "Laplace": lambda d, v: d.Laplace(v, v + 1),
    "Cauchy": lambda d, v: d.Cauchy(v, v + 1),
    "Gumbel": lambda d, v: d.Gumbel(v, v + 1),
    "Exponential": lambda d, v: d.Exponential(v),
    "Gamma": lambda d, v: d.Gamma(v, v + 1),
    "Beta": lambda d, v: d.Beta(v, v + 1),
    "Pareto": lambda d, v: d.Pareto(v, v + 1),
    "Uniform": lambda d, v: d.Uniform(v - 1, v + 1),
    "Bernoulli": lambda d, v: d.Bernoulli(v / 4),
    "Poisson": lambda d, v: d.Poisson(v),
    "Binomial": lambda d, v: d.Binomial(3, v / 4),
    "ContinuousBernoulli": lambda d, v: d.ContinuousBernoulli(v / 4),
    "Inside": lambda d, v: d.Uniform(v / 8, v / 4),
    "Around": lambda d, v: d.Uniform(-v, v + 1),
    "Steep": lambda d, v: d.Pareto(v, v + 1.7),
    "Above": lambda d, v: d.Uniform(v, v + 1),
}
PAIRS = """
Normal Laplace, Normal Gumbel, Laplace Normal, Cauchy Cauchy, Gumbel Normal, Exponential Normal,
Exponential Gumbel, Exponential Gamma, Gamma Exponential, Gamma Normal, Gamma Gumbel, Beta Normal,
Beta Exponential, Beta Gamma, Pareto Pareto, Uniform Exponential, Bernoulli Poisson,
Beta ContinuousBernoulli, Beta Pareto, Beta Uniform, Beta Around, ContinuousBernoulli Around,
ContinuousBernoulli ContinuousBernoulli, ContinuousBernoulli Exponential,
ContinuousBernoulli Pareto, ContinuousBernoulli Normal, ContinuousBernoulli Uniform,
Exponential Beta, Exponential Pareto,
Exponential ContinuousBernoulli, Exponential Uniform, Gamma Beta, Gamma ContinuousBernoulli,
Gamma Pareto, Gamma Uniform, Gumbel Beta, Gumbel ContinuousBernoulli, Gumbel Exponential,
Gumbel Gamma, Gumbel Pareto, Gumbel Uniform, Laplace Beta, Laplace ContinuousBernoulli,
Laplace Exponential, Laplace Gamma, Laplace Pareto, Laplace Uniform, Normal Beta, Normal Gamma,
Normal ContinuousBernoulli, Normal Exponential, Normal Pareto, Normal Uniform, Pareto Beta,
Pareto ContinuousBernoulli, Pareto Exponential, Pareto Gamma, Pareto Normal, Pareto Uniform,
Poisson Bernoulli, Poisson Binomial, Uniform Beta, Inside Beta, Uniform ContinuousBernoulli,
Inside ContinuousBernoulli, Uniform Gamma, Inside Gamma, Uniform Gumbel, Uniform Pareto,
Above Pareto, Steep Normal, Steep Exponential
"""


@pytest.mark.parametrize("pair", [tuple(pair.split()) for pair in PAIRS.split(",")], ids="-".join)
def test_divergences_between_families_are_pytorchs(pair):
    torch = pytest.importorskip("torch")
    found = []
    for library in (clnet, torch):
        values = library.tensor([0.4, 0.7, 2.5]), library.tensor([1.1, 0.2, 2.0])
        p, q = (FAMILIES[k](library.distributions, v) for k, v in zip(pair, values, strict=True))
        found.append(library.distributions.kl_divergence(p, q))
    close(*found, 1e-5)


def test_all_of_pytorchs_pairs_are_there():
    kl = pytest.importorskip("torch.distributions.kl")
    formulas = ours.divergence._FORMULAS
    mine = {tuple(kind.__name__ for kind in pair) for pair in formulas}
    theirs = {tuple(kind.__name__ for kind in pair) for pair in kl._KL_REGISTRY}
    assert theirs - mine == {("ExponentialFamily", "ExponentialFamily")}


def test_transformed_distributions_diverge_as_what_they_are_made_of():
    d = clnet.distributions
    normals = d.Normal(0.0, 1.0), d.Normal(1.0, 2.0)
    p, q = (d.TransformedDistribution(n, [d.AffineTransform(1.0, 2.0)]) for n in normals)
    assert d.kl_divergence(p, q).item() == d.kl_divergence(*normals).item()
    other = d.TransformedDistribution(normals[1], [d.AffineTransform(1.0, 3.0)])
    with pytest.raises(UnsupportedError, match=r"same transforms.*AffineTransform"):
        d.kl_divergence(p, other)
    tensors = clnet.tensor([1.0, 2.0]), clnet.tensor([1.0, 2.0])
    assert d.AffineTransform(0.0, tensors[0]) == d.AffineTransform(0.0, tensors[1])
    assert d.ExpTransform() == d.ExpTransform() != d.TanhTransform()
    assert hash(d.ExpTransform()) == hash(d.ExpTransform())
