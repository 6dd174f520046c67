"""Compiled functions on several devices: the bits of eager execution, and plans that meet."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import clnet
from clnet import nn, optim
from clnet.compile.passes import KEEPING_BITS, PASSES
from clnet.compile.spanning import SpanningPlan
from clnet.device import Passage
from clnet.errors import ArgumentError, DeviceError, TraceError
from clnet.nn import functional as F

transfer = import_module("clnet.device.transfer")


class Halves(nn.Module):
    """A network whose second half is elsewhere."""

    def __init__(self, first, second):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.ReLU()).to(first)
        self.head = nn.Sequential(nn.Dropout(0.25), nn.Linear(9, 4)).to(second)
        self.second = second

    def forward(self, x):
        return self.head(self.body(x).to(self.second))


def batches(first, count=3):
    draw = np.random.default_rng(7)
    for _ in range(count):
        yield (
            clnet.tensor(draw.standard_normal((8, 6), dtype=np.float32), device=first),
            clnet.tensor(draw.integers(0, 4, 8), device=first),
        )


def trained(first, second, compiled):
    """Losses and weights of a training; a gradient norm goes over both devices."""
    clnet.manual_seed(3)
    model = Halves(first, second)
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    def step(x, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels.to(second))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss, loss.detach().to(first)

    call: Any = compiled(step)
    losses = [call(*batch) for batch in batches(first)]
    assert all(there.device is second and here.device is first for there, here in losses)
    assert all(there.item() == here.item() for there, here in losses)
    return [x.item() for x, _ in losses], [p.detach().numpy() for p in model.parameters()], call


@pytest.fixture
def eager(device, part_of_device):
    return trained(device, part_of_device, lambda step: step)


@pytest.mark.parametrize("passes", [(), KEEPING_BITS], ids=["plain", "rewritten"])
def test_a_step_on_two_devices_has_the_bits_of_eager(device, part_of_device, eager, passes):
    losses, weights, step = trained(
        device, part_of_device, lambda step: clnet.compile(step, passes=passes)
    )
    assert losses == eager[0]
    assert all((mine == its).all() for mine, its in zip(weights, eager[1], strict=True))
    assert step.num_traces == 1
    (plan,) = step.plans
    assert isinstance(plan, SpanningPlan)
    assert [part.device for part in plan.parts] == [device, part_of_device]
    assert plan.num_launches == sum(part.num_launches for part in plan.parts)
    assert plan.peak_bytes > 0 < plan.held_bytes  # of arenas that larger plans may share
    # The activations there, their gradients back; labels; a norm to the first, the scale to the
    # second; the loss back.
    assert plan.num_moves == 6


def test_all_passes_keep_to_rounding(device, part_of_device, eager):
    losses, weights, _ = trained(device, part_of_device, clnet.compile)
    np.testing.assert_allclose(losses, eager[0], rtol=1e-5)
    for mine, its in zip(weights, eager[1], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-3, atol=1e-4)


def test_backward_outside_goes_back_over_both_devices(device, part_of_device):
    found = []
    for compiled in (lambda f: f, lambda f: clnet.compile(f, passes=KEEPING_BITS)):
        clnet.manual_seed(3)
        model = Halves(device, part_of_device)
        call = compiled(model)
        inputs = []
        for x, labels in batches(device, 2):
            inputs.append(x.requires_grad_())
            F.cross_entropy(call(x), labels.to(part_of_device)).backward()
        found.append([t.grad for t in (*inputs, *model.parameters())])
    for mine, its in zip(*found, strict=True):
        assert mine.device is its.device
        assert (mine == its).all()


def test_pinned_memory_is_the_plans_own(device, part_of_device, monkeypatch):
    """As between GPUs; one that holds what all share may wait for a lock that a replay holds."""
    for each in (device, part_of_device):
        monkeypatch.setattr(each, "traits", replace(each.traits, unified_memory=False))
    f = clnet.compile(lambda x: ((x * 2).to(part_of_device) + 1).to(device))
    landings = (device.queue.landing, part_of_device.queue.landing)
    got = []
    for landing in landings:
        landing._lock.acquire()
    try:
        thread = threading.Thread(target=lambda: got.extend(f(clnet.ones(5)) for _ in range(3)))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    finally:
        for landing in landings:
            landing._lock.release()
    assert [y.tolist() for y in got] == [[3] * 5] * 3


def test_data_parallel_is_compiled_as_a_whole(device, part_of_device):
    """The batch goes over the devices within the plan: both compute side by side."""
    found = []
    for compiled in (lambda f: f, lambda f: clnet.compile(f, passes=KEEPING_BITS)):
        clnet.manual_seed(1)
        module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
        model = nn.DataParallel(module, device_ids=[device, part_of_device])
        optimizer = optim.SGD(module.parameters(), lr=0.1)

        def step(x, labels, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        call: Any = compiled(step)
        losses = [call(*batch).item() for batch in batches(device)]
        found.append((losses, [p.detach().numpy() for p in module.parameters()]))
    assert isinstance(call.plans[0], SpanningPlan)
    (losses, weights), (its_losses, its_weights) = found
    assert losses == its_losses
    assert all((mine == its).all() for mine, its in zip(weights, its_weights, strict=True))


def test_arguments_of_two_devices_and_changes_in_place(device, part_of_device):
    def add(x, y):
        x.add_(1)
        y.add_(x.to(part_of_device))
        return (y * 2).to(device)

    f = clnet.compile(add)
    for _ in range(3):
        x, y = clnet.ones(3), clnet.full((3,), 5.0, device=part_of_device)
        assert f(x, y).tolist() == [14] * 3
        assert (x.tolist(), y.tolist()) == ([2] * 3, [7] * 3)
    assert f.num_traces == 1
    with pytest.raises(DeviceError):
        f(clnet.ones(3), clnet.ones(3))  # elsewhere: another trace, which fails as eager does


def test_a_function_may_run_on_another_device_than_its_arguments(device, part_of_device):
    elsewhere = clnet.ones(2, device=part_of_device)
    f = clnet.compile(lambda: elsewhere * 2)
    assert f().device is part_of_device
    assert len(f.plans) == 1
    assert f.plans[0].device is part_of_device
    g = clnet.compile(lambda x: (x, elsewhere * 2, clnet.zeros(2, device=part_of_device)))
    x, y, z = g(clnet.ones(2))
    assert (x.tolist(), y.tolist(), z.tolist()) == ([1, 1], [2, 2], [0, 0])
    assert (x.device, y.device, z.device) == (device, part_of_device, part_of_device)


def test_threads_share_a_plan_of_two_devices(device, part_of_device):
    total = clnet.zeros(3, device=part_of_device)

    @clnet.compile
    def add(x):
        total.add_((x + 1).to(part_of_device))
        return total.to(device)

    threads = [
        threading.Thread(target=lambda: [add(clnet.ones(3)) for _ in range(10)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert total.tolist() == [80] * 3


def test_a_plan_of_two_devices_is_explained_in_words(device, part_of_device):
    f = clnet.compile(lambda x: (x * 2).to(part_of_device) + 1)
    f(clnet.ones(2))
    text = f.explain()
    assert f"on {device.name}" in text
    assert f"on {part_of_device.name}" in text
    assert "bring" in text
    assert "get" in text
    with pytest.raises(ArgumentError, match="shown as text"):
        f.explain("mermaid")


def test_moves_may_come_in_any_order(device, part_of_device):
    def backwards(trace):
        return trace.with_steps(trace.steps[::-1])

    f = clnet.compile(
        lambda x, y: (x.to(part_of_device), y.to(part_of_device)), passes=(*PASSES, backwards)
    )
    for _ in range(2):
        x, y = f(clnet.ones(2), clnet.zeros(2))
        assert (x.tolist(), y.tolist()) == ([1, 1], [0, 0])


def test_a_pass_that_leaves_out_half_a_move_is_refused(device, part_of_device):
    def without_first(trace):
        return trace.with_steps(trace.steps[1:]) if trace.device is device else trace

    f = clnet.compile(lambda x: x.to(part_of_device), passes=(*PASSES, without_first))
    with pytest.raises(TraceError, match="devices wait for what no device brings"):
        f(clnet.ones(2))


def test_devices_are_asked_for_all_before_the_host_waits(device, part_of_device, monkeypatch):
    """What a device brings is waited for where the other needs it, behind its own computations."""
    told = []
    for each in (device, part_of_device):
        monkeypatch.setattr(
            each.queue, "replay", _telling(each.queue.replay, told, ("launch", each.name))
        )
    monkeypatch.setattr(Passage, "send", _telling(Passage.send, told, "wait"))
    w = clnet.ones(4, 4, device=part_of_device)

    @clnet.compile
    def f(x, w):
        y = x.to(part_of_device)
        beside = (x @ x).sum()  # which needs no other device, nor does the sum of w
        return beside, w.sum(), (y @ w).to(device)

    for _ in range(3):
        told.clear()
        beside, _, there = f(clnet.ones(4, 4), w)
        assert (beside.item(), there.tolist()) == (64, [[4] * 4] * 4)
    first_wait = told.index("wait")
    assert ("launch", device.name) in told[:first_wait]
    assert ("launch", part_of_device.name) in told[:first_wait]


def _telling(function, told, what):
    def call(*args, **kwargs):
        told.append(what)
        return function(*args, **kwargs)

    return call


def test_an_error_halfway_leaves_both_plans_usable(device, part_of_device, monkeypatch):
    f = clnet.compile(lambda x: (x * 2).to(part_of_device) + 1)
    assert f(clnet.ones(2)).tolist() == [3, 3]
    x = clnet.ones(2)
    with monkeypatch.context() as patch:
        patch.setattr(part_of_device.queue, "send", _no_room)
        with pytest.raises(MemoryError):
            f(x)
    assert f(x).tolist() == [3, 3]


def test_memory_of_a_move_is_given_back_when_it_fails_halfway(device, part_of_device, monkeypatch):
    """In pieces, of which the first are on their way and the last are still read."""
    monkeypatch.setattr(transfer, "PIECE_BYTES", 64)
    f = clnet.compile(lambda x: (x * 2).to(part_of_device) + 1)
    x = clnet.arange(100).float()
    expected = (x * 2 + 1).tolist()
    assert f(x).tolist() == expected
    queue, pieces = part_of_device.queue, []

    def second_fails(*args):
        pieces.append(args)
        return send(*args) if len(pieces) == 1 else _no_room()

    send, given = queue.send, []
    monkeypatch.setattr(
        queue.pinned, "give_back", lambda memory, *, behind: given.append((memory, behind))
    )
    with monkeypatch.context() as patch:
        patch.setattr(queue, "send", second_fails)
        with pytest.raises(MemoryError):
            f(x)
    ((memory, behind),) = given
    assert memory.nbytes >= x.array.nbytes
    assert behind is not None, "the first piece is still read"
    assert f(x).tolist() == expected


def _no_room(*_, **__):
    raise MemoryError


def test_a_plan_has_no_meta_device():
    with pytest.raises(TraceError, match=r"devices that have memory; .*test_spanning.py:\d+"):
        clnet.compile(lambda x: x.to("meta"))(clnet.ones(2))
