"""Functions of a blocked convolution's result are applied in its kernel, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.activations import activations
from clnet.compile.passes import PASSES
from clnet.expr import Input, sigmoid
from clnet.kernels.conv_blocked import block_size
from clnet.kernels.epilogue import Activation, Epilogue
from clnet.nn import functional as F

needs_blocks = pytest.mark.skipif(
    block_size(clnet.device().traits) is None, reason="convolutions are blocked on CPUs alone"
)
OTHERS = [p for p in PASSES if p is not activations]


def silu_of_two_nodes(x):
    """As a model of ONNX has it."""
    return x * clnet.sigmoid(x)


LAYERS = {
    "direct": (nn.Conv2d(16, 32, 1), F.relu6),
    "winograd": (nn.Conv2d(32, 32, 3, padding=1), F.gelu),
    "few channels": (nn.Conv2d(3, 16, 3, 2), F.hardswish),
    "depthwise": (nn.Conv2d(16, 16, 5, padding=2, groups=16), silu_of_two_nodes),
    "depthwise, of steps": (nn.Conv2d(16, 16, 3, 2, padding=1, groups=16), F.silu),
    "direct, an exponential": (nn.Conv2d(16, 48, 1), F.silu),
}


def compiled(function, x, passes=PASSES):
    with clnet.no_grad():
        made = clnet.compile(function, passes=passes)
        return made(x).numpy(), made.explain()


@needs_blocks
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_applied_with_the_same_bits(name):
    conv, activation = LAYERS[name]
    x = clnet.tensor(np.random.default_rng(0).standard_normal((2, conv.in_channels, 19, 15)) * 4)
    x = x.float()
    found, text = compiled(lambda x: activation(conv(x)), x)
    wanted, apart = compiled(lambda x: activation(conv(x)), x, OTHERS)
    np.testing.assert_array_equal(found, wanted)
    assert "conv2d+" in text
    assert "conv2d+" not in apart


@needs_blocks
@pytest.mark.parametrize(
    "function",
    [
        lambda conv, x: F.relu6(y := conv(x)) + y.mean(),
        lambda conv, x: F.leaky_relu(conv(x), 0.2),  # the slope is a number of each run
        lambda conv, x: F.relu6(conv(x))[:, :, ::2],
    ],
)
def test_what_stays_apart_computes_the_same(function):
    conv = nn.Conv2d(16, 32, 1)
    x = clnet.tensor(np.random.default_rng(0).standard_normal((2, 16, 9, 7)).astype(np.float32))
    found, _ = compiled(lambda x: function(conv, x), x)
    with clnet.no_grad():
        np.testing.assert_allclose(found, function(conv, x).numpy(), rtol=1e-5, atol=1e-5)


@needs_blocks
def test_nan_passes_a_relu6_as_it_does_elsewhere():
    conv = nn.Conv2d(16, 16, 1)
    x = clnet.full((1, 16, 3, 3), float("nan"))
    assert np.isnan(compiled(lambda x: F.relu6(conv(x)), x)[0]).all()


@pytest.mark.parametrize("block", [4, 8, 16])
def test_two_pixels_are_one_vector_where_there_is_one(block):
    activation = Activation("silu", Input(0) * sigmoid(Input(0)))
    _, (_, found) = Epilogue(activation=activation).blocked_params(block)
    assert f"sigmoid{block}" in "".join(found.one.statements + found.one.results)
    if block == 16:  # OpenCL has no wider one
        assert found.two is None
    else:
        assert f"sigmoid{2 * block}" in "".join(found.two.statements + found.two.results)
