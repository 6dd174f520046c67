"""Replays that end half-way, by Ctrl-C or an error: what they leave, and that the next is right."""

from __future__ import annotations

import gc

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet import nn, ops
from clnet.device.bound import BoundLaunches
from clnet.errors import ClnetError, GradientError
from clnet.values import mode

pytestmark = pytest.mark.device


def batch(seed: int, *shape: int) -> clnet.Tensor:
    return clnet.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


class Interrupted:
    """Ctrl-C before a launch; those up to there run.

    Args:
        monkeypatch: the fixture.
        after: launches that still run.
    """

    def __init__(self, monkeypatch, after):
        self._monkeypatch, self._left = monkeypatch, after
        self._enqueue = cl.enqueue_nd_range_kernel

    def __enter__(self):
        self._monkeypatch.setattr(cl, "enqueue_nd_range_kernel", self._counted)

    def __exit__(self, *exc):
        self._monkeypatch.setattr(cl, "enqueue_nd_range_kernel", self._enqueue)

    def _counted(self, *args):
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return self._enqueue(*args)


class Job:
    """A training step of a network that is the same every time."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        with clnet.no_grad():
            for seed, p in enumerate(self.model.parameters()):
                p.copy_(batch(seed, *p.shape) * 0.3)
        self.optimizer = clnet.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x, target):
        self.optimizer.zero_grad()
        difference = self.model(x) - target
        loss = (difference * difference).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self) -> bytes:
        """The bits of all weights."""
        return b"".join(p.detach().numpy().tobytes() for p in self.model.parameters())


def everything(job: Job) -> list[clnet.Tensor]:
    """What a step changes: weights and momenta."""
    momenta = [tensor for own in job.optimizer.state.values() for tensor in own.values()]
    return [p.detach() for p in job.model.parameters()] + momenta


def test_an_exception_in_the_middle_of_a_replay(monkeypatch, device):
    """Stopped before each launch in turn; after the weights are put back, it goes on as eager."""
    eager, job = Job(), Job()
    step = clnet.compile(job.step)
    inputs = [(batch(i, 8, 6), batch(9 + i, 8, 3)) for i in range(4)]
    for pair in inputs[:2]:
        assert step(*pair).item() == eager.step(*pair).item()
    saved = [tensor.numpy() for tensor in everything(job)]
    weight = next(job.model.parameters())
    gc.collect()  # what earlier tests left
    held = clnet.memory_allocated()
    launches = step.plans[-1].num_launches
    assert launches > 3
    for after in range(launches):
        outside = (weight * weight).sum()
        with Interrupted(monkeypatch, after), pytest.raises(KeyboardInterrupt):
            step(batch(50 + after, 8, 6), inputs[2][1])  # memory of its own, gone afterwards
        with pytest.raises(GradientError, match="changed in place since"):
            outside.backward()
        assert mode.current().tracer is None
        with clnet.no_grad():
            for tensor, value in zip(everything(job), saved, strict=True):
                tensor.copy_(clnet.tensor(value))
        del outside
        assert clnet.memory_allocated() == held
    for pair in inputs[2:]:
        assert step(*pair).item() == eager.step(*pair).item()
    assert eager.state() == job.state()
    assert step.num_traces == 1


def test_an_exception_in_the_first_run_of_a_plan(monkeypatch):
    """No leaf keeps a gradient that was not computed, and gradients are accumulated anew."""
    w = clnet.ones(4, requires_grad=True)

    def accumulate(x):
        (ops.exp(x) * w).sum().backward()

    compiled = clnet.compile(accumulate)
    for after in range(2):
        with Interrupted(monkeypatch, 0), pytest.raises(KeyboardInterrupt):
            compiled(clnet.zeros(4))
        assert w.grad is None, after
    compiled(clnet.zeros(4))
    assert w.grad.tolist() == [1] * 4
    with Interrupted(monkeypatch, 0), pytest.raises(KeyboardInterrupt):
        compiled(clnet.zeros(4))
    assert w.grad.tolist() == [1] * 4
    compiled(clnet.zeros(4))
    assert w.grad.tolist() == [2] * 4


def test_an_exception_of_a_host_action_in_a_replay():
    """A learning rate that is no number: backward has run, the update has not."""
    eager, job = Job(), Job()
    step = clnet.compile(job.step)
    x, target = batch(0, 8, 6), batch(1, 8, 3)
    assert step(x, target).item() == eager.step(x, target).item()
    group = job.optimizer.param_groups[0]
    for _ in range(2):
        state, group["lr"] = job.state(), "fast"
        with pytest.raises((TypeError, ValueError, ClnetError)):
            step(x, target)
        assert job.state() == state
        group["lr"] = 0.1
    assert step(x, target).item() == eager.step(x, target).item()
    assert eager.state() == job.state()
    assert step.num_traces == 1


def test_an_argument_that_was_bound_half_way(monkeypatch):
    """Interrupted while a new buffer is bound, a plan does not read the old one next time."""
    compiled = clnet.compile(lambda x, y: (ops.exp(x) + y) @ (x - y))
    for n in range(1, 3):
        compiled(clnet.full((3, 3), float(n)), clnet.ones(3, 3))
    x, y = clnet.full((3, 3), 4.0), clnet.full((3, 3), 5.0)
    rebind = BoundLaunches.rebind

    def interrupted(self, storage):
        raise KeyboardInterrupt

    monkeypatch.setattr(BoundLaunches, "rebind", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled(x, y)
    monkeypatch.setattr(BoundLaunches, "rebind", rebind)
    expected = (np.exp(np.float32(4)) + 5) * -1 * 3
    np.testing.assert_allclose(compiled(x, y).numpy(), np.full((3, 3), expected), rtol=1e-5)
