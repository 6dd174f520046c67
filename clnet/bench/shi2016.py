"""Shi et al.'s table once more: seconds per mini-batch of their seven networks, and of some others.

Each network and number of threads has a process of its own, so that a crash costs one figure and
threads are what they are said to be. What was found is appended to a file at once; a run that was
cut off goes on with ``--resume``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ..device import DeviceKind, device
from ..errors import ArgumentError, ClnetError, shortened
from ..profiling.table import aligned, size
from . import chart, contest, paper
from .own_process import Fields, keep, measured, tell
from .side import TORCH_MODES, torch_modes
from .workload import (
    WORKLOADS,
    Workload,
    check_counts,
    check_files,
    check_seconds,
    chosen,
    with_batch,
)

_HEADS = (
    *("s/batch", "GFLOP/s", "of gemm", "of copy", "kernels", "peak", "first s"),
    *("params", "GFLOP", "threads", "network"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; ``--help`` lists the options.

    Returns:
        0, or 1 if a network could not be timed.
    """
    options = _parser().parse_args(argv)
    if options.paper:
        print(_published(options.net))
        return 0
    check_counts("bench shi2016", options, "batch")
    check_seconds("bench shi2016", options.seconds)
    check_files("bench shi2016", options, "results", "chart")
    workloads = [with_batch(workload, options.batch) for workload in chosen(options.net)]
    modes = [] if options.against is None else torch_modes(options.torch_mode)
    columns = _threads(options)
    found = _earlier(Path(options.results)) if options.resume and options.results else []
    failures = 0
    for workload in workloads:
        for threads in columns:
            if any(_same(f, workload.title, threads, modes) for f in found):
                continue
            print(f"{workload.title}, threads {threads or '-'}", file=sys.stderr, flush=True)
            job = {"net": workload.name, "device": options.device, "threads": threads}
            job |= {"modes": modes, "seconds": options.seconds, "compile": not options.no_compile}
            job |= {"recompute": options.recompute, "batch": options.batch}
            outcome = measured("shi2016", job)
            if outcome is None:
                failures += 1
                continue
            found.append(outcome)
            keep(outcome, options.results)
    titles = {w.title for w in workloads}
    shown = [f for f in found if f["title"] in titles and f["threads"] in columns]
    if options.json:
        print("\n".join(json.dumps(f) for f in shown))
    else:
        print(report(shown))
    if options.chart and shown:
        chart.write(shown, Path(options.chart))
    return 1 if failures else 0


def report(found: Sequence[Fields]) -> str:
    """The table of our figures, of PyTorch's and of the paper's, and what is odd in those."""
    parts = [aligned([_HEADS, *map(_row, found)])]
    peers = [f for f in found if f["peers"]]
    if peers:
        names = sorted({f["peer"] for f in found if f["peer"]})
        modes = [m for m in TORCH_MODES if any(m in f["peers"] for f in peers)]
        counted = any(f["peer_peak_bytes"] for f in peers)  # not on a CPU
        heads = tuple(h for m in modes for h in (m, "ratio", *(("peak",) if counted else ())))
        title = f"{'; '.join(names)}: seconds, and over ours (above 1: we are faster)"
        rows = [_peer_row(f, modes, peaks=counted) for f in peers]
        parts.append(title + "\n" + aligned([(*heads, "threads", "network"), *rows]))
    notes = [line for f in found for line in _problems(f)]
    if notes:
        parts.append("\n".join(notes))
    titles = list(dict.fromkeys(f["title"] for f in found))
    published = [
        (", ".join(e.text() for e in paper.beside(f["title"], f["threads"])), f["title"])
        for f in found
    ]
    published = [row for row in dict.fromkeys(published) if row[0]]
    if published:
        heads = ("Shi et al. 2016: with as many threads, of all processors, of all GPUs", "")
        parts.append(aligned([heads, *published]))
    if whole := paper.table({(f["title"], f["threads"]): f["seconds"] for f in found}):
        parts.append(f"{paper.CAPTION}\n{aligned(whole)}")
    parts += _oddities(titles)
    return "\n\n".join(parts)


def _published(names: str | None) -> str:
    """The paper's rows of networks, and what is odd in them."""
    titles = [w.title for w in chosen(names)]
    parts = [f"{paper.CAPTION}\n{aligned(paper.table(nets=titles))}", *_oddities(titles)]
    return "\n\n".join(parts)


def _oddities(titles: Sequence[str]) -> list[str]:
    return [
        *(f"{title}: {text}" for title, text in paper.REMARKS.items() if title in titles),
        *(
            f"{net}, {tool} is not compared: {text}"
            for (net, tool), text in paper.NOT_COMPARABLE.items()
            if net in titles
        ),
    ]


def worker(job: Fields) -> None:
    """Time one network in this process and tell what was found.

    Args:
        job: has ``net``, ``device``, ``threads``, ``modes``, ``seconds``, ``compile``,
            ``recompute`` and ``batch``.
    """
    compete(with_batch(WORKLOADS[job["net"]], job["batch"]), job)


