"""Schedules made of others, whose parts do more than set a rate, against PyTorch's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError

torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")

pytestmark = pytest.mark.device


def warm_up(schedulers, optimizer):
    class WarmUp(schedulers.LRScheduler):
        def get_lr(self):
            return [base * min(1, (self.last_epoch + 1) / 4) for base in self.base_lrs]

    return WarmUp(optimizer)


def falling(schedulers, optimizer):
    return schedulers.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 1))


COMBINED = {
    "cycle behind": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 3), s.OneCycleLR(o, 0.2, total_steps=20)], [3]
    ),
    "cycle first": lambda s, o: s.SequentialLR(
        o, [s.CyclicLR(o, 0.01, 0.3, 2), s.ExponentialLR(o, 0.9)], [5]
    ),
    "function behind a line": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.5), falling(s, o), s.ExponentialLR(o, 0.9)], [2, 6]
    ),
    "written": lambda s, o: s.SequentialLR(o, [warm_up(s, o), s.ExponentialLR(o, 0.9)], [3]),
    "written chain": lambda s, o: s.ChainedScheduler([warm_up(s, o), s.ExponentialLR(o, 0.9)]),
    "chain of a function": lambda s, o: s.ChainedScheduler(
        [s.StepLR(o, 2, 0.5), falling(s, o), s.ExponentialLR(o, 0.9)]
    ),
    "chain of cycles": lambda s, o: s.ChainedScheduler(
        [s.CyclicLR(o, 0.01, 0.3, 3), s.ExponentialLR(o, 0.9)]
    ),
}


def made(package, name):
    params = [package.nn.Parameter(package.ones(1)) for _ in range(2)]
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.7}]
    optimizer = package.optim.SGD(groups, lr=0.1, momentum=0.9)
    return optimizer, COMBINED[name](package.optim.lr_scheduler, optimizer)


def going_on(optimizer, scheduler, steps):
    found = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        found.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
    return found


@pytest.mark.parametrize("name", COMBINED)
def test_parts_are_stepped_as_pytorchs(name):
    (ours, own), (theirs, their) = made(clnet, name), made(torch, name)
    found, wanted = going_on(ours, own, 12), going_on(theirs, their, 12)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    counts = [[s["last_epoch"] for s in x.state_dict()["_schedulers"]] for x in (own, their)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", COMBINED)
@pytest.mark.parametrize("steps", [2, 7])
def test_a_state_is_gone_on_from(name, steps):
    optimizer, scheduler = made(clnet, name)
    going_on(optimizer, scheduler, steps)
    other, resumed = made(clnet, name)
    state = scheduler.state_dict()
    resumed.load_state_dict(state if "written" in name else json.loads(json.dumps(state)))
    for mine, groups in zip(other.param_groups, optimizer.param_groups, strict=True):
        assert mine["momentum"] == groups["momentum"]
    assert going_on(other, resumed, 4) == going_on(optimizer, scheduler, 4)


def test_a_state_of_before_parts_counted_goes_on():
    optimizer, scheduler = made(clnet, "cycle behind")
    wanted = going_on(optimizer, scheduler, 9)
    other, resumed = made(clnet, "cycle behind")
    going_on(other, resumed, 5)
    state = resumed.state_dict()
    for part in state["_schedulers"]:
        part["last_epoch"] = 0
    other, resumed = made(clnet, "cycle behind")
    resumed.load_state_dict(state)
    np.testing.assert_allclose(going_on(other, resumed, 4), wanted[5:], rtol=1e-12)


def test_a_cycle_leaves_the_base_rate_to_those_beside_it():
    p = clnet.nn.Parameter(clnet.ones(1))
    optimizer = clnet.optim.SGD([p], lr=0.1, momentum=0.9)
    schedulers = clnet.optim.lr_scheduler
    schedulers.ExponentialLR(optimizer, 0.9)
    cycle = schedulers.CyclicLR(optimizer, 0.01, 0.3, 2)
    assert cycle.base_lrs == [0.01]
    assert optimizer.param_groups[0]["initial_lr"] == 0.1


def test_what_watches_a_metric_is_no_part():
    optimizer, _ = made(clnet, "written")
    schedulers = clnet.optim.lr_scheduler
    plateau = schedulers.ReduceLROnPlateau(optimizer)
    with pytest.raises(ArgumentError, match="metric"):
        schedulers.ChainedScheduler([plateau])
    with pytest.raises(ArgumentError, match="metric"):
        schedulers.SequentialLR(optimizer, [schedulers.ExponentialLR(optimizer, 0.9), plateau], [3])


@pytest.mark.parametrize("name", ["cycle behind", "written chain"])
def test_parts_go_on_at_every_call_of_a_compiled_step(name):
    optimizer, scheduler = made(clnet, name)
    for group in optimizer.param_groups:
        group["params"][0].grad = clnet.ones(1)

    @clnet.compile
    def step():
        optimizer.step()
        scheduler.step()

    found = []
    for _ in range(6):
        step()
        found.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
    assert step.num_traces == 1
    assert found == going_on(*made(clnet, name), 6)
