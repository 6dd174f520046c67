"""The constant matrices of Winograd's transforms."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.kernels.winograd import transforms


@pytest.mark.parametrize(
    ("size", "tile", "most"), [(3, 2, 1.7), (3, 4, 4.8), (5, 2, 5.4)], ids=["3x3", "6x6", "5x5"]
)
def test_transforms_are_convolutions_that_enlarge_rounding_little(size, tile, most):
    m = transforms(size, tile)
    pixels, filters, results = (np.array(t.rows) for t in (m.pixels, m.filters, m.results))
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(size + tile - 1), rng.standard_normal(size)
    y = results @ ((filters @ w) * (pixels @ x))
    np.testing.assert_allclose(y, np.correlate(x, w, "valid"), atol=1e-12)
    # The variance of sums of products beside a direct convolution's, along an axis: 10.8 and 12.3
    # with the points 2 and -2.
    products = (pixels**2).sum(1) * (filters**2).sum(1)
    assert np.mean(results**2 @ products) / size < most
