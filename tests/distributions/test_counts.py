"""Counts of successes beside SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import clnet
from clnet.errors import DtypeError

pytestmark = pytest.mark.device


@pytest.mark.parametrize(
    ("n", "p"), [(5, 0.5), (40, 0.5), (100, 0.02), (1000, 0.7), (2_000_000, 0.3)]
)
def test_binomial_is_distributed_as_scipys(n, p):
    drawn = clnet.binomial(
        clnet.full((20_000,), float(n)),
        clnet.full((20_000,), p),
        clnet.Generator().manual_seed(3),
    )
    wanted = scipy.stats.binom(n, p)
    edges = np.unique(wanted.ppf(np.linspace(0.02, 0.95, 12)))
    counts = np.histogram(drawn.numpy(), [-np.inf, *(edges + 0.5), np.inf])[0]
    expected = np.diff(wanted.cdf([-np.inf, *edges, np.inf])) * 20_000
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


def test_binomial_at_its_ends_and_what_it_refuses():
    nan = float("nan")
    n, p = clnet.tensor([0.0, 3, 3, nan, 2]), clnet.tensor([0.5, 0, 1, 0.5, nan])
    np.testing.assert_array_equal(clnet.binomial(n, p).numpy(), [0, 0, 3, nan, nan])
    assert clnet.binomial(n[:3], p[:1].reshape(1, 1)).shape == (1, 3)
    for count, prob in ((n.long(), p), (n, p.double())):
        with pytest.raises(DtypeError, match="binomial: count and prob have one floating dtype"):
            clnet.binomial(count, prob)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", [0.4, 14.9, 15.1, 80.0, 300_000.0])
def test_poisson_is_distributed_as_scipys(rate, dtype):
    rates = clnet.full((20_000,), rate, dtype=getattr(clnet, dtype))
    drawn = clnet.poisson(rates, clnet.Generator().manual_seed(5))
    wanted = scipy.stats.poisson(rate)
    edges = np.unique(wanted.ppf(np.linspace(0.02, 0.95, 12)))
    counts = np.histogram(drawn.numpy(), [-np.inf, *(edges + 0.5), np.inf])[0]
    expected = np.diff(wanted.cdf([-np.inf, *edges, np.inf])) * 20_000
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


def test_poisson_at_its_ends_of_views_and_of_sixteen_bits():
    nan, inf = float("nan"), float("inf")
    ends = clnet.poisson(clnet.tensor([0.0, nan, inf]))
    np.testing.assert_array_equal(ends.numpy(), [0, nan, inf])
    assert clnet.poisson(clnet.zeros(0, 3)).shape == (0, 3)
    rates = clnet.tensor(np.random.default_rng(0).random((7, 5)).astype(np.float32) * 40)
    drawn, again = (
        clnet.poisson(x, clnet.Generator().manual_seed(1)) for x in (rates.t(), rates.t() + 0)
    )
    assert clnet.equal(drawn, again)
    half = clnet.poisson(rates.to(clnet.float16))
    assert half.dtype is clnet.float16
    assert clnet.equal(half, half.round())


def test_a_compiled_step_draws_anew():
    step = clnet.compile(lambda rates: clnet.poisson(rates))
    rates = clnet.full((1000,), 9.0)
    first, second = step(rates).numpy(), step(rates).numpy()
    assert (first != second).mean() > 0.5
