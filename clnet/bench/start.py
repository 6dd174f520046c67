"""How long it takes from the start of a process to its first result, with a cold and a warm cache.

Every figure is a process of its own. The cold one compiles every kernel and keeps all of them, so
the warm ones compile none; Python keeps its own compiled files, as after ``pip install``. A model's
share is what Python does for it: the device may still draw its weights while the first step is
prepared. The time of a step once all is warm stands beside, compiled and, where asked for, eager.

``--cold`` says instead where one cold process spends it, by kernel and stage: seconds of a core for
its text, the compiler's front end, its passes and code (what of both is the front end's, drivers
differ in; PoCL's is clang alone), and loading; and seconds in all of these without a core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..device import device
from ..profiling.startup import seconds_since_process_start
from ..profiling.table import aligned
from .side import Ours
from .workload import OTHERS, WORKLOADS, Workload, chosen
from .zoo_networks import NAMES
from .zoo_networks import workload as zoo_network

_WARM_RUNS = 3
_STEPS = 5
_ZOO_IMAGES = 32
_WAYS = ("compiled", "eager")
_CHILD = """
import json, os, sys, time
begin = time.perf_counter()
sys.dont_write_bytecode = False
job, environment = sys.argv[1:]
os.environ.update(json.loads(environment))
from clnet.bench.start import first_step
first_step(job, begin)
"""
_HEADS = (
    *("to result", "import", "context", "model", "first step", "second", "later"),
    *("built", "loaded", "building", "cache", "way", "network"),
)


_STAGES = ("rendering", "front", "code", "loading", "waiting")


def first_step(job: str, begin: float) -> None:
    """Take a step in this process and print where the time went; for processes of its own.

    Args:
        job: JSON with ``net``, ``device`` and ``way``: compiled or eager.
        begin: when the process began to import clnet, as ``time.perf_counter`` has it.
    """
    wanted = json.loads(job)
    imported = time.perf_counter()
    where = device(wanted["device"])
    opened = time.perf_counter()
    ours = Ours(_workload(wanted["net"]), where, compile=wanted["way"] == "compiled")
    made = time.perf_counter()
    ours.step()
    ours.result()
    done, running = time.perf_counter(), seconds_since_process_start()
    programs = where.programs.statistics
    kernels = [asdict(times) for times in programs.kernels]
    figures = {
        "to_result": done - begin if running is None else running,
        "import": imported - begin,
        "context": opened - imported,
        "model": made - opened,
        "first_step": done - made,
        "built": programs.built,
        "loaded": programs.loaded,
        "building": programs.seconds,
    }
    figures["second"] = _seconds(ours)
    figures["later"] = statistics.median(_seconds(ours) for _ in range(_STEPS))
    print(json.dumps({**figures, "kernels": kernels}))


def _workload(net: str) -> Workload:
    """The network with its own batch; one that ``clnet bench zoo`` alone has with 32 images.

    Raises:
        ArgumentError: if there is no such network.
    """
    if net in NAMES and net not in WORKLOADS:  # both have an LSTM
        return zoo_network(net, _ZOO_IMAGES, training=True)
    return chosen(net)[0]


def _seconds(ours: Ours) -> float:
    start = time.perf_counter()
    ours.step()
    ours.result()
    return time.perf_counter() - start


def measure(net: str, where: str | None, way: str = "compiled") -> list[dict[str, Any]]:
    """The figures with a cold and with a warm cache.

    Args:
        net: the workload's name.
        where: the device, as :func:`clnet.device` takes it.
        way: ``"compiled"`` or ``"eager"``.

    Returns:
        Two rows: the cold run, and the median of the warm ones.
    """
    job = json.dumps({"net": net, "device": where, "way": way})
    with tempfile.TemporaryDirectory() as folder:
        environment = json.dumps({"CLNET_CACHE_DIR": folder, "POCL_CACHE_DIR": folder})
        runs = [_run(job, environment) for _ in range(1 + _WARM_RUNS)]
    for run in runs:
        run.pop("kernels", None)
    warm = {key: statistics.median(run[key] for run in runs[1:]) for key in runs[0]}
    named = {"workload": net, "title": _workload(net).title, "way": way}
    return [{"cache": "cold"} | named | runs[0], {"cache": "warm"} | named | warm]


def stages(net: str, where: str | None, way: str = "compiled") -> dict[str, Any]:
    """Where a cold process spends the time to its first result.

    Args:
        net: the workload's name.
        where: the device, as :func:`clnet.device` takes it.
        way: ``"compiled"`` or ``"eager"``.

    Returns:
        The figures, and in ``kernels`` for each name how many there are and their stages' seconds,
        the dearest first.
    """
    job = json.dumps({"net": net, "device": where, "way": way})
    with tempfile.TemporaryDirectory() as folder:
        found = _run(job, json.dumps({"CLNET_CACHE_DIR": folder, "POCL_CACHE_DIR": folder}))
    named: dict[str, dict[str, Any]] = {}
    for times in found["kernels"]:
        row = named.setdefault(times["name"], dict.fromkeys(("kernels", *_STAGES), 0))
        row["kernels"] += 1
        for stage in _STAGES:
            row[stage] += times[stage]
    dearest = sorted(named.items(), key=lambda item: -_core_seconds(item[1]))
    found["kernels"] = [{"name": name, **row} for name, row in dearest]
    return {"workload": net, "title": _workload(net).title, "way": way, **found}


def _core_seconds(row: dict[str, Any]) -> float:
    return sum(row[stage] for stage in _STAGES[:-1])


def _stages_table(found: dict[str, Any]) -> str:
    """The kernels of a cold process as a table, all of them last."""
    rows = found["kernels"]
    total = {key: sum(row[key] for row in rows) for key in ("kernels", *_STAGES)}
    head = ("kernels", "core", *_STAGES, "name")
    lines: list[tuple[str, ...]] = [
        (
            f"{row['kernels']:.0f}",
            f"{_core_seconds(row):.2f} s",
            *(f"{row[stage]:.2f} s" for stage in _STAGES),
            str(row["name"]),
        )
        for row in (*rows, {**total, "name": "all"})
    ]
    parts = ", ".join(
        f"{name} {found[key]:.2f} s"
        for name, key in (
            ("import", "import"),
            ("context", "context"),
            ("model", "model"),
            ("first step", "first_step"),
        )
    )
    return f"{aligned([head, *lines])}\n{found['to_result']:.2f} s to the result: {parts}"


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench start", description=__doc__)
    known = f"with commas, of {', '.join(WORKLOADS)}; all of these; or of clnet bench zoo's"
    parser.add_argument("--net", help=known)
    parser.add_argument("--eager", action="store_true", help="eager processes beside compiled ones")
    parser.add_argument("--cold", action="store_true", help="a cold process by kernel and stage")
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    options = parser.parse_args(argv)
    if options.net is None:
        nets = [work.name for work in (*chosen(None), OTHERS[0])]
    else:
        nets = list(WORKLOADS) if options.net == "all" else options.net.lower().split(",")
    titles = {net: _workload(net).title for net in nets}  # all, before one has run
    rows: list[dict[str, Any]] = []
    for net, title in titles.items():
        print(title, file=sys.stderr, flush=True)
        for way in _WAYS if options.eager else _WAYS[:1]:
            if options.cold:
                split = stages(net, options.device, way)
                told = json.dumps({"bench": "start", "cache": "cold", **split})
                print(told if options.json else _stages_table(split), flush=True)
                continue
            found = measure(net, options.device, way)
            rows += found
            cold, warm = (f"{row['cache']} {row['to_result']:.2f} s" for row in found)
            print(f"  {way}: {cold}, {warm}", file=sys.stderr, flush=True)
            if options.json:
                print("\n".join(json.dumps({"bench": "start", **f}) for f in found), flush=True)
    if not options.json and rows:
        print(aligned([_HEADS, *map(_row, rows)]))


def _run(job: str, environment: str) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-c", _CHILD, job, environment],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    seconds = ("to_result", "import", "context", "model", "first_step")
    return (
        *(f"{row[key]:.2f} s" for key in seconds),
        *(f"{row[key]:.4f} s" for key in ("second", "later")),
        *(f"{row[key]:.0f}" for key in ("built", "loaded")),
        f"{row['building']:.2f} s",
        row["cache"],
        row["way"],
        row["title"],
    )


if __name__ == "__main__":
    main()
