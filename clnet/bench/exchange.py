"""All-reduces of several ranks of this machine, beside mpi4py's own of host arrays, in turns.

``ratio`` is mpi4py's median time by ours: more than 1 is faster than mpi4py. The sums are checked
before a time is taken. ``map`` is the part of ours that looks at the device's memory; of a device
with memory of its own it is the way to the host and back.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from time import perf_counter

import numpy as np

from ..creation import full
from ..device import device
from ..errors import ArgumentError, ClnetError
from ..profiling.table import aligned
from ..ranks.membership import destroy_process_group, get_rank, get_world_size, init_process_group
from ..ranks.operations import all_reduce
from ..ranks.world import load_mpi
from .scaling import mpirun
from .workload import check_counts

_PROGRAM = "import sys; from clnet.bench import exchange; exchange.worker(sys.argv[1])"
_MARK = "allreduce: "
_PIECE_BYTES = 8 * 2**20
_HEADS = ("MiB", "clnet ms", "mpi4py ms", "ratio", "mpi4py in 8 MiB", "map")

Ways = dict[str, tuple[Callable[[], object], Callable[[], object]]]
"""By name what puts elements there, and what is timed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; ``--help`` lists the options.

    Returns:
        0, or 1 if a rank failed.

    Raises:
        ArgumentError: if an option makes no sense, or mpi4py is not installed.
    """
    options = _parser().parse_args(argv)
    check_counts("bench allreduce", options, "rounds", "workers")
    sizes = _sizes(options.sizes)
    if find_spec("mpi4py") is None:
        raise ArgumentError("bench allreduce", "ranks need MPI", remedy="pip install 'clnet[mpi]'")
    job = json.dumps({"sizes": sizes, "rounds": options.rounds, "devices": options.devices})
    command = [mpirun(), "-n", str(options.workers), sys.executable, "-c", _PROGRAM, job]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = [x.removeprefix(_MARK) for x in done.stdout.splitlines() if x.startswith(_MARK)]
    if options.json:
        print("\n".join(lines))
    else:
        print(f"float32 summed by {options.workers} ranks: median (best) of {options.rounds}")
        print(aligned([_HEADS, *map(_row, lines)]))
    return 1 if done.returncode or len(lines) < len(sizes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench allreduce", description=__doc__)
    parser.add_argument("--sizes", default="1,4,16,64,256", metavar="MIB,...", help="in MiB")
    parser.add_argument("--workers", type=int, default=2, help="how many ranks")
    parser.add_argument("--rounds", type=int, default=11, help="turns that are timed")
    parser.add_argument("--devices", help="of the ranks in turn, such as gpu:0,gpu:1")
    parser.add_argument("--json", action="store_true", help="a JSON line for each size")
    return parser


def _sizes(given: str) -> list[float]:
    try:
        found = [float(x) for x in given.split(",")]
    except ValueError:
        found = [0.0]
    if not all(4 / 2**20 <= x < 2**20 for x in found):
        raise ArgumentError("bench allreduce", "--sizes is as 1,4,16, in MiB", sizes=given)
    return found


def _row(line: str) -> tuple[str, ...]:
    found = json.loads(line)
    told = {
        k: f"{v['median_ms']:,.2f} ({v['best_ms']:,.2f})" for k, v in found.items() if k != "mib"
    }
    ratio = found["mpi4py"]["median_ms"] / found["clnet"]["median_ms"]
    return (
        f"{found['mib']:g}", told["clnet"], told["mpi4py"], f"{ratio:.2f}", told["pieces"],
        told["map"],
    )  # fmt: skip


def worker(text: str) -> None:
    """One rank.

    Args:
        text: the job, in JSON.
    """
    job = json.loads(text)
    init_process_group()
    names = job["devices"].split(",") if job["devices"] else [None]
    with device(names[get_rank() % len(names)]):
        for mib in job["sizes"]:
            found = _timed(int(mib * 2**20) // 4, job["rounds"])
            if get_rank() == 0:
                print(_MARK + json.dumps({"mib": mib, **found}), flush=True)
    destroy_process_group()


def _timed(elements: int, rounds: int) -> dict[str, dict[str, float]]:
    """Of each way the median and the best time of the slowest rank.

    Raises:
        ClnetError: if a sum is wrong.
    """
    mpi = load_mpi()
    comm, rank, ranks = mpi.COMM_WORLD, get_rank(), get_world_size()
    x = full((elements,), float(rank + 1))
    host = np.full(elements, rank + 1, np.float32)
    pieces = range(0, elements, _PIECE_BYTES // 4)

    def mapped() -> None:
        with x.array.on_host(read=True, write=True):
            pass

    def in_pieces() -> None:
        for start in pieces:
            comm.Allreduce(mpi.IN_PLACE, host[start : start + _PIECE_BYTES // 4])

    def on_device() -> None:
        x.fill_(1.0)
        x.device.synchronize()

    def on_host() -> None:
        host.fill(1.0)

    ways: Ways = {
        "clnet": (on_device, lambda: all_reduce(x)),
        "mpi4py": (on_host, lambda: comm.Allreduce(mpi.IN_PLACE, host)),
        "pieces": (on_host, in_pieces),
        "map": (on_device, mapped),
    }
    ways["clnet"][1]()
    ways["mpi4py"][1]()
    wanted = ranks * (ranks + 1) / 2
    if not ((x.numpy() == wanted).all() and (host == wanted).all()):
        raise ClnetError("bench allreduce", "sums are right", elements=elements, ranks=ranks)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        # Each finds its elements as near as who has just computed them leaves them.
        for name, (put, run) in ways.items():
            put()
            comm.Barrier()
            begin = perf_counter()
            run()
            found[name].append(comm.allreduce(perf_counter() - begin, mpi.MAX) * 1e3)
    return {k: {"median_ms": median(v), "best_ms": min(v)} for k, v in found.items()}
