"""Pages come before they are needed, and a buffer stays a buffer."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet.compile.memory import alive_bytes
from clnet.compile.record import record
from clnet.device import AbsentDevice, Device, DeviceKind, Storage
from clnet.device.backing import Backing

MIB = 2**20


def resident() -> int:
    if sys.platform != "linux":
        pytest.skip("no /proc")
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def grown_by(nbytes: int, before: int) -> bool:
    """Whether so many bytes got pages within a while."""
    for _ in range(200):
        if resident() - before >= nbytes - 2 * MIB:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def cpu(device: Device) -> Device:
    if device.traits.kind is not DeviceKind.CPU:
        pytest.skip("memory of its own")
    return device


def expected(cpu: Device, *, least: int, most: int) -> Backing:
    buffer = cpu.queue.create(most)
    return Backing(buffer, cpu.queue._bytes_of, least=least)


def test_pages_come_without_a_kernel_and_no_more_than_are_certain(cpu: Device) -> None:
    before = resident()
    backing = expected(cpu, least=64 * MIB, most=256 * MIB)
    assert grown_by(64 * MIB, before)
    time.sleep(0.05)
    assert resident() - before < 96 * MIB  # not the rest
    assert backing.take(128 * MIB) is not None
    assert backing.take(128 * MIB) is None  # it has one buffer


def test_nothing_is_touched_once_it_is_taken(cpu: Device) -> None:
    before = resident()
    backing = expected(cpu, least=512 * MIB, most=512 * MIB)
    assert backing.take(512 * MIB) is not None
    held = resident()
    assert held - before < 256 * MIB
    time.sleep(0.1)
    assert resident() - held < 16 * MIB


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


def test_a_plan_for_an_absent_device_needs_no_pages(cpu: Device) -> None:
    absent = AbsentDevice(cpu.traits)
    with clnet.abstract():
        x = clnet.zeros(2048, 2048, device=absent)
    clnet.compile(_sums)(x)
