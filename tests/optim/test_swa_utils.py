"""Averages of weights, statistics taken anew, and the schedule that leads there: as PyTorch's."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError
from tests.answers import torch

pytestmark = pytest.mark.device
AVERAGES = {
    "equal parts": lambda swa: {},
    "the newest most": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "one by one": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.7), "use_buffers": True},
}


def averaged(package, settings):
    """Averages, statistics and rates after five steps of a training."""
    swa = importlib.import_module(f"{'clnet' if package is clnet else 'torch'}.optim.swa_utils")
    rng = np.random.default_rng(0)
    model = package.nn.Sequential(package.nn.Linear(3, 4), package.nn.BatchNorm1d(4))
    with package.no_grad():
        for p in model.parameters():
            p.copy_(package.tensor(rng.standard_normal(tuple(p.shape)).astype(np.float32)))
    average = swa.AveragedModel(model, **settings(swa))
    optimizer = package.optim.SGD(model.parameters(), lr=0.4)
    scheduler, rates = swa.SWALR(optimizer, swa_lr=0.1, anneal_epochs=3), []
    batches = [package.tensor(rng.standard_normal((6, 3)).astype(np.float32)) for _ in range(5)]
    for x in batches:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
        average.update_parameters(model)
        scheduler.step()
        rates.append(optimizer.param_groups[0]["lr"])
    swa.update_bn([[x] for x in batches], average)
    found = [np.array(v.tolist()) for v in average.state_dict().values()]
    return [*found, np.array(rates), np.array(average(batches[0]).tolist())]


@pytest.mark.parametrize("settings", AVERAGES.values(), ids=AVERAGES)
def test_averages_are_pytorchs(settings):
    assert torch.nn  # skipped where it is not installed
    got, want = averaged(clnet, settings), averaged(torch, settings)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("settings", AVERAGES.values(), ids=AVERAGES)
def test_averages_of_compiled_steps_are_those_of_eager(settings):
    def averages(compiled):
        clnet.manual_seed(0)
        swa = importlib.import_module("clnet.optim.swa_utils")
        model = clnet.nn.Linear(3, 2)
        average = swa.AveragedModel(model, **settings(swa))

        def step(x):
            with clnet.no_grad():
                model.weight.mul_(x)
            average.update_parameters(model)

        run = clnet.compile(step) if compiled else step
        for k in (2.0, -1.0, 0.5):
            run(clnet.tensor(k))
        assert not compiled or run.num_traces == 1
        return [v.numpy() for v in average.state_dict().values()]

    for a, b in zip(averages(compiled=True), averages(compiled=False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gradients_of_containers_and_ensembles():
    nets = [clnet.nn.Linear(3, 2) for _ in range(3)]
    params, buffers = clnet.func.stack_module_state(nets)
    assert params["weight"].shape == (3, 2, 3)
    assert params["weight"].requires_grad
    assert buffers == {}
    own = {n: p.detach() for n, p in nets[0].named_parameters()}
    x = clnet.ones(4, 3)

    def loss(given):
        return (clnet.func.functional_call(nets[0], given, (x,)) ** 2).sum()

    found = clnet.func.grad(loss)(own)
    (nets[0](x) ** 2).sum().backward()
    for name, p in nets[0].named_parameters():
        np.testing.assert_allclose(found[name].numpy(), p.grad.numpy(), rtol=1e-5)


def test_a_block_draws_and_nothing_was_drawn():
    clnet.manual_seed(3)
    with clnet.random.fork_rng():
        inside = clnet.rand(2).tolist()
    assert clnet.rand(2).tolist() == inside
    with clnet.random.fork_rng(enabled=False):
        clnet.rand(2)
    assert clnet.rand(2).tolist() != inside


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_averaging_begins_from_the_rate_of_another_scheduler(strategy, epochs):
    """Made at first, stepped late, as in PyTorch's tutorial; a state is gone on from."""

    def rates(package, *, again):
        def made():
            optimizer = package.optim.SGD([package.nn.Parameter(package.ones(2))], lr=0.4)
            first = package.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
            swa = package.optim.swa_utils.SWALR(
                optimizer, swa_lr=0.05, anneal_epochs=epochs, anneal_strategy=strategy
            )
            return optimizer, first, swa

        optimizer, first, swa = made()
        found = []
        for epoch in range(9):
            optimizer.step()
            (first if epoch < 3 else swa).step()
            found.append(optimizer.param_groups[0]["lr"])
            if again and epoch == 4:
                states = optimizer.state_dict(), swa.state_dict()
                optimizer, first, swa = made()
                optimizer.load_state_dict(states[0])
                swa.load_state_dict(states[1])
        return found

    want = rates(torch, again=False)
    assert rates(clnet, again=False) == pytest.approx(want)
    assert rates(clnet, again=True) == pytest.approx(want)


def mixed(package):
    """A module of complex weights, and a buffer of whole numbers that counts."""
    module = package.nn.Module()
    module.weight = package.nn.Parameter(package.tensor([1 + 1j, 2.0]))
    module.register_buffer("count", package.tensor(4))
    module.register_buffer("mean", package.tensor(2.0))
    return module


@pytest.mark.parametrize("settings", AVERAGES.values(), ids=AVERAGES)
def test_complex_weights_and_whole_numbers_are_averaged_as_pytorchs(settings):
    assert torch.nn  # skipped where it is not installed
    found = []
    for package, name in ((clnet, "clnet"), (torch, "torch")):
        swa = importlib.import_module(f"{name}.optim.swa_utils")
        model = mixed(package)
        average = swa.AveragedModel(model, **{"use_buffers": True, **settings(swa)})
        for _ in range(3):
            average.update_parameters(model)
            with package.no_grad():
                model.weight.mul_(2)
                model.count.add_(4)
                model.mean.add_(1)
        found.append([x.tolist() for x in average.module.state_dict().values()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_settings_of_the_schedule_are_checked():
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(1))], lr=0.1)
    swa = clnet.optim.swa_utils
    for settings in (
        {"swa_lr": 0.1, "anneal_strategy": "x"},
        {"swa_lr": 0.1, "anneal_epochs": -1},
        {"swa_lr": [0.1, 0.2]},
    ):
        with pytest.raises(ArgumentError, match="SWALR"):
            swa.SWALR(optimizer, **settings)
    assert swa.SWALR(optimizer, (0.3,), anneal_epochs=0).get_last_lr() == [0.3]


@pytest.mark.parametrize("make", ["get_ema_avg_fn", "get_ema_multi_avg_fn"])
@pytest.mark.parametrize("decay", [-0.1, 2, float("nan")])
def test_decay_is_checked(make, decay):
    with pytest.raises(ArgumentError, match=r"decay lies in \[0, 1\]"):
        getattr(clnet.optim.swa_utils, make)(decay)


@pytest.mark.parametrize("last_epoch", [-1, 0, 4])
def test_the_way_to_the_last_rate_begins_where_the_count_does(last_epoch):
    """As PyTorch's, whose ``last_epoch`` lightning's averaging gives."""
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(1))], lr=0.5)
    optimizer.param_groups[0]["initial_lr"] = 0.5
    given = {"swa_lr": 0.1, "anneal_epochs": 4, "anneal_strategy": "linear"}
    scheduler, rates = clnet.optim.swa_utils.SWALR(optimizer, **given, last_epoch=last_epoch), []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(rates, [0.5, 0.4, 0.3, 0.2, 0.1, 0.1])
    assert scheduler.last_epoch == last_epoch + 7
