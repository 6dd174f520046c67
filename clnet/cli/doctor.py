"""``clnet doctor``: does a device compute what it should, and what is odd about its driver?"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..device import Device, device
from ..device.first_use import trust
from ..device.guard import keep, left_out
from ..doctor import Report, compared, diagnose, read, shown
from ..doctor.case import Outcome
from ..doctor.examine import examine_apart
from ..doctor.report import mended
from ..errors import ArgumentError, shortened
from ..values.atomic import replacing


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser; arguments as in :mod:`.devices`."""
    parser = commands.add_parser(
        "doctor",
        parents=[shared],
        help="does a device compute what it should?",
        description="Ask a device small computations of every family of kernels, forward and "
        "backward, eager and compiled, and compare with NumPy in double precision. The exit code "
        "is 0 if all is right, else 1.",
    )
    parser.add_argument("--device", help="which, as clnet devices lists it")
    parser.add_argument("--json", metavar="FILE", help="write the report there")
    parser.add_argument("--compare", metavar="FILE", help="a report to say the differences from")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="begin nothing later than this (60)"
    )
    parser.add_argument(
        "--mend",
        action="store_true",
        help="if something is wrong, find what the device must be used without, and keep it",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; 1 if something is wrong."""
    if not arguments.seconds > 0:
        raise ArgumentError("doctor", "seconds is above 0", seconds=arguments.seconds)
    other = None if arguments.compare is None else read(Path(arguments.compare))
    if arguments.json is not None and not Path(arguments.json).absolute().parent.is_dir():
        raise ArgumentError(
            "doctor", "cannot write the report: there is no such folder", json=arguments.json
        )
    start = time.perf_counter()
    chosen = device(arguments.device)
    report = diagnose(chosen, seconds=arguments.seconds, tell=_told)
    report.seconds = time.perf_counter() - start
    print(shown(report))
    if other is not None:
        print(compared(report, other))
    if arguments.json is not None:
        try:
            with replacing(Path(arguments.json)) as file:
                file.write(report.to_json().encode())
        except OSError as error:
            raise ArgumentError(
                "doctor", f"cannot write the report ({shortened(error)})", file=arguments.json
            ) from error
    if report.healthy:
        trust(chosen.identity)
    if arguments.mend and report.failed:
        return _mend(chosen, report)
    return 0 if report.healthy else 1


def _mend(chosen: Device, report: Report) -> int:
    """Look for what to leave out; 0 if that helps."""

    def ask(changes: dict[str, Any], only: Collection[str] | None) -> list[Outcome]:
        return examine_apart(chosen.name, seconds=math.inf, only=only, changes=changes)[0]

    found = mended(chosen.traits, [outcome.name for outcome in report.failed], ask)
    if found is None:
        print("nothing that is left out makes it right: use another device")
        return 1
    name, changes = found
    before, already = left_out(chosen.identity)  # the device was opened without that
    if already:
        name, changes = f"{before} and {name}", {**already, **changes}
    keep(chosen.identity, name, changes)
    print(f"without {name} all is right: {chosen.name} is used without from now on")
    return 0


def _told(outcome: Outcome) -> None:
    """A line for each case, where someone looks on."""
    if sys.stderr.isatty():
        verdict = "WRONG" if outcome.findings else "right"
        print(f"{outcome.name}: {verdict} ({outcome.seconds:.1f} s)", file=sys.stderr)
