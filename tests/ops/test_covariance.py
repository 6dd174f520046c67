"""Covariances and correlations against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ShapeError
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label="", **options):
    options = {"k": 16, **options}
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label, **options)


CASES = [
    case("cov", ops.cov, np.cov, normal(3, 9)),
    case("cov", ops.cov, np.cov, normal(9), label="one"),
    case("corrcoef", ops.corrcoef, np.corrcoef, normal(3, 9), ulps=64),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_one_variable_and_too_many_axes():
    assert ops.corrcoef(clnet.tensor([1.0, 2.0])).item() == 1
    with pytest.raises(ShapeError, match="x has two axes at most"):
        ops.cov(clnet.zeros(1, 2, 4))


def test_weights_of_importance_need_no_counts():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((3, 7)), rng.random(7)
    found = clnet.cov(clnet.tensor(x), aweights=clnet.tensor(weights))
    np.testing.assert_allclose(found.numpy(), np.cov(x, aweights=weights), rtol=1e-12)


def test_complex_observations_have_weights():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5)) + 1j * rng.standard_normal((3, 5))
    counts, weights = rng.integers(1, 4, 5), rng.random(5) + 1
    for fweights, aweights in ((counts, None), (None, weights), (counts, weights)):
        given = {"fweights": fweights, "aweights": aweights}
        own = {key: None if w is None else clnet.tensor(w) for key, w in given.items()}
        found = clnet.cov(clnet.tensor(x), **own)
        np.testing.assert_allclose(found.numpy(), np.cov(x, **given), rtol=1e-12)


def test_of_no_observations_and_of_no_variables():
    assert clnet.cov(clnet.zeros(0, 0)).shape == clnet.corrcoef(clnet.zeros(0, 3)).shape == (0, 0)
    assert np.isnan(clnet.cov(clnet.zeros(2, 0)).numpy()).all()
    assert clnet.cov(clnet.tensor([1.0, 2.0]), correction=3).item() == float("inf")
    whole = clnet.tensor([1, 1])
    assert clnet.cov(clnet.tensor([1.0, 2.0]), correction=3, fweights=whole).item() == float("inf")


def test_weights_of_complex_observations():
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((3, 7)) + 1j * rng.standard_normal((3, 7)), rng.random(7)
    found = clnet.cov(clnet.tensor(x), aweights=clnet.tensor(weights))
    np.testing.assert_allclose(found.numpy(), np.cov(x, aweights=weights), rtol=1e-12)
