"""Products of bfloat16 by pairs, in plain C and by the processor's instruction."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target, device
from clnet.kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    conv_forward,
    conv_im2col,
    conv_input_grad,
    conv_weight_grad,
    pairs_pay,
)
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm, pairs_fit
from clnet.values.dtypes import bfloat16, float16
from tests.kernels.launching import compiled_rightly
from tests.kernels.test_conv import Reference

pytestmark = pytest.mark.device

CPU = {"dedicated_local_memory": False, "simd_width": 8}


@pytest.fixture(scope="module")
def where():
    return device()


@pytest.fixture
def target(where):
    traits = replace(where.traits, **CPU)
    return compiled_rightly(Target(traits, where.target.workspace_limit), where)


def operand(where, *shape, turned, before=0):
    """Normal numbers, their last two axes exchanged in memory, and some elements before them."""
    values = np.random.default_rng(len(shape)).standard_normal(shape).astype(ml_dtypes.bfloat16)
    stored = values.swapaxes(-1, -2) if turned else values
    dense = Array.from_numpy(np.concatenate([np.ones(before, values.dtype), stored.ravel()]), where)
    steps = [s // values.itemsize for s in np.ascontiguousarray(stored).strides]
    if turned:
        steps[-2:] = steps[:-3:-1]
    return dense.view(shape, tuple(steps), before), values.astype(np.float64)


def multiplied(where, target, out, a, b, dot, **given):
    launches = gemm(target, out, a, b, dot=dot, **given)
    for launch in launches:
        where.queue.launch(launch)
    return out.numpy().astype(np.float64), [launch.kernel.name for launch in launches]


@pytest.mark.parametrize("dot", ["", None], ids=["plain", "own"])
@pytest.mark.parametrize(("k", "before"), [(38, 0), (38, 1), (37, 0)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_products_by_pairs(where, target, turned, k, before, dot):
    a, left = operand(where, 2, 21, k, turned=turned[0], before=before)
    b, right = operand(where, k, 35, turned=turned[1])
    b = b.view((2, k, 35), (0, *b.strides))
    out = Array.from_numpy(np.full((2, 21, 35), np.nan, ml_dtypes.bfloat16), where)
    dot = where.bfloat16_dot if dot is None else dot
    found, kernels = multiplied(where, target, out, a, b, dot)
    expected = left @ right
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-4)
    copied = bool(k % 2 or before or turned[0]) + bool(k % 2 or not turned[1])
    assert kernels.count("gemm_pair") == copied
    assert "gemm_packed" in kernels


def test_a_bias_is_added_and_what_was_there_is_kept(where, target):
    a, left = operand(where, 19, 40, turned=False)
    b, right = operand(where, 40, 24, turned=True)
    bias, added = operand(where, 1, 24, turned=False)
    before = np.random.default_rng(0).standard_normal((19, 24)).astype(ml_dtypes.bfloat16)
    out = Array.from_numpy(before, where)
    epilogue = Epilogue(bias.view((24,), (1,)), activation="relu")
    found, _ = multiplied(where, target, out, a, b, "", alpha=0.5, beta=2.0, epilogue=epilogue)
    expected = np.maximum(0.5 * left @ right + 2 * before.astype(np.float64) + added, 0)
    np.testing.assert_allclose(found, expected, rtol=2**-8, atol=1e-4)


def test_which_products_fit(target):
    assert pairs_fit(target, bfloat16, (5, 64), (64, 7))
    assert not pairs_fit(target, float16, (5, 64), (64, 7))
    assert not pairs_fit(target, bfloat16, (1, 64), (64, 7))
    small = replace(target, workspace_limit=1000)
    assert not pairs_fit(small, bfloat16, (50, 64), (64, 70))
    grouped = replace(target, traits=replace(target.traits, dedicated_local_memory=True))
    assert not pairs_fit(grouped, bfloat16, (5, 64), (64, 7))


@pytest.mark.parametrize(
    "g",
    [
        ConvGeometry(3, 6, 9, 8, 10, 3, 3, 5, 4, 2, 2, 1, 1, groups=2),
        ConvGeometry(2, 7, 5, 6, 11, 1, 1, 5, 6),
    ],
    ids=["columns", "1x1"],
)
def test_convolutions_by_pairs(where, target, monkeypatch, g):
    monkeypatch.setattr(conv_im2col, "_CHUNK_BYTES", 1)  # an image at a time
    case = Reference(g, ml_dtypes.bfloat16)
    x, weight, bias, gy = (
        Array.from_numpy(values, where) for values in (case.x, case.weight, case.bias, case.gy)
    )
    y, gx, gw = (
        Array.from_numpy(np.full(like.shape, np.nan, ml_dtypes.bfloat16), where)
        for like in (gy, x, weight)
    )
    for launch in (
        *conv_forward(target, y, x, weight, g, Epilogue(bias), dot=""),
        *conv_input_grad(target, gx, gy, weight, g, dot=""),
        *conv_weight_grad(target, gw, gy, x, g, dot=""),
    ):
        where.queue.launch(launch)
    for found, expected in (
        (y, case.forward()),
        (gx, case.input_grad()),
        (gw, case.weight_grad()),
    ):
        np.testing.assert_allclose(found.numpy().astype(float), expected, rtol=2**-7, atol=1e-3)


def test_which_convolutions_take_pairs(target):
    wide = ConvGeometry(2, 64, 9, 9, 48, 3, 3, 9, 9, 1, 1, 1, 1)
    assert pairs_pay(target, wide, Direction.FORWARD, None)
    assert not pairs_pay(target, wide, Direction.FORWARD, Algorithm.DIRECT)
    narrow = wide._replace(oc=16)
    assert not pairs_pay(target, narrow, Direction.FORWARD, None)
    assert not pairs_pay(replace(target, workspace_limit=1000), wide, Direction.FORWARD, None)
