"""Who has died is told in one line, by the process that looks on."""

from __future__ import annotations

import platform
import re
import socket
import threading
import time

import pytest

from clnet.ranks.lookout import watch
from tests.ranks.launch import run

JOIN = """
import os, signal, time
import clnet.distributed as dist
dist.init_process_group(timeout=60)
rank = dist.get_rank()
"""
SECRET = "s3cret"
TOLD = r"clnet: rank (\d) of (\d) on (\S+), process (\d+), has died without a word; the job ends"


@pytest.mark.device
@pytest.mark.parametrize(
    ("victim", "end"),
    [
        (0, "os.kill(os.getpid(), signal.SIGKILL)"),
        (2, "os.kill(os.getpid(), signal.SIGSEGV)"),
        (1, "os._exit(3)"),
        # A child that lives on does not hold the connection.
        (2, "os.fork() or time.sleep(60); os.kill(os.getpid(), signal.SIGKILL)"),
    ],
    ids=["killed", "crashed", "exit", "forked"],
)
def test_one_line_names_the_rank_that_has_died(victim, end):
    program = f"""{JOIN}
if rank == {victim}:
    print("<", os.getpid(), ">", flush=True)
    dist.barrier()
    {end}
dist.barrier()
time.sleep(60)
"""
    start = time.monotonic()
    done = run(3, "-c", program)
    (process,) = re.findall(r"< (\d+) >", done.stdout)
    assert re.findall(TOLD, done.stderr) == [(str(victim), "3", platform.node(), process)]
    assert done.returncode != 0
    assert time.monotonic() - start < 30  # the sleeper's minute is not waited for


@pytest.mark.device
@pytest.mark.parametrize("end", ["raise KeyError(rank)", "time.sleep(0)"])
def test_nobody_has_died_who_raises_or_leaves(end):
    """Also one that leaves and joins again."""
    program = f"""{JOIN}
dist.barrier()
dist.destroy_process_group()
dist.init_process_group(timeout=60)
dist.barrier()
{end}
"""
    done = run(2, "-c", program)
    assert ("ended by KeyError" in done.stderr) == (done.returncode != 0) == ("KeyError" in end)
    assert "has died" not in done.stderr


class Job:
    """Connections to a watch, which goes on in a thread."""

    def __init__(self) -> None:
        self.door, self.told = socket.create_server(("127.0.0.1", 0)), list[str]()
        self.left: list[int] | None = None
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        self.left = watch(self.door, SECRET, self.told.append)

    def line(self, *words: str) -> socket.socket:
        made = socket.create_connection(self.door.getsockname())
        made.sendall("".join(f"{word}\n" for word in words).encode())
        return made

    def end(self) -> list[str]:
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.door.close()
        return self.told


def test_the_watch_names_the_first_and_believes_no_stranger():
    job = Job()
    ranks = [job.line(f"{SECRET} {i} 3 7{i} 7{i} a host") for i in range(3)]
    ranks[0].sendall(b"ranks 3\n")
    job.line("7 8 9 here", "over").close()
    job.thread.start()
    ranks[0].sendall(b"left\n")
    time.sleep(0.2)  # until the watch waits again
    ranks[2].close()
    ranks[1].close()
    told = "clnet: rank 2 of 3 on a host, process 72, has died without a word; the job ends\n"
    assert job.end() == [told]
    ranks[0].close()


@pytest.mark.parametrize(
    ("victim", "group", "left"),
    [("elsewhere", 70, [73]), (platform.node(), 70, [-70, 73]), (platform.node(), 0, [73])],
    ids=["elsewhere", "here", "no group"],
)
def test_the_watch_knows_what_mpirun_has_left_here(victim, group, left):
    job = Job()
    nodes = [victim, platform.node(), "elsewhere", platform.node()]
    ranks = [job.line(f"{SECRET} {i} 4 7{i} {group} {node}") for i, node in enumerate(nodes)]
    ranks[0].sendall(b"ranks 4\n")
    job.thread.start()
    time.sleep(0.2)
    ranks[0].close()
    time.sleep(0.2)
    ranks[1].close()
    assert "rank 0 of 4 on" in job.end()[0]
    assert job.left == left
    for line in ranks:
        line.close()


@pytest.mark.parametrize("last", ["left", "over"])
def test_the_watch_ends_when_all_have_left_or_one_has_told_why(last):
    job = Job()
    ranks = [job.line(f"{SECRET} 0 2 70 0 here", "ranks 2", "left")]
    job.thread.start()
    time.sleep(0.2)
    assert job.thread.is_alive()  # another is still to come
    ranks.append(job.line(f"{SECRET} 1 2 71 0 here", last))
    assert (job.end(), job.left) == ([], [])
    for line in ranks:
        line.close()
