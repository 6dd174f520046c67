"""Learning-rate schedules against PyTorch's."""

from __future__ import annotations

import json

import numpy as np
import pytest

import clnet
from clnet.errors import ArgumentError, CheckpointError, TraceError
from clnet.optim import lr_scheduler

pytestmark = [
    pytest.mark.device,
    pytest.mark.filterwarnings("ignore:Detected call of"),  # schedules alone
]

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


OTHERS = {  # as one scheduler was built, and as another, which is given its state
    "step": (lambda s, o: s.StepLR(o, 2), lambda s, o: s.StepLR(o, 5, 0.7)),
    "fraction": (lambda s, o: s.StepLR(o, 1.5), lambda s, o: s.StepLR(o, 5)),
    "marks": (lambda s, o: s.MultiStepLR(o, [2, 3, 3]), lambda s, o: s.MultiStepLR(o, [9], 0.3)),
    "powers": (lambda s, o: s.ExponentialLR(o, 0.9), lambda s, o: s.ExponentialLR(o, 0.3)),
    "cosine": (
        lambda s, o: s.CosineAnnealingLR(o, 7, 0.01),
        lambda s, o: s.CosineAnnealingLR(o, 9),
    ),
    "line": (lambda s, o: s.LinearLR(o, 0.2, 0.9, 9), lambda s, o: s.LinearLR(o)),
    "constant": (lambda s, o: s.ConstantLR(o, 0.2, 7), lambda s, o: s.ConstantLR(o)),
    "polynomial": (lambda s, o: s.PolynomialLR(o, 9, 2.0), lambda s, o: s.PolynomialLR(o)),
    "restarts": (
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 5),
    ),
    "cycles": (
        lambda s, o: s.CyclicLR(o, 0.1, 1.0, 3, 4, "triangular2", base_momentum=0.7),
        lambda s, o: s.CyclicLR(o, 0.2, 2.0),
    ),
    "one cycle": (
        lambda s, o: s.OneCycleLR(o, 1.0, 12, anneal_strategy="linear"),
        lambda s, o: s.OneCycleLR(o, 2.0, 30, three_phase=True),
    ),
    "sequence": (
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.4, 3), s.ExponentialLR(o, 0.9)], [4]),
        lambda s, o: s.SequentialLR(o, [s.ConstantLR(o), s.ExponentialLR(o, 0.2)], [2]),
    ),
    "chain": (
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.3, 6), s.ExponentialLR(o, 0.8)]),
        lambda s, o: s.ChainedScheduler([s.ConstantLR(o), s.ExponentialLR(o, 0.2)]),
    ),
}


def of_two_groups_with_momentum(package):
    groups = [{"params": [package.nn.Parameter(package.ones(1))], "lr": 1 / k} for k in (2, 5)]
    return package.optim.SGD(groups, lr=1.0, momentum=0.9)


def stepped(scheduler, optimizer, count):
    found = []
    for _ in range(count):
        optimizer.step()
        scheduler.step()
        found.append([(g["lr"], g["momentum"]) for g in optimizer.param_groups])
    return found


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_brings_its_settings(name):
    first, second = OTHERS[name]
    optimizer, other = (of_two_groups_with_momentum(clnet) for _ in range(2))
    scheduler, resumed = first(lr_scheduler, optimizer), second(lr_scheduler, other)
    stepped(scheduler, optimizer, 5)
    resumed.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    assert resumed.state_dict() == scheduler.state_dict()
    assert stepped(resumed, other, 6) == stepped(scheduler, optimizer, 6)
    old = {"last_epoch": 3, "base_lrs": [0.5, 0.2]}  # as it was before there were settings
    scheduler.load_state_dict(old)
    assert scheduler.last_epoch == 3


