"""Elimination in panels of any width, by groups and by items."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import device
from clnet.kernels.factor.triangle import cholesky, lu
from tests.kernels.launching import both_shapes, offset, poisoned, run

RNG = np.random.default_rng(11)
pytestmark = both_shapes


@pytest.mark.parametrize("panel", [3, 32])
def test_rows_of_a_panel_have_one_item_each(panel, shaped):
    x = RNG.normal(size=(1, 300, 5)).astype(np.float32)
    a, pivots = poisoned(x.shape, np.float32), poisoned((1, 5), np.int32)
    info = poisoned((1,), np.int32)
    run(lu(shaped(device()), a, pivots, info, offset(x), panel=panel))
    rows = x[0].copy()
    for k, other in enumerate(pivots.numpy()[0] - 1):
        rows[[k, other]] = rows[[other, k]]
    found = a.numpy()[0].astype(float)
    product = (np.tril(found, -1) + np.eye(*found.shape)) @ np.triu(found[:5])
    np.testing.assert_allclose(product, rows, rtol=0, atol=1e-5)


@pytest.mark.parametrize("panel", [3, 32])
def test_rows_of_a_square_have_one_item_each(panel, shaped):
    root = RNG.normal(size=(1, 200, 200)) / 14
    x = (root @ root.swapaxes(1, 2) + np.eye(200)).astype(np.float32)
    a, info = poisoned(x.shape, np.float32), poisoned((1,), np.int32)
    run(cholesky(shaped(device()), a, info, offset(x), panel=panel))
    np.testing.assert_allclose(a.numpy(), np.linalg.cholesky(x.astype(float)), atol=1e-5)
