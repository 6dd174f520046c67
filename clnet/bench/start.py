"""How long it takes from the start of a process to its first result, with a cold and a warm cache.

Every figure is a process of its own. The cold one compiles every kernel and keeps all of them, so
the warm ones compile none; Python keeps its own compiled files, as after ``pip install``. A model's
share is what Python does for it: the device may still draw its weights while the first step is
prepared. The time of a step once all is warm stands beside, compiled and, where asked for, eager.
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
from typing import Any

from ..device import device
from ..profiling.startup import seconds_since_process_start
from ..profiling.table import aligned
from .contestant import Ours
from .workload import OTHERS, WORKLOADS, chosen

_WARM_RUNS = 3
_STEPS = 5
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
    ours = Ours(WORKLOADS[wanted["net"]], where, compile=wanted["way"] == "compiled")
    made = time.perf_counter()
    ours.step()
    ours.result()
    done, running = time.perf_counter(), seconds_since_process_start()
    programs = where.programs.statistics
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
    print(json.dumps(figures))


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
    warm = {key: statistics.median(run[key] for run in runs[1:]) for key in runs[0]}
    named = {"workload": net, "title": WORKLOADS[net].title, "way": way}
    return [{"cache": "cold"} | named | runs[0], {"cache": "warm"} | named | warm]


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench start", description=__doc__)
    parser.add_argument("--net", help=f"with commas, of {', '.join(WORKLOADS)}; or all (the first)")
    parser.add_argument("--eager", action="store_true", help="eager processes beside compiled ones")
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    options = parser.parse_args(argv)
    default = [*chosen(None), OTHERS[0]]
    rows: list[dict[str, Any]] = []
    for workload in default if options.net is None else chosen(options.net):
        print(workload.title, file=sys.stderr, flush=True)
        for way in _WAYS if options.eager else _WAYS[:1]:
            found = measure(workload.name, options.device, way)
            rows += found
            if options.json:
                print("\n".join(json.dumps({"bench": "start", **f}) for f in found), flush=True)
    if not options.json:
        print(aligned([_HEADS, *map(_row, rows)]))


def _run(job: str, environment: str) -> dict[str, float]:
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
