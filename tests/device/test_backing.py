"""Pages come before they are needed, and a buffer stays a buffer."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from mmap import PAGESIZE
from threading import Event, Timer
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet.compile.record import record
from clnet.compile.regions import alive_bytes
from clnet.device import AbsentDevice, Device, DeviceKind, Storage
from clnet.device.backing import Backing
from clnet.device.beside import bytes_of_buffer

MIB = 2**20


@pytest.fixture
def cpu(device: Device) -> Device:
    if device.traits.kind is not DeviceKind.CPU:
        pytest.skip("memory of its own")
    return device


def bytes_of(cpu: Device) -> Any:
    return partial(bytes_of_buffer, cpu.queue._context, cpu.queue._device)


def expected(cpu: Device, *, least: int, most: int) -> Backing:
    buffer = cpu.queue.create(most)
    return Backing(buffer, bytes_of(cpu), least=least)


def filled(cpu: Device, nbytes: int) -> cl.Buffer:
    """A buffer of ones; touching a page puts a zero at its begin."""
    buffer = cpu.queue.create(nbytes)
    cl.enqueue_fill_buffer(cpu.queue._queue, buffer, np.uint8(1), 0, nbytes)
    cpu.synchronize()
    return buffer


def touched(cpu: Device, buffer: cl.Buffer) -> np.ndarray:
    """For each page, whether it was."""
    found = np.empty(buffer.size, np.uint8)
    cl.enqueue_copy(cpu.queue._queue, found, buffer)
    return found[::PAGESIZE] == 0


def test_pages_come_without_a_kernel_and_no_more_than_are_certain(cpu: Device) -> None:
    buffer = filled(cpu, 64 * MIB)
    backing = Backing(buffer, bytes_of(cpu), least=33 * MIB)
    backing._done.result()
    pages = touched(cpu, buffer)
    certain = 33 * MIB // PAGESIZE
    assert pages[:certain].all()
    assert not pages[certain:].any()
    assert backing.take(48 * MIB) is buffer
    assert backing.take(48 * MIB) is None  # it has one buffer


def test_nothing_is_touched_once_it_is_taken(cpu: Device) -> None:
    decided = Event()

    @contextmanager
    def late(buffer: cl.Buffer) -> Iterator[np.ndarray]:
        decided.wait()
        with bytes_of(cpu)(buffer) as memory:
            yield memory

    buffer = filled(cpu, 64 * MIB)
    backing = Backing(buffer, late, least=64 * MIB)
    Timer(0.05, decided.set).start()
    assert backing.take(64 * MIB) is buffer
    assert not touched(cpu, buffer).any()


def test_it_suits_only_what_it_was_made_for(cpu: Device) -> None:
    backing = expected(cpu, least=32 * MIB, most=64 * MIB)
    assert backing.take(31 * MIB) is None
    assert backing.take(65 * MIB) is None
    backing.close()
    assert backing.take(48 * MIB) is None


def test_a_buffer_that_has_no_room_is_left_to_others() -> None:
    class Buffer:
        size = 64 * MIB

    @contextmanager
    def refuses(buffer: object) -> Iterator[np.ndarray]:
        raise cl.MemoryError("no room")
        yield np.empty(0)

    assert Backing(Buffer(), refuses, least=MIB).take(32 * MIB) is None


def test_the_queue_gives_it_to_one_buffer_while_it_expects_one(cpu: Device) -> None:
    with cpu.queue.expecting(least=16 * MIB, most=40 * MIB):
        small, fitting, second = (cpu.queue.create(n * MIB) for n in (1, 20, 20))
    assert [b.size // MIB for b in (small, fitting, second)] == [1, 40, 20]
    assert cpu.queue.create(20 * MIB).size == 20 * MIB


def test_what_has_no_room_is_not_expected(cpu: Device) -> None:
    with cpu.queue.expecting(least=MIB, most=2**62):
        assert cpu.queue.create(MIB).size == MIB


def test_numbers_in_such_a_buffer_stay(cpu: Device) -> None:
    x = np.random.default_rng(0).standard_normal(8 * MIB, dtype=np.float32)
    with cpu.queue.expecting(least=16 * MIB, most=64 * MIB):
        storage = Storage(cpu, 33 * MIB)  # of a class that no block in the pool has
        storage.buffer = cpu.queue.create(33 * MIB)
    assert storage.buffer.size == 64 * MIB
    cpu.queue.upload(storage, x)
    time.sleep(0.05)
    y = np.empty_like(x)
    cpu.queue.download(y, storage)
    np.testing.assert_array_equal(x, y)


def _sums(x: clnet.Tensor) -> clnet.Tensor:
    a, b = x.cumsum(0), x.cumsum(1)
    return (a.cumsum(1) * a * b).sum(0)


def test_a_plan_lies_in_pages_that_came_while_it_was_made(cpu: Device) -> None:
    clnet.empty_cache(cpu)
    x = clnet.randn(2048, 2048, device=cpu)
    compiled = clnet.compile(_sums)
    y = compiled(x)
    (plan,) = compiled.plans
    needed = alive_bytes(record(_sums, (x,), {}, cpu).trace)
    largest = max(plan.memory.arenas)
    assert needed // 2 <= largest <= needed  # else this tests nothing
    assert max(a.buffer.size for a in plan._arenas) == needed + needed // 4
    np.testing.assert_allclose(y.numpy(), _sums(x).numpy(), rtol=1e-4, atol=1e-2)


def test_a_plan_for_an_absent_device_needs_no_pages(
    cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(Backing, "__init__", lambda self, *args, **options: made.append(self))
    absent = AbsentDevice(cpu.traits)
    with clnet.abstract():
        x = clnet.zeros(2048, 2048, device=absent)
    compiled = clnet.compile(_sums)
    compiled(x)
    (plan,) = compiled.plans
    assert plan.peak_bytes > 16 * MIB  # a device that is there would touch pages
    assert not made
