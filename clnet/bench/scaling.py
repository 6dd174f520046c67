"""A training step on 1, 2 ... workers: time, the exchange's share, what was foretold; PyTorch.

Each number of workers is a job of its own, of as many processes (``mpirun``; PyTorch's are joined
by its DistributedDataParallel). The workers' weights must be the same bits before a time is taken.
Ideal is the first job's time by what the workers have more: devices, or threads of one processor.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any
from zlib import crc32

import numpy as np

from ..compile import compile as compiled
from ..creation import zeros
from ..device import Device, DeviceKind, device
from ..errors import ArgumentError, ClnetError
from ..nn import Module
from ..nn import functional as F
from ..nn.parallel import DistributedDataParallel
from ..optim import SGD
from ..planning.exchange_cost import Link
from ..planning.parallel_plan import ways
from ..planning.step_cost import Task, measured
from ..profiling.table import aligned
from ..random import manual_seed
from ..ranks.membership import destroy_process_group, get_rank, init_process_group
from ..ranks.message import all_gather_object
from ..ranks.operations import all_reduce, barrier
from ..tensor import Tensor, tensor
from . import torch_networks
from .workload import WORKLOADS, Workload, check_counts, with_batch

_WORKER = """
import json, os, sys
job, environment = sys.argv[1:]
os.environ.update(json.loads(environment))
from clnet.bench import scaling
scaling.{}(job)
"""
_MARK = "scaling: "
_HEADS = ("workers", "threads", "best ms", "median ms", "exchange", "foretold", "of ideal")
_LINK_BYTES = 4 * 2**20

Fields = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; ``--help`` lists the options.

    Returns:
        0, or 1 if a job failed.
    """
    options = _parser().parse_args(argv)
    check_counts("bench scaling", options, "batch", "rounds", "threads")
    workload = _network(options.net)
    if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.workers) is None:
        raise ArgumentError("bench scaling", "--workers is as 1,2,4", workers=options.workers)
    counts = list(dict.fromkeys(map(int, options.workers.split(","))))
    job: Fields = {"net": workload.name, "rounds": options.rounds, "devices": options.devices}
    batches = _batches(options, workload, counts)
    found: list[Fields] = []
    failures = 0
    cores = os.cpu_count() or 1
    if not options.devices:  # the driver may have been given fewer
        cores = min(cores, device().traits.compute_units)
    for count, batch in zip(counts, batches, strict=True):
        threads = options.threads or max(1, cores // count)
        for side in ("clnet", *([options.against] if options.against else [])):
            run = _ours if side == "clnet" else _theirs
            done = run({**job, "workers": count, "threads": threads, "batch": batch})
            failures += done is None
            if done is not None:
                what = {"side": side, "workers": count, "threads": threads}
                found.append({**what, "devices": options.devices, **done})
    _say(found, as_json=options.json, each=options.each)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench scaling", description=__doc__)
    parser.add_argument("--workers", default="1,2", metavar="N,...", help="how many processes")
    parser.add_argument("--net", default="resnet-56", help="a network of clnet bench shi2016")
    parser.add_argument("--batch", type=int, help="examples of a step, divided over the workers")
    parser.add_argument("--each", action="store_true", help="--batch is that of each worker")
    parser.add_argument("--devices", help="of the workers in turn, such as gpu:0,gpu:1")
    parser.add_argument("--threads", type=int, help="of a worker; default: the cores, divided")
    parser.add_argument("--rounds", type=int, default=15, help="steps that are timed")
    parser.add_argument("--against", choices=["torch"], help="beside PyTorch's")
    parser.add_argument("--json", action="store_true", help="a JSON line for each figure")
    return parser


def _network(name: str) -> Workload:
    fit = {n: w for n, w in WORKLOADS.items() if w.training and not w.words and w.drawn is None}
    if name not in fit:
        law = "--net is a network that is trained on images"
        raise ArgumentError("bench scaling", law, net=name, have=", ".join(fit))
    return fit[name]


def _batches(options: argparse.Namespace, workload: Workload, counts: Sequence[int]) -> list[int]:
    """The batch of each job, all workers together; what is wrong is told before any has run."""
    if max(counts) > 1 and find_spec("mpi4py") is None:
        raise ArgumentError(
            "bench scaling", "several workers need MPI", remedy="pip install 'clnet[mpi]'"
        )
    if options.against and find_spec(options.against) is None:
        raise ArgumentError("bench scaling", "--against torch needs PyTorch")
    given = options.batch or workload.input_shape[0]
    batches = [given * count if options.each else given for count in counts]
    for count, batch in zip(counts, batches, strict=True):
        if batch % count:
            law = "the batch is divided evenly"
            raise ArgumentError("bench scaling", law, batch=batch, workers=count)
    return batches


def _say(found: Sequence[Fields], *, as_json: bool, each: bool) -> None:
    if as_json:
        print("\n".join(json.dumps(f) for f in found))
        return
    for side in dict.fromkeys(f["side"] for f in found):
        mine = [f for f in found if f["side"] == side]
        first = mine[0]
        rows: list[tuple[str, ...]] = []
        for f in mine:
            more = 1.0 if each else _resources(f) / _resources(first)
            share = "" if f.get("alone_ms") is None else f"{1 - f['alone_ms'] / f['best_ms']:.1%}"
            foretold = "" if f.get("foretold_ms") is None else f"{f['foretold_ms']:,.2f}"
            rows.append(
                (
                    str(f["workers"]),
                    str(f["threads"]),
                    f"{f['best_ms']:,.2f}",
                    f"{f['median_ms']:,.2f}",
                    share,
                    foretold,
                    f"{first['best_ms'] / f['best_ms'] / more:.2f}",
                )
            )
        print(f"{side}: {first['title']}")
        print(aligned([_HEADS, *rows]))


def _resources(found: Fields) -> int:
    return found["workers"] * (1 if found["devices"] else found["threads"])


def mpirun() -> str:
    """The program that starts ranks: the one beside this Python, else what is on the path."""
    beside = Path(sys.executable).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun") or "mpirun"


def _ours(job: Fields) -> Fields | None:
    settings = {"CLNET_THREADS": str(job["threads"])}
    command = _command("worker", job, settings)
    if job["workers"] > 1:
        command = [mpirun(), "-n", str(job["workers"]), *command]
    return _result([subprocess.Popen(command, stdout=subprocess.PIPE, text=True)])


def _theirs(job: Fields) -> Fields | None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    settings = {"OMP_NUM_THREADS": str(job["threads"])}
    jobs = [{**job, "rank": rank, "port": port} for rank in range(job["workers"])]
    commands = [_command("torch_worker", each, settings) for each in jobs]
    return _result([subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands])


def _command(worker: str, job: Fields, environment: dict[str, str]) -> list[str]:
    program = _WORKER.format(worker)
    return [sys.executable, "-c", program, json.dumps(job), json.dumps(environment)]


def _result(processes: Sequence[subprocess.Popen[str]]) -> Fields | None:
    """What the first worker printed; None if one failed: the others are not left waiting for it.

    What a worker prints fits into its pipe.
    """
    try:
        codes: list[int | None] = [None]
        while None in codes and not any(codes):
            sleep(0.05)
            codes = [process.poll() for process in processes]
    finally:
        for process in processes:
            process.kill()
    texts = [process.communicate()[0] for process in processes]
    lines = [x for text in texts for x in text.splitlines() if x.startswith(_MARK)]
    if any(process.returncode for process in processes) or not lines:
        return None
    return json.loads(lines[0].removeprefix(_MARK))


def _timed(step: Callable[[], object], meet: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each round; all workers begin together."""
    found: list[float] = []
    for _ in range(rounds):
        meet()
        begin = perf_counter()
        step()
        found.append((perf_counter() - begin) * 1e3)
    return found


def worker(text: str) -> None:
    """One of clnet's workers.

    Args:
        text: the job, in JSON.
    """
    job = json.loads(text)
    workload = with_batch(WORKLOADS[job["net"]], job["batch"])
    if job["workers"] > 1:
        init_process_group()
    rank = get_rank() if job["workers"] > 1 else 0
    names = job["devices"].split(",") if job["devices"] else [None]
    where = device(names[rank % len(names)])
    meet = barrier if job["workers"] > 1 else where.synchronize
    with where:
        manual_seed(0)
        model, alone = workload.make().to(where), workload.make().to(where)
        alone.load_state_dict(model.state_dict())
        share = _share(workload, rank, job["workers"])
        divided = DistributedDataParallel(model) if job["workers"] > 1 else model
        steps = [_step(m, p, workload, share, where) for m, p in ((divided, model), (alone, alone))]
        for step in steps:
            for _ in range(3):
                step()
        _check_alike(model, job["workers"])
        whole, apart = _timed(steps[0], meet, job["rounds"]), []
        if job["workers"] > 1:
            apart = _timed(steps[1], meet, job["rounds"])
        foretold = _foretold(workload, job["workers"], where, rank, meet)
    if rank == 0:
        done = {
            "title": workload.title,
            "best_ms": min(whole),
            "median_ms": median(whole),
            "alone_ms": min(apart) if apart else None,
            "foretold_ms": foretold,
        }
        print(_MARK + json.dumps(done), flush=True)
    if job["workers"] > 1:
        destroy_process_group()


def _share(workload: Workload, rank: int, workers: int) -> tuple[Any, Any]:
    x, y = workload.batch()
    return np.array_split(np.asarray(x), workers)[rank], np.array_split(y, workers)[rank]


def _step(
    model: Module, owner: Module, workload: Workload, share: tuple[Any, Any], where: Device
) -> Callable[[], None]:
    settings: dict[str, Any] = dict(workload.sgd)
    optimizer = SGD(owner.parameters(), **settings)
    x, y = (tensor(values, device=where) for values in share)

    def learn(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = compiled(learn)

    def step() -> None:
        run(x, y)
        where.synchronize()

    return step


def _check_alike(model: Module, workers: int) -> None:
    """All workers have the same weights, after some steps.

    Raises:
        ClnetError: if they have not.
    """
    if workers < 2:
        return
    sums = [crc32(p.detach().numpy().tobytes()) for p in model.parameters()]
    found: list[Any] = [None] * workers
    all_gather_object(found, sums)
    if any(other != sums for other in found):
        raise ClnetError(
            "bench scaling", "all workers have the same weights", net=type(model).__name__
        )


def _foretold(
    workload: Workload, workers: int, where: Device, rank: int, meet: Callable[[], object]
) -> float | None:
    """Milliseconds that the planner expects, of kernels measured here and of this link."""
    if workers < 2:
        return None

    def exchange(x: Tensor) -> Callable[[], None]:
        def run() -> None:
            all_reduce(x)
            where.synchronize()

        return run

    small, large = (min(_timed(exchange(zeros(n)), meet, 15)) * 1e-3 for n in (1, _LINK_BYTES // 4))
    settings: dict[str, Any] = dict(workload.sgd)
    meet()
    # By all at once: parts of one processor share its memory.
    cost = measured(workload.make, Task(workload.input_shape), where, lambda p: SGD(p, **settings))
    found = None
    if rank == 0:
        share = 2 * (workers - 1) / workers
        link = Link(share * _LINK_BYTES / max(large - small, 1e-9) / 1e9, small * 1e6)
        overlap = where.traits.kind is not DeviceKind.CPU
        batch = workload.input_shape[0]
        found = ways(cost, workers, batch, link, overlap=overlap)[0].seconds * 1e3
    meet()
    return found


def torch_worker(text: str) -> None:
    """One of PyTorch's workers.

    Args:
        text: the job, in JSON.
    """
    import torch  # noqa: PLC0415 - a peer, if it is there

    job = json.loads(text)
    workload = with_batch(WORKLOADS[job["net"]], job["batch"])
    rank = job["rank"]
    cuda = bool(job["devices"]) and torch.cuda.is_available()
    where = f"cuda:{rank}" if cuda else "cpu"
    torch.set_num_threads(job["threads"])
    torch.distributed.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"tcp://127.0.0.1:{job['port']}",
        rank=rank,
        world_size=job["workers"],
    )
    torch.manual_seed(0)
    build = workload.twin
    model = build(torch) if build else torch_networks.build(torch, workload.name)
    model = model.to(where)
    if job["workers"] > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    settings: dict[str, Any] = dict(workload.sgd)
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    x, y = (torch.from_numpy(v).to(where) for v in _share(workload, rank, job["workers"]))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if cuda:
            torch.cuda.synchronize()

    for _ in range(3):
        step()
    times = _timed(step, torch.distributed.barrier, job["rounds"])
    if rank == 0:
        done = {"title": workload.title, "best_ms": min(times), "median_ms": median(times)}
        print(_MARK + json.dumps(done), flush=True)
    torch.distributed.destroy_process_group()
