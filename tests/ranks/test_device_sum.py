"""Sums over ranks that devices add up, which tests tell them to, or let them measure."""

from __future__ import annotations

import re
import time

import pytest

from tests.ranks.launch import SOON, passed, run

pytestmark = pytest.mark.device


@pytest.mark.parametrize(("who", "ranks"), [*(("device", n) for n in (1, 2, 4)), ("host", 3)])
def test_bits_are_those_of_numpy_in_the_order_of_ranks(who, ranks):
    told = passed(ranks, "device_sums", CLNET_SUMS=who)
    for rank, line in enumerate(told):
        name, sums, least = re.fullmatch(r"(rank \d of \d): (\d+), \[(.*)\]", line).groups()
        assert name == f"rank {rank} of {ranks}"
        assert (int(sums) > 0) == (who == "host" and ranks > 1)
        assert bool(least) == (who == "device" and ranks > 1)


def test_all_exchanges_go_so():
    assert len(passed(2, "exchanges", CLNET_SUMS="device")) == 2


def test_gradients_go_so():
    """Of some KiB, which ranks' hosts would add; eager, with a compiled module, and in a plan.

    What is begun while ranks find out whether their devices add goes so, too.
    """
    program = """
from threading import Event
import clnet
from clnet import distributed as dist
from clnet.ranks import device_sum
from tests.ranks.training import KeptBits, data_parallel
device_sum.NEAR_BYTES, summed, count = 1, device_sum._Both.sum, 0
def counted(self, x, *, average):
    global count
    count += 1
    summed(self, x, average=average)
device_sum._Both.sum = counted
rooms, looking, begun = device_sum.Rooms, Event(), Event()
def awaited(here):
    looking.set()
    assert begun.wait(30)
    return rooms(here)
device_sum.Rooms = awaited
dist.init_process_group(timeout=60)
first = dist.all_reduce(clnet.ones(9), async_op=True)
assert looking.wait(30)
second = dist.all_reduce(clnet.ones(9), async_op=True)
begun.set()
assert first.wait() and second.wait() and count == 2
here, count = (dist.get_rank(), dist.get_world_size()), 0
eager = data_parallel(*here, compiled=False)
before = count
assert before > 10
assert data_parallel(*here, compiled=False, step=KeptBits()) == eager
assert count == 2 * before
data_parallel(*here, compiled=True)
print(f"<{count == 3 * before}>")
"""
    done = run(2, "-c", program, CLNET_SUMS="device", **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<True>") == 2


def test_devices_with_memory_of_their_own_are_measured():
    """PoCL's told to have some: all ranks choose alike, and the bits stay what they were."""
    program = """
import time
import numpy as np
import clnet, clnet.distributed as dist
from clnet.ranks import device_sum
from clnet.ranks.membership import group_of
dist.init_process_group(timeout=60)
clnet.device().leave_out({"unified_memory": False})
rank, members = dist.get_rank(), group_of("", None)
slower = device_sum.by_host
for seconds in (0, 0.2):  # the second time the host is slow
    def by_host(*given, adds):
        slower(*given, adds=adds)
        time.sleep(seconds)
    device_sum.by_host = by_host
    members.device_sums._adders.clear()
    for n in (300_007, 5_000_001):
        x = clnet.arange(n).float() * (rank + 1)
        dist.all_reduce(x)
        assert (x.numpy() == np.arange(n, dtype=np.float32) * 3).all()
    (adder,) = members.device_sums._adders.values()
    found = [None] * 2
    dist.all_gather_object(found, adder.least_bytes)
    assert found[0] == found[1]
    assert adder.least_bytes in (*device_sum._TRIED_BYTES, device_sum.inf)
print(f"<{adder.least_bytes}>")
"""
    done = run(2, "-c", program, **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<262144>") == 2


def test_without_memory_the_host_adds():
    program = """
import numpy as np
import clnet, clnet.distributed as dist
from clnet.ranks import device_sum
from clnet.ranks.membership import group_of
dist.init_process_group(timeout=60)
rank = dist.get_rank()
if rank == 1:
    def refuse(*given):
        raise clnet.errors.OutOfDeviceMemory("pin", "there is none")
    clnet.device().beside.pin = refuse
for _ in range(2):
    x = clnet.arange(300_007).float() * (rank + 1)
    dist.all_reduce(x)
    assert (x.numpy() == np.arange(300_007) * 3).all()
(adder,) = group_of("", None).device_sums._adders.values()
print(f"<{adder}>")
"""
    done = run(2, "-c", program, CLNET_SUMS="device", **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<None>") == 2


IN_THE_MIDDLE = """
import os, signal, sys, time
import clnet, clnet.distributed as dist
from clnet.ranks import device_sum
dist.init_process_group(timeout={seconds})
x = clnet.ones(3_000_000)
dist.all_reduce(x)
meet, count = device_sum._Adder._meet, 0
def stop(self, **given):
    global count
    count += 1
    if dist.get_rank() == 1 and count == 2:
        print("in the middle", flush=True)
        {end}
    meet(self, **given)
device_sum._Adder._meet = stop
dist.all_reduce(x)
print("went on")
"""


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "EXIT CODE: 9|signal 9"),
        ("raise RuntimeError('lost')", r"clnet: rank 1 of 2 on .* ended by RuntimeError"),
        ("time.sleep(100)", r"waits in all_reduce for others since \d+ s; the job ends"),
    ],
    ids=["killed", "exception", "stalled"],
)
def test_a_rank_that_ends_within_a_sum_ends_the_job(end, told):
    start = time.monotonic()
    done = run(2, "-c", IN_THE_MIDDLE.format(end=end, seconds=8), CLNET_SUMS="device")
    assert done.returncode != 0
    assert "in the middle" in done.stdout, done.stderr
    assert "went on" not in done.stdout
    assert re.search(told, done.stdout + done.stderr)
    assert time.monotonic() - start < 60
