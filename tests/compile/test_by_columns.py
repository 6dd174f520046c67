"""Results that only linear layers read lie by columns."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.by_columns import by_columns
from clnet.compile.passes import KEEPING_BITS, PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.kernels.gemm import gemm_turned
from clnet.nn import functional as F
from clnet.ops.matmul import Linear
from tests.kernels.launching import gpu_copying_directly, normal


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """The device as a GPU that copies to local memory directly, on which little work gains."""
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 0)
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS_PER_BYTE", 0)
    return gpu_copying_directly(monkeypatch)


def perceptron(x, first, second, function):
    """Of float64."""
    weights = [p.detach().numpy().astype(np.float64) for m in (first, second)
               for p in (m.weight, m.bias)]  # fmt: skip
    hidden = function(x.numpy().astype(np.float64) @ weights[0].T + weights[1])
    return hidden @ weights[2].T + weights[3]


def along(explained):
    """How often kernels of products are said to lie anywhere but in rows."""
    return explained.count(" strides ")


@pytest.mark.parametrize("shape", [(40,), (2, 20), (4, 1, 10), (33,), (3, 11)], ids=str)
@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (F.silu, lambda x: x / (1 + np.exp(-x))),
        (F.relu, lambda x: np.maximum(x, 0)),
        (lambda x: x, lambda x: x),
    ],
    ids=["silu", "relu", "none"],
)
def test_the_second_layer_reads_columns(shape, function, reference):
    first, second = nn.Linear(30, 70), nn.Linear(70, 36)
    x = clnet.tensor(normal(*shape, 30))
    with clnet.no_grad():
        fast = clnet.compile(lambda x: second(function(first(x))))
        found = fast(x).numpy()
        assert along(fast.explain()) == 1
        kernels = [launch.kernel.params for launch in fast.plans[-1]._replay.launches]
    assert [(k["a_along"], k["b_along"]) for k in kernels] == [("tile", "k"), ("tile", "tile")]
    expected = perceptron(x, first, second, reference)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_layers_without_features_are_left():
    first, second = nn.Linear(30, 0), nn.Linear(0, 36)
    x = clnet.tensor(normal(5, 30))
    found = clnet.compile(lambda x: second(first(x)))(x)
    assert found.tolist() == [second.bias.tolist()] * 5


def linear_steps(function, *inputs):
    """Layers as the pass leaves them."""
    with clnet.no_grad():
        trace = rewrite(record(function, inputs, {}, clnet.device()).trace, (by_columns,))
    return [s for s in trace.steps if isinstance(s, Step) and isinstance(s.function, Linear)]


def test_several_layers_may_read_it_and_nobody_else():
    first, second, third = nn.Linear(30, 50), nn.Linear(50, 40), nn.Linear(50, 8)
    x = clnet.tensor(normal(20, 30))

    def turned(function):
        return not linear_steps(lambda x: function(first(x)), x)[0].outputs[0].contiguous

    assert turned(second)
    assert turned(lambda y: (second(y), third(y)))
    assert not turned(lambda y: (second(y), y))  # a result
    assert not turned(lambda y: second(y) + y.sum())
    assert not turned(lambda y: second(y * 2))  # until they are one step
    assert not turned(lambda y: second(y.reshape(10, 2, 50)[1:]))
    assert not turned(lambda y: F.linear(y, y))
    assert not turned(lambda y: y @ second.weight.T)


def test_what_backward_reads_stays():
    first, second = nn.Linear(30, 50), nn.Linear(50, 40)
    x = clnet.tensor(normal(20, 30))
    params = [*first.parameters(), *second.parameters()]

    @clnet.compile
    def step(x):
        return clnet.autograd.grad((second(F.silu(first(x))) ** 2).sum(), params)

    found = step(x)
    assert along(step.explain()) == 0
    wanted = clnet.autograd.grad((second(F.silu(first(x))) ** 2).sum(), params)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


def test_what_gains_nothing_stays(monkeypatch):
    first, second = nn.Linear(30, 50), nn.Linear(50, 40)
    x = clnet.tensor(normal(20, 30))
    assert not linear_steps(lambda x: second(first(x)), x)[0].outputs[0].contiguous
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 1e9)
    assert linear_steps(lambda x: second(first(x)), x)[0].outputs[0].contiguous


def test_eager_bits_are_kept_without_the_pass():
    assert by_columns in PASSES
    assert by_columns not in KEEPING_BITS
