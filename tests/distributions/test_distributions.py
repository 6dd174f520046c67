"""``clnet.distributions`` against PyTorch's, its samples against SciPy's distributions."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.stats

import clnet
from clnet import distributions as ours
from clnet.distributions import constraint
from clnet.errors import ArgumentError, ClnetError, DtypeError, ShapeError, UnsupportedError

pytestmark = pytest.mark.device

RNG = np.random.default_rng(0)
LOC = RNG.standard_normal((3, 2)).astype(np.float32)
SCALE = (RNG.random((3, 2)) + 0.5).astype(np.float32)
RATE = np.array([0.4, 1.0, 7.5], np.float32)
SHARE = np.array([0.2, 0.5, 0.9], np.float32)
SHARES = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]], np.float32)
LOGITS = RNG.standard_normal((2, 3)).astype(np.float32)
ROOT = np.array([[1.0, 0, 0], [0.5, 0.8, 0], [-0.3, 0.2, 1.2]], np.float32)
REAL = RNG.standard_normal((4, 3, 2)).astype(np.float32)
ABOVE = np.array([[0.3, 2.0, 5.0], [0.01, 1.0, 12.0]], np.float32)
INSIDE = np.array([[0.3, 0.5, 0.99], [0.01, 0.4, 0.6]], np.float32)
COUNTS = np.array([[0, 2, 5], [1, 0, 3]], np.float32)

# Name, parameters, values, and what PyTorch has of it.
CASES: list[tuple[str, dict[str, Any], np.ndarray, str]] = [
    ("Normal", {"loc": LOC, "scale": SCALE}, REAL, "entropy mean mode variance stddev cdf icdf"),
    ("LogNormal", {"loc": LOC, "scale": SCALE}, abs(REAL), "entropy mean mode variance cdf icdf"),
    ("Laplace", {"loc": LOC, "scale": SCALE}, REAL, "entropy mean mode variance cdf icdf"),
    ("Cauchy", {"loc": LOC, "scale": SCALE}, REAL, "entropy mode cdf icdf"),
    ("Gumbel", {"loc": LOC, "scale": SCALE}, REAL, "entropy mean mode variance cdf icdf"),
    (
        "Uniform",
        {"low": LOC, "high": LOC + SCALE},
        LOC + SCALE * 0.3,
        "entropy mean variance cdf icdf",
    ),
    ("Exponential", {"rate": RATE}, ABOVE, "entropy mean mode variance cdf icdf"),
    ("HalfNormal", {"scale": RATE}, ABOVE, "entropy mean mode variance cdf icdf"),
    (
        "Gamma",
        {"concentration": RATE, "rate": RATE[::-1].copy()},
        ABOVE,
        "entropy mean mode variance",
    ),
    ("Chi2", {"df": RATE}, ABOVE, "entropy mean variance df"),
    ("Beta", {"concentration1": RATE, "concentration0": RATE + 1}, INSIDE, "entropy mean variance"),
    ("StudentT", {"df": RATE, "loc": 0.5, "scale": 2.0}, ABOVE, "entropy mode variance"),
    ("Dirichlet", {"concentration": SHARES * 5}, SHARES, "entropy mean variance"),
    ("Bernoulli", {"probs": SHARE}, COUNTS.clip(max=1), "entropy mean mode variance logits"),
    ("Bernoulli", {"logits": LOGITS}, COUNTS.clip(max=1), "entropy mean variance probs"),
    ("Geometric", {"probs": SHARE}, COUNTS, "entropy mean mode variance logits"),
    ("Binomial", {"total_count": 6, "probs": SHARE}, COUNTS, "mean mode variance logits"),
    ("Poisson", {"rate": RATE}, COUNTS, "mean mode variance"),
    ("Categorical", {"probs": SHARES * 2}, np.array([2, 0]), "entropy mode logits probs"),
    ("Categorical", {"logits": LOGITS}, np.array([[2, 0], [1, 1]]), "entropy mode logits probs"),
    (
        "OneHotCategorical",
        {"probs": SHARES},
        np.eye(3, dtype=np.float32)[[2, 0]],
        "entropy mean mode",
    ),
    (
        "ContinuousBernoulli",
        {"probs": np.array([0.2, 0.4995, 0.9], np.float32)},
        np.array([0.0, 0.3, 1.0], np.float32),
        "entropy mean variance stddev cdf icdf logits",
    ),
    (
        "ContinuousBernoulli",
        {"logits": np.array([-2.0, 0.5, 1.5], np.float32)},
        np.array([0.2, 0.3, 0.9], np.float32),
        "entropy mean variance cdf icdf probs",
    ),
    (
        "Multinomial",
        {"total_count": 5, "probs": SHARES},
        np.array([2, 2, 1.0], np.float32),
        "mean variance",
    ),
    (
        "MultivariateNormal",
        {"loc": LOGITS, "scale_tril": ROOT},
        LOGITS[::-1] * 2,
        "entropy mean variance covariance_matrix",
    ),
    (
        "MultivariateNormal",
        {"loc": LOGITS, "covariance_matrix": ROOT @ ROOT.T},
        LOGITS * 2,
        "entropy scale_tril precision_matrix",
    ),
]
IDS = [f"{name}-{'-'.join(given)}" for name, given, _, _ in CASES]


def made(
    library: Any, name: str, given: dict[str, Any], *, grad: bool = False
) -> tuple[Any, list[Any]]:
    tensors = {
        k: library.tensor(v, requires_grad=grad) if isinstance(v, np.ndarray) else v
        for k, v in given.items()
    }
    leaves = [t for t in tensors.values() if hasattr(t, "detach")]
    return getattr(library.distributions, name)(**tensors), leaves


def close(got: Any, expected: Any, rtol: float = 3e-5) -> None:
    np.testing.assert_allclose(
        np.asarray(got.detach()), np.asarray(expected.detach()), rtol=rtol, atol=2e-5
    )


@pytest.mark.parametrize(("name", "given", "value", "has"), CASES, ids=IDS)
def test_figures_are_pytorchs(name, given, value, has):
    torch = pytest.importorskip("torch")
    (mine, leaves), (theirs, others) = (
        made(clnet, name, given, grad=True),
        made(torch, name, given, grad=True),
    )
    value = np.ascontiguousarray(value)
    assert tuple(mine.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(mine.event_shape) == tuple(theirs.event_shape)
    mine_p, their_p = mine.log_prob(clnet.tensor(value)), theirs.log_prob(torch.tensor(value))
    close(mine_p, their_p)
    mine_p.sum().backward()
    their_p.sum().backward()
    for a, b in zip(leaves, others, strict=True):
        close(a.grad, b.grad, 2e-4)
    for figure in has.split():
        got, expected = getattr(mine, figure), getattr(theirs, figure)
        if figure in ("cdf", "icdf"):
            at = value if figure == "cdf" else np.full(theirs.batch_shape, 0.3, np.float32)
            close(got(clnet.tensor(at)), expected(torch.tensor(at)))
        else:
            close(*(f() if callable(f) else f for f in (got, expected)))


@pytest.mark.parametrize(("name", "given", "value", "has"), CASES, ids=IDS)
def test_samples_have_their_shape_and_mean(name, given, value, has):
    clnet.manual_seed(3)
    found, _ = made(clnet, name, given)
    whole = (4000, *found.batch_shape, *found.event_shape)
    drawn = found.sample((4000,))
    assert tuple(drawn.shape) == whole
    assert not drawn.requires_grad
    assert bool(found.support.check(drawn).all().item())
    assert tuple(found.sample().shape) == whole[1:]
    wider = found.expand((2, *found.batch_shape))
    assert tuple(wider.sample((3,)).shape) == (3, 2, *whole[1:])
    close(wider.log_prob(drawn[0])[1], found.log_prob(drawn[0]))
    if name not in ("Cauchy", "Categorical", "StudentT"):
        spread = np.asarray(found.variance) ** 0.5
        assert (abs(drawn.numpy().mean(0) - np.asarray(found.mean)) < 6 * spread / 4000**0.5).all()
        assert np.allclose(drawn.numpy().std(0), spread, rtol=0.25, atol=0.02)


KOLMOGOROV = [
    (lambda: ours.Gamma(0.3, 2.0), scipy.stats.gamma(0.3, scale=0.5)),
    (lambda: ours.Gamma(30.0, 2.0), scipy.stats.gamma(30, scale=0.5)),
    (lambda: ours.Beta(0.7, 2.5), scipy.stats.beta(0.7, 2.5)),
    (lambda: ours.StudentT(3.0), scipy.stats.t(3)),
    (lambda: ours.Cauchy(1.0, 2.0), scipy.stats.cauchy(1, 2)),
    (lambda: ours.Gumbel(1.0, 2.0), scipy.stats.gumbel_r(1, 2)),
]


@pytest.mark.parametrize(("make", "reference"), KOLMOGOROV)
def test_samples_are_distributed_as_scipys(make, reference):
    clnet.manual_seed(7)
    drawn = make().sample((20_000,)).numpy()
    assert scipy.stats.kstest(drawn, reference.cdf).pvalue > 1e-3


@pytest.mark.parametrize("rate", [0.7, 9.0, 40.0, 3000.0])
def test_counts_are_distributed_as_scipys(rate):
    clnet.manual_seed(1)
    drawn = ours.Poisson(rate).sample((20_000,)).numpy()
    values, counts = np.unique(drawn, return_counts=True)
    reference = scipy.stats.poisson(rate)
    often = counts > 50
    expected = reference.pmf(values[often]) * len(drawn)
    assert ((counts[often] - expected) ** 2 / expected).mean() < 2
    assert abs(drawn.mean() - rate) < 5 * (rate / 20_000) ** 0.5


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Gumbel", "LogNormal"])
def test_gradients_flow_through_samples(name):
    found, (loc, scale) = made(clnet, name, {"loc": LOC, "scale": SCALE}, grad=True)
    clnet.manual_seed(2)
    x = found.rsample((5,))
    x.sum().backward()
    z = x.detach().log() if name == "LogNormal" else x.detach()
    slope = x.detach() if name == "LogNormal" else clnet.ones_like(x)
    close(loc.grad, slope.sum(0))
    close(scale.grad, (slope * (z - loc.detach()) / scale.detach()).sum(0), 1e-4)


def test_gamma_samples_have_gradients_to_the_rate():
    rate = clnet.tensor([2.0], requires_grad=True)
    x = ours.Gamma(clnet.tensor([3.0]), rate).rsample((4,))
    x.sum().backward()
    close(rate.grad, -x.detach().sum(0) / 2)
    with pytest.raises(NotImplementedError, match=r"Poisson.rsample: .*no gradients. Use sample"):
        ours.Poisson(1.0).rsample()


@pytest.mark.parametrize("concentration", [0.01, 0.3, 1.0, 4.0, 9.0, 200.0])
def test_gamma_samples_move_with_the_concentration_at_the_same_probability(concentration):
    """``dx / da = -(dF / da) / (dF / dx)`` of the distribution function."""
    a = clnet.full((400,), concentration, dtype=clnet.float64, requires_grad=True)
    clnet.manual_seed(5)
    drawn = ours.Gamma(a, 1.0).rsample()
    drawn.sum().backward()
    x, step = drawn.detach().numpy(), 1e-4 * concentration
    inside = (x > 1e-30) & (scipy.stats.gamma.pdf(x, concentration) > 1e-9)
    x = x[inside]
    above, below = (scipy.stats.gamma.cdf(x, concentration + k * step) for k in (1, -1))
    expected = -(above - below) / (2 * step) / scipy.stats.gamma.pdf(x, concentration)
    assert len(x) > 200 or concentration < 0.1
    np.testing.assert_allclose(a.grad.numpy()[inside], expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("Beta", lambda a: 1 / (a + 1) ** 2),  # of a / (a + 1)
        ("Chi2", lambda a: 1.0),
        ("InverseGamma", lambda a: -1 / (a - 1) ** 2),  # of 1 / (a - 1)
        ("Dirichlet", lambda a: 1 / (a + 1) ** 2),
    ],
)
def test_means_of_what_is_made_of_gammas_move_as_they_should(name, mean):
    a = clnet.tensor(4.0, requires_grad=True)
    one = clnet.ones(())
    clnet.manual_seed(6)
    if name == "Dirichlet":
        drawn = ours.Dirichlet(clnet.stack([a, one])).rsample((100_000,))[:, 0]
    elif name == "Chi2":
        drawn = ours.Chi2(a).rsample((100_000,))
    else:
        drawn = getattr(ours, name)(a, one).rsample((100_000,))
    drawn.mean().backward()
    assert a.grad.item() == pytest.approx(mean(4.0), rel=0.05)


KL = [
    ("Normal", {"loc": LOC, "scale": SCALE}, {"loc": LOC * 2, "scale": SCALE + 1}),
    ("LogNormal", {"loc": LOC, "scale": SCALE}, {"loc": LOC * 2, "scale": SCALE + 1}),
    ("HalfNormal", {"scale": SCALE}, {"scale": SCALE + 1}),
    ("Laplace", {"loc": LOC, "scale": SCALE}, {"loc": LOC * 2, "scale": SCALE + 1}),
    ("Gumbel", {"loc": LOC, "scale": SCALE}, {"loc": LOC * 2, "scale": SCALE + 1}),
    ("Exponential", {"rate": RATE}, {"rate": RATE[::-1].copy()}),
    ("Gamma", {"concentration": RATE, "rate": RATE}, {"concentration": RATE + 1, "rate": RATE * 2}),
    (
        "Beta",
        {"concentration1": RATE, "concentration0": RATE},
        {"concentration1": RATE + 1, "concentration0": RATE * 2},
    ),
    ("Dirichlet", {"concentration": SHARES * 5}, {"concentration": SHARES + 2}),
    ("Bernoulli", {"probs": SHARE}, {"probs": SHARE[::-1].copy()}),
    (
        "Binomial",
        {"total_count": 3, "probs": SHARE},
        {"total_count": 3, "probs": SHARE[::-1].copy()},
    ),
    ("Geometric", {"probs": SHARE}, {"probs": SHARE[::-1].copy()}),
    ("Poisson", {"rate": RATE}, {"rate": RATE + 1}),
    ("Categorical", {"probs": SHARES}, {"logits": LOGITS}),
    ("OneHotCategorical", {"probs": SHARES}, {"logits": LOGITS}),
    ("Uniform", {"low": LOC, "high": LOC + 1}, {"low": LOC - 1, "high": LOC + SCALE + 0.5}),
    (
        "MultivariateNormal",
        {"loc": LOGITS, "scale_tril": ROOT},
        {"loc": LOGITS * 2, "scale_tril": ROOT * 2},
    ),
]


@pytest.mark.parametrize(("name", "p", "q"), KL, ids=[name for name, _, _ in KL])
def test_divergences_are_pytorchs(name, p, q):
    torch = pytest.importorskip("torch")
    found = [
        library.distributions.kl_divergence(made(library, name, p)[0], made(library, name, q)[0])
        for library in (clnet, torch)
    ]
    close(*found, 1e-4)


def test_divergences_between_kinds():
    torch = pytest.importorskip("torch")
    found = []
    for library in (clnet, torch):
        d = library.distributions
        found.append(d.kl_divergence(d.Uniform(0.5, 2.0), d.Normal(0.3, 1.5)))
        base = [d.Normal(library.tensor(LOC), library.tensor(SCALE * s)) for s in (1, 2)]
        found.append(d.kl_divergence(*(d.Independent(b, 1) for b in base)))
    close(found[0], found[2])
    close(found[1], found[3])
    with pytest.raises(UnsupportedError, match=r"no formula for Normal and Poisson.*register_kl"):
        ours.kl_divergence(ours.Normal(0.0, 1.0), ours.Poisson(1.0))


def test_mixtures_independent_axes_and_transforms():
    torch = pytest.importorskip("torch")
    found: list[list[Any]] = []
    for library in (clnet, torch):
        d, t = library.distributions, library.distributions.transforms
        loc, scale = library.tensor(LOC), library.tensor(SCALE)
        value = library.tensor(REAL)
        parts = d.Independent(d.Normal(loc, scale), 1)
        mixture = d.MixtureSameFamily(d.Categorical(library.tensor(SHARE)), parts)
        flat = d.MixtureSameFamily(
            d.Categorical(library.tensor(SHARES)), d.Normal(library.tensor(LOGITS), 0.7)
        )
        chain = [t.AffineTransform(0.5, 2.0), t.TanhTransform()]
        turned = d.TransformedDistribution(d.Normal(loc, scale), chain)
        one = library.tensor(LOGITS)
        sticks = d.TransformedDistribution(
            d.Independent(d.Normal(one, library.ones_like(one)), 1), [t.StickBreakingTransform()]
        )
        more = [
            t.SigmoidTransform(),
            t.SoftplusTransform(),
            t.ExpTransform(),
            t.PowerTransform(2.0),
        ]
        figures = [
            parts.log_prob(value),
            parts.entropy(),
            mixture.log_prob(value[:, 0]),
            mixture.mean,
        ]
        figures += [mixture.variance, flat.log_prob(value[0, :2, 0]), flat.cdf(value[0, :2, 0])]
        figures += [turned.log_prob(value.tanh()), turned.cdf(value.tanh())]
        figures += [turned.icdf(library.tensor(INSIDE[:, :2].repeat(2, 0)[:3]))]
        y = t.StickBreakingTransform()(one)
        figures += [y, t.StickBreakingTransform().inv(y), sticks.log_prob(y)]
        for transform in (*more, t.ComposeTransform([t.AffineTransform(1.0, -2.0), more[0]])):
            x = value.abs() + 0.1
            figures += [transform(x), transform.inv(transform(x))]
            figures += [transform.log_abs_det_jacobian(x, transform(x))]
        found.append(figures)
        shapes = [tuple(m.sample((5,)).shape) for m in (parts, mixture, flat, turned, sticks)]
        assert shapes == [(5, 3, 2), (5, 2), (5, 2), (5, 3, 2), (5, 2, 4)]
    for got, expected in zip(*found, strict=True):
        close(got, expected, 2e-4)


def test_supports_are_enumerated():
    assert ours.Bernoulli(clnet.tensor(SHARE)).enumerate_support().tolist() == [[0] * 3, [1] * 3]
    assert ours.Categorical(clnet.tensor(SHARES)).enumerate_support(expand=False).tolist() == [
        [0],
        [1],
        [2],
    ]
    vectors = ours.OneHotCategorical(clnet.tensor(SHARES)).enumerate_support()
    assert vectors[:, 1].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: ours.Normal(0.0, -1.0),
            ArgumentError,
            r"scale lies in GreaterThan\(lower_bound=0.0\)",
        ),
        (lambda: ours.Uniform(1.0, 1.0), ArgumentError, "low is below high"),
        (lambda: ours.Bernoulli(), ArgumentError, "one of probs and logits"),
        (lambda: ours.Bernoulli(0.5, 0.1), ArgumentError, "one of probs and logits"),
        (lambda: ours.Categorical(clnet.tensor(0.5)), ArgumentError, "an axis of categories"),
        (
            lambda: ours.Categorical(clnet.tensor([-1.0, 2.0])),
            ArgumentError,
            "probs lies in Simplex",
        ),
        (lambda: ours.Normal(0.0, 1.0).log_prob(1.0), DtypeError, "value is a tensor"),  # pyrefly: ignore[bad-argument-type]
        (lambda: ours.Poisson(1.0).log_prob(clnet.tensor(-1.0)), ArgumentError, "a value lies in"),
        (
            lambda: ours.Dirichlet(clnet.ones(3)).log_prob(clnet.ones(2)),
            ShapeError,
            "event's shape",
        ),
        (
            lambda: ours.Normal(clnet.zeros(3), 1.0).log_prob(clnet.ones(2)),
            ShapeError,
            "sizes differ",
        ),
        (lambda: ours.MultivariateNormal(clnet.zeros(2)), ArgumentError, "one of covariance"),
        (lambda: ours.Independent(ours.Normal(0.0, 1.0), 1), ArgumentError, "axes=1"),
        (lambda: ours.Multinomial(2.5, clnet.ones(2)), ClnetError, "whole number"),  # pyrefly: ignore[bad-argument-type]
    ],
)
def test_what_does_not_fit_is_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_checks_can_be_left_out():
    assert np.isnan(ours.Normal(0.0, -1.0, validate_args=False).entropy().item())
    ours.Distribution.set_default_validate_args(False)
    try:
        ours.Normal(0.0, -1.0)
    finally:
        ours.Distribution.set_default_validate_args(True)


def test_distributions_are_compiled():
    @clnet.compile
    def loss(loc, scale, x):
        found = ours.Normal(loc, scale)
        return ours.kl_divergence(found, ours.Normal(0.0, 1.0)).sum() - found.log_prob(x).mean()

    x = clnet.tensor(REAL)
    loc, scale = clnet.tensor(LOC), clnet.tensor(SCALE)
    eager = ours.Normal(loc, scale)
    expected = ours.kl_divergence(eager, ours.Normal(0.0, 1.0)).sum() - eager.log_prob(x).mean()
    close(loss(loc, scale, x), expected)


def test_they_are_shown():
    assert repr(ours.Poisson(2.0)) == f"Poisson(rate: {clnet.tensor(2.0)})"
    assert repr(ours.Independent(ours.Poisson(clnet.ones(2)), 1)).startswith("Independent(Poisson(")


def test_poisson_draws_for_each_rate():
    rates = clnet.tensor([0.0, 0.7, 40.0]).expand(3000, 3)
    drawn = clnet.poisson(rates, clnet.Generator().manual_seed(4))
    assert (drawn.dtype, drawn.shape) == (clnet.float32, (3000, 3))
    assert (abs(drawn.numpy().mean(0) - [0, 0.7, 40]) <= 5 * np.sqrt([0, 0.7, 40]) / 50).all()
    assert clnet.equal(drawn, clnet.poisson(rates, clnet.Generator().manual_seed(4)))


def test_low_ranks_diverge_as_their_whole_covariances():
    torch = pytest.importorskip("torch")
    found = []
    for library in (clnet, torch):
        d, at = library.distributions, library.tensor([0.1, 0.5, -1.0])
        low = d.LowRankMultivariateNormal(at, at[:, None] + 1, at.abs() + 0.5)
        other = d.LowRankMultivariateNormal(at * 2, at[:, None], at.abs() + 1)
        full = d.MultivariateNormal(at + 1, library.eye(3) * 2)
        pairs = (low, full), (full, low), (low, other)
        found.append(library.stack([d.kl_divergence(p, q) for p, q in pairs]))
    close(*found, 1e-5)


FURTHER = {
    "Beta.mode": lambda d, m: d.Beta(m.tensor([0.5, 3.0]), m.tensor([0.4, 2.0])).mode,
    "Dirichlet.mode": lambda d, m: d.Dirichlet(m.tensor([[0.5, 0.9, 0.1], [2.0, 0.5, 3.0]])).mode,
    "Gamma.cdf": lambda d, m: d.Gamma(m.tensor([0.5, 3.0]), 2.0).cdf(m.tensor([0.3, 1.5])),
    "Chi2.cdf": lambda d, m: d.Chi2(m.tensor([0.5, 3.0])).cdf(m.tensor([0.3, 1.5])),
    "InverseGamma.cdf": lambda d, m: d.InverseGamma(m.tensor([3.0]), 2.0).cdf(m.tensor([0.7])),
    "Kumaraswamy.entropy": lambda d, m: d.Kumaraswamy(m.tensor([0.5, 3.0]), 2.0).entropy(),
    "Binomial.entropy": lambda d, m: d.Binomial(5, m.tensor([0.2, 0.7])).entropy(),
    "Binomial.enumerate_support": lambda d, m: d.Binomial(3, m.ones(2) / 2).enumerate_support(),
    "Multinomial.entropy": lambda d, m: d.Multinomial(4, m.tensor([[0.2, 0.3, 0.5]])).entropy(),
}


@pytest.mark.parametrize("ask", FURTHER.values(), ids=FURTHER)
def test_what_distributions_tell_is_pytorchs(ask):
    torch = pytest.importorskip("torch")
    close(ask(clnet.distributions, clnet), ask(torch.distributions, torch), 1e-5)


def test_transforms_say_where_their_values_lie():
    t = ours.transforms
    both = t.ComposeTransform(
        [t.AffineTransform(1.0, 2.0), t.PowerTransform(2.0), t.ExpTransform()]
    )
    assert repr(both).split() == [
        "ComposeTransform(", "AffineTransform(),", "PowerTransform(),", "ExpTransform()", ")"
    ]  # fmt: skip
    assert repr(both.domain) == "Real()"
    assert repr(both.inv.domain) == repr(both.codomain) == "GreaterThan(lower_bound=0.0)"


def test_counts_of_several_numbers_of_trials_are_not_listed():
    several = ours.Binomial(clnet.tensor([1.0, 2.0]), clnet.tensor([0.5, 0.5]))
    with pytest.raises(UnsupportedError, match=r"batches of one total_count.*\(1, 2\)"):
        several.entropy()


def test_the_density_is_highest_at_the_mode():
    """PyTorch's formula for Kumaraswamy gives NaN there."""
    found = ours.Kumaraswamy(clnet.tensor([3.0, 0.5]), 2.0)
    x = clnet.linspace(0.01, 0.99, 981)
    highest = x[ours.Kumaraswamy(3.0, 2.0).log_prob(x).argmax()].item()
    assert found.mode[0].item() == pytest.approx(highest, abs=1e-3)
    assert found.mode[1].isnan()


