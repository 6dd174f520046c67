"""What is most frequent, slopes of sampled functions, weighted covariances, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DataDomainError, DtypeError, ShapeError
from tests.opcase import OpCase, every_check, normal

pytestmark = pytest.mark.device

PLACES = np.array([0, 0.5, 2, 2.5, 4.5], np.float32)
CASES = [
    OpCase(
        lambda x: ops.gradient(x, spacing=0.5),
        lambda x: np.gradient(x, 0.5),
        [normal(4, 5)],
        layouts=(),
        shapes=(),
        name="gradient",
    ),
    OpCase(
        lambda x: ops.gradient(x, spacing=(clnet.tensor(PLACES),), dim=1, edge_order=2),
        lambda x: [np.gradient(x, PLACES.astype(float), axis=1, edge_order=2)],
        [normal(4, 5)],
        layouts=(),
        shapes=(),
        name="gradient",
        label="places",
    ),
]
OTHERWISE_TESTED = {
    "mode": "test_what_is_most_frequent",
    "is_nonzero": "test_whether_a_number_is_0",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_what_is_most_frequent():
    host = np.random.default_rng(0).integers(0, 4, (5, 9))
    found = clnet.mode(clnet.tensor(host))
    for row, value, index in zip(host, found.values.tolist(), found.indices.tolist(), strict=True):
        counts = np.bincount(row)
        assert value == counts.argmax()
        assert index == np.flatnonzero(row == value)[-1]
    assert clnet.tensor([[3.0, 1.0], [1.0, 1.0]]).mode(0, keepdim=True).values.tolist() == [[1, 1]]
    assert clnet.mode(clnet.tensor(7)).values.item() == 7
    leaf = clnet.tensor([2.0, 5.0, 5.0], requires_grad=True)
    clnet.mode(leaf).values.backward()
    assert leaf.grad.tolist() == [0, 0, 1]


def test_whether_a_number_is_0():
    assert clnet.is_nonzero(clnet.tensor([0.5]))
    assert not clnet.tensor(0).is_nonzero()


def test_weighted_covariances():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 7)).astype(np.float32)
    often, much = rng.integers(1, 4, 7), rng.uniform(0.5, 2, 7).astype(np.float32)
    for f, a in ((often, None), (None, much), (often, much)):
        given = [None if w is None else clnet.tensor(w) for w in (f, a)]
        found = clnet.cov(clnet.tensor(x), fweights=given[0], aweights=given[1])
        np.testing.assert_allclose(
            found.numpy(), np.cov(x, fweights=f, aweights=a), rtol=1e-4, atol=1e-6
        )


def test_a_gradient_is_as_exact_as_its_places():
    x, at = np.float32([1.1, 2.3, 2.2, -5.7]), np.array([0, 1e-3, 1.1e-3, 2.0])
    found = clnet.gradient(clnet.tensor(x), spacing=[clnet.tensor(at)])[0]
    np.testing.assert_allclose(found.numpy(), np.gradient(x.astype(float), at), rtol=1e-12)


def test_gradients_come_in_the_order_of_their_axes():
    host = np.random.default_rng(2).standard_normal((3, 4))
    found = clnet.gradient(clnet.tensor(host), spacing=(2.0, 0.5), dim=(1, 0))
    assert isinstance(found, tuple)
    for mine, wanted in zip(found, np.gradient(host, 2.0, 0.5, axis=(1, 0)), strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-12)


X = clnet.zeros(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.mode(X[:, :0]), ShapeError, "the axis has an element"),
        (lambda: ops.is_nonzero(X), ShapeError, "x has one element"),
        (lambda: ops.gradient(X.to(clnet.uint8)), DtypeError, "below 0"),
        (lambda: ops.gradient(X, edge_order=3), ArgumentError, "edge_order is 1 or 2"),
        (lambda: ops.gradient(X, spacing=(1.0,), dim=(0, 1)), ArgumentError, "a spacing for each"),
        (lambda: ops.gradient(X, spacing=(1.0,)), ArgumentError, "a spacing for each"),
        (lambda: ops.gradient(X, spacing=X[0], dim=1), ArgumentError, "or a vector for each"),
        (lambda: ops.gradient(X, spacing=(1.0, X[0])), ArgumentError, "or a vector for each"),
        (lambda: ops.gradient(X[:1]), ShapeError, "edge_order \\+ 1 elements"),
        (lambda: ops.gradient(X, spacing=(X[0],), dim=0), ShapeError, "as many as elements"),
        (lambda: ops.cov(X, aweights=X[0, :2]), ShapeError, "a weight belongs to each"),
        (lambda: ops.cov(X, fweights=X[0]), DtypeError, "fweights are whole numbers"),
        (lambda: ops.cov(X, aweights=X[0].long()), DtypeError, "aweights are floating"),
        (lambda: ops.cov(X, aweights=X[0] - 1).tolist(), DataDomainError, "not below 0"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
