"""Searching, counting and comparing, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError, ShapeError
from tests.opcase import OpCase, every_check, integers, normal

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label=""):
    return OpCase(fn, ref, inputs, grad=False, layouts=(), shapes=(), name=name, label=label)


SORTED = integers(-9, 9, (37,))
ROWS = integers(-5, 5, (3, 8))


def search(right):
    return (
        lambda s, v: ops.searchsorted(s.sort().values, v, right=right),
        lambda s, v: np.searchsorted(np.sort(s), v, "right" if right else "left"),
    )


def by_rows(s, v):
    return np.stack([np.searchsorted(np.sort(a), b) for a, b in zip(s, v, strict=True)])


CASES = [
    case("searchsorted", *search(False), SORTED, integers(-12, 12, (4, 5))),
    case("searchsorted", *search(True), SORTED, integers(-12, 12, (4, 5)), label="right"),
    case(
        "searchsorted",
        lambda s, v: ops.searchsorted(s.sort(1).values, v),
        by_rows,
        ROWS,
        integers(-7, 7, (3, 5)),
        label="rows",
    ),
    case(
        "bucketize",
        lambda x, b: ops.bucketize(x, b.sort().values),
        lambda x, b: np.searchsorted(np.sort(b), x),
        normal(3, 4),
        normal(5),
    ),
    case("isin", ops.isin, np.isin, integers(0, 9, (4, 5)), integers(0, 9, (4,))),
    case("bincount", ops.bincount, np.bincount, integers(0, 9, (50,))),
    case(
        "histc",
        lambda x: ops.histc(x, 5, -1, 1),
        lambda x: np.histogram(x, 5, (-1, 1))[0].astype(float),
        normal(99),
    ),
    case(
        "histc",
        lambda x: ops.histc(x, 7),
        lambda x: np.histogram(x, 7)[0].astype(float),
        normal(99),
        label="own range",
    ),
    case(
        "isclose",
        lambda x, y: ops.isclose(x, x + y * 1e-5),
        lambda x, y: np.isclose(x, (x + y * 1e-5), rtol=1e-5),
        integers(1, 9, (30,)),
        integers(-30, 30, (30,)),
    ),
    case(
        "repeat_interleave",
        lambda x: ops.repeat_interleave(x, 3, -1),
        lambda x: np.repeat(x, 3, -1),
        normal(3, 4),
    ),
    case(
        "repeat_interleave",
        lambda x, n: ops.repeat_interleave(x, n, 1),
        lambda x, n: np.repeat(x, n, 1),
        normal(3, 4),
        integers(0, 4, (4,)),
        label="tensor",
    ),
    case(
        "repeat_interleave",
        lambda x: ops.repeat_interleave(x, clnet.tensor(2)),
        lambda x: np.repeat(x, 2),
        normal(3, 4),
        label="flat",
    ),
]
OTHERWISE_TESTED = {
    "allclose": "test_python_booleans",
    "equal": "test_python_booleans",
}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_python_booleans():
    x = clnet.tensor([1.0, float("nan")])
    assert ops.equal(x[:1], x[:1])
    assert not ops.equal(x, x)
    assert not ops.equal(x, x[:1])
    assert ops.allclose(x, x, equal_nan=True) is True
    assert ops.allclose(x, x) is False
    assert ops.isclose(clnet.tensor([float("inf")]), float("inf")).tolist() == [True]
    whole, near = clnet.tensor([3, -100000, 100000]), clnet.tensor([4, -100001, 100002])
    assert ops.isclose(whole, near).tolist() == [False, True, False]
    assert ops.isclose(whole, 4, atol=1).tolist() == [True, False, False]
    assert ops.isclose(whole > 0, near > 10).tolist() == [False, True, True]
    assert ops.allclose(whole, whole)


def test_sorters_and_sides():
    x, order = clnet.tensor([3.0, 1.0, 2.0]), clnet.tensor([1, 2, 0])
    found = ops.searchsorted(x, 2.0, side="right", sorter=order, out_int32=True)
    assert (found.item(), found.dtype) == (2, clnet.int32)
    assert ops.isin(x, 1.0, invert=True).tolist() == [True, False, True]
    assert ops.isin(x, x[:0]).tolist() == [False] * 3


def test_few_or_equal_elements():
    assert ops.bincount(clnet.tensor([1, 1]), clnet.tensor([0.5, 2.0]), 4).tolist() == [
        0,
        2.5,
        0,
        0,
    ]
    assert ops.bincount(clnet.tensor([1])[:0], minlength=2).tolist() == [0, 0]
    assert ops.histc(clnet.tensor([2.0, 2.0]), 2).tolist() == [0, 2]
    # Of whole numbers, as mixtures of experts count them on PyTorch's GPUs.
    experts = clnet.tensor([0, 3, 3, 1, -1, 4, 7], dtype=clnet.int32)
    found = ops.histc(experts, 4, 0, 3)
    assert (found.dtype, found.tolist()) == (clnet.int32, [1, 1, 0, 2])
    assert ops.histc(experts.long() + 2**40, 9).tolist() == [1, 1, 1, 0, 2, 1, 0, 0, 1]
    assert clnet.bucketize(2.5, clnet.tensor([1.0, 2.0, 3.0])).item() == 2
    for dtype in (clnet.int32, clnet.int64):  # repeats alone repeat their positions
        found = clnet.repeat_interleave(clnet.tensor([0, 2, 1], dtype=dtype))
        assert found.dtype is dtype
        assert found.tolist() == [1, 1, 2]
    assert ops.repeat_interleave(
        clnet.tensor([1, 2]), clnet.tensor([2, 1]), output_size=3
    ).tolist() == [1, 1, 2]


X = clnet.tensor([1.0, 2.0])


I = clnet.tensor([1, 2])  # noqa: E741


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.searchsorted(X, 1.0, side="up"), ArgumentError, "side is 'left' or 'right'"),
        (
            lambda: ops.searchsorted(X.reshape(1, 2), X.reshape(2, 1)),
            ShapeError,
            r"the sequence is \(n,\)",
        ),
        (lambda: ops.bucketize(X, X.reshape(1, 2)), ShapeError, r"boundaries are \(n,\)"),
        (lambda: ops.bincount(X), DtypeError, "an index is int64 or int32"),
        (lambda: ops.bincount(I, X[:1]), ShapeError, r"x is \(n,\), weights as well"),
        (lambda: ops.bincount(-I), ArgumentError, "elements and minlength are 0 or more"),
        (lambda: ops.histc(X, 0), ArgumentError, "there is a bin or more"),
        (lambda: ops.histc(X, 2, 3, 1), ArgumentError, "min is at most max"),
        (lambda: ops.histc(X / 0), ArgumentError, "all elements are finite; got smallest="),
        (lambda: ops.histc(I > 0), DtypeError, "operands are floating or whole"),
        (lambda: ops.repeat_interleave(X, -1), ArgumentError, "repeats are 0 or more"),
        (
            lambda: ops.repeat_interleave(clnet.ones(2, 2, dtype=clnet.int64)),
            ShapeError,
            "repeats of positions are a vector",
        ),
        (
            lambda: ops.repeat_interleave(X, clnet.tensor([1, 2, 3])),
            ShapeError,
            "a number for each slice",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("numbers", [3, 2048, 2049, 100_000])
def test_many_elements_are_counted(numbers, device):
    """By one core or several, in memory that a group shares or not."""
    keys = np.random.default_rng(3).integers(0, numbers, 40_000)
    counts = ops.bincount(clnet.tensor(keys), minlength=numbers)
    assert counts.dtype is clnet.int64
    assert np.array_equal(counts.numpy(), np.bincount(keys, minlength=numbers))
    assert np.array_equal(
        ops.histc(clnet.tensor(keys[::3].astype("f4")), 16, 1, numbers - 1).numpy(),
        np.histogram(keys[::3], 16, (1, numbers - 1))[0],
    )
