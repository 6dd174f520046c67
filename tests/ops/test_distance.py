"""Distances between all vectors of two sets, beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, ShapeError
from tests.opcase import every_check, normal, sliced
from tests.torchcase import torch_case

pytestmark = pytest.mark.device

SETS = [normal(2, 5, 3), normal(2, 4, 3)]
CASES = [
    *(
        torch_case("cdist", SETS, p=p, shapes=[[(0, 3), (4, 3)]], layouts=(sliced,), k=3)
        for p in (1.0, 2.0, 3.0, float("inf"))
    ),
    torch_case("cdist", [normal(3, 1, 2, 4), normal(5, 6, 4)], k=4, shapes=[], layouts=()),
    torch_case("pdist", [normal(6, 4)], shapes=[[(1, 4)]], k=4, grad2=True),
    torch_case("pdist", [normal(5, 2)], 3.0, shapes=[], k=2),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 3.0, float("inf")])
def test_equal_vectors_have_a_distance_and_a_gradient_of_0(p):
    x = clnet.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    distance = ops.cdist(x, x.detach(), p)
    distance.sum().backward()
    assert not distance.detach().numpy().any()
    assert not x.grad.numpy().any()


def test_distances_of_two_dtypes_have_the_wider():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(2, 4))
    found = ops.cdist(clnet.tensor(x), clnet.tensor(y))
    assert found.dtype is clnet.float64
    expected = np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_several_axes_are_normalised_as_one_vector():
    x = np.random.default_rng(0).normal(size=(4, 5, 3))
    y = ops.normalize(clnet.tensor(x).float(), dim=(0, 2)).numpy()
    np.testing.assert_allclose(y, x / np.sqrt((x * x).sum((0, 2), keepdims=True)), rtol=1e-5)


def test_errors_name_what_is_wrong():
    x = clnet.ones(2, 3)
    with pytest.raises(ArgumentError, match=r"^cdist: p is 0 or more; got p=-1"):
        ops.cdist(x, x, -1)
    with pytest.raises(
        ShapeError, match=r"^cdist: x1 is \(\.\.\., m, d\), x2 \(\.\.\., n, d\); got"
    ):
        ops.cdist(x, x.T)
    with pytest.raises(ShapeError, match=r"^pdist: x is \(n, d\); got x=\(3,\)"):
        ops.pdist(x[0])


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_of_p_0_nan_is_told(name):
    x = clnet.tensor([[np.nan, 1.0], [0.0, 1.0], [3e-30, 4.0]])
    given = (x, x[1:]) if name == "cdist" else (x,)
    found = getattr(ops, name)(*given, p=0.0).numpy()
    expected = [[np.nan, np.nan], [0, 2], [2, 0]] if name == "cdist" else [np.nan, np.nan, 2]
    np.testing.assert_array_equal(found, expected)
