"""Convolutions of all settings, drawn: results and three gradients against float64 on the host.

``CLNET_TEST_DRAWS=5000`` draws as many more a test, from seeds of their own.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.nn import functional as F
from tests import convdraw
from tests.convdraw import Setting

pytestmark = pytest.mark.device

DRAWS = int(os.environ.get("CLNET_TEST_DRAWS", "24"))
FIRST = int(os.environ.get("CLNET_TEST_SEED", "0"))
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def operands(s: Setting, rng, dtype):
    shapes = [shape for shape in s.shapes() if shape is not None]
    hosts = [rng.standard_normal(shape) for shape in shapes]
    given = [clnet.tensor(h, dtype=dtype, requires_grad=True) for h in hosts]
    return given, [np.asarray(t.detach().double().numpy()) for t in given]


def called(s: Setting, x, weight, bias=None):
    """The op of a setting, as a user calls it."""
    axes = len(s.size)
    if s.transposed:
        call = getattr(F, f"conv_transpose{axes}d")
        return call(x, weight, bias, s.stride, s.padding, s.extra, s.groups, s.dilation)
    call = getattr(F, f"conv{axes}d")
    return call(x, weight, bias, s.stride, s.padding, s.dilation, s.groups)


def layered(s: Setting):
    """The layer of a setting, given its parameters; results and gradients as :func:`eager`'s."""

    def call(x, *tensors):
        *parameters, gy = tensors
        layer = getattr(nn, f"Conv{len(s.size)}d")(
            s.channels[0] * s.groups, s.channels[1] * s.groups, s.kernel, s.stride, s.padding,
            s.dilation, s.groups, s.bias, padding_mode=s.mode,
        )  # fmt: skip
        with clnet.no_grad():
            for own, values in zip(layer.parameters(), parameters, strict=True):
                own.copy_(values)
        y = layer(x)
        return (y, *clnet.autograd.grad([y], [x, *layer.parameters()], [gy]))

    return call


def differences(s: Setting, rng, call, dtype=clnet.float32):
    """How far results and gradients are off, in roundings of their sums; 1 and less is right."""
    given, hosts = operands(s, rng, dtype)
    bias = hosts[2] if s.bias else None
    shape = convdraw.forward(hosts[0], hosts[1], bias, s).shape
    gy = clnet.tensor(rng.standard_normal(shape), dtype=dtype)
    wanted = convdraw.gradients(hosts[0], hosts[1], bias, gy.double().numpy(), s)
    found = call(*given, gy)
    eps = EPS[str(dtype).removeprefix("clnet.")]
    for name, y, expected in zip(("y", "gx", "gw", "gb"), found, wanted, strict=False):
        actual = y.detach().double().numpy()
        assert actual.shape == expected.shape, (name, actual.shape, expected.shape)
        off = np.abs(actual - expected)
        assert np.isfinite(off).all(), (name, s)
        scale = 40 * eps * max(np.abs(expected).max(initial=0), 1) * max(s.terms, 4) ** 0.5
        yield name, float(off.max(initial=0) / scale)


def eager(s: Setting):
    def call(*tensors):
        *given, gy = tensors
        y = called(s, *given)
        return (y, *clnet.autograd.grad([y], given, [gy]))

    return call


def check(s, seed, call, dtype=clnet.float32):
    worst = dict(differences(s, np.random.default_rng(seed), call, dtype))
    assert max(worst.values()) <= 1, (seed, s, worst)


def settings(count, *, layer=False, salt=0):
    for seed in range(FIRST, FIRST + count):
        yield seed, convdraw.draw(np.random.default_rng([salt, seed]), layer=layer)


def test_eager():
    for seed, s in settings(DRAWS):
        check(s, seed, eager(s))


def test_compiled():
    for seed, s in settings(DRAWS // 2, salt=1):
        check(s, seed, clnet.compile(eager(s)))


def test_layers_with_padding_of_all_modes():
    for seed, s in settings(DRAWS // 2, layer=True, salt=3):
        check(s, seed, layered(s))


def test_output_padding_of_a_stride_and_more():
    """Beyond the last step of the filter there is 0, not what memory held."""
    ones = clnet.ones(1, 1, 2, 2)
    y = F.conv_transpose2d(ones, ones, stride=1, dilation=2, output_padding=1)
    row, none = [1, 1, 1, 1, 0], [0] * 5
    np.testing.assert_array_equal(y.numpy()[0, 0], [row, row, row, row, none])
    for seed, s in settings(DRAWS * 3, salt=4):
        axes = list(zip(s.extra, s.stride, strict=True))
        if len(s.size) < 3 and s.transposed and any(e >= step for e, step in axes):
            check(s, seed, eager(s))


@pytest.mark.parametrize("dtype", [clnet.float64, clnet.float16, clnet.bfloat16], ids=str)
def test_other_dtypes(dtype, device):
    if dtype is clnet.float64 and not device.traits.float64:
        pytest.skip("the device has no float64")
    for seed, s in settings(DRAWS // 4, salt=2):
        check(s, seed, eager(s), dtype)
