"""Steps with ``differentiable=True``: gradients go through them, as PyTorch's do."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import optim
from clnet.errors import ArgumentError, GradientError
from tests.answers import torch

pytestmark = pytest.mark.device

RNG = np.random.default_rng(0)
P, G, S = RNG.normal(size=5), RNG.normal(size=5), RNG.random(5) + 0.5
MOMENTS = {"step": 10, "exp_avg": S, "exp_avg_sq": S}
CASES = {
    "SGD": ({"momentum": 0.9, "weight_decay": 0.1}, {"momentum_buffer": S}, False),
    "AdamW": ({}, MOMENTS, True),
    "RAdam": ({}, MOMENTS, False),
    "Adagrad": ({"maximize": True}, {"step": 10, "sum": S}, False),
}


def slopes(side, name, settings, state, *, rate_too):
    """Two steps; gradients of what they give, also where it depended on what the first gave."""

    def leaf(a):
        return side.tensor(a, requires_grad=True)

    p0, g0 = leaf(P), leaf(G)
    lr = side.tensor(0.1, dtype=side.float64, requires_grad=True) if rate_too else 0.1
    kept = {
        n: leaf(v) if isinstance(v, np.ndarray) else side.tensor(float(v)) for n, v in state.items()
    }
    p = p0.clone()
    p.grad = g0
    optimizer = getattr(side.optim, name)([p], lr=lr, differentiable=True, **settings)
    optimizer.state[p].update({n: v if n == "step" else v.clone() for n, v in kept.items()})
    optimizer.step()
    p.grad = 2 * g0 + p
    optimizer.step()
    asked = [p0, g0, *(v for n, v in kept.items() if n != "step"), *([lr] if rate_too else [])]
    found = side.autograd.grad((p**3).sum(), asked)
    return [p.detach().numpy(), *(g.numpy() for g in found)]


@pytest.mark.parametrize("name", CASES)
def test_gradients_go_through_steps(device, name):
    settings, state, rate_too = CASES[name]
    ours = slopes(clnet, name, settings, state, rate_too=rate_too)
    theirs = slopes(torch, name, settings, state, rate_too=rate_too)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)  # PyTorch's count of steps is float32


def test_a_model_is_learnt_through_a_step(device):
    """As meta learning does: the loss after a step by what the step began with."""
    w = clnet.tensor([1.0, 2.0], requires_grad=True)
    fast = w.clone()
    inner = optim.SGD([fast], lr=0.1, differentiable=True)
    (fast.grad,) = clnet.autograd.grad((w**3).sum(), [w], create_graph=True)
    inner.step()
    (fast**2).sum().backward()
    x = np.array([1.0, 2.0])
    want = 2 * (x - 0.3 * x**2) * (1 - 0.6 * x)
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-5)


def test_a_differentiable_step_refuses_leaves_and_traces(device):
    leaf = clnet.ones(2, requires_grad=True)
    leaf.grad = clnet.ones(2)
    with pytest.raises(GradientError):
        optim.SGD([leaf], lr=0.1, differentiable=True).step()
    p = clnet.ones(2)
    p.grad = clnet.ones(2)
    optimizer = optim.SGD([p], lr=0.1, differentiable=True)
    with pytest.raises(ArgumentError, match="nor compiled"):
        clnet.compile(optimizer.step)()
    with pytest.raises(ArgumentError, match="a parameter is a leaf"):
        optim.SGD([leaf.clone()], lr=0.1)
