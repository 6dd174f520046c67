"""A training step on 1, 2 ... workers: time, the exchange's share, what was foretold; PyTorch.

Each number of workers is a job of its own, of as many processes (``mpirun``; PyTorch's are joined
by its DistributedDataParallel), but for ``--way threads``, where one process has all devices. In
data parallel jobs the workers' weights must be the same bits before a time is taken; jobs of one
batch have the same losses. Ideal is the first job's time by what the workers have more: devices, or
threads of one processor.
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
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any
from zlib import crc32

import numpy as np

from ..device import Device, DeviceKind, device, max_memory_allocated
from ..errors import ArgumentError, ClnetError
from ..models import gpt
from ..nn import Module
from ..nn import functional as F
from ..optim import SGD
from ..planning.parallel_plan import ways
from ..planning.step_cost import Task, measured
from ..profiling.table import aligned
from ..random import manual_seed
from ..ranks.membership import (
    destroy_process_group,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
)
from ..ranks.message import all_gather_object
from ..ranks.operations import barrier
from ..tensor import Tensor
from ..values import mode
from ..values.dtypes import int64
from . import torch_networks, zoo_twins
from .link import busy_link, idle_link
from .own_process import Fields, command, parted, tell
from .precision import PRECISIONS
from .scaling_ways import WAYS, Share, Step, parts_of, refuse_unfit, step_of, whole_step
from .workload import WORKLOADS, Workload, check_counts, with_batch
from .zoo_networks import workload as zoo_network

_HEADS = (
    *("way", "workers", "threads", "best ms", "median ms", "exchange", "foretold", "of ideal"),
    *("MiB", "first loss"),
)
_TEXTS, _TEXT_IMAGES = 8, 8  # of GPT-2, and for how many images the zoo has one
_LETTERS, _LENGTH = 256, 64  # of the small GPT
_FIRST_STEPS = 3
_AGREE, _ROUGHLY = 1e-3, 3e-2  # losses on one batch, however divided: of float32, of 16 bits


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; ``--help`` lists the options.

    Returns:
        0, or 1 if a job failed.
    """
    options = _parser().parse_args(argv)
    check_counts("bench scaling", options, "batch", "rounds", "threads")
    workload = _network(options.net, options.batch)
    asked = _ways(options.way, workload)
    if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.workers) is None:
        raise ArgumentError("bench scaling", "--workers is as 1,2,4", workers=options.workers)
    counts = list(dict.fromkeys(map(int, options.workers.split(","))))
    job: Fields = {"net": options.net, "rounds": options.rounds, "devices": options.devices}
    job["precision"] = options.precision
    batches = _batches(options, workload, counts)
    for name in (options.devices or "").split(","):
        if name:
            device(name)  # one that is not there is told now, not when PyTorch's job is done
    found: list[Fields] = []
    failures = 0
    cores = os.cpu_count() or 1
    if not options.devices:  # the driver may have been given fewer
        cores = min(cores, device().traits.compute_units)
    for count, batch in zip(counts, batches, strict=True):
        threads = options.threads or max(1, cores // count)
        size = {"workers": count, "threads": threads, "batch": batch}
        jobs = [("clnet", _ours, way) for way in (asked if count > 1 else asked[:1])]
        jobs += [("torch", _theirs, "data")] if options.against else []
        for side, run, way in jobs:
            done = run({**job, **size, "way": way})
            failures += done is None
            if done is not None:
                found.append({"side": side, "way": way, **size, "devices": options.devices, **done})
    failures += _differing(found, options.precision)
    _say(found, as_json=options.json, each=options.each)
    return 1 if failures else 0


def _ways(text: str, workload: Workload) -> list[str]:
    asked = list(dict.fromkeys(text.split(",")))
    if not set(asked) <= set(WAYS):
        raise ArgumentError("bench scaling", f"--way is of {', '.join(WAYS)}", way=text)
    if set(asked) - {"data", "threads"}:
        model = workload.make()
        for way in asked:
            refuse_unfit(way, workload, model)
    return asked


def _differing(found: Sequence[Fields], precision: str) -> int:
    """How many of our jobs have other losses than the first one on the same batch; names them."""
    first: dict[int, list[float]] = {}
    bound, wrong = _ROUGHLY if PRECISIONS[precision].narrow else _AGREE, 0
    for f in found:
        if f["side"] != "clnet":
            continue
        got, wanted = f["losses"], first.setdefault(f["batch"], f["losses"])
        if not np.allclose(got, wanted, rtol=bound):
            wrong += 1
            told = f"{f['way']}, {f['workers']} workers: losses {got} differ from {wanted}"
            print(told, file=sys.stderr)
    return wrong


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench scaling", description=__doc__)
    parser.add_argument("--workers", default="1,2", metavar="N,...", help="how many processes")
    net = "a network of clnet bench shi2016 (resnet-56), gpt (a small one) or gpt2"
    parser.add_argument("--net", default="resnet-56", help=net)
    parser.add_argument("--way", default="data", help=f"with commas, of {', '.join(WAYS)}")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="fp32")
    parser.add_argument("--batch", type=int, help="examples of a step, divided over the workers")
    parser.add_argument("--each", action="store_true", help="--batch is that of each worker")
    parser.add_argument("--devices", help="of the workers in turn, such as gpu:0,gpu:1")
    parser.add_argument("--threads", type=int, help="of a worker; default: the cores, divided")
    parser.add_argument("--rounds", type=int, default=15, help="steps that are timed")
    parser.add_argument("--against", choices=["torch"], help="beside PyTorch's")
    parser.add_argument("--json", action="store_true", help="a JSON line for each figure")
    return parser


