"""Running sums and products against NumPy; the kernels' own tests are in tests/kernels."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import BoundsError
from clnet.tensor import tensor
from tests.opcase import OpCase, booleans, every_check, integers, normal, uniform

pytestmark = pytest.mark.device

CASES = [
    OpCase(
        lambda x: ops.cumsum(x, 1),
        lambda x: np.cumsum(x, 1),
        [normal(4, 19, 3)],
        k=19,
        name="cumsum",
        dtypes=("float16", "float64"),
    ),
    OpCase(
        lambda x: ops.cumsum(x, -1),
        lambda x: np.cumsum(x, -1),
        [normal(2, 2100)],
        k=2100,
        name="cumsum",
        label="long",
        shapes=[((0, 4),), ((3, 0),), ((1, 1),)],
    ),
    OpCase(
        lambda x: ops.cumsum(x, 0),
        lambda x: np.cumsum(x, 0),
        [integers(-9, 9, (30, 4), dtype=np.int32)],
        grad=False,
        name="cumsum",
        label="integers",
    ),
    OpCase(
        lambda x: ops.cumprod(x, 0),
        lambda x: np.cumprod(x, 0),
        [uniform(0.7, 1.4, (9, 5))],
        k=9,
        name="cumprod",
        grad2=True,
        ulps=16,
    ),
    OpCase(
        lambda x: ops.cumprod(x, 1),
        lambda x: np.cumprod(x, 1),
        [booleans(6, 9)],
        grad=False,
        name="cumprod",
        label="bool",
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_dtypes_of_results(device):
    assert ops.cumsum(tensor([True, True]), 0).dtype is clnet.int64
    assert ops.cumsum(tensor([1, 2]), 0, dtype=clnet.float32).tolist() == [1.0, 3.0]
    assert ops.cumprod(tensor([1.5, 2.5]), 0, dtype=clnet.int32).tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(2,), (2, 40), (5000, 1)], ids=str)
def test_a_running_sum_is_never_minus_zero(device, shape):
    found = ops.cumsum(clnet.full(shape, -0.0), 0).numpy()
    assert not np.signbit(found).any()


def test_a_tensor_without_axes(device):
    assert ops.cumsum(tensor(3.0), 0).tolist() == 3.0
    assert ops.cumprod(tensor(3.0), -1).shape == ()


@pytest.mark.parametrize(
    "x",
    [[2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 5.0], [0.0, 0.0, 0.0], [2.0, 3.0, 0.0], [0.0]],
    ids=str,
)
def test_gradient_of_a_running_product_with_zeros(device, x):
    weights = np.arange(1.0, len(x) + 1)
    leaf = tensor(x, requires_grad=True)
    found = grad([ops.cumprod(leaf, 0)], [leaf], [tensor(weights.astype(np.float32))])[0]
    expected = [
        sum(w * np.prod(np.delete(x[: i + 1], k)) for i, w in enumerate(weights) if i >= k)
        for k in range(len(x))
    ]
    np.testing.assert_allclose(found.numpy(), expected)


def test_errors_name_what_is_wrong(device):
    with pytest.raises(BoundsError, match=r"^cumsum: dim lies in \[-2, 2\); got dim=2, ndim=2"):
        ops.cumsum(clnet.ones(2, 3), 2)


def test_the_gradient_of_running_products_is_one_launch():
    x = clnet.rand(3, 5, requires_grad=True)
    y = x.cumprod(1)
    with clnet.profile() as seen:
        y.backward(clnet.ones(3, 5))
    assert [c.op for c in seen.commands if c.op.startswith("cum")] == ["cumprod_backward"]


LONG = np.random.default_rng(8)


@pytest.mark.parametrize(
    ("shape", "dim"), [((1000,), 0), ((3000, 20), 0), ((2, 3000, 3), 1), ((4, 3000), 1)], ids=str
)
def test_running_values_are_rounded_once_on_cpus(device, shape, dim):
    """However many come before: a float32 running value would be off by ten times as much."""
    if device.traits.dedicated_local_memory or not device.traits.float64:
        pytest.skip("groups add float32 in a tree")
    x = LONG.random(shape, dtype=np.float32) * 0.1 + 0.95
    for op, reference in ((ops.cumsum, np.cumsum), (ops.cumprod, np.cumprod)):
        for values, turned in ((x, False), (x.swapaxes(0, -1), True)):
            axis = values.ndim - 1 - dim if turned else dim
            expected = reference(values.astype(np.float64), axis)
            found = op(tensor(values), axis).numpy()
            assert np.abs(found / expected - 1).max() < 6.1e-8
    exact = np.logaddexp.accumulate(x.astype(np.float64), dim)
    found = ops.logcumsumexp(tensor(x), dim).numpy()
    assert np.abs(found / exact - 1).max() < 1.3e-7
