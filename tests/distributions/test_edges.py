"""Distributions where they were once wrong: what is not defined, small dtypes, ends of ranges."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.stats

import clnet
from clnet import distributions as d
from clnet.errors import ArgumentError

pytestmark = pytest.mark.device

SMALL = [clnet.float16, clnet.bfloat16]


def test_relaxed_distributions_have_no_figures_of_categories():
    binary = [d.RelaxedBernoulli(0.5, probs=p) for p in (0.2, 0.7)]
    shares = [
        d.RelaxedOneHotCategorical(0.5, probs=clnet.tensor(p)) for p in ([0.2, 0.8], [1, 1.0])
    ]
    for pair in (binary, shares):
        with pytest.raises(NotImplementedError, match="there is no formula"):
            d.kl_divergence(*pair)
        base = pair[0].base_dist
        for figure in ("mean", "variance", "mode"):
            with pytest.raises(NotImplementedError, match=figure):
                getattr(base, figure)
        for method in (base.entropy, base.enumerate_support):
            with pytest.raises(NotImplementedError):
                method()


def test_a_relaxed_distribution_expands_without_its_temperature():
    heat = clnet.tensor([0.5])
    for made in (
        d.RelaxedBernoulli(heat, probs=0.3),
        d.RelaxedOneHotCategorical(heat, probs=clnet.tensor([0.3, 0.7])),
    ):
        wide = made.expand((3,))
        assert wide.temperature is heat
        drawn = wide.sample((5,))
        assert drawn.shape == (5, 3, *made.event_shape)
        assert wide.log_prob(drawn).shape == (5, 3)


def test_transforms_to_bounds_that_are_tensors():
    low = clnet.tensor([1.0, 2.0])
    for wanted in (d.constraints.greater_than_eq(low), d.Pareto(low, clnet.ones(2)).support):
        transform = d.biject_to(wanted)
        x = clnet.tensor([-1.0, 0.5])
        np.testing.assert_allclose(transform(x).numpy(), low.numpy() + np.exp(x.numpy()))


def test_no_success_before_no_failure_is_sure():
    counts = clnet.tensor([0.0, 0.0, 2.0], requires_grad=True)
    found = d.NegativeBinomial(counts, 0.3).log_prob(clnet.tensor([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(found.detach().numpy(), [0, -np.inf, 2 * np.log(0.7)], rtol=1e-6)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("name", ["Laplace", "Gumbel", "Cauchy"])
def test_samples_of_two_bytes_are_finite(dtype, name):
    clnet.manual_seed(1)
    zero, one = clnet.zeros((), dtype=dtype), clnet.ones((), dtype=dtype)
    drawn = getattr(d, name)(zero, one).sample((1 << 18,)).double()
    assert bool(drawn.isfinite().all())


def test_laplace_far_out():
    shares = np.array([1e-30, 1e-10, 0.3, 0.5, 0.9], np.float32)
    found = d.Laplace(1.0, 2.0).icdf(clnet.tensor(shares)).numpy()
    np.testing.assert_allclose(found, scipy.stats.laplace(1, 2).ppf(shares), rtol=1e-5)


def test_gamma_samples_of_doubles_reach_below_those_of_floats():
    clnet.manual_seed(2)
    a = clnet.tensor(0.02, dtype=clnet.float64)
    drawn = d.Gamma(a, clnet.ones_like(a)).sample((4000,)).numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.gamma(0.02).cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [*SMALL, clnet.float32], ids=str)
def test_entropy_with_a_category_that_never_comes(dtype):
    logits = clnet.tensor([-np.inf, 0.0, 0.0], dtype=dtype)
    np.testing.assert_allclose(d.Categorical(logits=logits).entropy().item(), np.log(2), rtol=1e-2)


def test_an_independent_transform_tells_where_it_leads():
    shares = d.IndependentTransform(d.SigmoidTransform(), 1)
    assert bool(shares.codomain.check(clnet.tensor([0.2, 0.3])))
    assert not bool(shares.codomain.check(clnet.tensor([0.2, 1.3])))
    base = d.Independent(d.Normal(clnet.zeros(2), 1.0), 1)
    with pytest.raises(clnet.errors.ArgumentError, match="a value lies in"):
        d.TransformedDistribution(base, shares).log_prob(clnet.tensor([0.2, 1.3]))


def test_shapes_of_inverses():
    sticks = d.StickBreakingTransform()
    turned = d.ReshapeTransform((2, 3), (6,))
    for transform in (sticks, turned, d.ComposeTransform([turned, sticks])):
        x = clnet.zeros((4, 2, 3))
        shape = transform(x).shape
        assert transform.forward_shape(x.shape) == transform.inv.inverse_shape(x.shape) == shape
        assert transform.inv.forward_shape(shape) == transform.inverse_shape(shape) == x.shape
    deep = d.IndependentTransform(sticks, 1)
    assert (deep.forward_shape((4, 3)), deep.inverse_shape((4, 3))) == ((4, 4), (4, 2))


def test_sticks_of_infinite_numbers_have_no_volume():
    sticks = d.StickBreakingTransform()
    x = clnet.tensor([np.inf, 0.0])
    assert sticks.log_abs_det_jacobian(x, sticks(x)).item() == -np.inf


def test_a_wishart_distribution_inside_a_compiled_function():
    @clnet.compile
    def figure(root, x):
        return d.Wishart(4.0, scale_tril=root).log_prob(x)

    x = clnet.eye(2) * 2
    expected = d.Wishart(4.0, scale_tril=clnet.eye(2)).log_prob(x).item()
    assert figure(clnet.eye(2), x).item() == pytest.approx(expected)


def test_a_reshaped_distribution_has_its_rows_densities():
    turn = d.ReshapeTransform((3,), (3, 1))
    base = d.Normal(clnet.zeros(2, 3), clnet.ones(2, 3))
    made = d.TransformedDistribution(base, turn)
    assert (made.batch_shape, made.event_shape) == ((2,), (3, 1))
    x = clnet.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 0.0]])
    np.testing.assert_allclose(
        made.log_prob(turn(x)).numpy(), base.log_prob(x).sum(-1).numpy(), rtol=1e-6
    )
    back = d.TransformedDistribution(made, turn.inv)
    assert (back.batch_shape, back.event_shape, back.sample((5,)).shape) == ((2,), (3,), (5, 2, 3))
    wide = d.TransformedDistribution(d.Normal(clnet.zeros(3), 1.0), turn).expand((5, 2))
    assert wide.sample((4,)).shape == (4, 5, 2, 3, 1)
    with pytest.raises(clnet.errors.ArgumentError, match="x has as many axes as y"):
        assert turn.event_dim


def test_probabilities_below_need_transforms_that_grow_or_fall():
    folded = d.TransformedDistribution(d.Normal(0.0, 1.0), d.AbsTransform())
    with pytest.raises(NotImplementedError, match=r"AbsTransform\.sign"):
        folded.cdf(clnet.ones(1))
    grown = d.TransformedDistribution(d.Normal(0.0, 1.0), d.AffineTransform(0.0, -2.0).inv)
    np.testing.assert_allclose(grown.cdf(clnet.zeros(1)).item(), 0.5)


def test_a_transform_of_ones_own_says_where_it_leads():
    class Doubled(d.Transform):
        domain = codomain = d.constraints.real_vector

        def _call(self, x):
            return 2 * x

        def _inverse(self, y):
            return y / 2

        def log_abs_det_jacobian(self, x, y):
            return clnet.full(x.shape[:-1], x.shape[-1] * float(np.log(2)))

    made = d.TransformedDistribution(d.Normal(clnet.zeros(4, 3), 1.0), Doubled().with_cache())
    assert (Doubled().event_dim, made.event_shape) == (1, (3,))
    expected = d.Normal(clnet.zeros(4, 3), 2.0).log_prob(clnet.ones(4, 3)).sum(-1)
    np.testing.assert_allclose(made.log_prob(clnet.ones(4, 3)).numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("batch", [(), (2,), (1,), (3, 2), (3, 1)], ids=str)
@pytest.mark.parametrize("samples", [(), (5,), (4, 1), (0,)], ids=str)
def test_normals_of_many_variables_share_their_triangle(batch, samples):
    """Triangles of fewer axes than the means, of their number, and of one in theirs."""
    rng = np.random.default_rng(6)
    root = np.tril(rng.uniform(0.1, 1, (*batch, 4, 4))) + 2 * np.eye(4)
    loc = rng.standard_normal((3, 2, 4))
    x = rng.standard_normal((*samples, 3, 2, 4))
    made = d.MultivariateNormal(clnet.tensor(loc), scale_tril=clnet.tensor(root))
    leaf = clnet.tensor(x, requires_grad=True)
    found = made.log_prob(leaf)
    found.sum().backward()
    roots = np.broadcast_to(root, (3, 2, 4, 4))
    z = np.linalg.solve(roots, (x - loc)[..., None])
    slope = -np.linalg.solve(np.swapaxes(roots, -1, -2), z)[..., 0]
    half = np.log(np.abs(np.diagonal(roots, axis1=-2, axis2=-1))).sum(-1)
    expected = -0.5 * (z[..., 0] ** 2).sum(-1) - half - 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-9)
    np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-9)


@pytest.mark.parametrize("name", ["OneHotCategorical", "OneHotCategoricalStraightThrough"])
def test_a_vector_of_one_category_only_chooses(name):
    """It gets no gradient, and logits of categories that never come do no harm."""
    logits = clnet.tensor([0.0, 0.0, -np.inf], requires_grad=True)
    value = clnet.tensor([0.0, 1.0, 0.0], requires_grad=True)
    found = getattr(d, name)(logits=logits).log_prob(value)
    assert found.item() == pytest.approx(np.log(0.5))
    found.backward()
    assert value.grad is None
    np.testing.assert_allclose(logits.grad.numpy(), [-0.5, 0.5, 0.0], rtol=1e-6)


@pytest.mark.parametrize("name", ["Weibull", "InverseGamma"])
def test_nothing_lies_below_0(name):
    made = getattr(d, name)(clnet.tensor([0.5, 1.0, 3.0]), 2.0)
    assert made.cdf(clnet.tensor(0.0)).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ArgumentError, match="a value lies in"):
        made.cdf(clnet.tensor(-1.0))
    with pytest.raises(ArgumentError, match="a value lies in"):
        made.log_prob(clnet.tensor(0.0))


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.float64])
def test_factors_of_correlations_have_rows_of_length_1(dtype):
    made = d.LKJCholesky(3, clnet.tensor(1.5, dtype=dtype))
    factors = made.sample((100,))
    assert made.log_prob(factors).isfinite().all()
    with pytest.raises(ArgumentError, match="a value lies in CorrCholesky"):
        made.log_prob(2 * factors)
    free = clnet.tensor([0.3, -0.7, 1.1], dtype=dtype)
    found = d.biject_to(made.support)(free)
    np.testing.assert_allclose((found * found).sum(-1).numpy(), 1.0, rtol=1e-5)


def test_relaxed_distributions_say_what_their_arguments_are():
    assert d.RelaxedBernoulli.arg_constraints is d.Bernoulli.arg_constraints
    assert d.RelaxedOneHotCategorical.arg_constraints is d.Categorical.arg_constraints
    with pytest.raises(ArgumentError, match="probs lies in"):
        d.RelaxedBernoulli(0.5, probs=1.5)


@pytest.mark.parametrize("name", ["Bernoulli", "Geometric", "ContinuousBernoulli"])
def test_what_is_kept_at_the_first_sample_has_gradients(name):
    slopes = []
    for draws in (False, True):
        w = clnet.tensor([0.1, -0.7], requires_grad=True)
        made = getattr(d, name)(logits=w)
        if draws:
            made.sample()
        (made.mean if name[0] == "C" else made.entropy()).sum().backward()
        slopes.append(w.grad.numpy())
    np.testing.assert_array_equal(*slopes)
    assert np.abs(slopes[0]).min() > 1e-3


def test_lazy_properties_are_on_the_tape():
    w = clnet.ones(2, requires_grad=True)

    class Twice:
        @d.utils.lazy_property
        def value(self):
            return w * 2

    made = Twice()
    with clnet.no_grad():
        made.value  # noqa: B018 - kept from here on
    assert made.value.requires_grad


def test_covariances_may_be_small_large_and_many():
    for scale in (0.01, 100.0):
        made = d.MultivariateNormal(clnet.zeros(50), scale * clnet.eye(50))
        assert made.log_prob(clnet.zeros(50)).isfinite().item()
    x = clnet.tensor([[300.0, 100.0001], [100.0, 200.0]])  # one part of a million apart
    assert d.constraints.positive_definite.check(x).item()
    worse = clnet.stack([x + clnet.tensor([[0.0, 1.0], [0.0, 0.0]]), x - 200, -x])
    assert not d.constraints.positive_definite.check(worse).any().item()
    assert not d.constraints.positive_definite.check(clnet.ones(2, 3)).any().item()


def test_a_continuous_bernoulli_variable_of_a_large_logit_has_a_density():
    for logit, x, expected in ((50.0, 1.0, 2.7690), (-1e38, 0.0, 2.7690), (-200.0, 0.3, -57.2310)):
        w = clnet.tensor(logit, requires_grad=True)
        found = d.ContinuousBernoulli(logits=w).log_prob(clnet.tensor(x))
        assert found.item() == pytest.approx(expected, abs=1e-3)
        found.backward()
        assert w.grad.isfinite().item()


def test_the_density_of_a_gamma_variable_is_asked_at_a_number():
    found = [d.Gamma(a, 1.0).log_prob(0).item() for a in (0.5, 1.0, 2.0)]
    assert found == [np.inf, 0, -np.inf]
    assert d.Chi2(2.0).log_prob(1).item() == pytest.approx(scipy.stats.chi2(2).logpdf(1))


def test_each_element_of_a_transform_has_a_draw_of_its_own():
    normal, wide = d.Normal(0.0, 1.0), clnet.ones(5)
    for transform in (
        d.AffineTransform(clnet.zeros(5), wide),
        d.AffineTransform(clnet.zeros(5), 1.0).inv,
        d.ComposeTransform([d.ExpTransform(), d.PowerTransform(wide)]),
    ):
        made = d.TransformedDistribution(normal, transform)
        assert (made.batch_shape, made.event_shape) == ((5,), ())
        drawn = made.sample((2,))
        assert drawn.shape == (2, 5)
        assert len(set(drawn.flatten().tolist())) == 10
        assert made.log_prob(drawn).shape == (2, 5)
        assert made.expand((3, 5)).sample().shape == (3, 5)
    rows = d.AffineTransform(0.0, wide, event_dim=1)
    made = d.TransformedDistribution(normal.expand((1,)), rows)
    assert (made.batch_shape, made.event_shape) == ((), (5,))
    assert len(set(made.sample().tolist())) == 5
    with pytest.raises(ArgumentError, match="the axes that the transforms take"):
        d.TransformedDistribution(normal, rows)


def test_factors_of_matrices_have_several_origins():
    assert not d.LowerCholeskyTransform().bijective
    assert not d.ComposeTransform([d.PositiveDefiniteTransform()]).bijective


def test_inverses_of_inverses_are_what_they_were_of():
    power = d.PowerTransform(2.0).inv
    both = d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)])
    for made in (power, both, both.inv, d.ExpTransform()):
        again = made.inv
        assert again.inv is made
        assert made.inv is again
        kept = copy.deepcopy(made)
        assert kept == made
        assert kept.inv == made.inv
    assert both.inv == d.ComposeTransform([both.parts[1].inv, both.parts[0].inv])
    assert both.inv(both(clnet.tensor([0.5]))).item() == pytest.approx(0.5)
    same = d.identity_transform
    assert same.inv == same
    assert same(clnet.tensor([3.0])).item() == 3


def test_one_normal_number_makes_two_shares():
    made = d.LogisticNormal(0.2, 0.6)
    drawn = made.sample((3,))
    assert drawn.shape == (3, 2)
    assert made.log_prob(drawn).shape == (3,)


def test_classes_say_what_their_values_are():
    for made, discrete, axes in (
        (d.Uniform, False, 0),
        (d.Binomial, True, 0),
        (d.Multinomial, True, 1),
        (d.Categorical, True, 0),
        (d.OneHotCategorical, True, 1),
        (d.RelaxedOneHotCategorical, False, 1),
    ):
        assert (made.support.is_discrete, made.support.event_dim) == (discrete, axes)


@pytest.mark.parametrize("dtype", [clnet.float32, clnet.bfloat16])
def test_shares_of_small_concentrations_lie_near_the_ends(dtype):
    small = clnet.tensor(0.01, dtype=dtype)
    clnet.manual_seed(1)
    for made in (d.Beta(small, small), d.Dirichlet(small.expand(2))):
        drawn = made.sample((20_000,)).float().numpy()
        assert (drawn > 0).all()
        assert (drawn < 1).all()
        shares = drawn if drawn.ndim == 1 else drawn[:, 0]
        assert ((shares > 0.1) & (shares < 0.9)).mean() == pytest.approx(0.022, abs=0.008)
        assert (shares > 0.9).mean() == pytest.approx(0.489, abs=0.02)


def test_shares_of_small_concentrations_have_slopes():
    a = clnet.tensor(0.01, requires_grad=True)
    clnet.manual_seed(2)
    d.Beta(a, 0.02).rsample((100_000,)).mean().backward()
    assert a.grad.item() == pytest.approx(0.02 / 0.03**2, rel=0.05)
