"""What only moves between ranks, by devices that tests tell to, and by hosts."""

from __future__ import annotations

import os
import re
import time

import pytest

from tests.ranks.launch import passed, run

pytestmark = pytest.mark.device


@pytest.mark.parametrize(("who", "ranks"), [("device", 2), ("device", 3), ("host", 4), ("", 2)])
def test_all_that_moves_is_there_with_every_bit(who, ranks):
    told = passed(ranks, "device_moves", **({"CLNET_SUMS": who} if who else {}))
    assert told == [f"rank {rank} of {ranks}" for rank in range(ranks)]


@pytest.mark.parametrize(
    ("variables", "ranks"),
    [({"CLNET_SUMS": "device"}, 2), ({}, 3), ({"ELSEWHERE": "1", "CLNET_SUMS": "device"}, 2)],
    ids=["by devices", "by hosts", "by MPI"],
)
def test_messages_come_with_every_bit(variables, ranks):
    told = passed(ranks, "device_messages", **variables)
    assert told == [f"rank {rank} of {ranks}" for rank in range(ranks)]


IN_THE_MIDDLE = """
import os, signal, time
import clnet, clnet.distributed as dist
from clnet.ranks import device_room, stream
dist.init_process_group(timeout=8)
rank, size = dist.get_rank(), dist.get_world_size()
x = clnet.ones(5_000_000)
def exchange():
    if {whole}:
        dist.broadcast(x, 0)
    elif rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)
exchange()
kind, name = (device_room.Mover, "_meet") if {whole} else (stream.Transfer, "Test")
go_on, count = getattr(kind, name), 0
def stop(self, *args, **given):
    global count
    count += 1
    if rank == 1 and count == 2:
        print("in the middle", flush=True)
        {end}
    return go_on(self, *args, **given)
setattr(kind, name, stop)
exchange()
print("went on")
"""


@pytest.mark.parametrize("whole", [True, False], ids=["broadcast", "message"])
@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "EXIT CODE: 9|signal 9"),
        ("time.sleep(100)", r"clnet: rank 0 of 2 on \S+ (waits in broadcast|ended by Distributed)"),
    ],
    ids=["killed", "stalled"],
)
def test_a_rank_that_ends_within_an_exchange_ends_the_job(end, told, whole):
    before, start = set(os.listdir("/dev/shm")), time.monotonic()
    done = run(2, "-c", IN_THE_MIDDLE.format(end=end, whole=whole), CLNET_SUMS="device")
    assert done.returncode != 0
    assert "in the middle" in done.stdout, done.stderr
    assert "went on" not in done.stdout
    assert re.search(told, done.stdout + done.stderr)
    assert time.monotonic() - start < 60
    left = {name for name in set(os.listdir("/dev/shm")) - before if "clnet" in name}
    assert not left
