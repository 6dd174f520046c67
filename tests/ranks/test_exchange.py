"""Exchanges between ranks that ``mpirun`` starts on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clnet.ranks.work import Runner
from tests.ranks.launch import CHECKOUT, SECONDS, SOON, mpirun, passed, run

pytestmark = pytest.mark.device


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_exchange(ranks):
    done = passed(ranks, "exchanges")
    assert done == [f"rank {rank} of {ranks} is done" for rank in range(ranks)]


JOIN = """
import os, signal, sys
import clnet, clnet.distributed as dist
dist.init_process_group(timeout=60)
rank = dist.get_rank()
dist.barrier()
"""


def shared_memory() -> set[str]:
    """The names of MPICH's, which would outlive the processes."""
    return {path.name for path in Path("/dev/shm").glob("mpich_shm_*")}


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("raise RuntimeError('lost')", "clnet: rank 1 of 2 on "),
        ("os.kill(os.getpid(), signal.SIGKILL)", "EXIT CODE: 9|signal 9"),  # MPICH, Open MPI
        ("sys.exit(0)", r"a rank has ended, .* that others wait for; got ended=\[1\]"),
    ],
    ids=["exception", "killed", "exit"],
)
def test_a_rank_that_ends_ends_the_job(end, told):
    start, files = time.monotonic(), shared_memory()
    program = f"{JOIN}\nif rank == 1:\n    {end}\ndist.all_reduce(clnet.ones(2))\nprint('went on')"
    done = run(2, "-c", program)
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert re.search(told, done.stdout + done.stderr)
    assert time.monotonic() - start < 30
    while shared_memory() - files:  # those of jobs beside this one, which begin just now
        assert time.monotonic() - start < 60, "memory is left behind"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("raise RuntimeError('lost')", "clnet: rank 1 of 2 on .* ended by RuntimeError"),
        ("sys.exit(0)", "Timeout .0:00:04"),
        ("join(7)", r"init_process_group: a rank has ended, .* got ended=\[1\], rank=0"),
    ],
    ids=["exception", "exit", "refused"],
)
def test_nobody_waits_for_a_rank_that_ends_before_all_have_joined(end, told):
    """In MPI's beginning, or behind it."""
    program = f"""
import sys
import clnet.distributed as dist
from clnet.errors import DistributedError
from clnet.values.settings import SETTINGS
def join(size):
    try:
        dist.init_process_group(world_size=size)
    except DistributedError:
        sys.exit()
if SETTINGS.rank == 1:
    {end}
dist.init_process_group(timeout={4 if "exit" in end else 600})
print("went on")
"""
    start = time.monotonic()
    files = shared_memory()
    done = run(2, "-c", program)
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert re.search(told, done.stderr)
    assert time.monotonic() - start < 60
    # A rank that ends in MPI's beginning leaves MPICH's; those of jobs beside this one are mapped.
    while (left := shared_memory() - files) and time.monotonic() - start < 60:
        maps = "".join(read(path) for path in Path("/proc").glob("[0-9]*/maps"))
        for name in left:
            if name not in maps:
                Path("/dev/shm", name).unlink(missing_ok=True)
        time.sleep(0.1)


def read(path: Path) -> str:
    """A file's text; none where its process has ended meanwhile."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def test_nobody_waits_at_the_end_for_a_rank_that_has_left():
    """Also where the error that tells of it was caught: the timeout may be half an hour."""
    program = f"""{JOIN.replace("60", "600")}
from clnet.errors import DistributedError
if rank != 1:
    try:
        dist.all_reduce(clnet.ones(2))
    except DistributedError as error:
        print(f"<rank {{rank}} hears of {{str(error)[-20:]}}>", flush=True)
    for move in (dist.recv, dist.send):  # the one has no sender, the other is not taken
        try:
            move(clnet.ones(300_000), 1)
        except DistributedError as error:
            assert "a rank has ended, or left the group" in str(error)
            assert "ended=[1]" in str(error)
