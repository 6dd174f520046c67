"""Exchanges of several ranks of this machine, beside mpi4py's own of host arrays, in turns.

``ratio`` is mpi4py's median time by ours: more than 1 is faster than mpi4py. The results are
checked before a time is taken. A size is that of what each rank gives. Of ``all_reduce``, ``map``
is the part of ours that looks at the device's memory; of a device with memory of its own it is the
way to the host and back.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from ..creation import zeros
from ..device import device
from ..errors import ArgumentError, ClnetError
from ..profiling.table import aligned
from ..ranks.membership import destroy_process_group, get_rank, get_world_size, init_process_group
from ..ranks.operations import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    broadcast,
    reduce,
)
from ..ranks.scattering import reduce_scatter_tensor
from ..ranks.to_each import all_to_all_single
from ..ranks.world import load_mpi
from ..tensor import Tensor, full
from .own_process import Fields, command, completed, tell
from .scaling import mpirun
from .workload import check_counts

_PIECE_BYTES = 8 * 2**20
_HEADS = ("MiB", "clnet ms", "mpi4py ms", "ratio")
_MORE_HEADS = {"pieces": "mpi4py in 8 MiB", "map": "map"}
_OPS = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_to_all_single", "broadcast",
    "reduce", "reduce_scatter_tensor",
)  # fmt: skip

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
    given = {"rounds": options.rounds, "devices": options.devices, "op": options.op}
    job = {"sizes": sizes, **given}
    done = completed([mpirun(), "-n", str(options.workers), *command("exchange", job, {})])
    if options.json:
        print("\n".join(map(json.dumps, done.figures)))
    else:
        told = f"{options.op} of float32 by {options.workers} ranks"
        print(f"{told}: median (best) of {options.rounds}")
        more = _MORE_HEADS.values() if options.op == "all_reduce" else ()
        print(aligned([(*_HEADS, *more), *map(_row, done.figures)]))
    return 1 if done.code or len(done.figures) < len(sizes) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench allreduce", description=__doc__)
    parser.add_argument("--sizes", default="1,4,16,64,256", metavar="MIB,...", help="in MiB")
    parser.add_argument("--op", choices=_OPS, default="all_reduce", help="which exchange")
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


def _row(found: Fields) -> tuple[str, ...]:
    told = {
        k: f"{v['median_ms']:,.2f} ({v['best_ms']:,.2f})" for k, v in found.items() if k != "mib"
    }
    ratio = found["mpi4py"]["median_ms"] / found["clnet"]["median_ms"]
    more = [told[name] for name in _MORE_HEADS if name in told]
    return (f"{found['mib']:g}", told["clnet"], told["mpi4py"], f"{ratio:.2f}", *more)


def worker(job: Fields) -> None:
    """One rank.

    Args:
        job: has ``op``, ``sizes`` in MiB, ``rounds`` and ``devices``.
    """
    init_process_group()
    names = job["devices"].split(",") if job["devices"] else [None]
    with device(names[get_rank() % len(names)]):
        for mib in job["sizes"]:
            found = _timed(job["op"], int(mib * 2**20) // 4, job["rounds"])
            if get_rank() == 0:
                tell({"mib": mib, **found})
    destroy_process_group()


def _timed(op: str, elements: int, rounds: int) -> dict[str, dict[str, float]]:
    """Of each way the median and the best time of the slowest rank.

    Raises:
        ClnetError: if a result is wrong.
    """
    mpi = load_mpi()
    comm, rank, ranks = mpi.COMM_WORLD, get_rank(), get_world_size()
    elements = max(elements // ranks, 1) * ranks
    x = full((elements,), float(rank + 1))
    host = np.full(elements, rank + 1, np.float32)

    def on_device() -> None:
        x.fill_(1.0)
        x.device.synchronize()

    def on_host() -> None:
        host.fill(1.0)

    (ours, found), (theirs, wanted) = _ours(op, x, ranks), _theirs(op, comm, host)
    ways: Ways = {"clnet": (on_device, ours), "mpi4py": (on_host, theirs)}
    ours()
    theirs()
    here = np.concatenate([y.numpy() for y in found])
    if (op != "reduce" or rank == 0) and not (here == wanted).all():
        raise ClnetError("bench allreduce", "results are right", exchange=op, elements=elements)
    if op == "all_reduce":
        ways |= _more_ways(x, host, (on_device, on_host))
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        # Each finds its elements as near as who has just computed them leaves them.
        for name, (put, run) in ways.items():
            put()
            comm.Barrier()
            begin = perf_counter()
            run()
            taken[name].append(comm.allreduce(perf_counter() - begin, mpi.MAX) * 1e3)
    return {k: {"median_ms": median(v), "best_ms": min(v)} for k, v in taken.items()}


def _ours(op: str, x: Tensor, ranks: int) -> tuple[Callable[[], object], list[Tensor]]:
    """An exchange of a tensor, and where its result is."""
    n = x.numel()
    listed = [zeros(n) for _ in range(ranks)] if op == "all_gather" else []
    whole = zeros(n * ranks if op == "all_gather_into_tensor" else n)
    part = zeros(n // ranks)
    return {
        "all_reduce": (lambda: all_reduce(x), [x]),
        "all_gather": (lambda: all_gather(listed, x), listed),
        "all_gather_into_tensor": (lambda: all_gather_into_tensor(whole, x), [whole]),
        "all_to_all_single": (lambda: all_to_all_single(whole, x), [whole]),
        "broadcast": (lambda: broadcast(x, 0), [x]),
        "reduce": (lambda: reduce(x, 0), [x]),
        "reduce_scatter_tensor": (lambda: reduce_scatter_tensor(part, x), [part]),
    }[op]


def _theirs(op: str, comm: Any, host: np.ndarray) -> tuple[Callable[[], object], np.ndarray]:
    """As :func:`_ours`, by mpi4py of an array."""
    mpi, n, ranks = load_mpi(), host.size, comm.size
    whole = np.zeros(n * ranks if op.startswith("all_gather") else n, np.float32)
    part = np.zeros(n // ranks, np.float32)

    def to_first() -> None:
        comm.Reduce(mpi.IN_PLACE if comm.rank == 0 else host, host if comm.rank == 0 else None)

    return {
        "all_reduce": (lambda: comm.Allreduce(mpi.IN_PLACE, host), host),
        "all_gather": (lambda: comm.Allgather(host, whole), whole),
        "all_gather_into_tensor": (lambda: comm.Allgather(host, whole), whole),
        "all_to_all_single": (lambda: comm.Alltoall(host, whole), whole),
        "broadcast": (lambda: comm.Bcast(host, 0), host),
        "reduce": (to_first, host),
        "reduce_scatter_tensor": (lambda: comm.Reduce_scatter_block(host, part), part),
    }[op]


def _more_ways(
    x: Tensor, host: np.ndarray, puts: tuple[Callable[[], object], Callable[[], object]]
) -> Ways:
    """What parts of an all-reduce take."""
    mpi = load_mpi()
    comm, step = mpi.COMM_WORLD, _PIECE_BYTES // 4

    def mapped() -> None:
        with x.array.on_host(read=True, write=True):
            pass

    def in_pieces() -> None:
        for start in range(0, host.size, step):
            comm.Allreduce(mpi.IN_PLACE, host[start : start + step])

    return {"pieces": (puts[1], in_pieces), "map": (puts[0], mapped)}
