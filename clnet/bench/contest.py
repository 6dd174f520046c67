"""One contest: a workload on one device with so many threads, checked, then timed in turns."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..device import Device, max_memory_allocated, reset_peak_memory_stats
from ..errors import ArgumentError
from ..profiling import measured_limits, profile
from ..profiling.host_usage import peak_resident_bytes
from .peer import Peer, peer_on
from .side import Ours, Side, Theirs
from .timing import settle
from .workload import Workload

# Bounds on relative differences, times the sensitivity of the workload to rounding: behind 50 batch
# norms PyTorch's own gradients are 2% from those in float64.
_CHECKED_STEPS = 2
_AGREE = 2e-3
_GRADIENTS_AGREE = 1e-2
_NOISE = 1e-4  # of the largest gradient's norm; those that are zero but for rounding have no more
_LEAST_ROUNDS, _MOST_ROUNDS = 5, 51
_TURN_SECONDS = 0.2


@dataclass
class Outcome:
    """What a contest found.

    Attributes:
        workload, title: what was timed.
        device, threads: where; threads are a CPU's compute units, None on others.
        seconds: of our step, the median of many turns.
        turns: seconds of each turn.
        parameters, gflop: of the network and of a step.
        gflops: achieved.
        of_gemm, of_copy: fractions of the device's measured limits: arithmetic, bytes moved.
        kernel_seconds, launches: of a step under the profiler, and its wall seconds there.
        peak_bytes: the most device memory in use in a step that is not the first.
        peak_resident_bytes: of the process before PyTorch came; None where nobody knows.
        first_seconds: of the first step, kernels built or loaded.
        peers: by PyTorch's mode, its median seconds, or why there is none.
        ratios: by mode, the median over the turns of PyTorch's seconds over ours.
        fastest: by mode, PyTorch's fastest turn over ours, for machines that others use, too.
        peer_peak_bytes: by mode, the most device memory in use in PyTorch's step, on a GPU.
    """

    workload: str
    title: str
    device: str
    threads: int | None
    seconds: float
    turns: list[float]
    parameters: int
    gflop: float
    gflops: float
    of_gemm: float
    of_copy: float
    kernel_seconds: float
    profiled_seconds: float
    launches: int
    peak_bytes: int
    peak_resident_bytes: int | None
    first_seconds: float
    peer: str | None = None
    peers: dict[str, float | str] = field(default_factory=dict[str, "float | str"])
    ratios: dict[str, float] = field(default_factory=dict[str, float])
    peer_peak_bytes: dict[str, int] = field(default_factory=dict[str, int])
    fastest: dict[str, float] = field(default_factory=dict[str, float])

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


@dataclass(frozen=True)
class _Seen:
    """What the first steps of a side gave.

    Attributes:
        results: of each step.
        gradients: of the first one.
    """

    results: list[np.ndarray]
    gradients: list[np.ndarray]

    def off(self, results: list[np.ndarray]) -> float:
        """The largest relative difference of results."""
        pairs = zip(self.results, results, strict=True)
        return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)

    def difference(self, other: _Seen) -> float:
        """The largest difference from the other side, as a fraction of what is allowed."""
        errors = [
            float(np.abs(got - wanted).max() / np.abs(wanted).max()) / _AGREE
            for got, wanted in zip(self.results, other.results, strict=True)
        ]
        norms = [float(np.linalg.norm(g)) for g in other.gradients]
        for got, wanted, norm in zip(self.gradients, other.gradients, norms, strict=True):
            allowed = _GRADIENTS_AGREE * norm + _NOISE * max(norms)
            errors.append(float(np.linalg.norm(got - wanted)) / allowed)
        return float(np.max(errors))  # NaN if one is


class _Costs(NamedTuple):
    """What our side needed before anybody timed it; names as in :class:`Outcome`."""

    first_seconds: float
    kernel_seconds: float
    profiled_seconds: float
    launches: int
    moved_bytes: int
    peak_bytes: int
    peak_resident_bytes: int | None

    def reported(self) -> dict[str, Any]:
        """Those that an outcome has."""
        return {k: v for k, v in self._asdict().items() if k != "moved_bytes"}


@dataclass(frozen=True)
class _Entered:
    """Who takes part.

    Attributes:
        sides: those that take turns, by name.
        refused: by PyTorch's mode, why it does not.
        peaks: by mode, the most device memory in use in its step, on a GPU.
    """

    sides: dict[str, Side]
    refused: dict[str, str] = field(default_factory=dict[str, str])
    peaks: dict[str, int] = field(default_factory=dict[str, int])


def run(
    workload: Workload,
    where: Device,
    *,
    threads: int | None = None,
    torch_modes: Sequence[str] = (),
    seconds: float = 20.0,
    compile: bool = True,  # noqa: A002 - the option's name
    recompute: bool | None = None,
) -> Outcome:
    """Check both sides against each other, then time them in turns.

    Args:
        workload: what to time.
        where: our device.
        threads: of it and of PyTorch on a CPU.
        torch_modes: of PyTorch; none: we run alone.
        seconds: about how long a side is timed.
        compile: replay our step.
        recompute: as for :func:`clnet.compile`.

    Returns:
        What was found.

    Raises:
        ArgumentError: if a parameter gets no gradient, if the step is traced more than at first, or
            if PyTorch is asked for and not there.
        ArithmeticError: if the two sides disagree. A mode that does not agree with PyTorch's own
            default either is left out and named.
    """
    limits = measured_limits(where)
    ours = Ours(workload, where, compile=compile, recompute=recompute)
    weights = ours.weights() if torch_modes else []
    seen, costs = _first_steps(ours, keep_gradients=bool(torch_modes))
    peer = _peer(where, threads) if torch_modes else None
    entered = _entered(ours, peer, torch_modes, weights, seen)
    del weights, seen
    traces = ours.traces
    turns = _take_turns(entered.sides, seconds)
    if ours.traces > traces:
        raise ArgumentError(
            f"bench {workload.name}",
            "the step was traced anew while it was timed, so this is not the time of its plan",
            times=ours.traces - traces,
        )
    own = statistics.median(turns["ours"])
    found = {m: statistics.median(turns[m]) for m in torch_modes if m in turns}
    return Outcome(
        workload=workload.name,
        title=workload.title,
        device=where.identity.key,
        threads=threads,
        seconds=own,
        turns=turns["ours"],
        parameters=ours.parameters,
        gflop=workload.gflop,
        gflops=workload.gflop / own,
        of_gemm=workload.gflop / own / limits.gflops,
        of_copy=costs.moved_bytes / own / 1e9 / limits.gbytes,
        **costs.reported(),
        peer=None if peer is None else peer.name,
        peers={m: found.get(m, entered.refused.get(m, "not run")) for m in torch_modes},
        ratios={m: _ratio(turns[m], turns["ours"]) for m in found},
        peer_peak_bytes=entered.peaks,
        fastest={m: min(turns[m]) / min(turns["ours"]) for m in found},
    )


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Their seconds over ours, the median over the turns."""
    return statistics.median(t / o for t, o in zip(theirs, ours, strict=True))


