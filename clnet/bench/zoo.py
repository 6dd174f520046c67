"""Networks of today, trained and asked, beside PyTorch on the same device.

Each network and direction has a process of its own. Both sides begin with the same weights; two
steps are compared by losses (or answers) and gradients, then they are timed in turns. PyTorch's
networks are torchvision's where it has them (left out where it is not installed), else written by
hand. Nothing is dropped, so that losses can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from ..device import DeviceKind, DeviceTraits, device
from ..errors import ArgumentError
from ..profiling.table import aligned, size
from . import chart, zoo_memory
from .imported import through_onnx
from .own_process import Fields, keep, measured
from .precision import PRECISIONS
from .shi2016 import compete
from .side import TORCH_MODES, torch_modes
from .workload import check_counts, check_files, check_seconds, selected
from .zoo_networks import NAMES, OF_TORCHVISION, has_torchvision, workload

_CPU_BATCH, _GPU_BATCH = 4, 64
_RATIOS = ("ratios", "fastest")
_DIRECTIONS = {"training": True, "inference": False}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; ``--help`` lists the options.

    Returns:
        0, or 1 if a network could not be timed.
    """
    options = _parser().parse_args(argv)
    check_counts("bench zoo", options, "batch", "threads")
    check_seconds("bench zoo", options.seconds)
    check_files("bench zoo", options, "results", "chart")
    if options.onnx and options.direction != "inference":
        remedy = "Add --direction inference"
        raise ArgumentError("--onnx", "networks are asked alone", remedy=remedy)
    modes = [] if options.alone else torch_modes(options.torch_mode)
    traits = _traits(options)
    on_cpu = traits.kind is DeviceKind.CPU
    if options.threads is not None and not on_cpu:
        raise ArgumentError("--threads", "threads are a CPU's", kind=traits.kind.value)
    batch = options.batch or (_CPU_BATCH if on_cpu else _GPU_BATCH)
    if options.foretell:
        print(_foretold(options, batch, traits))
        return 0
    common = {
        "device": options.device,
        "threads": (options.threads or traits.compute_units) if on_cpu else None,
        "batch": batch,
        "modes": modes,
        "seconds": options.seconds,
        "compile": not options.no_compile,
        "recompute": None,
        "precision": options.precision,
        "onnx": options.onnx,
    }
    found, failures = [], 0
    for name in _names(options.only, alone=options.alone):
        for direction in _DIRECTIONS if options.direction == "both" else (options.direction,):
            outcome = measured("zoo", {**common, "net": name, "direction": direction})
            if outcome is None:
                failures += 1
                continue
            found.append(outcome)
            keep(outcome, options.results)
    print("\n".join(map(json.dumps, found)) if options.json else report(found, modes))
    if options.chart and found:
        chart.write(found, Path(options.chart))
    return 1 if failures else 0


def report(found: Sequence[Fields], modes: Sequence[str]) -> str:
    """The table: our time, PyTorch's over ours by its modes, peaks, and geometric means.

    Ratios are medians of turns, and those of the fastest turns.

    Args:
        found: outcomes of contests, as JSON has them.
        modes: of PyTorch.
    """
    sides = [head for mode in modes for head in (mode, "fastest")]
    heads = ("ms/batch", *sides, "peak", "of PyTorch's", "launches", "first s", "network")
    parts = [aligned([heads, *(_row(f, modes) for f in found)])]
    for direction in _DIRECTIONS:
        rows = [f for f in found if f["workload"].endswith(direction)]
        for mode in modes:
            timed = [f for f in rows if mode in f["ratios"]]
            means = [geometric_mean(f[key][mode] for f in timed) for key in _RATIOS if timed]
            if timed:
                parts.append(
                    f"{direction}, beside {mode}: geometric mean {means[0]:.2f} of {len(timed)} "
                    f"(of the fastest turns {means[1]:.2f}), "
                    f"least {min(f['ratios'][mode] for f in timed):.2f}"
                )
    for f in found:
        parts += [f"{f['title']}, {m}: {t}" for m, t in f["peers"].items() if isinstance(t, str)]
    return "\n".join(parts)


