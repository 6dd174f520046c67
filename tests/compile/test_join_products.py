"""Linear layers that read the same input are one launch where that takes less time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.join_products import join_products
from clnet.compile.passes import PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.nn import functional as F
from clnet.ops.rewritten.together import Together

BEFORE = PASSES[: PASSES.index(join_products)]


@pytest.fixture(autouse=True)
def local_memory(monkeypatch):
    """The device as one whose groups share a local memory, with units that few groups fill."""
    device = clnet.device()
    traits = replace(
        device.traits,
        dedicated_local_memory=True,
        simd_width=1,
        max_group_size=256,
        local_memory_bytes=32768,
        large_local_memory_bytes=0,
        compute_units=32,
    )
    monkeypatch.setattr(device, "traits", traits)
    monkeypatch.setattr(device, "target", replace(device.target, traits=traits))


def joined(function, *args):
    trace = rewrite(record(function, args, {}, clnet.device()).trace, BEFORE)
    steps = [s for s in join_products(trace).steps if isinstance(s, Step)]
    return [s.function for s in steps if isinstance(s.function, Together)]


def drawn(*shape):
    return clnet.tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


class Heads(nn.Module):
    """Queries, keys and values of different widths."""

    def __init__(self, *, bias):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(70, n, bias=bias) for n in (96, 40, 64))

    def forward(self, x):
        return self.q(x).sum(1) + self.k(x).sum(1) * self.v(x).sum(1)


@pytest.mark.parametrize("bias", [False, True])
def test_layers_of_one_input_are_one_launch_and_give_what_each_gives(bias):
    clnet.manual_seed(0)
    heads, x = Heads(bias=bias), drawn(150, 70)

    @clnet.compile
    def asked(x):
        with clnet.no_grad():
            return heads(x)

    got = asked(x).numpy()
    assert asked.plans[-1].explain().count("  linear and linear and linear  ") == 1
    np.testing.assert_array_equal(asked(x).numpy(), got)
    with clnet.no_grad():
        np.testing.assert_allclose(got, heads(x).numpy(), rtol=1e-4, atol=1e-3)


def test_gradients_flow_through_layers_that_were_joined():
    clnet.manual_seed(0)
    heads, x = Heads(bias=True), drawn(150, 70)

    def step(x):
        for p in heads.parameters():
            p.grad = None
        loss = heads(x).square().mean()
        loss.backward()
        return loss.detach()

    expected = [step(x).numpy(), *(p.grad.numpy() for p in heads.parameters())]
    compiled = clnet.compile(step)
    got = [compiled(x).numpy(), *(p.grad.numpy() for p in heads.parameters())]
    assert "linear and linear and linear" in compiled.plans[-1].explain()
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-2)


def test_only_layers_of_the_same_elements_whose_weights_are_there_are_joined():
    x, w, v = drawn(150, 70), drawn(48, 70), drawn(64, 70)
    other = drawn(150, 2, 70)

    def same(x, w, v):
        return F.linear(x, w), F.linear(x, v)

    def of_results(x, w, v):
        y = F.linear(x, w)
        return y, F.linear(x, v * y.sum())

    def of_parts(x, w, v):
        return F.linear(x[:, 0], w), F.linear(x[:, 1], v)

    assert [len(f.layers) for f in joined(same, x, w, v)] == [2]
    assert not joined(of_results, x, w, v)
    assert not joined(of_parts, other, w, v)


def test_layers_of_16_bits_stay_apart():
    def same(x, w, v):
        return F.linear(x, w), F.linear(x, v)

    narrow = [t.to(clnet.float16) for t in (drawn(150, 70), drawn(48, 70), drawn(64, 70))]
    assert not joined(same, *narrow)