def _network(name: str, batch: int | None) -> Workload:
    """The network with a batch, or its own.

    Raises:
        ArgumentError: if it is none that is divided.
    """
    if name == "gpt2":
        return zoo_network(name, (batch or _TEXTS) * _TEXT_IMAGES, training=True)
    if name == "gpt":
        return _small_gpt(batch or _TEXTS)
    fit = {n: w for n, w in WORKLOADS.items() if w.training and not w.words and w.drawn is None}
    if name not in fit:
        law = "--net is a network that is trained on images, gpt or gpt2"
        raise ArgumentError("bench scaling", law, net=name, have=", ".join(fit))
    return with_batch(fit[name], batch)


def _small_gpt(batch: int) -> Workload:
    words = np.random.default_rng(0).integers(0, _LETTERS, (2, batch, _LENGTH))
    return Workload(
        "gpt",
        f"GPT of 4 blocks, batch {batch}",
        partial(gpt, _LETTERS, _LENGTH),
        (batch, _LENGTH),
        _LETTERS,
        0.0,
        sgd={"lr": 1e-2, "momentum": 0.9},
        drawn=lambda: ((words[0],), words[1]),
        loss=lambda lib, scores, words: lib.cross_entropy(scores.flatten(0, 1), words.flatten()),
        twin=lambda torch: zoo_twins.gpt(torch, _LETTERS, _LENGTH, 4, 4, 128),
    )


def _batches(options: argparse.Namespace, workload: Workload, counts: Sequence[int]) -> list[int]:
    """The batch of each job, all workers together; what is wrong is told before any has run."""
    if max(counts) > 1 and find_spec("mpi4py") is None:
        raise ArgumentError(
            "bench scaling", "several workers need MPI", remedy="pip install 'clnet[mpi]'"
        )
    if options.against and find_spec(options.against) is None:
        raise ArgumentError("bench scaling", "--against torch needs PyTorch")
    names = list(filter(None, (options.devices or "").split(",")))
    if names and "threads" in options.way.split(",") and len(names) < max(counts):
        law = "--way threads has a device for each worker"
        raise ArgumentError("bench scaling", law, devices=options.devices, workers=max(counts))
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
                    f["way"],
                    str(f["workers"]),
                    str(f["threads"]),
                    f"{f['best_ms']:,.2f}",
                    f"{f['median_ms']:,.2f}",
                    share,
                    foretold,
                    f"{first['best_ms'] / f['best_ms'] / more:.2f}",
                    "" if f.get("peak_bytes") is None else f"{f['peak_bytes'] / 2**20:,.0f}",
                    f"{f['losses'][0]:.5f}" if f.get("losses") else "",
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
    apart = job["way"] != "threads" and job["workers"] > 1
    threads = job["threads"] * (1 if apart else job["workers"])
    settings = {} if job["devices"] else {"CLNET_THREADS": str(threads)}
    line = command("scaling", job, settings)
    if apart or job["way"] == "pipeline":
        line = [mpirun(), "-n", str(job["workers"]), *line]
    return _result([subprocess.Popen(line, stdout=subprocess.PIPE, text=True)])


