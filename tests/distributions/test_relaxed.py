"""Relaxed categories, counts until failures, angles and others, against PyTorch and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import clnet
from clnet import distributions as ours
from clnet.errors import ArgumentError, ShapeError
from tests.answers import torch
from tests.distributions.test_distributions import close, made

pytestmark = pytest.mark.device

RNG = np.random.default_rng(0)
LOGITS = RNG.standard_normal((2, 3)).astype(np.float32)
ABOVE = np.abs(LOGITS) + np.float32(0.1)
SHARES = ABOVE / ABOVE.sum(1, keepdims=True)
T = np.array([0.7], np.float32)
FACTOR = RNG.standard_normal((2, 3, 2)).astype(np.float32)

CASES: list[tuple[str, dict[str, Any], Any, str]] = [
    (
        "NegativeBinomial",
        {
            "total_count": np.array([3, 5, 2], np.float32),
            "probs": np.array([0.2, 0.5, 0.7], np.float32),
        },
        np.array([0, 3, 7], np.float32),
        "mean variance mode logits",
    ),
    (
        "OneHotCategoricalStraightThrough",
        {"probs": SHARES},
        np.eye(3, dtype=np.float32)[[2, 0]],
        "entropy mean",
    ),
    ("RelaxedBernoulli", {"temperature": T, "logits": LOGITS}, SHARES, "probs"),
    ("RelaxedOneHotCategorical", {"temperature": T, "logits": LOGITS}, SHARES, "probs"),
    (
        "LogisticNormal",
        {"loc": LOGITS, "scale": ABOVE},
        np.array([[0.2, 0.3, 0.4, 0.1]] * 2, np.float32),
        "loc scale",
    ),
    ("VonMises", {"loc": LOGITS, "concentration": ABOVE * 5}, LOGITS[::-1], "mean variance"),
    (
        "LowRankMultivariateNormal",
        {"loc": LOGITS, "cov_factor": FACTOR, "cov_diag": ABOVE},
        LOGITS * 2,
        "mean variance entropy covariance_matrix scale_tril",
    ),
]


@pytest.mark.parametrize(("name", "given", "value", "has"), CASES, ids=[c[0] for c in CASES])
def test_figures_are_pytorchs(name, given, value, has):
    pytest.importorskip("torch")
    mine, leaves = made(clnet, name, given, grad=True)
    theirs, others = made(torch, name, given, grad=True)
    assert tuple(mine.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(mine.event_shape) == tuple(theirs.event_shape)
    value = np.ascontiguousarray(value)
    my_p, their_p = mine.log_prob(clnet.tensor(value)), theirs.log_prob(torch.tensor(value))
    close(my_p, their_p)
    my_p.sum().backward()
    their_p.sum().backward()
    for a, b in zip(leaves, others, strict=True):
        close(a.grad, b.grad, 2e-4)
    for figure in has.split():
        got, expected = getattr(mine, figure), getattr(theirs, figure)
        close(*(f() if callable(f) else f for f in (got, expected)))


def test_counts_until_failures_are_distributed_as_scipys():
    clnet.manual_seed(2)
    drawn = ours.NegativeBinomial(3.0, 0.6).sample((20_000,)).numpy()
    values, counts = np.unique(drawn, return_counts=True)
    often = counts > 50
    expected = scipy.stats.nbinom(3, 0.4).pmf(values[often]) * len(drawn)
    assert ((counts[often] - expected) ** 2 / expected).mean() < 2


@pytest.mark.parametrize("concentration", [0.05, 1.5, 40.0])
def test_angles_are_distributed_as_scipys(concentration):
    clnet.manual_seed(3)
    drawn = ours.VonMises(0.5, concentration).sample((20_000,)).numpy()
    assert (np.abs(drawn) <= np.pi + 1e-6).all()
    turned = np.remainder(drawn - 0.5 + np.pi, 2 * np.pi) - np.pi
    assert scipy.stats.kstest(turned, scipy.stats.vonmises(concentration).cdf).pvalue > 1e-3


def test_relaxed_samples():
    clnet.manual_seed(4)
    logits = clnet.tensor(LOGITS, requires_grad=True)
    near = ours.RelaxedBernoulli(0.05, logits=logits).rsample((4000,))
    assert near.shape == (4000, 2, 3)
    share = (near.detach() > 0.5).float().mean(0)
    assert (abs(share.numpy() - 1 / (1 + np.exp(-LOGITS))) < 0.04).all()
    near.mean().backward()
    assert bool((logits.grad != 0).all())
    shares = ours.RelaxedOneHotCategorical(clnet.tensor(0.5), logits=logits).rsample((4000,))
    assert np.allclose(shares.sum(-1).detach().numpy(), 1, atol=1e-5)
    chosen = (shares.argmax(-1, keepdim=True) == clnet.arange(3)).float().mean(0).numpy()
    exact = np.exp(LOGITS) / np.exp(LOGITS).sum(1, keepdims=True)
    assert (abs(chosen - exact) < 0.04).all()


def test_straight_through_samples_pass_gradients_to_probabilities():
    logits = clnet.tensor(LOGITS, requires_grad=True)
    x = ours.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert np.allclose(x.sum(-1).detach().numpy(), 1)
    (x * clnet.tensor([1.0, 2.0, 3.0])).sum().backward()
    p = clnet.softmax(logits.detach(), -1)
    weight = clnet.tensor([1.0, 2.0, 3.0])
    expected = p * (weight - (p * weight).sum(-1, keepdim=True))
    close(logits.grad, expected)


def test_normals_of_low_rank_have_their_covariance():
    clnet.manual_seed(5)
    given = (clnet.tensor(a) for a in (LOGITS, FACTOR, ABOVE))
    found = ours.LowRankMultivariateNormal(*given)
    drawn = found.sample((20_000,)).numpy()
    exact = found.covariance_matrix.numpy()
    for k in range(2):
        assert np.abs(np.cov(drawn[:, k].T) - exact[k]).max() < 0.1 * np.abs(exact[k]).max()
    close(found.precision_matrix @ found.covariance_matrix, clnet.eye(3).expand(2, 3, 3), 1e-4)


@pytest.mark.parametrize("name", ["biject_to", "transform_to"])
@pytest.mark.parametrize("wanted", ["real", "positive", "unit_interval", "simplex", "real_vector"])
def test_transforms_to_constraints(name, wanted):
    mine = getattr(ours, name)(getattr(ours.constraints, wanted))
    theirs = getattr(torch.distributions, name)(getattr(torch.distributions.constraints, wanted))
    found = mine(clnet.tensor(LOGITS))
    close(found, theirs(torch.tensor(LOGITS)))
    assert bool(getattr(ours.constraints, wanted).check(found).all())


def test_transforms_to_bounds():
    x = clnet.tensor(LOGITS)
    for bound in (
        ours.constraints.greater_than(2.0),
        ours.constraints.less_than(-1.0),
        ours.constraints.interval(-1.0, 3.0),
    ):
        transform = ours.biject_to(bound)
        assert bool(bound.check(transform(x)).all())
        close(transform.inv(transform(x)), x, 1e-4)
    with pytest.raises(NotImplementedError, match="no transform to Boolean"):
        ours.biject_to(ours.constraints.boolean)
    with pytest.raises(ArgumentError, match="it takes a constraint"):
        ours.biject_to(3)
    assert ours.identity_transform(x) is x


def test_a_transform_for_each_stretch():
    def both(library, x):
        d = library.distributions
        cat = d.CatTransform(
            [d.transforms.ExpTransform(), d.transforms.SigmoidTransform()], 1, [1, 2]
        )
        stack = d.StackTransform([d.transforms.ExpTransform(), d.identity_transform], 0)
        return [
            part
            for t in (cat, stack)
            for part in (t(x), t.inv(t(x)), t.log_abs_det_jacobian(x, t(x)))
        ]

    found, expected = both(clnet, clnet.tensor(LOGITS)), both(torch, torch.tensor(LOGITS))
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    with pytest.raises(ArgumentError, match="a length for each transform"):
        ours.CatTransform([ours.ExpTransform()], 0, [1, 2])
    with pytest.raises(ShapeError, match="the lengths' sum"):
        ours.CatTransform([ours.ExpTransform()], 0, [5])(clnet.tensor(LOGITS))


def test_probabilities_as_a_transform():
    transform = ours.CumulativeDistributionTransform(ours.Normal(0.5, 2.0))
    x = clnet.tensor(LOGITS)
    y = transform(x)
    np.testing.assert_allclose(y.numpy(), scipy.stats.norm(0.5, 2).cdf(LOGITS), rtol=1e-5)
    close(transform.inv(y), x, 1e-4)
    close(transform.log_abs_det_jacobian(x, y), ours.Normal(0.5, 2.0).log_prob(x))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ArgumentError, match="one of probs and logits"):
        ours.NegativeBinomial(3.0)
    with pytest.raises(ArgumentError, match="have one k"):
        ours.LowRankMultivariateNormal(clnet.ones(3), clnet.ones(2, 1), clnet.ones(3))
    with pytest.raises(ArgumentError, match="cov_factor"):
        ours.LowRankMultivariateNormal(clnet.ones(3), clnet.ones(3), clnet.ones(3))


def test_heirs_find_parameters_of_the_class_above():
    class OneHot(ours.OneHotCategorical):
        def mode(self):  # pyrefly: ignore[bad-override] - as Dreamer has it
            most = super().logits.argmax(-1)
            return clnet.nn.functional.one_hot(most, super().probs.shape[-1])

    class Coin(ours.Bernoulli):
        def both(self):
            return super().logits.item(), super().probs.item()

    assert OneHot(logits=clnet.tensor([0.0, 2.0, 1.0])).mode().tolist() == [0, 1, 0]
    assert Coin(probs=clnet.tensor(0.5)).both() == (0.0, 0.5)
    assert Coin(logits=clnet.tensor(0.0)).both() == (0.0, 0.5)
    with pytest.raises(AttributeError):
        _ = ours.Bernoulli(0.5).nothing