def worker(job: Fields) -> None:
    """Time one network in this process and tell what was found.

    Args:
        job: as that of :func:`.shi2016.worker`, with ``direction``.
    """
    training = _DIRECTIONS[job["direction"]]
    precision = PRECISIONS[job.get("precision", "fp32")]
    network, batch = job["net"], job["batch"]
    work = workload(network, batch, training=training, precision=precision)
    compete(through_onnx(work) if job.get("onnx") else work, job)


def _traits(options: argparse.Namespace) -> DeviceTraits:
    if options.traits is None:
        return device(options.device).traits
    if not options.foretell or options.device is not None:
        law = "--traits is of a device that is not here, for --foretell alone, without --device"
        raise ArgumentError("bench zoo", law, traits=options.traits)
    return DeviceTraits.from_file(options.traits)


def _foretold(options: argparse.Namespace, batch: int, traits: DeviceTraits) -> str:
    names, parts = _names(options.only, alone=True), list[str]()
    if options.direction != "inference":
        parts.append(zoo_memory.report([zoo_memory.peak(n, batch, traits) for n in names]))
    if options.direction != "training":
        parts.append(zoo_memory.report_asked([zoo_memory.asked(n, batch, traits) for n in names]))
    return "\n\n".join(parts)


def _row(found: Fields, modes: Sequence[str]) -> tuple[str, ...]:
    peaks = found["peer_peak_bytes"].values()
    return (
        f"{found['seconds'] * 1e3:.2f}",
        *(f"{found[key][m]:.2f}" if m in found[key] else "-" for m in modes for key in _RATIOS),
        size(found["peak_bytes"]),
        f"{found['peak_bytes'] / min(peaks):.2f}" if peaks else "-",
        str(found["launches"]),
        f"{found['first_seconds']:.1f}",
        found["title"],
    )


def _names(only: str | None, *, alone: bool) -> list[str]:
    names: list[str] = []
    for text in filter(None, only.split(",")) if only else [""]:  # an end of "vae," is no name
        found = [text] if text in NAMES else selected("bench zoo", NAMES, text)
        names += [n for n in found if n not in names]
    left = [] if alone or has_torchvision() else [n for n in names if n in OF_TORCHVISION]
    if left:
        print(f"torchvision is not installed, left out: {', '.join(left)}", file=sys.stderr)
    rest = [n for n in names if n not in left]
    if not rest:
        raise ArgumentError("bench zoo", "a network is left to be timed", only=only)
    return rest


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clnet bench zoo", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--threads", type=int, help="of a CPU (all)")
    parser.add_argument("--only", help="names, or parts of names, with commas")
    parser.add_argument("--batch", type=int, help="images; fewer texts (4 on a CPU, else 64)")
    parser.add_argument("--seconds", type=float, default=2.0, help="about, a side and figure (2)")
    parser.add_argument("--direction", choices=("both", *_DIRECTIONS), default="both")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="fp32")
    parser.add_argument(
        "--foretell", action="store_true", help="only say what steps need of memory"
    )
    parser.add_argument(
        "--traits", metavar="FILE", help="foretell it of a device by its JSON: clnet devices --json"
    )
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument(
        "--torch-mode", default="default", help=f"with commas, of {', '.join(TORCH_MODES)}; or all"
    )
    parser.add_argument("--no-compile", action="store_true", help="run clnet eagerly")
    parser.add_argument(
        "--onnx", action="store_true", help="ask clnet what it exported to ONNX and read again"
    )
    parser.add_argument("--results", metavar="FILE", help="append each figure as a line of JSON")
    parser.add_argument("--chart", metavar="FILE", help="draw a PNG (needs clnet[plot])")
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of the table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