def _theirs(job: Fields) -> Fields | None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    settings = {"OMP_NUM_THREADS": str(job["threads"])}
    jobs = [{**job, "rank": rank, "port": port} for rank in range(job["workers"])]
    lines = [command("scaling", each, settings, worker="torch_worker") for each in jobs]
    return _result([subprocess.Popen(x, stdout=subprocess.PIPE, text=True) for x in lines])


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
    found, _ = parted("\n".join(texts))
    failed = any(process.returncode for process in processes)
    return None if failed or not found else found[0]


def _timed(step: Callable[[], object], meet: Callable[[], object], rounds: int) -> list[float]:
    """Milliseconds of each round; all workers begin together."""
    found: list[float] = []
    for _ in range(rounds):
        meet()
        begin = perf_counter()
        step()
        found.append((perf_counter() - begin) * 1e3)
    return found


def worker(job: Fields) -> None:
    """One of clnet's workers.

    Args:
        job: what :func:`main` asks for: ``net``, ``batch``, ``precision``, ``rounds``, ``way``,
            ``workers``, ``threads`` and ``devices``.
    """
    precision = PRECISIONS[job["precision"]]
    workload = replace(_network(job["net"], job["batch"]), precision=precision)
    way, workers = job["way"], job["workers"]
    joined = way == "pipeline" or (workers > 1 and way != "threads")
    if joined:
        init_process_group()
    rank = get_rank() if joined else 0
    share = Share(workload, rank, workers, _devices(job, rank))
    where = share.where
    meet = barrier if joined else where.synchronize
    with where, mode.using(float32_precision=precision.float32):
        manual_seed(0)
        model = workload.make().to(where)
        step = _waiting(step_of(way, share, model), share)
        losses = [_mean(step(), way) for _ in range(_FIRST_STEPS)]
        if way == "data":
            _check_alike(model, workers)
        whole, apart = _timed(step, meet, job["rounds"]), []
        peaks = [max_memory_allocated(d) for d in share.devices]
        peak = max(_gathered(max(peaks)) if joined else peaks)
        if joined and way in ("data", "in-parts"):  # the same without exchanges
            alone = workload.make().to(where)
            batch = share.batch(divided=True)
            step = _waiting(whole_step(share, alone, alone.parameters(), batch), share)
            for _ in range(_FIRST_STEPS):
                step()
            apart = _timed(step, meet, job["rounds"])
        foretold = _foretold(job, workload, where, rank, meet) if joined else None
    if rank == 0:
        done = {
            "title": workload.title,
            "best_ms": min(whole),
            "median_ms": median(whole),
            "alone_ms": min(apart) if apart else None,
            "foretold_ms": foretold,
            "peak_bytes": peak,
            "losses": losses,
        }
        tell(done)
    if joined:
        destroy_process_group()


def _devices(job: Fields, rank: int) -> list[Device]:
    """A worker's: one, or of threads all."""
    names = job["devices"].split(",") if job["devices"] else []
    if job["way"] != "threads" or job["workers"] == 1:
        return [device(names[rank % len(names)] if names else None)]
    if names:
        return [device(name) for name in names[: job["workers"]]]
    return list(device().split(job["workers"]))


def _waiting(step: Step, share: Share) -> Step:
    """A step whose work is done when it returns."""

    def run() -> Tensor | None:
        loss = step()
        for each in share.devices:
            each.synchronize()
        return loss

    return run


def _gathered(value: Any) -> list[Any]:
    found: list[Any] = [None] * get_world_size()
    all_gather_object(found, value)
    return found