def compete(workload: Workload, wanted: Fields) -> None:
    """Time a network in this process and tell what was found.

    Args:
        workload: the network.
        wanted: the other fields of :func:`worker`'s job.
    """
    threads = wanted["threads"]
    where = device(wanted["device"])
    if threads is not None and where.traits.compute_units != threads:
        where = device(wanted["device"], threads=threads)
    outcome = contest.run(
        workload,
        where,
        threads=threads,
        torch_modes=wanted["modes"],
        seconds=wanted["seconds"],
        compile=wanted["compile"],
        recompute=wanted["recompute"],
    )
    tell(outcome.fields())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench shi2016", description=__doc__)
    parser.add_argument("--net", help=f"with commas, of {', '.join(WORKLOADS)}; or all (the first)")
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", help="of a CPU, with commas (1, 2, 4 ... up to its cores)")
    parser.add_argument("--against", choices=("torch",), help="time PyTorch in the same run")
    parser.add_argument(
        "--torch-mode", default="default", help=f"with commas, of {', '.join(TORCH_MODES)}; or all"
    )
    parser.add_argument("--batch", type=int, help="examples at once (the paper's)")
    parser.add_argument("--seconds", type=float, default=20.0, help="about, a side and figure (20)")
    parser.add_argument("--no-compile", action="store_true", help="run clnet eagerly")
    parser.add_argument(
        "--recompute",
        action=argparse.BooleanOptionalAction,
        help="as for clnet.compile: less memory for a little time",
    )
    parser.add_argument("--results", metavar="FILE", help="append each figure as a line of JSON")
    parser.add_argument("--resume", action="store_true", help="leave out what is in that file")
    parser.add_argument("--chart", metavar="FILE", help="draw a PNG (needs clnet[plot])")
    parser.add_argument(
        "--paper",
        action="store_true",
        help="print the paper's table, all 35 rows, and time nothing",
    )
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of the table")
    return parser


def _threads(options: argparse.Namespace) -> Sequence[int | None]:
    where = device(options.device)
    if where.traits.kind is not DeviceKind.CPU:
        if options.threads is not None:
            raise ArgumentError("--threads", "threads are a CPU's", device=where.name)
        return [None]
    if options.threads is None:
        units = where.traits.compute_units
        return sorted({*_doublings(units), units})
    if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", options.threads) is None:
        law = "threads are numbers from 1 on, with commas"
        raise ArgumentError("--threads", law, found=repr(options.threads))
    return [int(text) for text in options.threads.split(",")]


def _doublings(most: int) -> Iterator[int]:
    threads = 1
    while threads <= most:
        yield threads
        threads *= 2


def _earlier(results: Path) -> list[Fields]:
    if not results.exists():
        return []
    try:
        lines = results.read_text(encoding="utf-8").splitlines()
        found = [asdict(contest.Outcome(**json.loads(line))) for line in lines if line.strip()]
        kinds = get_type_hints(contest.Outcome)
        for fields in found:
            for name, kind in kinds.items():
                if not _fits(fields[name], kind):
                    raise TypeError(f"{name} is {kind}")
            report([fields])  # and what follows from them
    except Exception as error:  # what is wrong with a line shows in many ways
        raise ClnetError(
            str(results),
            "a line of it is not what this benchmark writes as --results",
            error=shortened(error),
        ) from error
    return found


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of a JSON file is of a type; whole numbers are floats, too."""
    inner = get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(v, inner[0]) for v in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(v, inner[1]) for v in value.values())
    return any(isinstance(value, int | float if k is float else k) for k in inner or (kind,))


def _same(found: Fields, title: str, threads: int | None, modes: list[str]) -> bool:
    covered = set(modes) <= set(found["peers"])
    return found["title"] == title and found["threads"] == threads and covered


def _row(found: Fields) -> tuple[str, ...]:
    return (
        f"{found['seconds']:.4f}",
        f"{found['gflops']:.1f}",
        f"{100 * found['of_gemm']:.0f}%",
        f"{100 * found['of_copy']:.0f}%",
        f"{100 * found['kernel_seconds'] / found['profiled_seconds']:.0f}%",
        size(found["peak_bytes"]),
        f"{found['first_seconds']:.2f}",
        f"{found['parameters']:,}",
        f"{found['gflop']:.2f}",
        str(found["threads"] or "-"),
        found["title"],
    )


def _peer_row(found: Fields, modes: Sequence[str], *, peaks: bool) -> tuple[str, ...]:
    cells: list[str] = []
    for torch_mode in modes:
        seconds = found["peers"].get(torch_mode)
        timed = isinstance(seconds, float)
        cells.append(f"{seconds:.4f}" if timed else "-")
        cells.append(f"{found['ratios'][torch_mode]:.2f}" if timed else "-")
        if peaks:
            peak = found["peer_peak_bytes"].get(torch_mode)
            cells.append("-" if peak is None else size(peak))
    return (*cells, str(found["threads"] or "-"), found["title"])


def _problems(found: Fields) -> Iterator[str]:
    for torch_mode, seconds in found["peers"].items():
        if isinstance(seconds, str) and seconds.startswith("failed"):
            yield f"{found['title']}, PyTorch {torch_mode}: {seconds}"


if __name__ == "__main__":
    sys.exit(main())
