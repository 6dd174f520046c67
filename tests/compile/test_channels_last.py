"""Images with their channels last: whole steps give eager's results; copies stand at the edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compile.channels_last import channels_last
from clnet.compile.passes import KEEPING_BITS, rewrite
from clnet.device import Target
from clnet.values import mode
from tests.compile.test_layout import (
    MODELS,
    concatenating,
    images,
    kinds,
    plain,
    residual,
    traced,
    training,
)
from tests.groups import are_compiled_wrongly
from tests.kernels.launching import gpu_shaped, in_small_tiles
from tests.kernels.test_gemm_matrix import units_of

pytestmark = pytest.mark.device


@pytest.fixture(autouse=True)
def units(device, monkeypatch):
    """Matrix units, emulated, on a device whose items work in groups; TF32 is allowed."""
    target = gpu_shaped(device)
    traits = units_of(target.traits)
    monkeypatch.setattr(device, "target", Target(traits, target.workspace_limit))
    with mode.using(float32_precision="high"):
        yield device


@pytest.mark.parametrize("name", ["residual", "plain", "concatenating"])
def test_training_steps_are_eager_ones(name):
    batches = [images() for _ in range(2)]
    expected, before = training(MODELS[name], batches, compiled=False)
    found, after = training(MODELS[name], batches, compiled=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    # Where TF32's rounding turns the sign of what a ReLU is given, a filter's gradient jumps.
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=6e-4 * max(1, abs(one).max()))


def stepped(make, dtype):
    """A training step of a network under autocast, and its batch."""
    clnet.manual_seed(0)
    model = make()
    optimizer = clnet.optim.SGD(model.parameters(), 0.05, momentum=0.9)

    def step(x, target):
        optimizer.zero_grad()
        with clnet.autocast(dtype=dtype):
            loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, images(), model


def test_images_lie_last_from_the_first_convolution_on():
    """Of a residual network in bfloat16 only what is pooled to one pixel is turned over."""
    step, batch, _ = stepped(residual, clnet.bfloat16)
    found = kinds(rewrite(traced(step, *batch)))
    assert found["LastConv2d"] == found["LastConvWeightGrad"] == 6
    assert found["LastConvInputGrad"] == 5
    assert found["LastMaxPool"] == found["LastMaxPoolBackward"] == 1
    assert found["Conv2d"] == found["ConvInputGrad"] == found["ConvWeightGrad"] == 0
    assert found["Copy"] == 2  # before the mean of all pixels, and behind its gradient


def test_16_bits_train_as_they_do_eagerly():
    step, batch, _ = stepped(plain, clnet.bfloat16)
    expected = [step(*batch).item() for _ in range(2)]
    step, _, _ = stepped(plain, clnet.bfloat16)
    run = clnet.compile(step)
    np.testing.assert_allclose([run(*batch).item() for _ in range(2)], expected, rtol=2e-3)


def test_nothing_is_turned_without_units_or_permission(device, monkeypatch):
    step, batch, _ = stepped(residual, clnet.bfloat16)
    assert kinds(channels_last(traced(step, *batch)))["LastConv2d"] == 6
    with mode.using(float32_precision="highest"):
        conv = nn.Conv2d(3, 16, 3)
        assert kinds(channels_last(traced(conv, batch[0])))["LastConv2d"] == 0
    traits = replace(device.target.traits, matrix_units="")
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    trace = traced(step, *batch)
    assert channels_last(trace) is trace


def test_what_is_returned_or_seen_in_parts_is_plain_again():
    model, (x, _) = concatenating(), images()

    def function(x):
        inner = model[:2](x)
        halves = inner[:, 3:5] * 2, inner[1:3, ::2, 1:, ::3] + 1, inner > 0
        seen = inner.permute(0, 2, 3, 1).contiguous(), inner.flatten(1) @ clnet.ones(1600, 3)
        sums = inner.sum((2, 3)), inner.mean((0, 2, 3), keepdim=True), inner.sum(1), inner.sum()
        return (
            inner,
            *halves,
            *seen,
            *sums,
            clnet.where(inner > 1, inner, 1.0),
            F.pad(inner, (1, 2)),
        )

    with clnet.no_grad():
        kept = kinds(rewrite(traced(function, x)))
        assert kept["LastConv2d"] == 1
        for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_bits_stay_without_it():
    step, batch, _ = stepped(residual, clnet.float16)
    expected = step(*batch).item()
    step, _, _ = stepped(residual, clnet.float16)
    assert clnet.compile(step, passes=KEEPING_BITS)(*batch).item() == expected


def test_products_of_split_operands_keep_images_last(device, monkeypatch):
    """Steps are eager ones: some convolutions as three products of TF32, others in float32."""
    if are_compiled_wrongly(device):
        pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
    in_small_tiles(monkeypatch)
    by_128 = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
    traits = replace(device.target.traits, **by_128)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    batches = [images(4, 12)]
    with mode.using(float32_precision="highest"):
        expected, before = training(residual, batches, compiled=False)
    with mode.using(float32_precision="tf32x3"):
        clnet.manual_seed(0)
        model = residual()

        def step(x, target):
            loss = F.cross_entropy(model(x), target)
            return clnet.autograd.grad(loss, list(model.parameters()))

        found = kinds(rewrite(traced(step, *batches[0])))
        assert found["LastConv2d"] > 0
        assert found["LastConvInputGrad"] > 0
        assert found["LastConvWeightGrad"] > 0
        assert found["Conv2d"] > 0  # of three channels
        losses, after = training(residual, batches, compiled=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * max(1, abs(one).max()))