def _first_steps(ours: Ours, *, keep_gradients: bool) -> tuple[_Seen, _Costs]:
    """Take the steps that are checked, then one under the profiler."""
    begin = time.perf_counter()
    results = [_stepped(ours)]
    first = time.perf_counter() - begin
    ours.refuse_dead_parameters()
    gradients = ours.gradients() if keep_gradients else []
    results += [_stepped(ours) for _ in range(_CHECKED_STEPS - 1)]
    reset_peak_memory_stats(ours.where)  # PyTorch's is of a later step, too: see Theirs.peak_bytes
    with profile(ours.where) as observed:
        ours.step()
    costs = _Costs(
        first_seconds=first,
        kernel_seconds=observed.device_seconds,
        profiled_seconds=observed.wall,
        launches=sum(c.kind == "kernel" for c in observed.commands),
        moved_bytes=sum(c.bytes for c in observed.commands),
        peak_bytes=max_memory_allocated(ours.where),
        peak_resident_bytes=peak_resident_bytes(),
    )
    _say(f"{ours.workload.title}: first step {first:.2f} s, kernels {costs.kernel_seconds:.4f} s")
    return _Seen(results, gradients), costs


def _peer(where: Device, threads: int | None) -> Peer:
    peer = peer_on(where, threads)
    if peer is None:
        raise ArgumentError(
            "bench",
            "PyTorch is not installed, or cannot use this device",
            device=where.name,
            remedy="Install clnet[torch]; on an NVIDIA GPU, PyTorch with CUDA",
        )
    return peer


