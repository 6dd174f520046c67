"""Sorting along an axis, against NumPy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, BoundsError, DtypeError
from tests.answers import torch
from tests.opcase import OpCase, distinct, every_check, integers

pytestmark = pytest.mark.device

RNG = np.random.default_rng(6)
EDGES = [((0, 3),), ((3, 1),), ((1, 1),)]


def largest(x, k, axis):
    """The largest along an axis, in order."""
    return np.flip(np.sort(x, axis), axis).take(range(k), axis)


CASES = [
    OpCase(
        lambda x: x.sort()[0],
        lambda x: np.sort(x),
        [distinct(7, 33)],
        dtypes=["float16", "bfloat16"],
        name="sort",
        shapes=EDGES,
        layouts=(),
    ),
    OpCase(
        lambda x: x.sort(0, True),
        lambda x: (np.flip(np.sort(x, 0), 0), np.argsort(-x, 0, kind="stable")),
        [distinct(70, 3, 2)],
        name="sort",
        label="dim 0, descending",
    ),
    OpCase(
        lambda x: x.sort(1),
        lambda x: (np.sort(x, 1), np.argsort(x, 1, kind="stable")),
        [integers(-5, 5, (4, 300, 2))],
        grad=False,
        name="sort",
        label="ties of integers",
    ),
    OpCase(
        lambda x: (x * x * x).sort()[0],
        lambda x: np.sort(x**3),
        [distinct(3, 6)],
        grad2=True,
        layouts=(),
        name="sort",
        label="of cubes",
    ),
    OpCase(ops.argsort, lambda x: np.argsort(x, kind="stable"), [distinct(7, 33)], grad=False),
    OpCase(ops.msort, lambda x: np.sort(x, 0), [distinct(7, 33)]),
    OpCase(
        lambda x: x.topk(3),
        lambda x: (largest(x, 3, -1), np.argsort(-x, -1)[..., :3]),
        [distinct(7, 33)],
        shapes=[((0, 3),), ((1, 3),)],
        name="topk",
    ),
    OpCase(
        lambda x: ops.topk(x, 2, 0, False)[0],
        lambda x: np.sort(x, 0)[:2],
        [distinct(70, 3)],
        name="topk",
        label="smallest",
        shapes=(),
    ),
    OpCase(
        lambda x: x.kthvalue(2)[0],
        lambda x: np.sort(x)[..., 1],
        [distinct(7, 9)],
        shapes=(),
        name="kthvalue",
    ),
    OpCase(
        lambda x: x.kthvalue(1, 0, True),
        lambda x: (x.min(0, keepdims=True), x.argmin(0, keepdims=True)),
        [distinct(7, 9)],
        shapes=(),
        name="kthvalue",
        label="keepdim",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(40,), (200,), (3, 0, 2), ()])
def test_order_is_pytorchs_stable_one(shape, descending):
    host = RNG.choice([np.nan, -np.inf, -1, -0.0, 0.0, 2.5], shape).astype(np.float32)
    expected = torch.sort(torch.from_numpy(np.asarray(host)), descending=descending, stable=True)
    found = ops.sort(clnet.tensor(host), descending=descending, stable=True)
    np.testing.assert_array_equal(found.values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(found.indices.numpy(), expected.indices.numpy())
    assert found.indices.dtype is clnet.int64


def test_of_a_number():
    x = clnet.tensor(3.0)
    assert x.topk(1).values.item() == 3
    assert x.argsort().item() == 0


def test_gradient_of_ties_follows_the_indices():
    x = clnet.tensor([1.0, 0.0, 1.0, 0.0], requires_grad=True)
    y = torch.tensor([1.0, 0.0, 1.0, 0.0], requires_grad=True)
    weights = [1.0, 2.0, 3.0, 4.0]
    x.sort()[0].backward(clnet.tensor(weights))
    torch.sort(y, stable=True)[0].backward(torch.tensor(weights))
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize(
    ("call", "error", "law"),
    [
        (lambda x: x.topk(5), ArgumentError, r"topk: k lies in \[0, size of the axis\]; got k=5"),
        (lambda x: x.topk(-1), ArgumentError, "k lies in"),
        (lambda x: x.kthvalue(0), ArgumentError, r"kthvalue: k lies in \[1"),
        (lambda x: x.sort(2), BoundsError, "dim lies in"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, law):
    with pytest.raises(error, match=law):
        call(clnet.ones(3, 4))


def test_a_sort_may_leave_open_whether_it_is_stable():
    assert clnet.tensor([2, 1]).sort(stable=None).indices.tolist() == [1, 0]


@pytest.mark.parametrize("others", [[1, 5], [1], []])
def test_a_number_is_looked_for_among_elements(others):
    assert clnet.isin(5, clnet.tensor(others, dtype=clnet.int64)).item() is (5 in others)
    with pytest.raises(DtypeError, match="one of both is a tensor"):
        clnet.isin(5, 5)
