"""Values and slices that occur, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import BoundsError, ShapeError
from tests.opcase import OpCase, every_check, integers

pytestmark = pytest.mark.device


def case(name, fn, ref, *inputs, label=""):
    return OpCase(fn, ref, inputs, grad=False, layouts=(), shapes=(), name=name, label=label)


CASES = [
    case(
        "unique",
        lambda x: ops.unique(x, return_inverse=True, return_counts=True),
        lambda x: [
            y.reshape(x.shape) if i == 1 else y
            for i, y in enumerate(np.unique(x, return_inverse=True, return_counts=True))
        ],
        integers(0, 9, (4, 5)),
    ),
    case("unique", ops.unique, np.unique, integers(0, 9, (0,)), label="empty"),
]
OTHERWISE_TESTED = {"unique_consecutive": "test_runs_are_found"}


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_runs_are_found():
    x = clnet.tensor([3, 3, 1, 1, 1, 3])
    values, inverse, counts = ops.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([3, 1, 3], [2, 3, 1])
    assert inverse.tolist() == [0, 0, 1, 1, 1, 2]
    assert ops.unique_consecutive(x[:0]).tolist() == []


FAR = [-(2**62), 2**62, 7, 7, -(2**62)]


@pytest.mark.parametrize(
    "x",
    [
        np.array(FAR),
        np.array([2**62, 2**62 + 1] * 3),
        np.array([-(2**31), 2**31 - 1, 5], np.int32),
        np.array([-128, 127, 3, 3], np.int8),
        np.array([255, 0, 255], np.uint8),
        np.array([True, True]),
        np.array([4]),
        np.arange(5000) * 3 % 1009 - 500,
        np.array([1.5, np.inf, -np.inf, 1.5, 0]),
    ],
    ids=lambda x: f"{x.dtype}-{x.size}",
)
def test_values_far_apart_and_close_together(x):
    """Counted where they are close, else sorted; ranges that the dtype does not hold."""
    found = ops.unique(clnet.tensor(x), return_inverse=True, return_counts=True)
    for y, z in zip(found, np.unique(x, return_inverse=True, return_counts=True), strict=True):
        assert np.array_equal(y.numpy(), z)
    values = ops.unique(clnet.tensor(x))
    assert values.numpy().dtype == x.dtype
    assert np.array_equal(values.numpy(), np.unique(x))


def test_each_nan_is_another():
    x = clnet.tensor([float("nan"), 1.0, float("nan"), 1.0])
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True)
    assert values.isnan().tolist() == [False, True, True]
    assert (inverse.tolist(), counts.tolist()) == ([1, 0, 2, 0], [2, 1, 1])


def test_unique_slices():
    """Of axes in front, in the middle and last, against NumPy."""
    rng = np.random.default_rng(0)
    for shape, axis in (((9, 2), 0), ((2, 8, 2), 1), ((3, 7), -1), ((6,), 0), ((0, 3), 0)):
        for dtype in (np.float32, np.int64, np.bool_):
            x = rng.integers(0, 2, shape).astype(dtype)
            given = clnet.tensor(x)
            found = ops.unique(given, return_inverse=True, return_counts=True, dim=axis)
            wanted = np.unique(x, return_inverse=True, return_counts=True, axis=axis)
            for y, z in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(y.numpy(), z.reshape(y.shape))
            np.testing.assert_array_equal(found[0].numpy().take(found[1].numpy(), axis), x)
            runs, inverse, counts = given.unique_consecutive(True, True, axis)
            moved = np.moveaxis(x, axis, 0).reshape(x.shape[axis], x.size // max(x.shape[axis], 1))
            begins = np.ones(len(moved), bool)
            begins[1:] = (moved[1:] != moved[:-1]).any(1)
            np.testing.assert_array_equal(runs.numpy(), x.compress(begins, axis))
            np.testing.assert_array_equal(inverse.numpy(), np.cumsum(begins) - 1)
            assert counts.sum().item() == len(moved)


def test_errors():
    with pytest.raises(ShapeError, match="slices that are compared have"):
        ops.unique(clnet.ones(2, 0), dim=0)
    with pytest.raises(BoundsError, match="dim"):
        ops.unique(clnet.ones(2), dim=1)
