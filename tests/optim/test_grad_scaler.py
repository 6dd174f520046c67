"""Gradient scaling: PyTorch's scales, skipped steps and states, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn, optim
from clnet.errors import ArgumentError, GradientError

FACTORS = [1.0, np.inf, 2.0, 3.0, np.nan, 1.0, 0.5]
"""What the loss of each step is multiplied by; two of them overflow."""


def run(m, make, *, compiled=False):
    """Scales, weights and counted steps of a few steps, two of which overflow."""
    weight = m.nn.Parameter(m.ones(3))
    optimizer = make(m.optim)([weight])
    scaler = m.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

    def step(x):
        optimizer.zero_grad()
        loss = (weight * weight * x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = clnet.compile(step) if compiled else step
    scales, weights = [], []
    for factor in FACTORS:
        step(m.full((3,), float(factor)))
        scales.append(scaler.get_scale())
        weights.append(weight.detach().numpy().copy())
    counted = next(iter(optimizer.state_dict()["state"].values()), {}).get("step", 0)
    return scales, np.stack(weights), int(counted), scaler


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_steps_are_pytorchs(name, compiled):
    torch = pytest.importorskip("torch")
    settings = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}

    def make(module):
        return lambda params: getattr(module, name)(params, **settings)

    expected, theirs, steps, scaler = run(torch, make)
    scales, weights, counted, ours = run(clnet, make, compiled=compiled)
    assert scales == expected
    np.testing.assert_allclose(weights, theirs, rtol=1e-5)
    assert ours.state_dict() == scaler.state_dict()
    if name == "Adam":
        assert counted == steps == len(FACTORS) - 2


def test_an_update_in_several_passes_is_skipped_on_the_device():
    def make(module):
        return lambda params: clnet.optim.Lamb(params, lr=0.1, weight_decay=0.1)

    eager, compiled = run(clnet, make), run(clnet, make, compiled=True)
    assert eager[0] == compiled[0]
    np.testing.assert_allclose(eager[1], compiled[1], rtol=1e-6)
    assert eager[2] == compiled[2] == len(FACTORS) - 2
    assert (eager[1][0] == eager[1][1]).all()


def test_a_step_outside_goes_on_where_a_compiled_one_was():
    weight = nn.Parameter(clnet.ones(2))
    optimizer, scaler = optim.Adam([weight], lr=0.1), clnet.amp.GradScaler(init_scale=4.0)

    def step(x):
        optimizer.zero_grad()
        scaler.scale((weight * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    compiled = clnet.compile(step)
    for function, value, count in ((compiled, np.inf, 0), (step, 1.0, 1), (compiled, 1.0, 2)):
        function(clnet.full((2,), float(value)))
        assert optimizer.state_dict()["state"]["0"]["step"] == count
    np.testing.assert_allclose(weight.tolist(), [0.8, 0.8], rtol=1e-5)


@pytest.mark.parametrize(("name", "waits"), [("SGD", 2), ("Adam", 20)])
def test_a_compiled_step_waits_only_where_the_number_of_skipped_ones_counts(
    name, waits, monkeypatch
):
    weight = nn.Parameter(clnet.ones(2))
    optimizer = getattr(optim, name)([weight], lr=0.1)
    scaler = clnet.amp.GradScaler(init_scale=2.0)

    def step(x):
        optimizer.zero_grad()
        scaler.scale((weight * x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    compiled, asked = clnet.compile(step), []
    compiled(clnet.ones(2))
    compiled(clnet.ones(2))
    item = clnet.Tensor.item
    monkeypatch.setattr(clnet.Tensor, "item", lambda x: asked.append(x) or item(x))
    for i in range(20):
        compiled(clnet.full((2,), np.inf if i % 5 == 0 else 1.0))
    assert len(asked) in (waits, waits - 1)
    assert optimizer.state_dict()["state"][0]["step"] == 2 + 16
    taken = 18 * 0.1  # of Adam, too, whose steps are all alike here
    np.testing.assert_allclose(weight.detach().numpy(), 1 - taken, atol=1e-5)


def test_small_gradients_of_float16_arrive():
    layer = nn.Linear(1, 1, bias=False)
    scaler = clnet.amp.GradScaler(init_scale=2.0**12)
    with clnet.autocast("cuda"):
        y = layer(clnet.full((1, 1), 2.0**-20)) * 2.0**-8
    y.float().sum().backward()
    assert layer.weight.grad.item() == 0
    layer.weight.grad = None
    with clnet.autocast("cuda"):
        y = layer(clnet.full((1, 1), 2.0**-20)) * 2.0**-8
    scaler.scale(y.float().sum()).backward()
    optimizer = optim.SGD(layer.parameters(), lr=1.0)
    scaler.unscale_(optimizer)
    assert layer.weight.grad.item() == pytest.approx(2.0**-28, rel=1e-2)


def test_a_state_is_continued():
    scaler = clnet.amp.GradScaler(init_scale=2.0, growth_interval=5)
    state = {**scaler.state_dict(), "scale": 32.0, "_growth_tracker": 3}
    scaler.load_state_dict(state)
    assert scaler.state_dict() == state
    assert scaler.scale(clnet.ones(())).item() == 32
    assert [x.item() for x in scaler.scale([clnet.ones(()), clnet.ones(())])] == [32, 32]
    scaler.load_state_dict({**state, "scale": 16.0})
    assert scaler.get_scale() == 16
    off = clnet.amp.GradScaler(enabled=False)
    assert off.state_dict() == {}
    assert off.get_scale() == 1
    with pytest.raises(ArgumentError, match="was enabled"):
        scaler.load_state_dict({})


def test_a_scaler_that_is_off_leaves_all_as_it_is():
    weight = nn.Parameter(clnet.ones(2))
    optimizer, scaler = optim.SGD([weight], lr=0.5), clnet.cuda.amp.GradScaler(enabled=False)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0.5, 0.5]


def test_calls_out_of_order_are_named():
    weight = nn.Parameter(clnet.ones(2))
    optimizer, scaler = optim.SGD([weight], lr=0.5), clnet.cuda.amp.GradScaler(2.0)
    with pytest.raises(ArgumentError, match="has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(ArgumentError, match="called before"):
        scaler.update()
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [1, 1]
    with pytest.raises(ArgumentError, match="once for each optimiser"):
        scaler.unscale_(optimizer)
    with pytest.raises(ArgumentError, match="no closure"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.step(optimizer)
    with pytest.raises(ArgumentError, match="once for each optimiser"):
        scaler.step(optimizer)
    scaler.update(3.0)
    assert scaler.get_scale() == 3
    with pytest.raises(ArgumentError, match="factor is above 1"):
        clnet.amp.GradScaler(growth_factor=1.0)


def test_gradients_of_float16_parameters_are_refused():
    weight = nn.Parameter(clnet.ones(2, dtype=clnet.float16))
    optimizer, scaler = optim.SGD([weight], lr=0.5), clnet.amp.GradScaler()
    scaler.scale(weight.sum()).backward()
    with pytest.raises(GradientError, match="are not float16"):
        scaler.step(optimizer)


def test_an_optimiser_with_a_step_of_its_own_is_not_skipped_in_a_plan():
    class Own(optim.Optimizer):
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.data.sub_(p.grad)

    weight = nn.Parameter(clnet.ones(2))
    optimizer, scaler = Own([weight]), clnet.amp.GradScaler()

    @clnet.compile
    def step(x):
        scaler.scale((weight * x).sum()).backward()
        scaler.step(optimizer)

    with pytest.raises(ArgumentError, match="declares its update"):
        step(clnet.ones(2))


def test_a_scale_that_is_given_ends_what_was_found_before():
    first, second = (nn.Parameter(clnet.ones(2)) for _ in range(2))
    optimizers = [optim.SGD([p], lr=0.5) for p in (first, second)]
    scaler = clnet.amp.GradScaler(init_scale=8.0)
    scaler.scale(first.sum())
    scaler.update(16.0)  # no step was made
    assert scaler.get_scale() == 16
    scaler.scale((first * float("inf")).sum()).backward()
    scaler.step(optimizers[0])
    scaler.update(32.0)
    scaler.scale(second.sum()).backward()
    scaler.step(optimizers[1])
    scaler.update()  # the overflow of the step before was that scale's
    assert scaler.get_scale() == 32
    assert not clnet.amp.GradScaler(enabled=False, growth_interval=0).is_enabled()