def _entered(
    ours: Ours,
    peer: Peer | None,
    torch_modes: Sequence[str],
    weights: list[np.ndarray],
    seen: _Seen,
) -> _Entered:
    """We, and PyTorch in those of its modes that take part."""
    entered = _Entered({"ours": ours})
    if peer is not None:
        for torch_mode in torch_modes:
            _enter(entered, torch_mode, ours.workload, peer, weights, seen)
    return entered


def _enter(
    entered: _Entered,
    torch_mode: str,
    workload: Workload,
    peer: Peer,
    weights: list[np.ndarray],
    seen: _Seen,
) -> None:
    """Let PyTorch take part in one of its modes, if it agrees; note why not where it cannot."""
    if not Theirs.suits(workload, peer, torch_mode):
        entered.refused[torch_mode] = "makes no difference here"
        return
    held = peer.allocated_bytes()
    try:
        theirs = Theirs(workload, peer, weights, torch_mode)
        answers = [_stepped(theirs)]
        gradients = theirs.gradients() if workload.training else []
        answers += [_stepped(theirs) for _ in range(_CHECKED_STEPS - 1)]
    except (RuntimeError, OSError, ImportError) as error:
        if torch_mode not in ("compile", "reduce-overhead"):
            raise
        # It needs a compiler on the machine, and may fail at that.
        entered.refused[torch_mode] = f"failed: {str(error).splitlines()[0][:120]}"
        return
    error = seen.difference(_Seen(answers, gradients))
    wrong = workload.precision.most_wrong if workload.training else None
    if wrong is not None and not seen.off(answers) <= wrong:
        error = math.inf  # losses hardly feel what gradients do
    if not error <= workload.sensitivity:
        if torch_mode != "default" and "default" in entered.sides:
            # PyTorch's default agrees with us: it is this mode that computes something else.
            entered.refused[torch_mode] = f"failed: off by {error:.2g} times what is allowed"
            return
        raise ArithmeticError(
            f"{workload.name}: results or gradients differ from PyTorch's ({torch_mode}); got "
            f"difference={error:.2g} of what is allowed"
        )
    entered.sides[torch_mode] = theirs
    peak = theirs.peak_bytes()
    if peak:
        entered.peaks[torch_mode] = peak - held


def _stepped(side: Side) -> np.ndarray:
    side.step()
    return side.result()


def _take_turns(sides: dict[str, Side], seconds: float) -> dict[str, list[float]]:
    """Seconds of a step in each turn of each side; a turn is a block of steps."""
    steps: dict[str, int] = {}
    for name, side in sides.items():
        one = _turn(side, 1)
        steps[name] = max(1, int(_TURN_SECONDS / max(one, 1e-6)))
    turns: dict[str, list[float]] = {name: [] for name in sides}
    deadline = time.perf_counter() + seconds * len(sides)
    for number in range(_MOST_ROUNDS):
        for name, side in sides.items():
            turns[name].append(_turn(side, steps[name]))
        if number + 1 >= _LEAST_ROUNDS and time.perf_counter() > deadline:
            break
    return turns


def _turn(side: Side, steps: int) -> float:
    settle()
    if steps > 1:  # wakes the threads that run it; a long step does not notice
        side.step()
        side.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        side.step()
    side.synchronize()
    return (time.perf_counter() - start) / steps


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
