"""Leaves that a compiled function makes itself: derivatives by its inputs, inside a step."""

from __future__ import annotations

import numpy as np

import clnet
from clnet import nn


def step_of(model, optimizer):
    """A step whose loss has the model's derivative by its input."""

    def step(x):
        x = x.clone().requires_grad_()
        optimizer.zero_grad()
        y = model(x)
        (slope,) = clnet.autograd.grad(y, x, clnet.ones_like(y), create_graph=True)
        loss = ((slope - 1) ** 2).mean() + (y**2).mean()
        loss.backward()  # which reaches x, too
        optimizer.step()
        return loss.detach()

    return step


def trained(wrap, seed=0):
    clnet.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.1)
    step = wrap(step_of(model, optimizer))
    x = clnet.tensor(np.random.default_rng(0).standard_normal((5, 3), np.float32))
    losses = [float(step(x)) for _ in range(4)]
    return losses, [p.grad.numpy() for p in model.parameters()], step, model


def test_one_plan_serves_all_steps_and_leaves_the_parameters_gradients():
    eager, wanted, _, _ = trained(lambda f: f)
    losses, found, step, _ = trained(clnet.compile)
    np.testing.assert_allclose(losses, eager, rtol=1e-5)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert step.num_traces == 1


def test_a_leaf_of_the_function_gives_its_gradient_inside():
    weight = clnet.ones(3, requires_grad=True)

    @clnet.compile
    def f(x):
        x = x.detach().requires_grad_()
        ((x * weight) ** 2).sum().backward()
        return x.grad * 2

    for scale in (1.0, 2.0, 3.0):
        weight.grad = None
        x = clnet.tensor([1.0, 2.0, 3.0]) * scale
        np.testing.assert_allclose(f(x).numpy(), 4 * x.numpy(), rtol=1e-6)
        np.testing.assert_allclose(weight.grad.numpy(), 2 * x.numpy() ** 2, rtol=1e-6)
    assert f.num_traces == 1


def test_a_leaf_that_is_returned_gets_its_gradient_outside():
    weight = clnet.tensor([1.0, 2.0, 3.0], requires_grad=True)

    @clnet.compile
    def f(x, scale):
        coords = (x * scale).detach().requires_grad_()
        return (coords * weight).sin(), coords, coords

    for scale in (1.0, 2.0):
        weight.grad = None
        x = clnet.tensor([0.1, 0.2, 0.3])
        y, coords, twin = f(x, clnet.tensor(scale))
        assert coords.is_leaf
        assert twin is coords
        (slope,) = clnet.autograd.grad(y.sum(), coords, retain_graph=True)
        y.sum().backward()
        wanted = np.cos(x.numpy() * scale * [1, 2, 3])
        np.testing.assert_allclose(slope.numpy(), wanted * [1, 2, 3], rtol=1e-5)
        np.testing.assert_allclose(coords.grad.numpy(), slope.numpy(), rtol=1e-6)
        np.testing.assert_allclose(weight.grad.numpy(), wanted * x.numpy() * scale, rtol=1e-5)
    assert f.num_traces == 1
