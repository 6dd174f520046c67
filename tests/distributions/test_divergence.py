"""Divergences, and supports, at the edges of what distributions give, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import distributions as ours
from clnet.errors import ArgumentError

torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")

pytestmark = pytest.mark.device


def test_what_is_never_given_diverges_by_nothing():
    """Of certain events on one side, the other, or both, with gradients."""
    found = []
    for library in (clnet, torch):
        p = library.tensor([0.0, 0.0, 1.0, 1.0, 0.3, 0.0, 1.0], requires_grad=True)
        q = library.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 0.2, 0.2])
        d = library.distributions
        apart = d.kl_divergence(d.Bernoulli(p), d.Bernoulli(q))
        apart[-2:].sum().backward()
        found.append([apart.detach().numpy(), p.grad.numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_one_of_several_variables_diverges_from_a_batch_of_as_many():
    found = []
    for library in (clnet, torch):
        d, root = library.distributions, library.tensor([[1.5, 0.0], [0.3, 1.0]])
        one = d.MultivariateNormal(library.zeros(2), scale_tril=root)
        two = d.MultivariateNormal(
            library.ones(2, 2), scale_tril=library.stack([root, root.T @ root]).tril()
        )
        found.append(library.stack([d.kl_divergence(one, two), d.kl_divergence(two, one)]))
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-5)


def test_a_wishart_distribution_diverges_from_a_batch_of_them():
    """Against the integral's definition, by many samples; and from itself by nothing."""
    clnet.manual_seed(3)
    root = clnet.tensor([[1.5, 0.0], [0.3, 1.0]], dtype=clnet.float64)
    one = ours.Wishart(4.5, scale_tril=root)
    roots = clnet.stack([root, (root.T @ root).tril()])
    two = ours.Wishart(clnet.tensor([6.0, 3.5], dtype=clnet.float64), scale_tril=roots)
    x = one.sample((40_000, 1))
    for p, q in ((one, one), (one, two)):
        found = ours.kl_divergence(p, q).numpy()
        wanted = (p.log_prob(x) - q.log_prob(x)).mean(0).numpy()
        np.testing.assert_allclose(found, wanted, atol=0.05)
    with pytest.raises(ArgumentError, match="events have one shape"):
        ours.kl_divergence(one, ours.Wishart(4.0, scale_tril=clnet.eye(3)))


def test_shares_that_do_not_sum_to_one_are_refused():
    shares = ours.RelaxedOneHotCategorical(0.5, clnet.tensor([0.2, 0.8]))
    assert repr(shares.support) == "Simplex()"
    shares.log_prob(shares.sample((5,)))
    with pytest.raises(ArgumentError, match="a value lies in Simplex"):
        shares.log_prob(clnet.tensor([0.5, 0.9]))


def test_values_are_listed_where_no_axis_is_reinterpreted():
    for library in (clnet, torch):
        d = library.distributions
        base = d.Bernoulli(library.tensor([0.2, 0.5]))
        alone, together = (d.Independent(base, axes) for axes in (0, 1))
        assert alone.enumerate_support().tolist() == [[0, 0], [1, 1]]
        assert alone.has_enumerate_support
        assert not together.has_enumerate_support
        with pytest.raises(NotImplementedError):
            together.enumerate_support()
