"""The ring that uploads are copied into."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pyopencl as cl
import pytest

import clnet
from clnet.device import queue as queue_module
from clnet.device import staging as staging_module
from clnet.device.beside import host_memory
from clnet.device.staging import Staging

pytestmark = pytest.mark.device


class Command:
    """An event of the ring's, as far as it knows one."""

    def __init__(self) -> None:
        self.waited = False
        self.command_execution_status = cl.command_execution_status.QUEUED

    def wait(self) -> None:
        self.waited = True
        self.command_execution_status = cl.command_execution_status.COMPLETE


@pytest.fixture
def ring(device, monkeypatch):
    monkeypatch.setattr(staging_module, "MOST_BYTES", 1024)
    monkeypatch.setattr(staging_module, "_LEAST_BYTES", 1024)
    context, opened = device.queue._context, device.queue._device
    return Staging(partial(host_memory, context, opened))


def put(ring, nbytes, value=0):
    """Place so many bytes; where they are in the ring, and the command that reads them."""
    copied = ring.place(np.full(nbytes, value, np.uint8))
    command = Command()
    ring.sent(command)
    assert copied.nbytes == nbytes
    assert (copied == value).all()
    return ring._placed[0], command


def test_uploads_lie_behind_each_other_and_wait_for_the_oldest_where_the_ring_ends(ring):
    places = [put(ring, nbytes) for nbytes in (300, 64, 500)]
    assert [begin for begin, _ in places] == [0, 320, 384]
    begin, fourth = put(ring, 320)  # 128 bytes are left behind the third
    assert begin == 0
    assert places[0][1].waited
    assert not places[1][1].waited
    begin, _ = put(ring, 64)  # in the place of the second, which the fourth reaches up to
    assert begin == 320
    assert places[1][1].waited
    assert not places[2][1].waited
    assert not fourth.waited


def test_an_upload_as_large_as_the_ring_waits_for_all(ring):
    earlier = [put(ring, 200)[1] for _ in range(3)]
    assert put(ring, 1024)[0] == 0
    assert all(command.waited for command in earlier)
    assert ring.pending == 1


def test_what_is_done_leaves_room(ring):
    _, command = put(ring, 1000)
    command.command_execution_status = cl.command_execution_status.COMPLETE
    _, failed = put(ring, 1000)
    failed.command_execution_status = -5
    put(ring, 1000)
    assert ring.pending == 1


def test_the_ring_grows_with_the_largest_upload(ring, monkeypatch):
    monkeypatch.setattr(staging_module, "MOST_BYTES", 4096)
    _, small = put(ring, 100)
    assert ring._ring.nbytes == 1024
    put(ring, 700)
    assert ring._ring.nbytes == 4096
    assert small.waited


def test_arrays_larger_than_the_ring_are_uploaded_too(device, monkeypatch):
    monkeypatch.setattr(queue_module, "MOST_BYTES", 1000)
    host = np.arange(2000, dtype=np.float32)
    x = clnet.tensor(host)
    host[:] = 0
    assert (x.numpy() == np.arange(2000)).all()


def test_uploads_of_several_threads_arrive(device):
    arrived = {}

    def bring(k: int) -> None:
        arrived[k] = [clnet.tensor(np.full(n, k, np.int32)) for n in range(1, 3000, 137)]

    threads = [threading.Thread(target=bring, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, tensors in arrived.items():
        assert all((x.numpy() == k).all() for x in tensors)
