"""Reductions against NumPy, their gradients, and what PyTorch says about ties, dims and dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

import clnet
from clnet import ops
from clnet.autodiff.gradient import grad
from clnet.errors import ArgumentError, BoundsError, DtypeError
from clnet.tensor import tensor
from clnet.values.dtypes import from_name
from tests.opcase import (
    OpCase,
    booleans,
    distinct,
    every_check,
    integers,
    normal,
    positive,
    sliced,
    transposed,
)

# One number does not vary, and a comparison of it would show little: it scales several.
SCALES = normal(9, grad=False)

CASES = [
    OpCase(
        lambda x, s: ops.sum(x) * s,
        lambda x, s: np.sum(x) * s,
        [normal(7, 33), SCALES],
        k=231,
        name="sum",
        label="all",
        shapes=[((0, 4), (3,)), ((1, 1), (3,))],
    ),
    OpCase(
        lambda x: ops.sum(x, 1),
        lambda x: x.sum(1),
        [normal(4, 19, 3)],
        k=19,
        name="sum",
        label="dim",
    ),
    OpCase(
        lambda x: ops.sum(x, (0, -1), keepdim=True),
        lambda x: x.sum((0, 2), keepdims=True),
        [normal(4, 5, 9)],
        k=36,
        name="sum",
        label="dims, keepdim",
    ),
    OpCase(
        lambda x: ops.sum(x, 0),
        lambda x: np.sum(x, 0),
        [integers(-9, 9, (5, 6))],
        grad=False,
        name="sum",
        label="integers",
        layouts=(transposed, sliced),
    ),
    OpCase(
        lambda x: ops.sum(x, 0),
        lambda x: x.sum(0),
        [booleans(40, 6)],
        grad=False,
        name="sum",
        label="bool",
    ),
    OpCase(
        lambda x: ops.mean(x, (0, 2)),
        lambda x: x.mean((0, 2)),
        [normal(6, 5, 7)],
        k=42,
        name="mean",
        shapes=[((1, 5, 1),)],
        dtypes=("float64",),
    ),
    OpCase(
        lambda x: ops.prod(x, 1),
        lambda x: x.prod(1),
        [positive(4, 6)],
        k=6,
        grad2=True,
        name="prod",
    ),
    OpCase(
        lambda x: ops.amax(x, (0, 2)),
        lambda x: x.max((0, 2)),
        [distinct(4, 3, 6)],
        name="amax",
        shapes=[((1, 3, 1),)],
    ),
    OpCase(
        lambda x: ops.amin(x, 1, keepdim=True),
        lambda x: x.min(1, keepdims=True),
        [distinct(7, 9)],
        name="amin",
        shapes=[((0, 4),), ((5, 1),)],
    ),
    OpCase(
        lambda x, s: ops.max(x) * s,
        lambda x, s: np.max(x) * s,
        [distinct(7, 9), SCALES],
        shapes=[((1, 1), (3,))],
        name="max",
        label="all",
        layouts=(transposed, sliced),
    ),
    OpCase(
        lambda x: ops.max(x, 0),
        lambda x: (x.max(0), x.argmax(0)),
        [distinct(7, 9)],
        name="max",
        label="dim",
        shapes=[((4, 0),), ((1, 5),)],
    ),
    OpCase(ops.max, np.maximum, [normal(3, 5), normal(3, 5)], label="two"),
    OpCase(
        lambda x: ops.min(x, -1, keepdim=True),
        lambda x: (x.min(-1, keepdims=True), x.argmin(-1)[..., None]),
        [distinct(4, 5, 6)],
        name="min",
        shapes=[((2, 3, 1),)],
    ),
    OpCase(ops.argmax, np.argmax, [distinct(7, 9)], grad=False, label="all", shapes=[((1, 1),)]),
    OpCase(
        lambda x: ops.argmax(x, 1),
        lambda x: x.argmax(1),
        [distinct(7, 40)],
        grad=False,
        name="argmax",
        label="dim",
        shapes=[((3, 1),)],
    ),
    OpCase(
        lambda x: ops.argmin(x, 0, keepdim=True),
        lambda x: x.argmin(0)[None],
        [distinct(7, 9)],
        grad=False,
        name="argmin",
        shapes=[((3, 0),)],
    ),
    OpCase(lambda x: ops.any(x, 1), lambda x: x.any(1), [booleans(9, 3)], grad=False, name="any"),
    OpCase(lambda x: ops.all(x, 0), lambda x: x.all(0), [booleans(2, 9)], grad=False, name="all"),
    OpCase(
        lambda x: ops.logsumexp(x, 1),
        lambda x: logsumexp(x, 1),
        [normal(6, 9, scale=3)],
        k=9,
        grad2=True,
        name="logsumexp",
        shapes=[((3, 1),)],
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_reductions(case, check, device):
    check(case, device)


def gradient(fn, x):
    leaf = tensor(np.asarray(x, np.float32), requires_grad=True)
    return grad([fn(leaf)], [leaf])[0].numpy()


def test_equal_extremes_share_the_gradient_without_dim_and_not_with(device):
    x = [[1.0, 3.0, 3.0], [0.0, 3.0, 2.0]]
    third = 1 / 3
    np.testing.assert_allclose(gradient(ops.max, x), [[0, third, third], [0, third, 0]])
    np.testing.assert_allclose(
        gradient(lambda t: ops.amax(t, 1).sum(), x), [[0, 0.5, 0.5], [0, 1, 0]]
    )
    first = gradient(lambda t: ops.max(t, 1).values.sum(), x)
    np.testing.assert_array_equal(first, [[0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    ("x", "expected"),
    [([2, 3, 4], [12, 8, 6]), ([2, 0, 4], [0, 8, 0]), ([0, 0, 4], [0, 0, 0])],
    ids=["no zero", "one zero", "two zeros"],
)
def test_gradient_of_a_product_with_zeros(device, x, expected):
    np.testing.assert_allclose(gradient(ops.prod, x), expected)


def test_second_derivative_of_a_product_of_nothing(device):
    x = clnet.zeros(2, 0, requires_grad=True)
    y = ops.prod(x, 1)
    (g,) = clnet.autograd.grad(y.sum(), x, create_graph=True)
    assert (y.tolist(), g.shape) == ([1, 1], (2, 0))


def test_gradient_of_a_product_with_zeros_beside_what_is_not_finite(device):
    x = [[0, np.nan, 2], [0, np.inf, 2], [0, 0, np.nan]]
    expected = [[np.nan, 0, np.nan], [np.inf, 0, np.nan], [np.nan, np.nan, 0]]  # as PyTorch's
    np.testing.assert_array_equal(gradient(lambda t: ops.prod(t, 1).sum(), x), expected)


def test_dtypes_of_results(device):
    integers_ = tensor(np.array([[1, 2], [3, 4]], np.int32))
    assert ops.sum(integers_).dtype.name == "int64"
    assert ops.prod(integers_).item() == 24
    assert ops.amax(integers_, 0).dtype.name == "int32"
    assert ops.mean(integers_, dtype=tensor(1.0).dtype).item() == 2.5
    assert ops.all(integers_).dtype.name == "bool"
    assert ops.any(integers_.byte()).dtype.name == "uint8"


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "float64"])
def test_truths_of_every_length(device, dtype):
    if dtype == "float64" and not device.traits.float64:
        pytest.skip("the device has no double precision")
    for n in (7, 8, 33):  # beside vectors, which may be wider than the CPU's
        x = np.full(n, 2, dtype)
        assert bool(ops.all(tensor(x)).item())
        assert bool(ops.any(tensor(x)).item())
        x[n // 2] = 0
        assert not ops.all(tensor(x)).item()
        assert not ops.any(tensor(x * 0)).item()


def test_a_tensor_without_axes(device):
    x = tensor(3.0)
    assert ops.sum(x).item() == 3
    assert ops.sum(x, -1).item() == 3
    assert ops.argmax(x).item() == 0
    assert ops.max(x, 0).values.item() == 3


def test_sum_over_no_dims_is_over_all(device):
    assert ops.sum(tensor(np.ones((2, 3), np.float32)), ()).item() == 6


def test_logsumexp_of_infinities(device):
    x = tensor(np.array([[-np.inf, -np.inf], [np.inf, 0], [1e30, 1e30]], np.float32))
    np.testing.assert_allclose(ops.logsumexp(x, 1).numpy(), [-np.inf, np.inf, 1e30])


def test_errors_name_what_is_wrong(device):
    x = tensor(np.ones((2, 0), np.float32))
    with pytest.raises(ArgumentError, match=r"amax: an extreme is among elements; got x=\(2, 0\)"):
        ops.amax(x, 1)
    with pytest.raises(ArgumentError, match="argmax: an extreme"):
        ops.argmax(x)
    with pytest.raises(BoundsError, match="sum: dim lies in"):
        ops.sum(x, 2)
    with pytest.raises(DtypeError, match="mean: operands are floating"):
        ops.mean(tensor([1, 2]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_are_reduced_in_more(device, dtype):
    x = tensor(np.full(3000, 1.0)).to(from_name(dtype))  # a sum in float16 would stop at 2048
    for result, expected in (
        (ops.sum(x), 3000),
        (ops.mean(x), 1),
        (ops.max(x, 0).values, 1),
        (ops.norm(x), 3000**0.5),
        (ops.var(x), 0),
        (ops.logsumexp(x * 0, 0), np.log(3000)),
    ):
        assert result.dtype.name == dtype
        assert float(result.float().item()) == pytest.approx(expected, rel=2e-2)
    assert ops.argmax(x).item() == 0
    assert bool(ops.all(x).item())


def test_logsumexp_of_nothing(device):
    assert ops.logsumexp(tensor(np.ones((2, 0), np.float32)), 1).tolist() == [-np.inf] * 2


def test_keepdim_may_be_given_by_position(device):
    x = tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    for name in (
        "sum",
        "mean",
        "prod",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "any",
        "all",
        "logsumexp",
    ):
        assert getattr(ops, name)(x, 1, True).shape == (2, 1), name
    assert ops.max(x, 1, True).values.shape == (2, 1)


def test_whole_numbers_are_summed_in_the_dtype_that_is_asked_for():
    x = clnet.tensor([200, 100], dtype=clnet.uint8)
    assert (x.sum().dtype, x.sum().item()) == (clnet.int64, 300)
    for found in (x.sum(dtype=clnet.uint8), clnet.sum(x, 0, dtype=clnet.uint8)):
        assert (found.dtype, found.item()) == (clnet.uint8, 44)
    found = clnet.prod(x, dtype=clnet.int32)
    assert (found.dtype, found.item()) == (clnet.int32, 20000)


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1),
        lambda x: x.mean((0, 2), keepdim=True),
        lambda x: x.prod(2),
        lambda x: x.amax(0),
        lambda x: x.min(),
        lambda x: x.norm(dim=1),
        lambda x: x[:, ::2].sum(),
        lambda x: x.transpose(0, 2).sum((0, 1)),
        lambda x: x[:, 1:1].sum(1),
    ],
)
def test_sixteen_bits_give_what_their_float32_gives(device, dtype, function):
    values = np.random.default_rng(5).standard_normal((3, 17, 5))
    x, wide = (clnet.tensor(values, device=device).to(dtype).requires_grad_() for _ in range(2))
    y, expected = function(x), function(wide.float()).to(dtype)
    seed = clnet.tensor(np.random.default_rng(6).standard_normal(y.shape), device=device).to(dtype)
    (y * seed).sum().backward()
    (expected * seed).sum().backward()
    for a, b in ((y, expected), (x.grad, wide.grad)):
        assert a.dtype is b.dtype is dtype
        np.testing.assert_array_equal(a.detach().float().numpy(), b.detach().float().numpy())


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_logsumexp_over_no_axes_is_over_all(dtype):
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    for none in ((), []):
        found = ops.logsumexp(tensor(x), none)
        assert found.shape == ()
        np.testing.assert_allclose(found.numpy(), np.log(np.exp(x).sum()), rtol=1e-5)
        assert ops.logsumexp(tensor(x), none, keepdim=True).shape == (1, 1)


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((20000, 20), 0), ((3, 20000, 5), 1), ((100000,), 0), ((64, 2000), 1)],
    ids=str,
)
def test_long_sums_are_off_by_a_few_roundings(device, shape, dim):
    """Chains of float32 were off by up to 1e-6 here, PyTorch by 1.6e-7."""
    if device.traits.dedicated_local_memory or not device.traits.float64:
        pytest.skip("groups add float32 in a tree")
    x = np.random.default_rng(8).random(shape, dtype=np.float32)
    wide, own = x.astype(np.float64), clnet.tensor(x)
    every_other = clnet.tensor(x.repeat(2, -1))[..., ::2]
    for given in (own, every_other):
        for op, reference in ((ops.sum, np.sum), (ops.mean, np.mean), (ops.var, np.var)):
            exact = reference(wide, dim, **({"ddof": 1} if op is ops.var else {}))
            assert np.abs(op(given, dim).numpy() / exact - 1).max() < 2.4e-7
    near = 1 + (wide - 0.5).astype(np.float32) / 1000
    exact = np.prod(near.astype(np.float64), dim)
    assert np.abs(ops.prod(clnet.tensor(near), dim).numpy() / exact - 1).max() < 6.1e-8
