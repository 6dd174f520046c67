"""What the profiler costs, off and on, and how well its kernel times add up to the wall time.

Off, a launch asks once whether somebody looks on; that question is timed by itself. On, a plan is
replayed launch by launch on a queue that keeps times. Steps with and without take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import timeit
from collections.abc import Sequence

from ..device import Device, Watch, device
from ..profiling import profile
from ..profiling.table import duration
from .side import Ours
from .timing import seconds
from .workload import WORKLOADS, Workload, chosen

_ROUNDS = 11
_TURN_SECONDS = 0.2
_QUESTIONS = 200_000


def question_seconds() -> float:
    """What it costs to ask whether somebody looks on: all that a launch pays when nobody does."""
    names = {"watch": Watch()}
    asked = min(timeit.repeat("watch.observers", globals=names, number=_QUESTIONS, repeat=5))
    return asked / _QUESTIONS


def measure(workload: Workload, where: Device) -> dict[str, float]:
    """Figures of one workload.

    Args:
        workload: its steps are timed.
        where: the device.

    Returns:
        Seconds of a step with the profiler off and on, the ratio of the two, the fraction of a step
        that the questions take, and the sum of the kernels' times over the wall time.
    """
    ours = Ours(workload, where)
    ours.step()
    repeats = max(1, int(_TURN_SECONDS / seconds(ours.step, where)))
    off: list[float] = []
    on: list[float] = []
    covered: list[float] = []
    launches = 0
    for _ in range(_ROUNDS):
        off.append(seconds(ours.step, where, repeats))
        with profile(where):
            on.append(seconds(ours.step, where, repeats))
        with profile(where) as observed:
            for _ in range(repeats):
                ours.step()
        launches = sum(c.kind == "kernel" for c in observed.commands) // repeats
        covered.append(observed.device_seconds / observed.wall)
    step = statistics.median(off)
    return {
        "off": step,
        "on": statistics.median(on),
        "ratio": statistics.median(b / a for a, b in zip(off, on, strict=True)),
        "launches": launches,
        "asking": launches * question_seconds() / step,
        "covered": statistics.median(covered),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each workload; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench profiler", description=__doc__)
    parser.add_argument(
        "--net", default="fashion-cnn,resnet-56", help=f"with commas, of {', '.join(WORKLOADS)}"
    )
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--json", action="store_true", help="one JSON line for each network")
    options = parser.parse_args(argv)
    where = device(options.device)
    for workload in chosen(options.net):
        found = measure(workload, where)
        if options.json:
            fields = {"bench": "profiler", "device": where.identity.key, "net": workload.name}
            print(json.dumps(fields | found), flush=True)
            continue
        print(
            f"{workload.title}: a step off {duration(found['off'])}, on {duration(found['on'])}, "
            f"ratio {found['ratio']:.3f}; off, {found['launches']} launches ask once each: "
            f"{100 * found['asking']:.4f}% of the step; on, kernels and copies are "
            f"{100 * found['covered']:.1f}% of the wall time",
            flush=True,
        )


if __name__ == "__main__":
    main()
