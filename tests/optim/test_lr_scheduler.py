"""Learning-rate schedules against PyTorch's."""

from __future__ import annotations

import json

import pytest

import clnet
from clnet.errors import ArgumentError, CheckpointError
from clnet.optim import lr_scheduler

pytestmark = pytest.mark.device

STEPS = 20


def decay(steps):
    return 1 / (1 + steps)


def warm_up_then_cosine(module, optimizer):
    warm_up = module.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    cosine = module.CosineAnnealingLR(optimizer, T_max=10, eta_min=0.001)
    return module.SequentialLR(optimizer, [warm_up, cosine], [5])


SCHEDULES = {
    "StepLR": lambda m, o: m.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 11], 0.3),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 8, 0.01),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.25, 0.75, 6),
    "LambdaLR": lambda m, o: m.LambdaLR(o, decay),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, decay),
    "SequentialLR": warm_up_then_cosine,
}


def optimizer_of_two_groups():
    groups = [{"params": clnet.zeros(2), "lr": 0.1}, {"params": clnet.zeros(2), "lr": 2.0}]
    return clnet.optim.SGD(groups)


def rates(scheduler, optimizer, steps):
    seen = []
    for _ in range(steps):
        seen.append([group["lr"] for group in optimizer.param_groups])
        scheduler.step()
    return seen


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.filterwarnings("ignore:Detected call of")
def test_rates_agree_with_pytorch(make):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    theirs = torch.optim.SGD(
        [{"params": torch.zeros(2), "lr": 0.1}, {"params": torch.zeros(2), "lr": 2.0}]
    )
    reference = rates(make(torch.optim.lr_scheduler, theirs), theirs, STEPS)
    ours = optimizer_of_two_groups()
    found = rates(make(lr_scheduler, ours), ours, STEPS)
    assert len({first for first, _ in found}) >= 3  # the schedule does something
    for mine, other in zip(found, reference, strict=True):
        assert mine == pytest.approx(other, rel=1e-9)


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_restored_schedule_goes_on_bit_for_bit(make):
    optimizer = optimizer_of_two_groups()
    scheduler = make(lr_scheduler, optimizer)
    rates(scheduler, optimizer, 7)
    other = optimizer_of_two_groups()
    restored = make(lr_scheduler, other)
    restored.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    assert rates(restored, other, 8) == rates(scheduler, optimizer, 8)


def test_schedule_reaches_a_replayed_step():
    p = clnet.zeros(3, requires_grad=True)
    optimizer = clnet.optim.SGD([p], lr=1.0)
    scheduler = lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    @clnet.compile
    def step(grad):
        p.grad = grad
        optimizer.step()

    for _ in range(3):
        step(clnet.ones(3))
        scheduler.step()
    assert p.tolist() == [-1.75, -1.75, -1.75]
    assert step.num_traces == 1
    assert scheduler.get_last_lr() == [0.125]


def test_arguments_are_checked():
    optimizer = optimizer_of_two_groups()
    with pytest.raises(ArgumentError, match="step_size"):
        lr_scheduler.StepLR(optimizer, 0)
    with pytest.raises(ArgumentError, match="T_max"):
        lr_scheduler.CosineAnnealingLR(optimizer, 0)
    with pytest.raises(ArgumentError, match="start_factor"):
        lr_scheduler.LinearLR(optimizer, start_factor=0)
    with pytest.raises(ArgumentError, match="for each group"):
        lr_scheduler.LambdaLR(optimizer, [decay])
    with pytest.raises(ArgumentError, match="MultiplicativeLR: there is a function for each group"):
        lr_scheduler.MultiplicativeLR(optimizer, [decay])
    constant = lr_scheduler.LambdaLR(optimizer, decay)
    with pytest.raises(ArgumentError, match="milestone"):
        lr_scheduler.SequentialLR(optimizer, [constant], [3])
    with pytest.raises(ArgumentError, match="same optimiser"):
        lr_scheduler.SequentialLR(optimizer_of_two_groups(), [constant], [])


def test_state_that_does_not_fit_is_refused():
    scheduler = lr_scheduler.StepLR(optimizer_of_two_groups(), 3)
    with pytest.raises(CheckpointError, match="not a scheduler's state"):
        scheduler.load_state_dict({"last_epoch": 3})
    with pytest.raises(CheckpointError, match="other groups"):
        scheduler.load_state_dict({"last_epoch": 3, "base_lrs": [0.1]})
    assert scheduler.last_epoch == 0