"""
    done = run(3, "-c", program)  # by itself: launch.SECONDS
    told = sorted(re.findall("<(.*?)>", done.stdout))
    assert [line[:14] for line in told] == ["rank 0 hears o", "rank 2 hears o"], done.stderr


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="root mounts /dev/shm, on Linux"
)
def test_ranks_sum_through_memory_that_takes_no_room_of_shared_files(tmp_path):
    """With 4 MiB of ``/dev/shm``, as many as their pieces have; of which ranks are warned."""
    (tmp_path / "job.py").write_text(SUMMED, encoding="utf-8")
    words = [mpirun(), "-n", "2", sys.executable, str(tmp_path / "job.py")]
    inside = f"mount -t tmpfs -o size=4m tmpfs /dev/shm && exec {shlex.join(words)}"
    command = ["unshare", "--mount", "bash", "-c", inside]
    if subprocess.run([*command[:2], "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace of mounts can be made here")
    here = {**os.environ, "PYTHONPATH": str(CHECKOUT), "UCX_TLS": "^posix"}
    here["POCL_CACHE_DIR"] = str(tmp_path / "pocl")  # which may have been in that memory
    done = subprocess.run(
        command, capture_output=True, text=True, env=here, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<True>") == 2
    if "MPICH" in library():
        assert "/dev/shm has 4 MiB free, of which MPI takes some 16 MiB" in done.stderr


SUMMED = f"""{JOIN}
from clnet.ranks.membership import group_of
x = clnet.ones(600_011)
x.numpy()  # PoCL has opened its files
if rank and sys.argv[1:]:
    os.seteuid(int(sys.argv[1]))
