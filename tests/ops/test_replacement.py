"""Parts replaced, and elements reduced where an index says, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.kernels.grid import in_groups
from tests.answers import torch
from tests.opcase import OpCase, booleans, distinct, every_check, integers, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label="", **options):
    return OpCase(fn, ref, inputs, layouts=(), shapes=(), name=name, label=label, **options)


def replaced(key):
    def reference(x, y):
        x = x.copy()
        x[key] = y
        return x

    return reference


def diagonal_replaced(x, y):
    x = x.copy()
    x[np.arange(4), np.arange(4) + 1] = y
    return x


def masked(x, mask, source):
    x = x.copy()
    x[mask] = source.ravel()[: mask.sum()]
    return x


def put(x, index, source):
    x = x.copy()
    np.put(x, index, source)
    return x


REDUCE = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def reduced(kind, include_self):
    """``scatter_reduce`` along axis 1, element by element."""

    def reference(x, index, src):
        y, count = x.copy(), np.full(x.shape, int(include_self))
        for place in np.ndindex(*index.shape):
            to = (place[0], index[place])
            function = np.add if kind == "mean" else REDUCE[kind]
            y[to] = function(y[to], src[place]) if count[to] else src[place]
            count[to] += 1
        return y / np.maximum(count, 1) if kind == "mean" else y

    return reference


CASES = [
    case(
        "slice_scatter",
        lambda x, y: ops.slice_scatter(x, y, 1, 1, None, 2),
        replaced((slice(None), slice(1, None, 2))),
        normal(3, 7),
        normal(3, 3),
    ),
    case(
        "select_scatter",
        lambda x, y: ops.select_scatter(x, y, 0, -1),
        replaced(-1),
        normal(3, 7),
        normal(7),
    ),
    case(
        "diagonal_scatter",
        lambda x, y: ops.diagonal_scatter(x, y, 1),
        diagonal_replaced,
        normal(4, 6),
        normal(4),
    ),
    case("masked_scatter", ops.masked_scatter, masked, normal(4, 6), booleans(4, 6), normal(24)),
    case("take", ops.take, np.take, normal(4, 6), integers(-24, 24, (3, 5))),
    case(
        "put",
        lambda x, i, y: x.put(i % 7, y),
        lambda x, i, y: put(x, i % 7, y),
        normal(3, 4),
        integers(0, 1, (1,)),
        normal(1),
    ),
    *(
        case(
            "scatter_reduce",
            lambda x, i, y, k=kind, s=own: ops.scatter_reduce(x, 1, i, y, k, include_self=s),
            reduced(kind, own),
            distinct(4, 6),
            integers(0, 6, (4, 9)),
            normal(4, 10),
            label=f"{kind} {own}",
            k=9,
        )
        for kind in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
]
OTHERWISE_TESTED = dict.fromkeys(
    ("masked_scatter_", "fill_diagonal_", "scatter_reduce_"), "test_methods_in_place"
)


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_methods_in_place():
    x, index = clnet.zeros(2, 3), clnet.tensor([[0, 0, 2]])
    assert x.fill_diagonal_(2) is x
    assert x.tolist() == [[2, 0, 0], [0, 2, 0]]
    cube = clnet.zeros(3, 3, 3).fill_diagonal_(1)
    assert cube.sum() == cube.diagonal().diagonal().sum() == 3
    assert x.scatter_reduce_(1, index, clnet.tensor([[1.0, 5.0, -1.0]]), "amax") is x
    assert x.tolist() == [[5, 0, 0], [0, 2, 0]]
    assert x.masked_scatter_(x > 0, clnet.tensor([7.0, 8.0, 9.0])) is x
    assert x.tolist() == [[7, 0, 0], [0, 8, 0]]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_gradients_of_scatter_reduce_in_place(reduce, own):
    rng = np.random.default_rng(3)
    start, values = rng.standard_normal((4, 3)), rng.standard_normal((6, 3))
    if reduce in ("amax", "amin"):  # equal ones, which share it
        start, values = start.round(), values.round()
    index, weight = rng.integers(0, 3, (6, 3)), rng.standard_normal((4, 3))
    found = []
    for lib in (clnet, torch):
        x, src = (lib.tensor(v, requires_grad=True) for v in (start, values))
        y = x * 1
        y.scatter_reduce_(0, lib.tensor(index), src, reduce, include_self=own)
        (y * lib.tensor(weight)).sum().backward()
        found.append((y.tolist(), x.grad.tolist(), src.grad.tolist()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_the_gradients_of_its_place(bad):
    x = clnet.ones(2)
    src = clnet.tensor([2.0, 3.0, bad, 5.0], requires_grad=True)
    index = clnet.tensor([0, 0, 1, 1])
    ops.scatter_reduce(x, 0, index, src, "prod").sum().backward()
    assert src.grad.tolist() == pytest.approx([3, 2, 5, bad], nan_ok=True)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_products_are_as_their_twin_beside_zeros(dim, own):
    rng = np.random.default_rng(4)
    start, values = rng.standard_normal((3, 4, 9)), rng.standard_normal((3, 4, 9))
    values[rng.random(values.shape) < 0.3] = 0
    index, weight = rng.integers(0, start.shape[dim], values.shape), rng.standard_normal(3 * 36)
    found = []
    for lib in (clnet, torch):
        x, src = (lib.tensor(v, requires_grad=True) for v in (start, values))
        y = lib.scatter_reduce(x, dim, lib.tensor(index), src, "prod", include_self=own)
        (y.flatten() * lib.tensor(weight)).sum().backward()
        found.append((y.tolist(), x.grad.tolist(), src.grad.tolist()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_products_take_no_sort(device):
    if in_groups(device.traits):
        pytest.skip("GPUs sort so few lines")
    x, index = clnet.ones(8, 9, device=device), clnet.zeros(8, 9, dtype=clnet.int64, device=device)
    src = clnet.ones(8, 9, device=device, requires_grad=True)
    with clnet.profile() as profile:
        ops.scatter_reduce(x, 1, index, src, "prod").sum().backward()
    names = profile.table()
    assert "scatter_product_slope" in names
    assert "sort" not in names


def test_equal_extremes_share_the_gradient():
    x = clnet.tensor([1.0, 0.0], requires_grad=True)
    src = clnet.tensor([1.0, 1.0, 0.5], requires_grad=True)
    index = clnet.tensor([0, 0, 1])
    ops.scatter_reduce(x, 0, index, src, "amax").sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1 / 3, 0], rtol=1e-6)
    np.testing.assert_allclose(src.grad.numpy(), [1 / 3, 1 / 3, 1], rtol=1e-6)


def test_whole_numbers_and_products():
    x, index = clnet.tensor([4, 5, 6]), clnet.tensor([0, 0, 2])
    src = clnet.tensor([3, -7, 9])
    assert ops.scatter_reduce(x, 0, index, src, "amin").tolist() == [-7, 5, 6]
    assert ops.scatter_reduce(x, 0, index, src, "mean").tolist() == [0, 5, 7]
    assert x.scatter(0, index, src, reduce="multiply").tolist() == [-84, 5, 54]
    assert x.scatter(0, index, 2, reduce="multiply").tolist() == [16, 5, 12]
    assert x.scatter_(0, index, 1, reduce="add").tolist() == [6, 5, 7]
    empty = ops.scatter_reduce(x, 0, index[:0], src[:0], "prod")
    assert empty.tolist() == [6, 5, 7]


X = clnet.zeros(2, 3)
I = clnet.tensor([0])  # noqa: E741


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.slice_scatter(X, X, 0, 0, 2, 0), ArgumentError, "the step is positive"),
        (lambda: ops.slice_scatter(X, X, 0, 0, 1), ShapeError, "the shape of what it replaces"),
        (lambda: ops.select_scatter(X, X[0], 0, 2), ArgumentError, "it lies inside its axis"),
        (lambda: ops.diagonal_scatter(X, X[0]), ShapeError, "the shape of the diagonal"),
        (lambda: ops.masked_scatter(X, X, X), DtypeError, "a mask is bool"),
        (lambda: ops.masked_scatter(X, X == 0, X[0]), ShapeError, "an element for each true one"),
        (
            lambda: X.fill_diagonal_(1) if X.ndim != 2 else X[0].clone().fill_diagonal_(1),
            ShapeError,
            "x is a matrix",
        ),
        (lambda: ops.take(X, X), DtypeError, "an index is int64 or int32"),
        (lambda: X.put(I, X), ShapeError, "a position for each element"),
        (lambda: ops.scatter_reduce(X, 1, I[None], X, "median"), ArgumentError, "reduce is one of"),
        (lambda: ops.scatter_reduce(X, 1, I[None], X.long(), "sum"), DtypeError, "one dtype"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
