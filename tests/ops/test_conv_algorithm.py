"""A user's choice of how convolutions are computed."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError
from clnet.nn import functional as F
from tests.kernels.launching import in_small_tiles

pytestmark = pytest.mark.device

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 8, 9, 10))
WEIGHT = RNG.standard_normal((6, 8, 3, 3))
GRADIENT = RNG.standard_normal((2, 6, 9, 10))


def reference():
    """The convolution with padding 1 and both its gradients, in float64."""
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, WEIGHT)
    gw = np.einsum("nchwij,nohw->ocij", windows, GRADIENT)
    gx = np.zeros_like(padded)
    for i in range(3):
        for j in range(3):
            gx[:, :, i : i + 9, j : j + 10] += np.einsum(
                "nohw,oc->nchw", GRADIENT, WEIGHT[:, :, i, j]
            )
    return y, gx[:, :, 1:-1, 1:-1], gw


@pytest.mark.parametrize("algorithm", ["im2col", "direct", "implicit", "winograd", "depthwise"])
def test_every_algorithm_gives_the_convolution_and_its_gradients(algorithm, device, monkeypatch):
    in_small_tiles(monkeypatch)
    x = clnet.tensor(X, dtype=clnet.float32, requires_grad=True)
    weight = clnet.tensor(WEIGHT, dtype=clnet.float32, requires_grad=True)
    with clnet.convolution_algorithm(algorithm):
        y = F.conv2d(x, weight, padding=1)
    y.backward(clnet.tensor(GRADIENT, dtype=clnet.float32))  # as the convolution: outside, too
    found = (y.detach(), x.grad, weight.grad)
    for ours, theirs in zip(found, reference(), strict=True):
        error = np.abs(ours.numpy() - theirs).max() / np.abs(theirs).max()
        assert error < 1e-5, (algorithm, error)


def step_text(model, x):
    step = clnet.compile(lambda x: model(x))
    step(x)
    return [line for line in str(step.explain()).splitlines() if "as was asked for" in line]


def test_a_layer_takes_it_by_name_and_keeps_it_when_compiled(device):
    clnet.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1, algorithm="im2col"), nn.Conv2d(8, 8, 3, padding=1)
    )
    assert "algorithm='im2col'" in repr(model)
    assert repr(model).count("algorithm") == 1
    x = clnet.tensor(X, dtype=clnet.float32)
    with clnet.no_grad():
        lines = step_text(model, x)
        assert len(lines) == 1
        assert lines[0].startswith("plain, by im2col, as was asked for: #")
        whole = clnet.compile(model)
        np.testing.assert_allclose(whole(x).numpy(), model(x).numpy(), rtol=1e-4, atol=1e-5)


def test_another_choice_is_another_plan(device):
    layer = nn.Conv2d(8, 8, 3, algorithm="im2col")
    step = clnet.compile(lambda x: layer(x))
    x = clnet.tensor(X, dtype=clnet.float32)
    step(x)
    layer.algorithm = "direct"
    step(x)
    assert "by direct, as was asked for" in str(step.explain())
    with clnet.convolution_algorithm("depthwise"):
        layer.algorithm = None
        step(x)
    assert "by depthwise, as was asked for" in str(step.explain())


def test_one_that_there_is_not_is_refused():
    law = r"algorithm is None or one of im2col, direct, .*; got algorithm='fft'"
    with pytest.raises(ArgumentError, match=f"^Conv2d: {law}"):
        nn.Conv2d(1, 1, 3, algorithm="fft")
    with (
        pytest.raises(ArgumentError, match=f"^convolution_algorithm: {law}"),
        clnet.convolution_algorithm("fft"),
    ):
        pass


def test_one_that_cannot_serve_says_which_can(device):
    x, weight = clnet.zeros(1, 4, 8, 8), clnet.zeros(4, 4, 3, 3)
    with clnet.convolution_algorithm("winograd"), pytest.raises(ArgumentError) as raised:
        F.conv2d(x, weight, stride=2)
    text = str(raised.value)
    assert "cannot compute this convolution here; got algorithm=winograd, window=(3, 3)" in text
    assert "stride=(2, 2)" in text
    assert "Take one of im2col, " in text
    assert "winograd, " not in text.split("Take one of")[1]


def test_float32_is_not_rounded_unasked(device):
    x, weight = clnet.zeros(1, 16, 8, 8), clnet.zeros(16, 16, 3, 3)
    with (
        clnet.convolution_algorithm("matrix"),
        pytest.raises(ArgumentError, match="would round float32 to TF32"),
    ):
        F.conv2d(x, weight)


def test_checkpoints_compute_again_as_before(device):
    layer = nn.Conv2d(8, 8, 3)
    x = clnet.tensor(X, dtype=clnet.float32, requires_grad=True)
    with clnet.convolution_algorithm("depthwise"):
        plain = layer(x)
        again = clnet.checkpoint(layer, x)
    (first,) = clnet.autograd.grad(plain.sum(), x)
    (second,) = clnet.autograd.grad(again.sum(), x)
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_filters_of_one_pixel_are_products_without_planes_on_cpus(device):
    if device.traits.dedicated_local_memory:
        pytest.skip("GPUs gather images in tiles")
    x, weight = clnet.rand(2, 20, 5, 7, requires_grad=True), clnet.rand(6, 20, 1, 1)
    with clnet.profile() as seen:
        y = F.conv2d(x, weight, clnet.rand(6))
        y.backward(clnet.ones(2, 6, 5, 7))
    kernels = {c.name for c in seen.commands if c.op.startswith("conv2d")}
    assert kernels
    assert all(name.startswith("gemm") for name in kernels), kernels