def _mean(loss: Tensor | None, way: str) -> float:
    """The loss of all workers' examples, where each has seen its own, or one all of them."""
    own = None if loss is None else loss.item()
    told = _gathered(own) if way in {"data", "in-parts", "pipeline"} and is_initialized() else [own]
    known = [x for x in told if x is not None]
    return sum(known) / len(known)


def _check_alike(model: Module, workers: int) -> None:
    """All workers have the same weights, after some steps.

    Raises:
        ClnetError: if they have not.
    """
    if workers < 2:
        return
    sums = [crc32(p.detach().numpy().tobytes()) for p in model.parameters()]
    if any(other != sums for other in _gathered(sums)):
        raise ClnetError(
            "bench scaling", "all workers have the same weights", net=type(model).__name__
        )


def _foretold(
    job: Fields, workload: Workload, where: Device, rank: int, meet: Callable[[], object]
) -> float | None:
    """Milliseconds that the planner expects, of kernels measured here and of this link."""
    workers = job["workers"]
    if workers < 2:
        return None

    overlap = all(_gathered(where.traits.kind is not DeviceKind.CPU))
    link = idle_link(workers, where, meet)
    busy = busy_link(workers, where, meet, link) if overlap else link
    settings: dict[str, Any] = dict(workload.sgd)
    meet()
    # By all at once: parts of one processor share its memory.
    with workload.precision.ours():
        cost = measured(workload.make, _task(workload), where, lambda p: SGD(p, **settings))
    found = None
    if rank == 0:
        batch = workload.input_shape[0]
        parts = parts_of(workers, batch)
        each = ways(cost, workers, batch, link, overlap=overlap, busy=busy, parts=parts)
        fit = [w.seconds * 1e3 for w in each if w.name == job["way"] and not w.problem]
        found = fit[0] if fit else None  # it knows only parts of equal size
    meet()
    return found


def _task(workload: Workload) -> Task:
    if workload.drawn is None:
        return Task(workload.input_shape)
    return Task(workload.input_shape, int64, partial(workload.loss, F), each_place=True)


def torch_worker(job: Fields) -> None:
    """One of PyTorch's workers.

    Args:
        job: as that of :func:`worker`, with the worker's ``rank`` and the ``port`` of all.
    """
    import torch  # noqa: PLC0415 - a peer, if it is there

    precision = PRECISIONS[job["precision"]]
    workload = replace(_network(job["net"], job["batch"]), precision=precision)
    rank, workers = job["rank"], job["workers"]
    cuda = bool(job["devices"]) and torch.cuda.is_available()
    where = f"cuda:{rank}" if cuda else "cpu"
    torch.set_num_threads(job["threads"])
    precision.set_peer(torch)
    torch.backends.cudnn.benchmark = True
    torch.distributed.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"tcp://127.0.0.1:{job['port']}",
        rank=rank,
        world_size=workers,
    )
    torch.manual_seed(0)
    build = workload.twin
    model = build(torch) if build else torch_networks.build(torch, workload.name)
    # As 16 bits are the faster.
    images = precision.narrow is not None and len(workload.input_shape) == 4
    form: dict[str, Any] = {"memory_format": torch.channels_last} if images else {}
    model = model.to(where, **form)
    if workers > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    settings: dict[str, Any] = dict(workload.sgd)
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    x, y = workload.batch()
    given = [*(x if isinstance(x, tuple) else (x,)), y]
    own = [torch.from_numpy(np.array_split(v, workers)[rank]).to(where) for v in given]
    *inputs, targets = (v.to(**form) if v.ndim == 4 else v for v in own)

    def step() -> None:
        optimizer.zero_grad()
        with precision.theirs(torch, "cuda" if cuda else "cpu"):
            loss = workload.loss(torch.nn.functional, model(*inputs), targets)
        loss.backward()
        optimizer.step()
        if cuda:
            torch.cuda.synchronize()

    for _ in range(_FIRST_STEPS):
        step()
    times = _timed(step, torch.distributed.barrier, job["rounds"])
    if rank == 0:
        done: Fields = {"title": workload.title, "best_ms": min(times), "median_ms": median(times)}
        if cuda:
            done["peak_bytes"] = torch.cuda.max_memory_allocated()
        tell(done)
    torch.distributed.destroy_process_group()
