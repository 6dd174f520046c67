"""Running extremes, differences and integrals, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import ops
from clnet.errors import ArgumentError, DtypeError
from clnet.ops.machinery.function import apply
from clnet.ops.scan import RunningLogSum
from tests.opcase import OpCase, booleans, distinct, every_check, normal, transposed

pytestmark = pytest.mark.device

X = distinct(5, 11)


def case(name, fn, ref, *inputs, label="", **options):
    inputs = inputs or (X,)
    return OpCase(
        fn, ref, inputs, layouts=(transposed,), shapes=(), name=name, label=label, **options
    )


CASES = [
    case("cummax", lambda x: ops.cummax(x, 1).values, lambda x: np.maximum.accumulate(x, 1)),
    case("cummin", lambda x: ops.cummin(x, 0).values, lambda x: np.minimum.accumulate(x, 0)),
    case(
        "logcumsumexp",
        lambda x: ops.logcumsumexp(x, 1),
        lambda x: np.logaddexp.accumulate(x, 1),
        normal(4, 9, scale=4),
        k=9,
    ),
    case(
        "logcumsumexp",
        lambda x: apply(RunningLogSum(1), ops.contiguous(x)),
        lambda x: np.logaddexp.accumulate(x, 1),
        normal(4, 9, scale=4),
        k=9,
        label="in one launch",
    ),
    case(
        "logcumsumexp",
        lambda x: apply(RunningLogSum(0), ops.contiguous(x)),
        lambda x: np.logaddexp.accumulate(x, 0),
        normal(70, 3, scale=4),
        k=70,
        label="beside",
    ),
    case("diff", ops.diff, np.diff),
    case(
        "diff",
        lambda x, y: ops.diff(x, 2, 0, y, y),
        lambda x, y: np.diff(x, 2, 0, y, y),
        normal(4, 3),
        normal(1, 3),
        label="twice",
    ),
    case("diff", ops.diff, np.diff, booleans(3, 7), label="booleans", grad=False),
    case("trapezoid", ops.trapezoid, np.trapezoid if hasattr(np, "trapezoid") else np.trapz, k=11),
    case(
        "trapezoid",
        lambda y, x: ops.trapezoid(y, x, dim=0),
        lambda y, x: ((y[1:] + y[:-1]) * np.diff(x)[:, None] / 2).sum(0),
        normal(5, 3),
        normal(5),
        label="places",
    ),
    case(
        "trapezoid",
        lambda y, x: ops.trapezoid(y, x),
        lambda y, x: ((y[:, 1:] + y[:, :-1]) * np.diff(x) / 2).sum(1),
        normal(2, 5),
        normal(2, 5),
        label="each",
    ),
    case(
        "trapezoid",
        lambda y, x: ops.trapezoid(y, x, dim=1),
        lambda y, x: ((y[:, 1:] + y[:, :-1]) * np.diff(x, axis=0) / 2).sum(1),
        normal(2, 5, 3),
        normal(5, 3),
        label="each of fewer axes",
    ),
    case(
        "cumulative_trapezoid",
        lambda y, x: ops.cumulative_trapezoid(y, x, dim=0),
        lambda y, x: np.cumsum((y[1:] + y[:-1]) * np.diff(x)[:, None] / 2, 0),
        normal(5, 3),
        normal(5),
    ),
]


@pytest.mark.parametrize(("case", "check"), every_check(CASES))
def test_op(case, check, device):
    check(case, device)


def test_the_last_of_equal_extremes_counts_and_nan_stays():
    x = clnet.tensor([1.0, 3.0, 3.0, 2.0, float("nan"), 5.0])
    found = ops.cummax(x, 0)
    assert found.indices.tolist() == [0, 1, 2, 2, 4, 4]
    assert np.isnan(found.values.numpy()[4:]).all()
    whole = ops.cummin(clnet.tensor([4, 4, 5, 1]), 0)
    assert (whole.values.tolist(), whole.indices.tolist()) == ([4, 4, 4, 1], [0, 1, 1, 3])
    assert ops.cummax(clnet.tensor(2.0), 0).indices.item() == 0


def test_logarithms_of_running_sums_at_infinities_and_far_from_0():
    inf = float("inf")
    for given, sums, gradient in (
        ([-inf, 1.0], [-inf, 1.0], [np.nan, 1.0]),  # as PyTorch's
        ([1.0, inf, 2.0], [1.0, inf, inf], [1.0, np.nan, 0.0]),
        ([1.0, -inf], [1.0, 1.0], [2.0, 0.0]),
        ([1.0, np.nan, 2.0], [1.0, np.nan, np.nan], [np.nan] * 3),
        ([1000.0, -1000.0, 3.0], [1000.0] * 3, [3.0, 0.0, 0.0]),
    ):
        x = clnet.tensor(given, requires_grad=True)
        y = apply(RunningLogSum(0), x)
        y.sum().backward()
        np.testing.assert_array_equal(y.detach().numpy(), np.float32(sums))
        np.testing.assert_array_equal(x.grad.numpy(), np.float32(gradient))
    assert apply(RunningLogSum(0), clnet.zeros(0, 3)).shape == (0, 3)
    assert ops.logcumsumexp(clnet.zeros(0, 3), 0).shape == (0, 3)


def test_errors():
    with pytest.raises(ArgumentError, match="n is 0 or more"):
        ops.diff(clnet.zeros(3), -1)
    with pytest.raises(DtypeError, match="operands are floating"):
        ops.logcumsumexp(clnet.tensor([1]), 0)


@pytest.mark.parametrize("x", [None, [1, 2, 3]])
def test_trapezoids_of_narrow_whole_numbers(x):
    y = clnet.tensor([100, 100, 100], dtype=clnet.int8)
    x = None if x is None else clnet.tensor(x)
    assert ops.trapezoid(y, x).item() == 200
    assert ops.cumulative_trapezoid(y, x).tolist() == [100, 200]