@pytest.mark.parametrize("name", OTHERS)
def test_a_state_of_pytorchs_scheduler_is_continued(name):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    first, second = OTHERS[name]
    optimizer, other = (of_two_groups_with_momentum(p) for p in (torch, clnet))
    scheduler = first(torch.optim.lr_scheduler, optimizer)
    resumed = second(lr_scheduler, other)
    stepped(scheduler, optimizer, 5)
    for mine, theirs in zip(other.param_groups, optimizer.param_groups, strict=True):
        mine.update({k: v for k, v in theirs.items() if k in ("max_lr", "min_lr", "initial_lr")})
    resumed.load_state_dict(scheduler.state_dict())
    found, wanted = stepped(resumed, other, 6), stepped(scheduler, optimizer, 6)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


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
    with pytest.raises(CheckpointError, match=r"not a scheduler's state.*Pass what state_dict"):
        scheduler.load_state_dict({"last_epoch": 3})
    with pytest.raises(CheckpointError, match="other groups"):
        scheduler.load_state_dict({"last_epoch": 3, "base_lrs": [0.1]})
    with pytest.raises(CheckpointError, match="other groups"):
        scheduler.load_state_dict({"last_epoch": 3, "base_lrs": 3})
    with pytest.raises(CheckpointError, match=r"not a scheduler's state.*Pass what state_dict"):
        scheduler.load_state_dict({"last_epoch": 3, "base_lrs": [0.1, 0.1], "T_max": 3})
    chain = lr_scheduler.ChainedScheduler([scheduler])
    with pytest.raises(CheckpointError, match="other schedulers"):
        chain.load_state_dict({**chain.state_dict(), "_schedulers": []})
    assert scheduler.last_epoch == 0


CARRIED = {
    "StepLR": lambda m, o: m.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 5], 0.5),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 4, 0.01),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.5, 1.0, 4),
    "ConstantLR": lambda m, o: m.ConstantLR(o, 0.5, 3),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, 5, 2.0),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda epoch: 0.8),
    "LambdaLR": lambda m, o: m.LambdaLR(o, lambda epoch: 1 / (epoch + 1)),
}


def beside_another(library, make):
    """Rates of ten steps, beside a scheduler of plateaus and a program that halves the rate."""
    weight = library.nn.Parameter(library.ones(1))
    optimizer = library.optim.SGD([weight], lr=0.1)
    schedulers = library.optim.lr_scheduler
    own = make(schedulers, optimizer)
    plateau = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)
    found = []
    for step in range(10):
        optimizer.step()
        own.step()
        plateau.step(1.0)
        if step == 1:
            optimizer.param_groups[0]["lr"] *= 0.5
        found.append(optimizer.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize("name", CARRIED)
def test_rates_that_others_change_are_gone_on_from(name):
    torch = pytest.importorskip("torch")
    wanted = beside_another(torch, CARRIED[name])
    assert beside_another(clnet, CARRIED[name]) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_a_changed_rate_is_carried_and_kept_in_the_state():
    """Without PyTorch: half the rate stays half the rate, also behind a state."""
    optimizer = clnet.optim.SGD([clnet.ones(1, requires_grad=True)], lr=0.1)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 4)
    names = {k for k in scheduler.state_dict() if not k.startswith("_")}
    assert names == {"last_epoch", "base_lrs", "T_max", "eta_min"}
    scheduler.step()
    optimizer.param_groups[0]["lr"] /= 2
    state = scheduler.state_dict()
    again = clnet.optim.SGD([clnet.ones(1, requires_grad=True)], lr=0.1)
    resumed = lr_scheduler.CosineAnnealingLR(again, 4)
    resumed.load_state_dict(state)
    for k in range(2, 8):
        scheduler.step()
        resumed.step()
        rate = optimizer.param_groups[0]["lr"]
        if k <= 4:  # behind the lowest rate PyTorch goes up as from the base rate
            assert rate == pytest.approx(0.05 * (1 + np.cos(np.pi * k / 4)) / 2, abs=1e-12)
        assert again.param_groups[0]["lr"] == rate


CHAINED = (
    lambda m, o: m.LinearLR(o, 0.1, total_iters=3),
    lambda m, o: m.ExponentialLR(o, 0.9),
    lambda m, o: m.ConstantLR(o, 0.5, 2),
    lambda m, o: m.CosineAnnealingLR(o, 4, 0.01),
    lambda m, o: m.StepLR(o, 2, 0.5),
)


def chained_rates(torch, first, second):
    """Rates of six steps of two schedulers of one optimiser."""
    if torch is None:
        p = clnet.nn.Parameter(clnet.zeros(1))
        optimizer, module = clnet.optim.SGD([p], lr=1.0), lr_scheduler
    else:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        module = torch.optim.lr_scheduler
    schedulers = [first(module, optimizer), second(module, optimizer)]
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    return rates