dist.all_reduce(x)
os.seteuid(os.getuid())
assert (x == dist.get_world_size()).all()
print(f"<{{group_of('', None).nearby() is not None}}>")
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root becomes another")
def test_ranks_that_may_not_share_memory_sum_by_mpi():
    done = run(2, "-c", SUMMED, "65534", **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<False>") == 2


def test_ranks_that_do_not_answer_are_an_error():
    program = f"{JOIN.replace('60', '1')}\nimport time\nif rank == 1:\n    time.sleep(100)\n"
    done = run(2, "-c", program + "dist.all_reduce(clnet.ones(2))")
    assert done.returncode != 0
    assert "all_reduce: other ranks do not answer; got seconds=1" in done.stderr


def test_the_rank_that_is_stalled_is_named():
    program = f"{JOIN}\nimport time\nif rank == 1:\n    time.sleep(100)\n"
    done = run(3, "-c", program + "dist.monitored_barrier(timeout=1)")
    assert done.returncode != 0
    assert "other ranks do not answer; got seconds=1, silent_ranks=[1]" in done.stderr


def test_a_rank_that_stalls_within_an_exchange_is_named():
    """All have agreed on it: nobody waits for an answer."""
    program = f"""{JOIN.replace("60", "1")}
from clnet.ranks import nearby
if rank == 1:
    nearby.Nearby.sum = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGSTOP)
dist.all_reduce(clnet.ones(100_000))
"""
    done = run(2, "-c", program)
    assert done.returncode != 0
    assert re.search(r"waits in all_reduce for others since \d s; silent_ranks=\[1\];", done.stderr)


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"])
def test_processes_that_mpi_does_not_join_train_none_for_itself(variable):
    """Started by torchrun, or by the mpirun of another MPI: each would be alone."""
    program = "import clnet.distributed as dist; dist.init_process_group()"
    here = {**os.environ, "PYTHONPATH": str(CHECKOUT), variable: "2"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=here, check=False
    )
    if "pip install" in done.stderr and "started=2" not in done.stderr:
        pytest.skip("mpi4py is not installed")
    assert done.returncode != 0
    assert "find each other by MPI; got started=2, found=1. Start with mpirun -n 2" in done.stderr


def test_a_rank_that_comes_after_others_gave_up_ends_the_job():
    """Also where the others go on without it; nothing is read that was given back."""
    program = f"""{JOIN.replace("60", "1")}
import time
from clnet.errors import DistributedError
if rank == 0:
    try:
        dist.all_reduce(clnet.ones(2))
    except DistributedError as error:
        print("<first>", error)
    try:
        dist.all_reduce(clnet.ones(2))
    except DistributedError as error:
        print("<second>", error, flush=True)
    time.sleep(100)
time.sleep(3)
dist.all_reduce(clnet.ones(2))
print("went on")
"""
    start = time.monotonic()
    done = run(2, "-c", program)
    assert "no exchange of the group follows" in done.stdout.partition("<second>")[2]
    assert done.returncode != 0
    assert "went on" not in done.stdout
    assert "; the job ends" in done.stderr
    assert time.monotonic() - start < 60


def test_a_message_that_nobody_answers_is_taken_back():
    program = f"""{JOIN.replace("60", "1")}
import time
from clnet.errors import DistributedError
x = clnet.zeros(3)
if rank == 0:
    try:
        dist.recv(x, 1)
    except DistributedError as error:
        assert "recv: other ranks do not answer" in str(error)
    dist.recv(x, 1)
    assert x.tolist() == [2, 2, 2]
else:
    time.sleep(1.3)
    dist.send(x + 2, 0)
"""
    done = run(2, "-c", program)
    assert done.returncode == 0, done.stderr


def test_a_runner_keeps_the_order_and_the_errors():
    runner, seen = Runner("test"), []
    works = [runner.begin(lambda i=i: seen.append(i)) for i in range(20)]
    failing = runner.begin(lambda: 1 // 0)
    assert runner.do(lambda: len(seen)) == 20
    assert seen == list(range(20))
    assert all(work.wait() for work in works)
    with pytest.raises(ZeroDivisionError):
        failing.wait()
    assert type(failing.exception()) is ZeroDivisionError
    runner.close()


def test_machines_of_several_ranks_sum_among_themselves_first():
    """MPICH takes four ranks for two machines of two; three for machines of two and of one."""
    program = """
import numpy as np
import clnet, clnet.distributed as dist
from clnet.ranks.membership import group_of
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
for op, scale in (("SUM", 1), ("AVG", size)):
    x = clnet.arange(300_007).float() * (rank + 1)
    dist.all_reduce(x, dist.ReduceOp[op])
    wanted = np.arange(300_007) * (size * (size + 1) // 2) / scale
    assert (x.numpy() == wanted.astype(np.float32)).all()
near = group_of("", None).nearby()
print(f"<rank {rank}: {near is None or (near.here.size, near._across.size)}>")
dist.destroy_process_group()
"""
    for ranks, told in ((4, "(2, 2)"), (3, "True")):
        done = run(ranks, "-c", program, MPIR_CVAR_NUM_CLIQUES="2", **SOON)
        assert done.returncode == 0, done.stdout + done.stderr
        if "MPICH" in library():
            found = sorted(re.findall("<(.*?)>", done.stdout))
            assert found == [f"rank {rank}: {told}" for rank in range(ranks)]


def test_threads_of_each_rank_sum_side_by_side():
    """Where there are cores for them; the same bits again, and sizes that nothing divides."""
    program = """
import numpy as np
import clnet, clnet.distributed as dist
from clnet.ranks import nearby
from clnet.ranks.membership import group_of
nearby._cores, nearby._LANE_BYTES = lambda ranks: 3, 2**19
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
for n in (100_003, 300_007, 800_003):  # for one thread, two and three
    drawn = [np.random.default_rng(i).standard_normal(n).astype(np.float32) for i in range(size)]
    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        x = clnet.tensor(drawn[rank])
        dist.all_reduce(x, op)
        found.append(x.numpy())
    exact = np.sum(drawn, 0, dtype=np.float64)
    assert np.abs(found[0] - exact).max() < 2e-6
    assert (found[0] == found[1]).all()
    assert np.abs(found[2] - exact / size).max() < 2e-6
near = group_of("", None).nearby()
print(f"<{len(near._lanes)} {near._threads is not None}>")
dist.destroy_process_group()
"""
    done = run(3, "-c", program, CLNET_SUMS="host", **SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("<3 True>") == 3


def library() -> str:
    """Which MPI there is."""
    return run(1, "-c", "from mpi4py import MPI; print(MPI.Get_library_version())").stdout
