"""What is summed over channels is computed where it is read, if that moves fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
import clnet.nn.functional as F
from clnet import nn
from clnet.compile import record
from clnet.compile.passes import PASSES, rewrite
from clnet.compile.prologue import prologue
from clnet.compile.tracer import Step
from clnet.ops.rewritten.blocked_layers import BlockedSums

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(
        "clnet.device().traits.dedicated_local_memory", reason="blocked arrays are for CPUs"
    ),
]

BEFORE = tuple(p for p in PASSES[: PASSES.index(prologue)])


def traced(function, *args):
    return rewrite(record(function, args, {}, clnet.device()).trace, BEFORE)


def made(trace):
    return [s for s in trace.steps if isinstance(s, Step) and s.outputs]


def sums(trace):
    return [s for s in made(trace) if isinstance(s.function, BlockedSums)]


def network():
    clnet.manual_seed(3)
    return nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.Conv2d(16, 16, 1)


def gradients(first, norm, last, *, twice=False):
    def function(x):
        y = F.relu(norm(first(x)))
        found = [y.square().sum()] if twice else []
        total = sum(found, (last(y) * 3).square().sum())
        return clnet.autograd.grad(total, [x, norm.weight, norm.bias, first.weight])

    return function


def test_a_relu_before_a_norms_backward_is_computed_again():
    function = gradients(*network())
    before = traced(function, clnet.ones(2, 16, 8, 8).requires_grad_(True))
    after = prologue(before)
    assert len(after.steps) == len(before.steps) - 1
    (of_norm,) = [s for s in sums(after) if "batch_norm" in s.function.name]
    # The gradient and the norm's input; the ReLU's result follows from the second.
    assert sum(a.ndim == 5 for a in of_norm.inputs) == 2
    assert {a.shape for a in of_norm.inputs if a.ndim != 5} == {(16,)}
    assert prologue(after) is after


def test_results_are_the_same():
    function = gradients(*network())
    x = clnet.tensor(np.random.default_rng(0).standard_normal((2, 16, 9, 9)).astype(np.float32))
    x.requires_grad_(True)
    for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
        scale = abs(expected.numpy()).max()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4 * scale)


def test_a_value_that_a_convolution_reads_is_made_beside_its_sum():
    first, last = nn.Conv2d(16, 16, 3), nn.Conv2d(16, 16, 1)

    def function(x):
        y = F.relu(first(x))
        return clnet.autograd.grad(last(y).sum(), [x, first.weight, first.bias])

    before = traced(function, clnet.ones(2, 16, 8, 8).requires_grad_(True))
    (alone,) = sums(before)
    (beside,) = sums(prologue(before))
    assert [len(s.outputs) for s in (alone, beside)] == [1, 2]
    assert beside.outputs[1].storage is alone.outputs[0].storage
    x = clnet.tensor(np.random.default_rng(1).standard_normal((2, 16, 8, 8)).astype(np.float32))
    x.requires_grad_(True)
    for found, expected in zip(clnet.compile(function)(x), function(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-3)


def test_a_value_that_is_returned_stays():
    first, norm, last = network()

    def function(x):
        y = norm(first(x))
        z = F.relu(y)
        return clnet.autograd.grad(last(z).square().sum(), [y, norm.weight])

    trace = traced(function, clnet.ones(2, 16, 8, 8))
    after = prologue(trace)
    assert all(r.storage in after.writers for r in trace.results)


@pytest.mark.parametrize("changes", [False, True])
def test_what_changes_in_between_is_not_read_later(changes):
    first, _, last = network()
    scale = clnet.full((16, 1, 1), 2.0)

    def function(x):
        y = first(x)
        z = y * scale
        w = last(z)
        if changes:
            scale.add_(1)
        return clnet.where(z <= 0, 0.0, y).sum((0, 2, 3)), w

    with clnet.no_grad():
        x = clnet.tensor(np.random.default_rng(0).standard_normal((2, 16, 9, 9)).astype(np.float32))
        results = clnet.compile(function)(x)[0].numpy()
        scale.fill_(2.0)
        np.testing.assert_allclose(results, function(x)[0].numpy(), rtol=1e-4, atol=1e-3)