def test_schedulers_of_one_optimizer_multiply():
    torch = pytest.importorskip("torch", reason="the oracle is PyTorch, of the torch extra")
    for first in CHAINED:
        for second in CHAINED:
            expected = chained_rates(torch, first, second)
            np.testing.assert_allclose(chained_rates(None, first, second), expected, rtol=1e-6)


def test_a_warm_up_beside_a_decay():
    rates = chained_rates(None, *CHAINED[:2])
    expected = [0.1, 0.4 * 0.9, 0.7 * 0.9**2, 0.9**3, 0.9**4, 0.9**5, 0.9**6]
    np.testing.assert_allclose(rates, expected)


def test_a_cosine_from_its_lowest_rate_goes_on_from_another():
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, 10, eta_min=0.1)
    optimizer.param_groups[0]["lr"] = 0.5
    scheduler.step()
    rate = 0.1 + 0.4 * (1 + np.cos(np.pi / 10)) / 2
    np.testing.assert_allclose(optimizer.param_groups[0]["lr"], rate)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("last_epoch", "x"), ("last_epoch", None), ("base_lrs", ["a"]), ("_last_lr", ["a"])),
        *(("gamma", "x"), ("milestones", 3), ("milestones", ["x"])),
    ],
)
def test_a_setting_of_another_kind_is_refused_and_nothing_changes(key, value):
    optimizer = clnet.optim.SGD([clnet.nn.Parameter(clnet.zeros(1))], lr=0.1)
    scheduler = lr_scheduler.MultiStepLR(optimizer, [2, 4])
    before = scheduler.state_dict()
    with pytest.raises(CheckpointError, match=r"another kind|other groups"):
        scheduler.load_state_dict({**before, "last_epoch": 3, key: value})
    assert scheduler.state_dict() == before
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(CheckpointError, match="another kind"):
        plateau.load_state_dict({**plateau.state_dict(), "best": "x"})


@pytest.mark.filterwarnings("error")
def test_a_schedule_that_is_stepped_before_the_optimiser_warns():
    for package in (clnet, pytest.importorskip("torch")):
        p = package.nn.Parameter(package.ones(1))
        optimizer = package.optim.SGD([p], lr=0.1)
        early = package.optim.lr_scheduler.StepLR(optimizer, 2)
        with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before"):
            early.step()
        late = package.optim.lr_scheduler.StepLR(optimizer, 2)
        optimizer.step()
        late.step()


def test_a_schedule_inside_a_compiled_function_goes_on_at_every_call():
    def rates(wrap):
        parameter = clnet.ones(2).requires_grad_()
        optimizer = clnet.optim.SGD([parameter], lr=0.5)
        schedule = clnet.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

        def step():
            optimizer.zero_grad()
            parameter.sum().backward()
            optimizer.step()
            schedule.step()

        step, found = wrap(step), []
        for _ in range(3):
            step()
            found.append((parameter.tolist(), schedule.get_last_lr(), schedule.last_epoch))
        assert getattr(step, "num_traces", 1) == 1
        return found

    assert rates(clnet.compile) == rates(lambda step: step)


def test_what_a_schedule_sets_inside_a_compiled_function_is_read_behind_it():
    def rates(wrap):
        parameter = clnet.ones(2).requires_grad_()
        optimizer = clnet.optim.SGD([parameter], lr=0.5, momentum=0.9)
        schedule = clnet.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

        def step(x):
            found = [optimizer.param_groups[0]["lr"]]
            for _ in range(2):
                optimizer.zero_grad()
                parameter.sum().backward()
                optimizer.step()
                schedule.step()
                rate = schedule.get_last_lr()[0]
                found += [rate, schedule.last_epoch, x * (optimizer.param_groups[0]["lr"] + 1)]
            print(f"{rate:.3f}")  # at the trace alone
            return found, schedule.get_last_lr()

        step = wrap(step)
        found = [repr(step(clnet.ones(2))) for _ in range(3)]
        assert getattr(step, "num_traces", 1) == 1
        return found, parameter.tolist(), optimizer.param_groups[0]["lr"], schedule.state_dict()

    assert rates(clnet.compile) == rates(lambda step: step)


