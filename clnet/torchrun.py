"""``python -m clnet.torchrun --nproc-per-node 2 train.py``: what ``torchrun`` does, by ``mpirun``.

Each process runs the program with clnet under PyTorch's name (:mod:`.torch_compat`) and finds
``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE`` and their like in its environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from .compat.launch import environment, mpirun, variables
from .device import DeviceKind
from .device.discovery import discover
from .errors import ArgumentError, DeviceError
from .values.settings import inherited

__all__ = ["run"]

# Of machines that find each other, restarts and logs: taken where one machine needs none of it.
_TAKEN = (
    "rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method role "
    "log-dir redirects tee node-rank master-addr master-port local-addr local-ranks-filter"
).split()


def run(argv: Sequence[str]) -> int:
    """Start the processes and wait for them.

    Args:
        argv: ``torchrun``'s arguments: options, the program, and the program's own.

    Returns:
        The exit status: 0 if all ended well.

    Raises:
        ArgumentError: if there are to be several machines, or no process.
        DeviceError: if there are to be several processes, and no ``mpirun``.
    """
    options = _parser().parse_args(argv)
    count = _count(options.nproc_per_node)
    if options.nnodes not in ("1", "1:1"):
        remedy = f"mpirun --hostfile hosts -n {count} python -m clnet.torch_compat ..."
        raise ArgumentError(
            "torchrun", "processes are of one machine", nnodes=options.nnodes, remedy=remedy
        )
    program = [options.program, *options.arguments]
    if not options.no_python:
        as_module = ["-m"] if options.module else []
        program = [sys.executable, "-m", "clnet.torch_compat", *as_module, *program]
    if count == 1:
        return subprocess.run(program, env={**inherited(), **variables()}, check=False).returncode
    start = mpirun()
    if start is None:
        raise DeviceError(
            "torchrun",
            "several processes find each other by MPI",
            processes=count,
            remedy="pip install 'clnet[mpi]', which has mpirun, and start none from one of them",
        )
    command = [start, "-n", str(count), *program]
    return subprocess.run(command, env=environment(), check=False).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet.torchrun", description=__doc__, allow_abbrev=False)

    def option(name: str, *short: str, **told: str) -> None:
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", *short, **told)  # pyrefly: ignore[bad-argument-type] - texts

    option("nproc-per-node", default="1", help="how many processes, or cpu, gpu, auto")
    option("nnodes", default="1", help="1: of several machines mpirun --hostfile")
    for name in _TAKEN:
        option(name, *{"redirects": ("-r",), "tee": ("-t",)}.get(name, ()), help=argparse.SUPPRESS)
    parser.add_argument("--standalone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument("--no-python", "--no_python", action="store_true", help="... is none")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _count(asked: str) -> int:
    """How many processes; as in PyTorch ``"auto"`` is one for each GPU, or for each core."""
    if asked.isdecimal() and int(asked):
        return int(asked)
    if asked not in ("auto", "cpu", "gpu"):
        raise ArgumentError("torchrun", "there is at least one process", nproc_per_node=repr(asked))
    found = [each for each in discover() if each.handle is not None]
    cards = [each for each in found if each.kind is DeviceKind.GPU]
    if asked == "gpu" and not cards:
        raise DeviceError("torchrun", "there is a GPU", nproc_per_node=asked)
    return len(cards) if cards and asked != "cpu" else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
