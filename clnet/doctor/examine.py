"""Asks a device all cases and trials, in this process or in one of its own that may die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from ..device import Device, Record
from ..device import device as device_of
from .case import Case, Finding, Outcome, ask
from .cases import all_cases
from .trial import Trial, all_trials, attempt

Asked = Case | Trial

_SILENCE_S = 120.0
_MOST_DEATHS = 5
# Of the silence: who computes less waits, who computes more is stuck; in between it is not heard.
_LEAST_SHARE, _MOST_SHARE, _MOST_WAITS = 0.02, 0.5, 5
_PROCESS = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from clnet.doctor.examine import serve; serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])"
)


def everything(only: Collection[str] | None = None) -> list[Asked]:
    """All trials and cases, in order.

    Args:
        only: names of those that are meant; None: all.
    """
    return [one for one in (*all_trials(), *all_cases()) if only is None or one.name in only]


class _Kernels:
    """An observer that keeps the names of kernels that ran."""

    profiling = False

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def command(self, record: Record) -> None:
        """Keep its name."""
        if record.kind == "kernel":
            self.names[record.name] = None


def examine(
    device: Device,
    asked: Sequence[Asked],
    *,
    tell: Callable[[Outcome], None] | None = None,
    enough: Callable[[Outcome], bool] | None = None,
) -> list[Outcome]:
    """Ask a device, in this process; memory that nobody wrote is NaN meanwhile.

    Args:
        device: whose driver is looked at.
        asked: what to ask it.
        tell: called with each outcome.
        enough: says after an outcome whether to stop.

    Returns:
        The outcomes, in order; none of a case whose trait the device does not have.
    """
    outcomes: list[Outcome] = []
    with device.poisoned():
        for one in asked:
            if isinstance(one, Case) and one.needs and not getattr(device.traits, one.needs):
                continue
            outcomes.append(examined(one, device))
            if tell is not None:
                tell(outcomes[-1])
            if enough is not None and enough(outcomes[-1]):
                break
    return outcomes


def examined(one: Asked, device: Device) -> Outcome:
    """A case's or a trial's outcome, with its seconds and kernels."""
    kernels, start = _Kernels(), time.perf_counter()
    with device.queue.observe(kernels):
        outcome = ask(one, device) if isinstance(one, Case) else attempt(one, device)
    # Once more as users have it: an observer has the queue launch in another way.
    if not outcome.findings and isinstance(one, Case):
        again = ask(one, device)
        outcome.findings, outcome.worst = again.findings, max(outcome.worst, again.worst)
    outcome.seconds, outcome.kernels = time.perf_counter() - start, list(kernels.names)
    return outcome


def serve(selector: str, first: int, given: str) -> None:
    """Print outcomes, a line each: what the process does that :func:`examine_apart` starts."""
    device, (only, changes) = device_of(selector), json.loads(given)
    device.first_uses = None  # what is wrong is to be found, not to be left out
    device.leave_out(changes)
    with device.poisoned():
        for place, one in enumerate(everything(only)):
            if place < first:
                continue
            if isinstance(one, Case) and one.needs and not getattr(device.traits, one.needs):
                continue
            print(json.dumps({"begin": place}), flush=True)
            print(json.dumps(asdict(examined(one, device))), flush=True)
    print(json.dumps({"end": True}), flush=True)


def outcome_of(values: dict[str, Any]) -> Outcome:
    """An outcome from what ``asdict`` made of it."""
    outcome = Outcome(**values)
    outcome.findings = [Finding(**finding) for finding in values["findings"]]
    return outcome


def examine_apart(
    selector: str,
    *,
    seconds: float,
    tell: Callable[[Outcome], None] | None = None,
    silence_s: float = _SILENCE_S,
    only: Collection[str] | None = None,
    changes: Mapping[str, Any] | None = None,
    command: Sequence[str] | None = None,
) -> tuple[list[Outcome], list[str]]:
    """Ask a device everything in a process of its own.

    A driver that crashes or hangs takes that process along: it is a finding of the case that was
    asked, and another process goes on behind it.

    Args:
        selector: the device's name.
        seconds: no case is begun after so many.
        tell: called with each outcome.
        silence_s: a case that says nothing for longer hangs, if it was given a processor.
        only: as :func:`everything` takes it.
        changes: traits that the device is to have.
        command: for tests: what is started instead; it is given the device and the first case.

    Returns:
        The outcomes, and the names of cases that were not begun.
    """
    asked, told = everything(only), tell or (lambda outcome: None)
    given = json.dumps([None if only is None else [*only], dict(changes or {})])
    root = str(Path(__file__).parents[2])
    line = [*(command or (sys.executable, "-W", "ignore", "-c", _PROCESS, root)), selector]
    hearing = _Hearing(asked, told, time.perf_counter() + seconds, silence_s)
    while hearing.goes_on:
        with _lines([*line, str(hearing.begun + 1), given]) as (process, lines):
            while hearing.hears(process, lines):
                pass
    return hearing.outcomes, [one.name for one in hearing.left]


@dataclass
class _Hearing:
    """What processes that ask one behind the other have said so far.

    Attributes:
        asked: the cases, in order.
        told: called with each outcome.
        until: when no case is begun any longer, as ``time.perf_counter`` has it.
        silence_s: a case that says nothing for longer hangs, if it was given a processor.
        begun: the last case that was begun.
        is_open: whether it is being asked just now.
        over: whether nothing is to be asked any longer.
    """

    asked: Sequence[Asked]
    told: Callable[[Outcome], None]
    until: float
    silence_s: float
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    begun: int = -1
    is_open: bool = False
    over: bool = False
    deaths: int = 0
    ended: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether a process is to be started for what is left."""
        late = time.perf_counter() > self.until
        return not (self.over or late) and self.begun + 1 < len(self.asked)

    @property
    def left(self) -> Sequence[Asked]:
        """What was not begun."""
        return () if self.ended else self.asked[self.begun + 1 :]

    def hears(self, process: subprocess.Popen[str], lines: SimpleQueue[str]) -> bool:
        """Take in a line; whether there may be another of this process."""
        if not self.is_open and time.perf_counter() >= self.until:
            self.over = True
            return False
        text = self._line(process.pid, lines)
        values = _read(text)
        if "begin" in values:
            self.begun, self.is_open = values["begin"], True
        elif "name" in values:
            self.is_open = False
            self._tell(outcome_of(values))
        elif "end" in values:
            self.over = self.ended = True
        elif not text:  # silence, or the process has ended
            self.begun = min(self.begun + (not self.is_open), len(self.asked) - 1)
            self.is_open = False
            self.deaths += 1
            self.over = self.deaths == _MOST_DEATHS
            one, hung = self.asked[self.begun], text is None
            self._tell(_dead(one, process, hung=hung, silence_s=self.silence_s))
            return False
        return not self.over

    def _line(self, process: int, lines: SimpleQueue[str]) -> str | None:
        """The next line; None: the process hangs.

        One that waits hangs, and one that computes as long as no case does. On a busy machine it
        may be neither: it is given few seconds of a processor, and waited for.
        """
        used = processor_seconds(process)
        for _ in range(_MOST_WAITS):
            with suppress(Empty):
                return lines.get(timeout=self.silence_s)
            share = (processor_seconds(process) - used) / self.silence_s
            if not _LEAST_SHARE < share < _MOST_SHARE:
                break
        return None

    def _tell(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.told(outcome)


def processor_seconds(process: int) -> float:
    """Seconds that a process has computed; 0 where the system does not tell.

    Args:
        process: its number.
    """
    try:
        fields = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        )
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read(text: str | None) -> dict[str, Any]:
    """A line as JSON; {} where it is none, since drivers print what they like."""
    try:
        values = json.loads(text or "null")
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _dead(one: Asked, process: subprocess.Popen[str], *, hung: bool, silence_s: float) -> Outcome:
    if hung:
        law = f"nothing came back for {silence_s:.0f} seconds"
    else:
        law = f"the process ended with {process.wait()}"
    return Outcome(one.name, one.family, [Finding("process", law)])


@contextmanager
def _lines(
    command: Sequence[str],
) -> Iterator[tuple[subprocess.Popen[str], SimpleQueue[str]]]:
    """A process, and the lines it prints as they come; "" is the end. It is ended with the body."""
    lines: SimpleQueue[str] = SimpleQueue()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    )
    output = process.stdout

    def read() -> None:
        for line in output or ():
            if line.strip():
                lines.put(line)
        lines.put("")

    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        yield process, lines
    finally:
        process.kill()
        process.wait()
        thread.join()
        if output is not None:
            output.close()
