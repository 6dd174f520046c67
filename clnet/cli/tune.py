"""``clnet tune``: measures which parameters of kernels are best on a device, and keeps them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..bench import tuning_problems
from ..bench.workload import chosen
from ..device import Device, device
from ..device.tunings import Database, Entry
from ..errors import ArgumentError
from ..kernels.tuning import GAIN, SECONDS, Tuner
from .options import described


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Put the command into the parser.

    Args:
        commands: where sub-commands are added.
        shared: options of all commands.
    """
    parser = commands.add_parser(
        "tune",
        parents=[shared],
        help="measure which parameters of kernels are best on a device",
        description="Measure which parameters of kernels are best on a device: for the problems "
        "of networks or ops, candidates are compared with a reference, then timed in turns until "
        "their ranking is stable. What is found is kept in a file of the user's, and used from "
        "then on. Problems that were measured before are left out.",
    )
    add = parser.add_argument
    add("--device", help="such as nvidia:0, pocl, cpu, gpu (see: clnet devices)")
    add("--threads", type=int, help="compute units of a CPU to use")
    add("--net", help="networks of clnet bench shi2016, with commas, or all")
    add(
        "--op",
        help=f"ops, with commas, of {', '.join(tuning_problems.OPS)}; default, without --net: all",
    )
    add("--seconds", type=float, help="stop after so many; a later run goes on")
    add("--again", action="store_true", help="measure what was measured before, too")
    add("--simd-width", type=int, metavar="FLOATS", help="choose kernels as for a narrower CPU")
    add("--export", metavar="FILE", help="write what beats the defaults to a file of its own")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Tune, and print what was found."""
    if arguments.seconds is not None and not arguments.seconds > 0:
        raise ArgumentError("tune", "seconds is positive", seconds=arguments.seconds)
    where = device(arguments.device, threads=arguments.threads)
    if arguments.simd_width is not None:
        _narrow(where, arguments.simd_width)
    tunings = where.target.tunings
    if arguments.export is not None:
        exported(Path(arguments.export))  # told before minutes of measuring, not behind them
    start = time.perf_counter()
    wanted = list(dict(_keyed(_problems(arguments, where))).values())
    missing = [p for p in wanted if arguments.again or not _known(where, *p)]
    print(f"{described(where)}: {len(wanted)} problems, {len(missing)} to measure")
    measured: list[Entry] = []
    with Tuner(where) as tuner:
        for kernel, problem in missing:
            left = _left(arguments.seconds, start)
            if left <= 0:
                break
            entry, rejected = tuner.tune(kernel, problem, seconds=min(SECONDS, left))
            for place, reason in rejected.items():
                print(f"  candidate {place} of {kernel} left out: {reason}")
            if entry is not None:
                tunings.add([entry])
                measured.append(entry)
                print(row(entry), flush=True)
    seconds = time.perf_counter() - start
    better = sum(entry.choice != {} and entry.us < entry.default_us for entry in measured)
    print(
        f"{len(measured)} measured in {seconds:.0f} s, {len(missing) - len(measured)} left; "
        f"{better} better than the default; kept in {tunings.path}"
    )
    if arguments.export is not None:
        export(where, Path(arguments.export), wanted)
    return 0


def row(entry: Entry) -> str:
    """One line of the table."""
    problem = " ".join(str(value) for value in entry.problem.values())
    choice = " ".join(f"{name}={value}" for name, value in entry.choice.items())
    gain = entry.default_us / entry.us
    return f"{entry.kernel} {problem:40} {entry.us:10.1f} us {gain:5.2f}x the default  {choice}"


def export(where: Device, path: Path, problems: list[tuning_problems.Problem]) -> None:
    """Write what was measured for problems and beats the defaults.

    Args:
        where: the device.
        path: the file; what it holds for other problems stays.
        problems: kernels, each with a problem by name.
    """
    tunings = where.target.tunings
    if tunings.subject is None:
        return
    found = [next((e for own, e in tunings.find(*p) if own), None) for p in problems]
    wins = [e for e in found if e is not None and e.us < (1 - GAIN) * e.default_us]
    try:
        (exported(path) or Database(tunings.subject)).updated(wins).write(path)
    except OSError as error:
        raise _no_tunings(path, error) from error


def exported(path: Path) -> Database | None:
    """What a file holds that tunings are written to; None: it is new, and its folder is there.

    Raises:
        ArgumentError: if it holds something else, or there can be no such file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Database.parse(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError) as error:
        raise _no_tunings(path, error) from error


def _no_tunings(path: Path, error: Exception) -> ArgumentError:
    law = "--export names a file of tunings, or a new one"
    return ArgumentError("tune", law, file=path, error=error)


def _narrow(where: Device, simd_width: int) -> None:
    widest = where.traits.simd_width
    if not 1 <= simd_width <= widest or simd_width & (simd_width - 1):
        raise ArgumentError(
            "tune", f"simd_width is a power of two in [1, {widest}]", simd_width=simd_width
        )
    where.narrow(simd_width)


def _problems(arguments: argparse.Namespace, where: Device) -> Iterator[tuning_problems.Problem]:
    if arguments.net is not None:
        for workload in chosen(arguments.net):
            yield from tuning_problems.of_network(workload, where)
    ops = arguments.op or ("" if arguments.net else ",".join(tuning_problems.OPS))
    for op in ops.split(",") if ops else ():
        yield from tuning_problems.of_op(op, where)


def _keyed(
    problems: Iterator[tuning_problems.Problem],
) -> Iterator[tuple[str, tuning_problems.Problem]]:
    return ((repr(problem), problem) for problem in problems)


def _known(where: Device, kernel: str, problem: dict[str, Any]) -> bool:
    tunable = tuning_problems.TUNABLES[kernel]
    found = where.target.tunings.find(kernel, problem)
    return any(own and tunable.reading(entry) is not None for own, entry in found)


def _left(seconds: float | None, start: float) -> float:
    return SECONDS if seconds is None else seconds - (time.perf_counter() - start)
