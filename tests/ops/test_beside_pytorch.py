"""Slopes at NaN and zeros, bounds, and dtypes of a few ops, as PyTorch has them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, DtypeError, ShapeError
from clnet.nn import functional as F

pytestmark = pytest.mark.device
NAN, INF = float("nan"), float("inf")


def slope(function, x):
    """The slope at one number, which PyTorch finds by its formula, not by its vectors."""
    x = clnet.tensor([x], requires_grad=True)
    function(x).sum().backward()
    return x.grad.item()


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (F.elu, 1),
        (lambda x: F.elu(x, 0.5), 1),
        (F.celu, 1),
        (lambda x: F.celu(x, 2.0), 1),
        (F.selu, 1.0507009873554805),
        (F.softshrink, 1),
        (F.hardshrink, 1),
        (F.hardtanh, 1),
        (F.relu6, 1),
        (F.hardswish, 1),
        (lambda x: clnet.logit(x, 0.25), NAN),
        (clnet.logit, NAN),
    ],
)
def test_the_slope_at_nan_is_that_of_pytorchs_formula(function, wanted):
    np.testing.assert_allclose(slope(function, NAN), wanted, rtol=1e-6)


@pytest.mark.parametrize("alpha", [INF, NAN, -1.0])
def test_zero_stays_zero_whatever_alpha_is(alpha):
    for function in (F.elu, F.celu):
        y = function(clnet.tensor([0.0, -0.0]), alpha).numpy()
        assert y.tolist() == [0, 0]
        assert np.signbit(y).tolist() == [False, True]


def test_bounds_of_logit():
    cases = [(-1.0, -2.0, NAN), (-1.0, 0.0, INF), (NAN, 0.25, 16 / 3), (NAN, 2.0, -0.5)]
    cases += [(0.75, 0.5, 0), (0.0, 0.0, INF), (0.0, -0.0, INF), (None, -0.0, INF), (0.0, 2.0, 0)]
    for eps, x, wanted in cases:
        np.testing.assert_allclose(slope(lambda x, e=eps: clnet.logit(x, e), x), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "law"),
    [
        (lambda x: F.hardtanh(x, 2, 1), "hardtanh: min_val is at most max_val"),
        (lambda x: nn.Hardtanh(0.0, 0.0), "Hardtanh: max_val is greater than min_val"),
        (lambda x: nn.Hardtanh(1.0, NAN), "Hardtanh: max_val is greater than min_val"),
        (lambda x: F.softshrink(x, INF), "softshrink: lambd is 0 or more, and finite"),
        (lambda x: F.softshrink(x, -0.5), "softshrink: lambd is 0 or more, and finite"),
        (lambda x: F.celu(x, 0.0), "celu: alpha is not 0"),
    ],
)
def test_bounds_are_refused(call, law):
    with pytest.raises(ArgumentError, match=law):
        call(clnet.ones(3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima_of_whole_numbers(dtype, axes):
    host = np.random.default_rng(axes).integers(0, 200, (2, 3, *(5,) * axes)).astype(dtype)
    pool = getattr(F, f"max_pool{axes}d")
    y, index = pool(clnet.tensor(host), 3, 2, 1, return_indices=True)
    floats, places = pool(clnet.tensor(host.astype(np.float64)), 3, 2, 1, return_indices=True)
    assert y.dtype is getattr(clnet, dtype)
    np.testing.assert_array_equal(y.numpy(), floats.numpy())
    np.testing.assert_array_equal(index.numpy(), places.numpy())
    np.testing.assert_array_equal(pool(clnet.tensor(host), 3, 2, 1).numpy(), y.numpy())


def test_large_whole_numbers_are_not_rounded():
    x = clnet.tensor([[[[2**62, 2**62 + 1], [-(2**63), 2**62]]]])
    y, index = F.max_pool2d(x, 2, return_indices=True)
    assert (y.item(), index.item()) == (2**62 + 1, 1)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_window_that_steps_across_everything(axes):
    pool = getattr(F, f"max_pool{axes}d")
    x = clnet.ones(2, 2, *(1,) * axes, requires_grad=True)
    y = pool(x, 2, 1, 1, 2)  # its elements lie before and behind the only one there is
    y.sum().backward()
    assert y.shape == x.shape
    assert set(y.flatten().tolist()) == {-math.inf}
    assert set(x.grad.flatten().tolist()) == {0}
    assert set(pool(x.detach().to(clnet.int16), 2, 1, 1, 2).flatten().tolist()) == {-(2**15)}


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding_is_at_most_half_of_the_window_without_its_gaps(axes):
    x = clnet.ones(1, 1, *(9,) * axes)
    with pytest.raises(ArgumentError, match="padding is at most half the window"):
        getattr(F, f"max_pool{axes}d")(x, 3, 1, 2, 2)


def test_booleans_have_no_maxima_of_windows():
    with pytest.raises(DtypeError, match="max_pool2d: operands are real numbers, and not booleans"):
        F.max_pool2d(clnet.ones(1, 2, 2, dtype=clnet.bool), 2)


@pytest.mark.parametrize("solve", [clnet.linalg.lu_solve, clnet.linalg.ldl_solve])
def test_pivots_are_whole_numbers(solve):
    x, b = clnet.eye(3), clnet.ones(3, 2)
    with pytest.raises(DtypeError, match=r"_solve: pivots are"):
        solve(x, clnet.ones(3), b)
    with pytest.raises(ShapeError, match=r"_solve: .*pivots are those of x"):
        solve(x, clnet.ones(2, dtype=clnet.int32), b)
