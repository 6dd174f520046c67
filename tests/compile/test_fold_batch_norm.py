"""Norms in filters and ReLUs behind products, in inference; and when filters are made again."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile import record
from clnet.compile.passes import rewrite
from clnet.compile.tracer import Step

pytestmark = pytest.mark.device


def values(seed: int, *shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def network(*, bias: bool) -> nn.Sequential:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=bias),
        nn.BatchNorm2d(16, eps=0.1),  # seen beside the variances
        nn.ReLU(),
        nn.Conv2d(16, 5, 3, bias=bias),
        nn.BatchNorm2d(5),
        nn.Flatten(),
        nn.Linear(180, 4),
        nn.ReLU(),
    )
    with clnet.no_grad():
        for seed, tensor in enumerate([*model.parameters(), *model.buffers()]):
            if tensor.dtype is clnet.float32:
                tensor.copy_(values(seed, *tensor.shape).abs() + 0.1)
    model.eval()
    return model


def names(function, *args) -> list[str]:
    trace = rewrite(record(function, args, {}, clnet.device()).trace)
    return [step.function.name for step in trace.steps if isinstance(step, Step)]


@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_goes_into_the_filters(bias):
    model, x = network(bias=bias), values(50, 2, 3, 8, 8)
    forward = clnet.compile(clnet.no_grad()(model))
    with clnet.no_grad():
        for step in range(3):
            np.testing.assert_allclose(forward(x).numpy(), model(x).numpy(), rtol=1e-4, atol=1e-4)
            if step == 1:  # seen without a new trace
                model[0].weight.mul_(0.5)
                model[4].running_mean.add_(0.3)
        found = names(model, x)
    assert forward.num_traces == 1
    assert not {"batch_norm", "relu", "fold", "pack_filters"}.intersection(found)
    assert found.count("conv2d") == 2


def test_a_norm_whose_operand_is_read_again_stays():
    model, x = network(bias=False), values(50, 2, 3, 8, 8)

    def both(x):
        y = model[0](x)
        return model[1](y), y

    with clnet.no_grad():
        found = clnet.compile(both)(x)
        assert any("batch_norm" in name for name in names(both, x))
        for a, b in zip(found, both(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


def test_a_relu_behind_a_product_has_the_same_bits():
    weight, bias = values(0, 7, 6), values(1, 7)
    x = clnet.tensor(np.array([[np.nan] * 6, [-0.0] * 6, [1e30] * 6, [-1.0] * 6], np.float32))

    def layer(x):
        return nn.functional.linear(x, weight, bias * 0).relu()

    assert names(layer, x) == ["linear"]
    assert clnet.compile(layer)(x).numpy().tobytes() == layer(x).numpy().tobytes()


def test_gradients_that_another_plan_made_are_read_anew():
    p = clnet.ones(3, requires_grad=True)
    backward = clnet.compile(lambda x: (p * x).sum().backward())
    twice = clnet.compile(lambda: p.grad * 2)
    for value in (1.0, 5.0):
        p.grad = None
        backward(clnet.full((3,), value))
        assert twice().tolist() == [2 * value] * 3