def test_a_branch_by_what_a_schedule_has_just_set_is_refused():
    parameter = clnet.ones(2).requires_grad_()
    optimizer = clnet.optim.SGD([parameter], lr=0.5)
    schedule = clnet.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)

    @clnet.compile
    def step(x, before):
        early = schedule.last_epoch
        schedule.step()
        return x if (early if before else schedule.last_epoch) > 1 else -x

    with pytest.raises(TraceError, match="scheduler has just set"):
        step(clnet.ones(1), False)
    found = [step(clnet.ones(1), True).item() for _ in range(4)]
    assert found == [-1, -1, 1, 1]
    assert (schedule.last_epoch, optimizer.param_groups[0]["lr"]) == (4, 0.5**5)


@pytest.mark.parametrize("kind", ["Adam", "NAdam"])
def test_what_a_compiled_function_makes_begins_anew_at_every_call(kind):
    def adapted(x):
        w = x.detach().clone().requires_grad_()
        optimizer = getattr(clnet.optim, kind)([w], lr=0.1)
        parts = [lr_scheduler.StepLR(optimizer, 1, 0.5), lr_scheduler.ExponentialLR(optimizer, 0.9)]
        scheduler = lr_scheduler.ChainedScheduler(parts)
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            scheduler.step()
        return w.detach()

    x, compiled = clnet.tensor([1.0, 2.0, 3.0]), clnet.compile(adapted)
    expected = adapted(x).numpy()
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-6)


LATER = {
    "StepLR": lambda m, o: m.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 4], 0.5),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.5),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.5, total_iters=4),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, 6, 2.0),
}


@pytest.mark.parametrize("make", LATER.values(), ids=LATER)
@pytest.mark.parametrize("added_at", [0, 3])
def test_a_group_added_later_goes_on_from_its_rate(make, added_at):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    seen = []
    for lib in (clnet, torch):
        first, later = (lib.ones(1, requires_grad=True) for _ in range(2))
        optimizer = lib.optim.SGD([first], lr=1.0)
        scheduler = make(lib.optim.lr_scheduler, optimizer)
        rates = []
        for step in range(7):
            if step == added_at:
                optimizer.add_param_group({"params": [later], "lr": 0.3})
            optimizer.step()
            scheduler.step()
            rates += [group["lr"] for group in optimizer.param_groups]
        seen.append(rates)
    assert seen[0] == pytest.approx(seen[1])


def test_a_schedule_of_functions_knows_its_groups():
    first, later = (clnet.ones(1, requires_grad=True) for _ in range(2))
    optimizer = clnet.optim.SGD([first], lr=1.0)
    scheduler = clnet.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    optimizer.add_param_group({"params": [later]})
    optimizer.step()
    with pytest.raises(ArgumentError, match="its groups are those that it was made with"):
        scheduler.step()


class Rising:
    """A function of steps with a number of its own."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, steps):
        return self.factor * steps


class Halved(lr_scheduler.LambdaLR):
    """A schedule of a program's own."""

    def get_lr(self):
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * f(self.last_epoch) / 2 for base, f in pairs]


@pytest.mark.parametrize("name", ["LambdaLR", "MultiplicativeLR", "Halved"])
def test_objects_in_functions_places_are_kept_in_the_state(name):
    kind = Halved if name == "Halved" else getattr(lr_scheduler, name)
    kept = kind(optimizer_of_two_groups(), [Rising(3), decay])
    state = kept.state_dict()
    assert state["lr_lambdas"] == [{"factor": 3}, None]
    other = kind(optimizer_of_two_groups(), [Rising(5), decay])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].factor == 3
    assert rates(other, other.optimizer, 3) == rates(kept, kept.optimizer, 3)


def test_a_state_that_is_refused_changes_no_function():
    scheduler = lr_scheduler.LambdaLR(optimizer_of_two_groups(), Rising(5))
    for state in (7, {"lr_lambdas": [{"factor": 9}], "step_size": 2}):
        with pytest.raises(CheckpointError):
            scheduler.load_state_dict(state)
    assert scheduler.lr_lambdas[0].factor == 5
