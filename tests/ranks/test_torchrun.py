"""PyTorch's ways to start several processes: ``torchrun``, and ``multiprocessing.spawn``."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from clnet.errors import ArgumentError
from clnet.torchrun import run
from tests.ranks import launch
from tests.ranks.launch import SOON, environment, mpirun

pytestmark = pytest.mark.device

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def told(rank, queue):
    queue.put(rank)

def lost(rank, name):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    if rank == 1:
        raise KeyError(name)
    dist.barrier()

def summed(rank, weights):
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=2)
    dist.all_reduce(weights.mul_(rank + 1))
    print("<summed", rank, weights.tolist(), ">", sep=" ")

if __name__ == "__main__":
    if "RANK" in os.environ:
        names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"
        values = [os.environ[name] for name in names]
        dist.init_process_group("gloo")
        total = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(total)
        print("<", *values, total.item(), *sys.argv[1:], ">", sep=" ")
    else:
        context = mp.spawn(summed, args=(torch.tensor([2.0, 3.0]),), nprocs=2, join=False)
        assert not context.join(timeout=0) and context.pids()
        assert context.join() and context.join()
        try:
            mp.spawn(lost, args=("in a net",), nprocs=2)
        except mp.ProcessRaisedException as error:
            assert "KeyError: 'in a net'" in str(error) and "in lost" in str(error)
            print("<", error.error_index, "is told >")
        queue = mp.get_context("spawn").Queue()
        mp.spawn(told, args=(queue,), nprocs=2)
        print("<", sorted(queue.get() for _ in range(2)), "of Python's own processes >")
"""


def answers(tmp_path, *command: str) -> list[str]:
    """What a program prints between ``<`` and ``>``, sorted; it ends well."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        env=environment(**SOON),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(found.strip() for found in re.findall("<(.*?)>", done.stdout))


@pytest.mark.parametrize(
    "how", [["--nproc_per_node=2", "program.py"], ["--nproc-per-node", "2", "-m", "program"]]
)
def test_each_process_finds_what_torchrun_tells_it(tmp_path, how):
    mpirun()
    given = ["--standalone", "--nnodes=1:1", "--rdzv_backend=c10d", *how, "--epochs", "1"]
    found = answers(tmp_path, "clnet.torchrun", *given)
    assert found == [f"{rank} {rank} 2 2 127.0.0.1 3.0 --epochs 1" for rank in range(2)]


def test_one_process_needs_no_mpirun(tmp_path):
    assert answers(tmp_path, "clnet.torchrun", "program.py") == ["0 0 1 1 127.0.0.1 1.0"]


def test_spawned_processes_are_ranks_and_their_errors_are_told(tmp_path):
    mpirun()
    assert answers(tmp_path, "clnet.torch_compat", "program.py") == [
        "1 is told",
        "[0, 1] of Python's own processes",
        "summed 0 [6.0, 9.0]",
        "summed 1 [6.0, 9.0]",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--nnodes=2", "a.py"], "processes are of one machine; got nnodes=2.*--hostfile"),
        (["--nproc-per-node=0", "a.py"], "at least one process; got nproc_per_node='0'"),
    ],
)
def test_what_cannot_be_started_is_refused(given, told):
    with pytest.raises(ArgumentError, match=told):
        run(given)


def test_ranks_divide_the_cores_of_a_cpu():
    told = "import clnet; d = clnet.device('cpu'); print(f'<{d.name} {d.traits.compute_units}>')"
    done = launch.run(1, "-c", told)
    (all_units,) = re.findall(r"<\S+ (\d+)>", done.stdout)
    share = max(1, int(all_units) // 2)
    assert re.findall(r"<\S+ (\d+)>", launch.run(2, "-c", told).stdout) == [str(share)] * 2
    asked = launch.run(2, "-c", told, CLNET_THREADS="1")
    assert re.findall(r"<\S+ (\d+)>", asked.stdout) == ["1"] * 2