class Half(ours.Distribution):
    """Uniform from 0 to a width, as programs write distributions."""

    arg_constraints: ClassVar = {"width": ours.constraints.positive}
    has_rsample = True

    def __init__(self, width, validate_args=None):
        (self.width,) = ours.utils.broadcast_all(width)
        super().__init__(self.width.shape, validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return self.width * clnet.rand(self._extended_shape(sample_shape))


def test_distributions_of_programs():
    assert Half(2.0).rsample((3,)).shape == (3,)
    assert Half(clnet.ones(2)).sample((3,)).shape == (3, 2)
    with pytest.raises(ArgumentError):
        Half(-1.0)


def test_utilities_are_pytorchs():
    torch = pytest.importorskip("torch")
    for share in (SHARES, INSIDE):
        for binary in (False, True):
            for name in ("probs_to_logits", "logits_to_probs"):
                found = getattr(ours.utils, name)(clnet.tensor(share), is_binary=binary)
                expected = getattr(torch.distributions.utils, name)(torch.tensor(share), binary)
                close(found, expected)
    edges = ours.utils.probs_to_logits(clnet.tensor([0.0, 1.0]), is_binary=True)
    close(edges, torch.distributions.utils.probs_to_logits(torch.tensor([0.0, 1.0]), True))
    x, y = ours.utils.broadcast_all(clnet.ones(2, 1, dtype=clnet.float64), 3)
    assert (x.shape, y.shape, y.dtype) == ((2, 1), (2, 1), clnet.float64)
    with pytest.raises(DtypeError, match="tensors or numbers"):
        ours.utils.broadcast_all("a")


FALLING = [
    lambda t, lib: [t.AffineTransform(1.0, -2.0)],
    lambda t, lib: [t.AffineTransform(lib.tensor(1.0), lib.tensor([-2.0, 3.0])), t.ExpTransform()],
    lambda t, lib: [t.ExpTransform(), t.PowerTransform(-1.0)],
    lambda t, lib: [t.ComposeTransform([t.AffineTransform(0.0, -1.0), t.SigmoidTransform()])],
    lambda t, lib: [t.AffineTransform(0.0, -1.0).inv, t.AffineTransform(0.0, -3.0)],
]


@pytest.mark.parametrize("chain", FALLING)
def test_functions_that_fall_turn_probabilities(chain):
    torch = pytest.importorskip("torch")
    found = []
    for library in (clnet, torch):
        d = library.distributions
        made = d.TransformedDistribution(
            d.Normal(library.zeros(2), 1.0), chain(d.transforms, library)
        )
        share = library.tensor([0.3, 0.9])
        found.append((made.cdf(library.tensor([0.4, 0.7])), made.icdf(share)))
    for own, their in zip(*found, strict=True):
        close(own, their, 1e-4)


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
def test_probabilities_of_narrow_logits_are_not_checked(dtype):
    logits = clnet.tensor(np.linspace(-3, 3, 40, dtype=np.float32)).view(2, 20).to(dtype)
    for kind in (ours.Categorical, ours.OneHotCategorical):
        made = kind(logits=logits)
        assert made.probs.dtype is dtype
        assert made.expand((3, 2)).sample().shape[:2] == (3, 2)
    assert ours.Multinomial(4, logits=logits).sample().sum().item() == 8
    with pytest.raises(ArgumentError, match="logits lies in"):
        ours.Categorical(logits=logits * float("nan"))


def test_log_probabilities_are_few_launches():
    """What is checked of few numbers the host looks at; more would be half of a policy's step."""
    actions, x = clnet.tensor([1, 0]), clnet.tensor(REAL[0])
    with clnet.profile() as seen:
        ours.Categorical(logits=clnet.tensor(LOGITS)).log_prob(actions)
        ours.Normal(x, clnet.tensor(SCALE)).log_prob(x)
    ran = [c.op for c in seen.commands if c.kind == "kernel"]
    assert ran == ["log_softmax", "exp", "gather", "normal_log_prob"]


@pytest.mark.parametrize("few", [0, 4096])
def test_the_host_and_the_device_check_alike(monkeypatch, few):
    monkeypatch.setattr(constraint, "_FEW", few)
    values = [clnet.tensor(v) for v in ([0.0, 1.0], [0.5, 1.0], [2.0, 3.0], [-1.0, np.nan], [0, 1])]
    wanted = {
        "real": "11101", "unit_interval": "11001", "boolean": "10001", "positive": "01100",
        "nonnegative_integer": "10101", "positive_integer": "00100", "real_vector": "11101",
    }  # fmt: skip
    for name, expected in wanted.items():
        kind = getattr(ours.constraints, name)
        assert "".join(str(int(kind.holds(v))) for v in values) == expected, name
    below = ours.constraints.less_than(clnet.tensor([1.0, 2.0]))
    assert [below.holds(v) for v in values] == [True, True, False, False, True]
    assert not ours.constraints.half_open_interval(0, 1).holds(values[0].to(clnet.bfloat16))
