"""Scores of a number of classes that is no multiple of four lie in rows with room behind them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile import pad_rows as module
from clnet.compile.pad_rows import pad_rows
from clnet.compile.passes import KEEPING_BITS, PASSES
from clnet.nn import functional as F
from tests.kernels.launching import gpu_copying_directly, normal
from tests.kernels.test_gemm_matrix import units_of

N, C = 40, 130


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """The device as a GPU said to copy asynchronously, with a tile that does without."""
    opened = gpu_copying_directly(monkeypatch)
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)
    traits = replace(opened.target.traits, asynchronous_copies=True)
    monkeypatch.setattr(opened, "target", replace(opened.target, traits=traits))
    return opened


def step_of(layer, *, of=F.cross_entropy, shape=(N, C)):
    def step(x, classes):
        scores = layer(x)
        loss = of(scores.reshape(shape), classes)
        return loss, *clnet.autograd.grad(loss, list(layer.parameters()))

    return step


def padded(step, *args):
    """How many arrays of a compiled step lie so; its results are those of eager execution."""
    compiled = clnet.compile(step)
    found, again, wanted = compiled(*args), compiled(*args), step(*args)
    for each in zip(found, again, wanted, strict=True):
        a, b, c = (t.detach().numpy() for t in each)
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-6)
    return compiled.explain().count(" strides 160,1")


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_scores_and_their_gradient_lie_apart(smoothing, reduction):
    layer = nn.Linear(20, C, bias=False)
    x, classes = clnet.tensor(normal(4, 10, 20)), clnet.arange(N) * 3

    def of(scores, classes):
        return F.cross_entropy(scores, classes, label_smoothing=smoothing, reduction=reduction)

    assert padded(step_of(layer, of=of), x, classes) == 2


def test_of_a_batch_whose_classes_come_last():
    """(n, steps, classes), as a network of texts has them, flattened."""
    layer = nn.Linear(20, C, bias=False)
    x, classes = clnet.tensor(normal(4, 10, 20)), clnet.arange(N)
    assert padded(step_of(layer, shape=(-1, C)), x, classes) == 2


@pytest.mark.parametrize("dtype", [clnet.float16, clnet.bfloat16])
def test_of_16_bits(device, monkeypatch, dtype):
    """Autocast's scores, whose loss reads them as they are: in whole runs of 8."""
    traits = units_of(device.target.traits)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    x, classes = clnet.tensor(normal(N, 20)), clnet.arange(N)
    for count, wanted in ((C, 2), (C + 2, 2), (C + 6, 0)):
        layer = nn.Linear(20, count, bias=False)

        def step(x, classes, layer=layer):
            with clnet.autocast(dtype=dtype):
                loss = F.cross_entropy(layer(x), classes)
            return loss, *clnet.autograd.grad(loss, [layer.weight])

        compiled = clnet.compile(step)
        for found, expected in zip(compiled(x, classes), step(x, classes), strict=True):
            np.testing.assert_allclose(
                found.detach().numpy(), expected.detach().numpy(), rtol=2e-2, atol=2e-3
            )
        assert compiled.explain().count(" strides 160,1") == wanted


def test_what_others_read_stays():
    layer, biased = nn.Linear(20, C, bias=False), nn.Linear(20, C)
    whole = nn.Linear(20, 132, bias=False)
    x, classes = clnet.tensor(normal(N, 20)), clnet.arange(N)
    assert padded(step_of(biased), x, classes) == 0  # whose gradient is a sum of columns
    assert padded(step_of(whole, shape=(N, 132)), x, classes) == 0

    def with_result(x, classes):
        scores = layer(x)
        loss = F.cross_entropy(scores, classes)
        return scores, *clnet.autograd.grad(loss, [layer.weight])

    assert padded(with_result, x, classes) == 0

    def with_penalty(x, classes):
        scores = layer(x)
        loss = F.cross_entropy(scores, classes) + (scores * scores).mean()
        return clnet.autograd.grad(loss, [layer.weight])

    assert padded(with_penalty, x, classes) == 0


def test_small_scores_and_other_devices_stay(monkeypatch, device):
    layer = nn.Linear(20, C, bias=False)
    x, classes = clnet.tensor(normal(N, 20)), clnet.arange(N)
    assert padded(step_of(layer), x, classes) == 2
    monkeypatch.setattr(module, "_LEAST_BYTES", 2**20)
    assert padded(step_of(layer), x, classes) == 0
    monkeypatch.setattr(module, "_LEAST_BYTES", 0)
    traits = replace(device.target.traits, asynchronous_copies=False)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))
    assert padded(step_of(layer), x, classes) == 0


def test_eager_bits_are_kept_without_the_pass():
    assert pad_rows in PASSES
    assert pad_rows not in KEEPING_BITS
