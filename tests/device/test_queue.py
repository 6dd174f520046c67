"""The one door to the device: what observers see, what copies move, and the shared workspace."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet import nn, ops
from clnet.array import Array
from clnet.device import HostScalar, Record, Scratch, Storage
from clnet.device.workspace import Workspace
from clnet.errors import ArgumentError, OutOfDeviceMemory
from clnet.kernels.moving import fill

pytestmark = pytest.mark.device


class Watch:
    """An observer that keeps what it sees."""

    def __init__(self, *, profiling: bool = False) -> None:
        self.profiling = profiling
        self.records: list[Record] = []

    def command(self, record: Record) -> None:
        self.records.append(record)


class Doubled(nn.Module):
    def forward(self, x):
        return x * x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Doubled()

    def forward(self, x):
        return self.inner(x)


def test_observers_see_what_ran_and_who_asked(device):
    x = clnet.ones(8, 4, requires_grad=True)
    model, watch = Outer(), Watch()
    with device.queue.observe(watch):
        y = model(x)
        y.backward(clnet.ones(8, 4))
    forward = next(r for r in watch.records if r.op == "mul")
    assert (forward.kind, forward.phase) == ("kernel", "forward")
    assert forward.name.startswith("pointwise")
    assert forward.module_path.endswith("inner")
    assert forward.reads == (x.array.storage, x.array.storage)
    assert forward.writes == (y.array.storage,)
    assert forward.flops == 32
    assert forward.bytes == 3 * 8 * 4 * 4
    assert forward.host_seconds > 0
    backward = next(r for r in watch.records if r.op == "mul_backward")
    assert (backward.phase, backward.module_path) == ("backward", forward.module_path)


def test_optimiser_steps_are_seen_as_updates(device):
    p = nn.Parameter(clnet.ones(3))
    optimizer = clnet.optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    watch = Watch()
    with device.queue.observe(watch):
        optimizer.step()
    assert [(r.op, r.phase, r.module_path) for r in watch.records] == [("sgd", "update", "SGD")]
    assert p.array.storage in watch.records[0].writes


def test_copies_are_seen(device):
    watch = Watch()
    with device.queue.observe(watch):
        x = clnet.tensor(np.ones(3, np.float32))
        x.numpy()
        with x.map() as host:
            assert host.tolist() == [1, 1, 1]
    assert [(r.kind, r.bytes) for r in watch.records] == [
        ("upload", 12),
        ("download", 12),
        ("map", 12),
    ]
    assert [bool(r.reads) for r in watch.records] == [False, True, True]


def test_events_have_times_while_profiling(device):
    watch = Watch(profiling=True)
    x = clnet.ones(1000)
    with device.queue.observe(watch):
        ops.exp(x)
        device.synchronize()
    profile = watch.records[0].event.profile
    assert 0 < profile.start <= profile.end


def test_profiling_loses_nothing_that_was_enqueued_before(device):
    x = clnet.ones(1000)
    for _ in range(20):
        x = x + 1
    with device.queue.observe(Watch(profiling=True)):
        x = x + 1
    assert (x + 1).tolist() == [23] * 1000


def test_observers_leave_after_an_exception(device):
    outer, inner = Watch(), Watch(profiling=True)
    x = clnet.ones(2)

    def fails():
        with device.queue.observe(inner):
            ops.add(x, 1)
            raise ZeroDivisionError

    with device.queue.observe(outer):
        with pytest.raises(ZeroDivisionError):
            fails()
        ops.mul(x, 2)
    ops.sub(x, 3)
    assert [r.op for r in inner.records] == ["add"]
    assert [r.op for r in outer.records] == ["add", "mul"]
    assert device.queue._watch.observers == ()


def test_replays_are_seen_launch_by_launch(device):
    step = clnet.compile(lambda x: ops.sort(ops.exp(x))[0] * 2)
    x = clnet.ones(4)
    step(x)
    watch = Watch()
    with device.queue.observe(watch):
        seen = step(x)
    unseen = step(x)
    seen_launches = [r.op for r in watch.records if r.kind == "kernel"]
    assert len(seen_launches) == step.plans[0].num_launches > 1
    assert np.array_equal(seen.numpy(), unseen.numpy())


def test_uploads_and_downloads_at_offsets(device):
    storage = Storage(device, 40)
    storage.materialize()
    device.queue.upload(storage, np.arange(10, dtype=np.float32))
    device.queue.upload(storage, np.array([-1, -2], np.float32), 12)
    host = np.empty(4, np.float32)
    device.queue.download(host, storage, 8)
    assert host.tolist() == [2, -1, -2, 5]


def test_copies_between_storages_at_offsets(device):
    source, target = Storage(device, 40), Storage(device, 40)
    for storage in (source, target):
        storage.materialize()
    device.queue.upload(source, np.arange(10, dtype=np.float32))
    device.queue.upload(target, np.zeros(10, np.float32))
    device.queue.copy(target, source, 8, target_bytes=4, source_bytes=20)
    host = np.empty(10, np.float32)
    device.queue.download(host, target)
    assert host.tolist() == [0, 5, 6, 0, 0, 0, 0, 0, 0, 0]


def test_the_host_array_may_change_once_upload_returns(device):
    host = np.ones(100_000, np.float32)
    x = clnet.tensor(host)
    y = x + 0
    host[:] = 7
    assert (y.numpy() == 1).all()


@contextmanager
def busy(device):
    """The queue stands still until the body has ended, which may not wait for it."""
    commands = device.queue._queue
    gate = cl.UserEvent(commands.context)
    late = threading.Timer(10, gate.set_status, [cl.command_execution_status.COMPLETE])
    late.start()  # so that a wait for the device ends, and fails
    cl.enqueue_barrier(commands, wait_for=[gate])
    yield
    assert late.is_alive()
    late.cancel()
    gate.set_status(cl.command_execution_status.COMPLETE)


def test_uploads_do_not_wait_for_a_busy_device(device):
    host, kept = np.zeros(1000, np.float32), []
    with busy(device):
        for k in range(15):
            host[:] = k
            kept.append(clnet.tensor(host))
            host[:] = -1
        assert device.queue._staging.pending == 15
    assert [y[-1].item() for y in kept] == list(range(15))
    device.synchronize()
    assert device.queue._staging.pending == 0


def test_what_was_visited_is_given_back_without_a_wait(device, monkeypatch):
    """Through memory that serves again when the device has read it, and not before."""
    monkeypatch.setattr(device, "traits", replace(device.traits, unified_memory=False))
    x, pinned = clnet.arange(1000).float(), device.queue.pinned
    visit = x.array.visit(read=True, write=True)
    host = visit.wait()
    assert (host == np.arange(1000)).all()
    host[:] = 7
    with busy(device):
        visit.end()
        assert not any(np.shares_memory(host, pinned.take(4000)) for _ in range(9))
    assert (x.numpy() == 7).all()
    assert any(np.shares_memory(host, pinned.take(4000)) for _ in range(9))


def test_maps_are_read_only_and_end_with_the_block(device):
    x = clnet.tensor(np.arange(6, dtype=np.float32)).reshape(2, 3).T
    with x.map() as host:
        assert host.tolist() == [[0, 3], [1, 4], [2, 5]]
        with pytest.raises(ValueError, match="read-only"):
            host[0, 0] = 1
    x.fill_(1)
    assert (x.numpy() == 1).all()
    with pytest.raises(ZeroDivisionError), x.map():
        raise ZeroDivisionError
    with x.map() as host:
        assert host.sum() == 6


# The workspace.


def test_the_workspace_is_as_large_as_the_largest_request(device):
    workspace = Workspace(device)
    first = workspace.lend(1000)
    assert workspace.lend(500) is first
    second = workspace.lend(5000)
    assert workspace.nbytes == 5000
    assert workspace.lend(1000) is second
    assert (workspace.requests, workspace.requested_bytes) == (4, 7500)
    workspace.release()
    assert workspace.nbytes == 0


def test_growth_keeps_what_a_plan_holds(device):
    workspace = Workspace(device)
    held = workspace.lend(1000)
    address = held.buffer.int_ptr
    workspace.lend(100_000)
    assert held.buffer.int_ptr == address
    assert Workspace(device).lend(1000).buffer.int_ptr != address


def test_a_request_that_does_not_fit_raises_and_leaves_no_block(device):
    workspace = Workspace(device)
    workspace.lend(1000)
    with pytest.raises(OutOfDeviceMemory, match="need="):
        workspace.lend(device.traits.max_allocation_bytes + 1)
    assert workspace.lend(2000).nbytes == 2000


def test_pieces_of_scratch_memory_are_aligned_and_apart(device):
    scratch = Scratch(device)
    offsets = [scratch.reserve(n) for n in (1, 300, 0, 256)]
    assert offsets == [0, 256, 768, 768]
    assert scratch.nbytes == 1024
    array = Array.scratch(scratch, (3, 5), clnet.float32)
    assert (array.offset * 4, array.shape, array.strides) == (1024, (3, 5), (5, 1))


def test_the_workspace_limit_is_what_kernels_are_told(device):
    before = device.target.workspace_limit
    try:
        device.set_workspace_limit(2**20)
        assert device.target.workspace_limit == 2**20
        assert device.queue.workspace.nbytes == 0
    finally:
        device.set_workspace_limit(before)


def _fill(value=1):
    (launch,) = fill(clnet.device().target, clnet.empty(8, dtype=clnet.int32).array, value)
    launch.op = "fill_"
    return launch


def test_what_opencl_cannot_take_is_told_by_name(device):
    sound = _fill()
    numbers = [k for k, arg in enumerate(sound.args) if isinstance(arg, int)]
    device.queue.run((sound,))  # launched once: those that follow go the short way
    for place in (numbers[0], numbers[-1]):
        for value in (2**63, -(2**63) - 1, 0.5, None, "a", np.float64(2), np.bool_(True)):
            launch = _fill()
            launch.args = (*launch.args[:place], value, *launch.args[place + 1 :])
            with pytest.raises(
                ArgumentError, match=r"fill_: its kernel's parameter \d+ is a whole"
            ):
                device.queue.run((launch,))
            with (
                device.queue.observe(Watch()),
                pytest.raises(ArgumentError, match=r"kernel='?fill\w*'?, given="),
            ):
                device.queue.run((launch,))
            if not isinstance(value, float | np.bool_):  # NumPy converts these where a plan binds
                with pytest.raises(ArgumentError, match="fill_: its kernel's parameter"):
                    device.queue.bind((launch,))
    for size in (-8, 2**70, 8.0):
        launch = _fill()
        launch.global_size = (size,)
        with pytest.raises(ArgumentError, match="fill_: sizes are whole numbers, 0 or more"):
            device.queue.run((launch,))
    device.queue.run((_fill(np.int64(3)),))  # NumPy's whole numbers are as good as Python's
    device.queue.finish()


def test_what_a_plan_reads_anew_is_told_by_name(device):
    sound = _fill()
    place = max(k for k, arg in enumerate(sound.args) if isinstance(arg, int))
    cell = HostScalar(1)
    sound.args = (*sound.args[:place], cell, *sound.args[place + 1 :])
    bound = device.queue.bind((sound,))
    device.queue.replay(bound)
    for value in (2**70, "a", None):
        cell.value = value
        with pytest.raises(ArgumentError, match=rf"fill_: its kernel's parameter {place} is a"):
            device.queue.replay(bound)
    cell.value = 2
    device.queue.replay(bound)
    launch = _fill()
    launch.global_size = (2**70,)
    with pytest.raises(ArgumentError, match="fill_: sizes are whole numbers, 0 or more"):
        device.queue.bind((launch,))
    device.queue.finish()


def test_numbers_of_kernels_of_floats(device):
    real = fill(device.target, clnet.empty(8).array, 1.0)[0]
    for value in (1j, None, 10**400):
        launch = fill(device.target, clnet.empty(8).array, 1.0)[0]
        launch.args = tuple(
            value if arg == 1.0 and type(arg) is float else arg for arg in real.args
        )
        with pytest.raises(ArgumentError, match="is a real number"):
            device.queue.run((launch,))
