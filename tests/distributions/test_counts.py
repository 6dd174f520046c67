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
