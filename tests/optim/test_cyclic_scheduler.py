"""Cyclic schedules and their like beside PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.errors import ArgumentError, CheckpointError
from clnet.optim import lr_scheduler
from tests.answers import torch

pytestmark = [
    pytest.mark.device,
    pytest.mark.filterwarnings("ignore:Detected call of"),  # schedules alone
]
STEPS = 25
CASES = [
    ("ConstantLR", {"factor": 0.3, "total_iters": 4}),
    ("PolynomialLR", {"total_iters": 7, "power": 2.0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 5, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 4}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2.5}),
    ("StepLR", {"step_size": 1.0}),
    ("MultiStepLR", {"milestones": [2.0, 3.5, 4.0]}),
    ("CosineAnnealingLR", {"T_max": 6.5}),
    ("LinearLR", {"total_iters": 2.5}),
    ("PolynomialLR", {"total_iters": 2.5}),
    *[(name, {"total_iters": n}) for name in ("LinearLR", "PolynomialLR") for n in (0, 0.5)],
    *[("ConstantLR", {"total_iters": n}) for n in (0, 2.5, -1)],
    ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 0.5, "step_size_up": 4, "step_size_down": 2}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "triangular2"}),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9},
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.1,
            "max_lr": 0.5,
            "step_size_up": 3,
            "base_momentum": [0.6, 0.7],
            "max_momentum": [0.9, 0.8],
        },
    ),
    (
        "OneCycleLR",
        {
            "max_lr": 0.5,
            "total_steps": 25,
            "three_phase": True,
            "base_momentum": [0.6, 0.7],
            "max_momentum": 0.9,
        },
    ),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 24}),  # PyTorch's goes one step beyond its end
    (
        "OneCycleLR",
        {"max_lr": [0.5, 1.0], "epochs": 4, "steps_per_epoch": 6, "anneal_strategy": "linear"},
    ),
    (
        "OneCycleLR",
        {"max_lr": 0.5, "total_steps": 25, "three_phase": True, "cycle_momentum": False},
    ),
]


def optimizer_of(lib, kind):
    groups = [{"params": [lib.ones(2, requires_grad=True)]} for _ in range(2)]
    groups[1]["lr"] = 0.2
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(lib.optim, kind)(groups, lr=0.4, **options)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
@pytest.mark.filterwarnings("ignore")  # PyTorch asks for optimizer.step()
def test_rates_and_momenta_agree_with_pytorch(name, options, kind):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    ours, theirs = optimizer_of(clnet, kind), optimizer_of(torch, kind)
    own = getattr(lr_scheduler, name)(ours, **options)
    their = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
    key = "momentum" if kind == "SGD" else "betas"
    for step in range(STEPS):
        if step:
            own.step()
            their.step()
        for a, b in zip(ours.param_groups, theirs.param_groups, strict=True):
            assert math.isclose(a["lr"], b["lr"], rel_tol=1e-9, abs_tol=1e-15), step
            assert a[key] == pytest.approx(b[key], rel=1e-9), step


def test_a_chain_multiplies():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    rates = []
    for lib in (clnet, torch):
        s, optimizer = lib.optim.lr_scheduler, optimizer_of(lib, "SGD")
        chain = s.ChainedScheduler(
            [
                s.ConstantLR(optimizer, factor=0.5, total_iters=3),
                s.ExponentialLR(optimizer, gamma=0.9),
            ]
        )
        found = []
        for _ in range(8):
            optimizer.step()
            chain.step()
            found += chain.get_last_lr()
        rates.append(found)
    assert rates[0] == pytest.approx(rates[1], rel=1e-9)


PLATEAUS = [
    {"patience": 1},
    {"mode": "max", "patience": 2, "factor": 0.5, "threshold_mode": "abs", "threshold": 0.1},
    {"patience": 0, "cooldown": 2, "min_lr": [0.05, 0.0]},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateaus_agree_with_pytorch(options):
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    ours, theirs = optimizer_of(clnet, "SGD"), optimizer_of(torch, "SGD")
    own = lr_scheduler.ReduceLROnPlateau(ours, **options)
    their = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for metric in (3, 2, 2, 2.05, 1, 1, 1, 1, 1, 0.5, 0.5, 0.6, 0.7, 4, 5, 4, 4):
        own.step(metric)
        their.step(metric)
        assert own.get_last_lr() == pytest.approx([g["lr"] for g in theirs.param_groups])
    for state in (own.state_dict(), their.state_dict()):
        again = lr_scheduler.ReduceLROnPlateau(ours, patience=77)
        again.load_state_dict(state)
        assert again.state_dict() == own.state_dict()
    with pytest.raises(CheckpointError, match="other groups"):
        again.load_state_dict({**own.state_dict(), "min_lrs": []})
    with pytest.raises(CheckpointError, match="not a scheduler's state"):
        again.load_state_dict({"best": 1})


def test_arguments_are_checked():
    s, optimizer = lr_scheduler, optimizer_of(clnet, "SGD")
    plain = clnet.optim.Adagrad([clnet.ones(2, requires_grad=True)], lr=0.1)
    for make in (
        lambda: s.ConstantLR(optimizer, 2),
        lambda: s.PolynomialLR(optimizer, -1),
        lambda: s.LinearLR(optimizer, total_iters=-1),
        lambda: s.CosineAnnealingWarmRestarts(optimizer, 0),
        lambda: s.ChainedScheduler([]),
        lambda: s.CyclicLR(optimizer, 0.1, 0.2, mode="round"),
        lambda: s.CyclicLR(optimizer, [0.1], 0.2),
        lambda: s.CyclicLR(plain, 0.1, 0.2),
        lambda: s.OneCycleLR(optimizer, 0.1),
        lambda: s.OneCycleLR(plain, 0.1, 10),
        lambda: s.OneCycleLR(optimizer, 0.1, 10, div_factor=0.0),
        lambda: s.OneCycleLR(optimizer, 0.1, 10, final_div_factor=0.0),
        lambda: s.ReduceLROnPlateau(optimizer, factor=1),
    ):
        with pytest.raises(ArgumentError):
            make()
    cycle = s.OneCycleLR(optimizer, 0.1, 2)
    cycle.step()
    cycle.step()
    with pytest.raises(ArgumentError, match=r"no more steps.*total_steps of"):
        cycle.step()


def rates(package, make, steps=9):
    """The rates that a scheduler sets, and after a state was loaded into another."""
    p = package.nn.Parameter(package.ones(1))
    optimizer = package.optim.SGD([p], lr=0.5, momentum=0.9)
    scheduler, found = make(package, optimizer), []
    for step in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        if step == 4:
            state = scheduler.state_dict()
            scheduler = make(package, optimizer)
            scheduler.load_state_dict(state)
            found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def by_the_inverse_root(package, optimizer):
    class InverseRoot(package.optim.lr_scheduler._LRScheduler):
        def __init__(self, optimizer, warmup, last_epoch=-1):
            self.warmup = warmup
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            step = self.last_epoch + 1
            return [b * min(step / self.warmup, step**-0.5) for b in self.base_lrs]

    return InverseRoot(optimizer, 3)


def by_the_count_of_steps(package, optimizer):
    class Counted(package.optim.lr_scheduler.LRScheduler):
        def __init__(self, optimizer, rate, last_epoch=-1):
            self.rate = rate  # a number of its own, where ours have a method
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            return [b / (self.rate + self._step_count) for b in self.base_lrs]

    return Counted(optimizer, 2.0)


def by_a_function(package, optimizer):
    schedulers = package.optim.lr_scheduler
    return schedulers.CyclicLR(
        optimizer, 0.1, 0.9, 2, 1, scale_fn=lambda cycle: 0.7**cycle, scale_mode="cycle"
    )


@pytest.mark.parametrize("make", [by_the_inverse_root, by_the_count_of_steps])
def test_schedulers_that_programs_write_go_as_with_pytorch(make):
    got, want = rates(clnet, make), rates(torch, make)
    assert got[:5] == pytest.approx(want[:5])
    assert got[6:] == pytest.approx(want[6:])


def test_cycles_are_as_high_as_a_function_says():
    optimizers = [
        p.optim.SGD([p.nn.Parameter(p.ones(1))], lr=0.5, momentum=0.9) for p in (clnet, torch)
    ]
    pair = [by_a_function(p, o) for p, o in zip((clnet, torch), optimizers, strict=True)]
    for _ in range(8):
        for optimizer, scheduler in zip(optimizers, pair, strict=True):
            optimizer.step()
            scheduler.step()
        assert pair[0].get_last_lr() == pytest.approx(pair[1].get_last_lr())
    with pytest.raises(ArgumentError, match="scale_mode"):
        clnet.optim.lr_scheduler.CyclicLR(optimizers[0], 0.1, 0.9, scale_mode="x")


def test_a_chain_may_be_given_its_optimiser():
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(1))], lr=1.0)
    other = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(1))], lr=1.0)
    schedulers = clnet.optim.lr_scheduler
    one = schedulers.ExponentialLR(optimizer, 0.5)
    chain = schedulers.ChainedScheduler([one], optimizer=optimizer)
    chain.step()
    assert chain.get_last_lr() == [0.5]
    with pytest.raises(ArgumentError, match="same optimiser"):
        schedulers.ChainedScheduler([one], optimizer=other)


def test_a_scheduler_gives_a_momentum_to_an_optimiser_that_has_none_yet():
    weight = nn.Parameter(clnet.ones(2))
    optimizer = clnet.optim.SGD([weight], lr=1.0)
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, 2)
    momenta, velocity, expected = [], 0.0, 1.0
    for _ in range(3):
        group = optimizer.param_groups[0]
        momenta.append(group["momentum"])
        velocity = group["momentum"] * velocity + 2 * expected
        expected -= group["lr"] * velocity
        optimizer.zero_grad()
        (weight**2).sum().backward()
        optimizer.step()
        schedule.step()
    np.testing.assert_allclose(momenta, [0.9, 0.85, 0.8], rtol=1e-6)
    np.testing.assert_allclose(weight.detach().numpy(), [expected] * 2, rtol=1e-5)
    adagrad = clnet.optim.Adagrad([weight])
    with pytest.raises(ArgumentError, match="the optimiser has a momentum"):
        lr_scheduler.CyclicLR(adagrad, 0.1, 1.0)


@pytest.mark.filterwarnings("ignore")  # PyTorch's epoch is deprecated
def test_a_group_that_is_added_later_is_reduced_too():
    for package in (clnet, torch):
        schedulers = package.optim.lr_scheduler
        optimizer = package.optim.SGD([package.nn.Parameter(package.ones(1))], lr=1.0)
        plateau = schedulers.ReduceLROnPlateau(optimizer, patience=0, cooldown=1, min_lr=0.2)
        assert isinstance(plateau, schedulers.LRScheduler)
        optimizer.add_param_group({"params": [package.nn.Parameter(package.ones(1))], "lr": 0.5})
        plateau.step(1.0, epoch=4)
        plateau.step(2.0)
        assert plateau.last_epoch == 5
        assert plateau.in_cooldown
        assert plateau.get_last_lr() == pytest.approx([0.2, 0.2])
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.ones(1))], lr=1.0)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.2])
    optimizer.add_param_group({"params": [clnet.nn.Parameter(clnet.ones(1))]})
    plateau.step(1.0)
    with pytest.raises(ArgumentError, match="a number for each group"):
        plateau.step(2.0)


@pytest.mark.filterwarnings("ignore")  # PyTorch's epoch is deprecated
def test_restarts_are_stepped_by_fractions_as_pytorchs():
    """The whole part is counted, the rest goes on, also from a state."""
    found = []
    for package in (clnet, torch):
        make = package.optim.lr_scheduler.CosineAnnealingWarmRestarts
        optimizer = package.optim.SGD([package.nn.Parameter(package.ones(1))], lr=0.1)
        scheduler, seen = make(optimizer, 2, 2), []
        for k in range(14):
            if k in (5, 11):
                state = scheduler.state_dict()
                scheduler = make(optimizer, 2, 2)
                scheduler.load_state_dict(state)
            scheduler.step(k / 3) if k < 10 else scheduler.step()
            rate = scheduler.get_last_lr()[0]
            seen.append((rate, scheduler.last_epoch, scheduler.T_cur, scheduler.T_i))
        found.append(seen)
    np.testing.assert_allclose(*found, rtol=1e-6)
    with pytest.raises(ArgumentError, match="epoch is 0 or more"):
        lr_scheduler.CosineAnnealingWarmRestarts(optimizer_of(clnet, "SGD"), 2).step(-0.5)


def test_the_last_rate_of_a_scheduler_is_the_one_that_it_set():
    for package in (clnet, torch):
        optimizer = package.optim.SGD([package.nn.Parameter(package.ones(1))], lr=1.0)
        scheduler = package.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.step()
        scheduler.step()
        optimizer.param_groups[0]["lr"] = 3.0
        assert scheduler.get_last_lr() == [0.5]
