"""Updates of many small arrays in one launch, and what keeps them apart."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile import record
from clnet.compile.passes import rewrite
from clnet.compile.tracer import Step
from clnet.kernels.pointwise.pointwise_many import most_segments

pytestmark = pytest.mark.device


def leaves(*shapes) -> list[clnet.Tensor]:
    rng = np.random.default_rng(0)
    made = [clnet.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    return [p.requires_grad_() for p in made]


def updates(function, *args) -> list[str]:
    recorded = record(function, args, {}, clnet.device())
    steps = [s for s in rewrite(recorded.trace).steps if isinstance(s, Step) and s.mutated]
    return [f"{s.function.name} {len(s.mutated)}" for s in steps]


class Job:
    """Steps that move parameters of many shapes."""

    def __init__(self, make, count: int = 50) -> None:
        self.params = leaves(*((1 + 37 * i % 1500,) for i in range(count)), (300, 300))
        self.optimizer = make(self.params)

    def step(self, x):
        self.optimizer.zero_grad()
        sum((p * p).sum() * x for p in self.params).backward()
        self.optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: clnet.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1),
        lambda p: clnet.optim.Adam(p, 0.01),
        lambda p: clnet.optim.RMSprop(p, 0.01, centered=True),
    ],
    ids=["SGD", "Adam", "RMSprop"],
)
def test_an_optimiser_is_a_few_launches_with_the_same_bits(make):
    eager, compiled = Job(make), Job(make)
    step = clnet.compile(compiled.step)
    for i in range(3):
        for job in (eager, compiled):
            job.optimizer.param_groups[0]["lr"] = 0.01 / (1 + i)
        eager.step(clnet.ones(()))
        step(clnet.ones(()))
    for a, b in zip(eager.params, compiled.params, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
    assert step.num_traces == 1
    state = len(eager.optimizer.state[eager.params[0]])
    found = updates(compiled.step, clnet.ones(()))
    assert len(found) <= 2 + 50 // most_segments(state + 2, 0, 8)


def test_running_statistics_are_updated_together():
    model = nn.Sequential(*(nn.BatchNorm1d(4) for _ in range(5)))
    found = updates(lambda x: model(x).detach(), clnet.ones(3, 4))
    assert found == ["blend 10", "counted 5"]


def test_an_update_that_is_read_in_between_is_not_moved():
    a, b = (clnet.ones(3) for _ in range(2))

    def function(x):
        a.add_(x)
        middle = x @ a
        b.add_(x)
        return middle

    def apart(x):
        a.add_(x)
        b.add_(x)
        return x @ a

    assert updates(function, clnet.ones(3)) == ["add 1", "add 1"]
    assert updates(apart, clnet.ones(3)) == ["add 2"]


def test_other_rates_are_other_launches():
    p, q = leaves((3,), (4,))
    optimizer = clnet.optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], 0.1)

    def step(x):
        ((p * p).sum() * x + (q * q).sum()).backward()
        optimizer.step()

    assert updates(step, clnet.ones(())) == ["sgd 1", "sgd 1"]


def test_clipping_scales_all_gradients_in_one_launch():
    params = leaves((3,), (4, 5), (7,))

    def step(x):
        for p in params:
            p.grad = None
        sum((p * p).sum() * x for p in params).backward()
        return nn.utils.clip_grad_norm_(params, 1.0)

    assert updates(step, clnet.ones(())) == ["scaled 3"]
    expected = [step(clnet.ones(())).numpy()] + [p.grad.numpy() for p in params]
    compiled = clnet.compile(step)
    found = [compiled(clnet.ones(())).numpy()] + [p.grad.numpy() for p in params]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(expected, found, strict=True))


def test_parameters_that_part_company_keep_their_own_counts():
    eager, compiled = leaves((3,), (4,)), leaves((3,), (4,))

    def steps_of(params, wrap):
        optimizer = clnet.optim.Adam(params, 0.1)

        def both(x):
            sum((p * p).sum() * x for p in params).backward()
            optimizer.step()
            optimizer.zero_grad()

        def first(x):
            ((params[0] * params[0]).sum() * x).backward()
            optimizer.step()
            optimizer.zero_grad()

        both, first = wrap(both), wrap(first)
        for function in (both, first, both, both, first, both):
            function(clnet.ones(()))
        return optimizer, both

    steps_of(eager, lambda f: f)
    optimizer, both = steps_of(compiled, clnet.compile)
    for a, b in zip(eager, compiled, strict=True):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
    assert [entry["step"] for entry in optimizer.state_dict()["state"].values()] == [6, 4]
    assert getattr(both, "num_traces") == 2  # noqa: B009 - to a type checker it is a function
