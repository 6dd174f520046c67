"""A model of ONNX, compiled, beside what else runs it: outputs compared, then timed in turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import onnx
from ..autograd import no_grad
from ..compile import compile as compiled
from ..creation import as_tensor
from ..device import Device, DeviceKind, device
from ..errors import ArgumentError
from ..values import mode
from .onnx_peers import PEERS
from .timing import settle
from .workload import check_counts, check_seconds

_TOLERANCE = 1e-3  # of the largest number
_WARM_CALLS, _WARM_S = 20, 4.0
Run = Callable[[], object]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if outputs differ."""
    parser = argparse.ArgumentParser(prog="clnet bench onnx", description=__doc__)
    parser.add_argument("path", type=Path, metavar="MODEL", help="the model's file")
    parser.add_argument("--batch-size", type=int, default=1, help="where the model leaves it open")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="of an axis that is open"
    )
    parser.add_argument(
        "--against", default="nothing", help=f"what is beside, with commas: {', '.join(PEERS)}"
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="clnet.quantize's of it, too, its ranges by these inputs",
    )
    parser.add_argument("--threads", type=int, help="of peers (as many as the device has)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, for each")
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--json", action="store_true", help="one JSON line instead of a table")
    options = parser.parse_args(argv)
    check_counts("bench onnx", options, "batch_size", "threads")
    check_seconds("bench onnx", options.seconds)
    where = device(options.device)
    figures = measured(options, where)
    if options.json:
        print(json.dumps({"bench": "onnx", "device": where.identity.key, **figures}))
    else:
        print(f"{options.path}, batch {options.batch_size}, on {where.identity.name}")
        for name, value in figures.items():
            print(f"{name:28} {value:12.4g}" if isinstance(value, float) else f"{name:28} {value}")
    return int(figures.get("difference", 0.0) > _TOLERANCE)


def measured(options: argparse.Namespace, where: Device) -> dict[str, Any]:
    """The figures: milliseconds a call, microseconds of the host, launches, and the peers'."""
    sizes = onnx.read_sizes(options.size)
    names = [] if options.against == "nothing" else options.against.split(",")
    for name in names:
        if name not in PEERS:
            raise ArgumentError("--against", f"it names {', '.join(PEERS)} or nothing", name=name)
    threads = options.threads or _threads_beside(where)
    with mode.using(device=where), no_grad():
        model = onnx.load(options.path)
        arrays = onnx.drawn(model, sizes, batch=options.batch_size)
        plan = compiled(model)
        tensors = [as_tensor(array) for array in arrays.values()]
        outputs = _arrays(plan(*tensors))
        peers = {name: PEERS[name](options.path, arrays, threads) for name in names}
        found: dict[str, Any] = {}
        if peers:
            found["difference"] = max(_apart(outputs, ask()) for ask in peers.values())
            if found["difference"] > _TOLERANCE:
                return found
        found["launches"] = plan.plans[-1].num_launches
        runs: dict[str, Run] = {**peers}
        if options.int8:
            eight = compiled(onnx.quantize(model, [tensors]))
            found["difference of 8 bits"] = _apart(_arrays(eight(*tensors)), outputs)
            runs["8 bits"] = partial(_finished, where, eight, tensors)
        runs["ours"] = partial(_finished, where, plan, tensors)
        turns = _in_turns(runs, options.seconds)
        found["clnet, ms"] = turns["ours"]
        found["host, us a call"] = _host(lambda: plan(*tensors), where)
        if options.int8:
            found["8 bits, ms"] = turns["8 bits"]
            found["8 bits over float32"] = turns["ours"] / turns["8 bits"]
        for name in peers:
            found[f"{name}, ms"] = turns[name]
            found[f"clnet over {name}"] = turns[name] / turns["ours"]
    return found


def _threads_beside(where: Device) -> int:
    """As many threads for others as the device has cores."""
    own = where.traits.compute_units if where.traits.kind is DeviceKind.CPU else os.cpu_count()
    return own or 1


def _finished(where: Device, plan: Callable[..., Any], tensors: Sequence[Any]) -> None:
    plan(*tensors)
    where.synchronize()


def _apart(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of all outputs, as :func:`_difference` has it."""
    pairs = zip(found, wanted, strict=True)
    return max((_difference(*pair) for pair in pairs), default=0.0)


def _arrays(made: Any) -> list[np.ndarray]:
    return [y.numpy() for y in (made if isinstance(made, tuple) else (made,))]


def _difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest, as a share of the largest number; infinite for another shape or other NaNs.

    So it is for other infinities: the finite numbers are compared.
    """
    if found.shape != wanted.shape:
        return float("inf")
    finite = np.isfinite(wanted) & np.isfinite(found)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return float("inf")
    one, other = found[finite].astype(np.float64), wanted[finite].astype(np.float64)
    apart = np.max(np.abs(one - other), initial=0.0)
    return float(apart / max(np.max(np.abs(other), initial=0.0), 1e-12))


def _in_turns(runs: dict[str, Run], seconds: float) -> dict[str, float]:
    """Milliseconds a call, the median of turns that alternate."""
    counts: dict[str, int] = {}
    for name, run in runs.items():
        _warm(run)
        counts[name] = max(1, round(0.1 / max(_timed(run, 1), 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(times["ours"]) < 3:
        for name, run in runs.items():
            settle()
            run()  # wakes the threads that run it
            times[name].append(1e3 * _timed(run, counts[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _warm(run: Run) -> None:
    """Call until plans that are run again and again are as they stay (:mod:`..device.chain`)."""
    end = time.perf_counter() + _WARM_S
    for _ in range(_WARM_CALLS):
        run()
        if time.perf_counter() > end:
            break


def _timed(run: Run, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def _host(call: Run, where: Device) -> float:
    """Microseconds until a call returns, while the device is idle."""
    found: list[float] = []
    for _ in range(50):
        where.synchronize()
        found.append(1e6 * _timed(call, 1))
    where.synchronize()
    return statistics.median(found)
