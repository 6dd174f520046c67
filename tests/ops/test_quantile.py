"""Medians and quantiles, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError
from tests.opcase import OpCase, distinct, every_check, transposed

pytestmark = pytest.mark.device

X = distinct(5, 6)


def case(name, fn, ref, label=""):
    return OpCase(fn, ref, [X], layouts=(transposed,), shapes=(), name=name, label=label)


def middle(x, axis=None):
    rows = x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1)
    return np.sort(rows, -1)[..., (rows.shape[-1] - 1) // 2]


METHODS = ("linear", "lower", "higher", "midpoint")
CASES = [
    case("median", ops.median, middle),
    case("median", lambda x: ops.median(x, 1).values, lambda x: middle(x, 1), "axis"),
    case("nanmedian", lambda x: ops.nanmedian(x, 0, True).values, lambda x: middle(x, 0)[None]),
    *(
        case(
            "quantile",
            lambda x, m=m: ops.quantile(x, 0.3, 0, interpolation=m),
            lambda x, m=m: np.quantile(x, 0.3, 0, method=m),
            m,
        )
        for m in METHODS
    ),
    case(
        "quantile",
        lambda x: ops.quantile(x, [0, 0.7, 1], 1, keepdim=True),
        lambda x: np.quantile(x, [0, 0.7, 1], 1, keepdims=True),
        "several",
    ),
    case(
        "quantile",
        lambda x: ops.quantile(x, 0.9, keepdim=True),
        lambda x: np.quantile(x, 0.9, keepdims=True),
        "all",
    ),
    case("nanquantile", lambda x: ops.nanquantile(x, 0.2, 1), lambda x: np.nanquantile(x, 0.2, 1)),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_missing_numbers():
    host = np.array([[1, np.nan, 3, 2], [np.nan, np.nan, np.nan, np.nan], [4, 3, 2, 1]], np.float32)
    x = clnet.tensor(host)
    np.testing.assert_array_equal(ops.median(x, 1).values.numpy(), [np.nan, np.nan, 2])
    assert ops.median(x, 1).indices.tolist()[2] == 2
    np.testing.assert_array_equal(ops.nanmedian(x, 1).values.numpy(), [2, np.nan, 2])
    np.testing.assert_array_equal(ops.quantile(x, 0.5, 1).numpy(), [np.nan, np.nan, 2.5])
    np.testing.assert_allclose(ops.nanquantile(x, 0.5, 1).numpy(), [2, np.nan, 2.5])
    near = ops.quantile(x[2], 0.4, interpolation="nearest")
    assert near.item() == 2


def test_numbers_and_whole_numbers():
    assert ops.median(clnet.tensor(3)).item() == 3
    assert ops.median(clnet.tensor([4, 1, 3, 2])).item() == 2
    found = ops.median(clnet.tensor(3.0), 0)
    assert (found.values.item(), found.indices.item()) == (3, 0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: ops.median(x[:0], 0), ArgumentError, "the axis has an element"),
        (lambda x: ops.quantile(x[:0], 0.5), ArgumentError, "the axis has an element"),
        (lambda x: ops.quantile(x, 1.5), ArgumentError, r"q lies in \[0, 1\]"),
        (
            lambda x: ops.quantile(x, 0.5, interpolation="no"),
            ArgumentError,
            "interpolation is one of",
        ),
        (lambda x: ops.quantile(x.long(), 0.5), DtypeError, "operands are floating"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(clnet.tensor([1.0, 2.0]))
