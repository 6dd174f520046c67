"""clnet beside tinygrad's OpenCL backend on the same device: a product, and steps of training.

tinygrad runs in a process of its own, and in an environment of its own where ``--python`` says so.
It takes the first platform of the system's OpenCL; ``OCL_ICD_VENDORS`` chooses which that is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..array import Array
from ..device import Device, device
from ..errors import ArgumentError
from ..kernels.gemm import gemm
from . import tinygrad_peer
from .side import Ours
from .timing import seconds, settle
from .workload import WORKLOADS, check_counts

_NETWORKS = ("fashion-cnn", "resnet-50", "resnet-50-64")
_PRODUCTS = {f"gemm-{n}": n for n in (1024, 2048, 4096)}
CASES = (*_PRODUCTS, *_NETWORKS)
_AGREE = 1e-2  # of losses; products agree to rounding
_TURN_SECONDS = 0.2


class _Side(NamedTuple):
    """Our side of a case: what tinygrad starts from, what it must find, and a step."""

    operands: dict[str, np.ndarray]
    results: list[np.ndarray]
    step: Callable[[], object]


class Result(NamedTuple):
    """What a case found.

    Attributes:
        case: its name.
        seconds: of our step, the median of many turns.
        peer_seconds: of tinygrad's.
        ratio: the median over the turns of tinygrad's seconds over ours.
        first_seconds: until tinygrad's third step was done: compiling, mostly.
        peer: tinygrad's device.
    """

    case: str
    seconds: float
    peer_seconds: float
    ratio: float
    first_seconds: float
    peer: str


def measure(case: str, where: Device, python: str, rounds: int) -> Result:
    """Check both sides against each other, then time them in turns.

    Args:
        case: one of ``CASES``.
        where: our device.
        python: the interpreter that has tinygrad.
        rounds: turns.

    Returns:
        What was found.

    Raises:
        ArgumentError: if tinygrad does not run, or runs on another device.
        ArithmeticError: if the two disagree.
    """
    side = _product(_PRODUCTS[case], where) if case in _PRODUCTS else _training(case, where)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "operands.npz"
        with file.open("wb") as stream:
            np.savez(stream, **side.operands)  # pyrefly: ignore[bad-argument-type]
        command = [python, "-P", str(Path(tinygrad_peer.__file__)), case, str(file)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                return _contest(case, where, side, process, rounds)
            except BaseException:
                process.kill()
                raise


def _contest(
    case: str, where: Device, side: _Side, process: subprocess.Popen[str], rounds: int
) -> Result:
    about = _answer(process)
    if where.identity.name not in about["device"]:
        raise ArgumentError(
            "bench tinygrad",
            "tinygrad runs on another device",
            ours=where.identity.name,
            tinygrad=about["device"],
            remedy="Let OCL_ICD_VENDORS name a folder with this platform's .icd file alone",
        )
    for own, other in zip(side.results, about["results"], strict=True):
        own = own.reshape(-1)[:1000]
        error = float(np.abs(own - other).max() / np.abs(own).max())
        if not error < _AGREE:
            raise ArithmeticError(f"{case}: results differ; got relative difference={error:.2g}")
    own_steps = max(1, int(_TURN_SECONDS / seconds(side.step, where)))
    peer_steps = max(1, int(_TURN_SECONDS / _peer_seconds(process, 1)))
    own, others = [], []
    for _ in range(rounds):
        own.append(seconds(side.step, where, own_steps))
        settle()
        others.append(_peer_seconds(process, peer_steps))
    return Result(
        case,
        statistics.median(own),
        statistics.median(others),
        statistics.median(b / a for a, b in zip(own, others, strict=True)),
        about["first_seconds"],
        about["device"],
    )


def _peer_seconds(process: subprocess.Popen[str], steps: int) -> float:
    print(steps, file=process.stdin, flush=True)
    return _answer(process) / steps


def _answer(process: subprocess.Popen[str]) -> Any:
    """The next line of JSON from tinygrad; others are shown."""
    for line in process.stdout or ():
        if line.startswith(tinygrad_peer.MARK):
            return json.loads(line.removeprefix(tinygrad_peer.MARK))
        print(line, end="", file=sys.stderr)
    raise ArgumentError(
        "bench tinygrad",
        "tinygrad does not run",
        exit_code=process.wait(),
        remedy="pip install tinygrad, perhaps in an environment of its own (--python)",
    )


def _product(n: int, where: Device) -> _Side:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    out = Array.from_numpy(np.zeros((n, n), np.float32), where)
    launches = gemm(where.target, out, Array.from_numpy(a, where), Array.from_numpy(b, where))

    def step() -> None:
        for launch in launches:
            where.queue.launch(launch)

    step()
    return _Side({"a": a, "b": b}, [out.numpy()] * tinygrad_peer.CHECKED_STEPS, step)


def _training(name: str, where: Device) -> _Side:
    workload = WORKLOADS[name]
    ours = Ours(workload, where)
    x, y = workload.batch()
    sgd = [workload.sgd.get(key, 0.0) for key in ("lr", "momentum", "weight_decay")]
    operands: dict[str, Any] = {"x": x, "y": y.astype(np.int32), "sgd": np.array(sgd)}
    operands |= {f"p{i}": weights for i, weights in enumerate(ours.weights())}
    results: list[np.ndarray] = []
    for _ in range(tinygrad_peer.CHECKED_STEPS):
        ours.step()
        results.append(ours.result())
    return _Side(operands, results, ours.step)


def main(argv: Sequence[str] | None = None) -> None:
    """Print a table; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench tinygrad", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--case", default="fashion-cnn", help=f"with commas, of {', '.join(CASES)}")
    parser.add_argument("--python", default=sys.executable, help="the interpreter with tinygrad")
    parser.add_argument("--rounds", type=int, default=7, help="turns, of which the median counts")
    parser.add_argument("--json", action="store_true", help="one JSON line for each case")
    options = parser.parse_args(argv)
    check_counts("bench tinygrad", options, "rounds")
    where = device(options.device)
    cases = options.case.split(",")
    unknown = [case for case in cases if case not in CASES]
    if unknown:
        raise ArgumentError("--case", "there is no such case", found=unknown[0], have=[*CASES])
    if not options.json:
        print(f"{'case':14} {'ms':>10} {'tinygrad':>10} {'ratio':>7} {'its first':>10}")
    for case in cases:
        found = measure(case, where, options.python, options.rounds)
        if options.json:
            print(json.dumps({"bench": "tinygrad", **found._asdict()}), flush=True)
            continue
        own, other = (1e3 * s for s in (found.seconds, found.peer_seconds))
        row = f"{case:14} {own:10.3f} {other:10.3f} {found.ratio:7.2f} {found.first_seconds:8.1f} s"
        print(row, flush=True)


if __name__ == "__main__":
    main()
