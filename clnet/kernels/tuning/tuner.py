"""The tuner's side that asks: a process measures candidates, and may die of one.

A kernel that faults takes its context along, or its process; so another process measures
(:mod:`.tunables`), and a candidate that it dies of is left out when the next one goes on.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...device import Device, Tunings, opened_devices
from ...device.tunings import Entry
from ...values.record import NamedTuple

_PROCESS = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from clnet.kernels.tunables import serve; serve(sys.argv[2], *map(int, sys.argv[3:]))"
)
SECONDS = 3.0


class Finding(NamedTuple):
    """What was measured for a problem.

    Attributes:
        entry: the winner, or None if not even the default could be measured.
        rejected: candidates that were left out, by their place, each with the reason.
    """

    entry: Entry | None
    rejected: dict[int, str]


class Tuner:
    """Measures problems on a device, in a process of its own that lasts as long as it can.

    Args:
        device: where.
        serving: Python code of the process, which is given the path of clnet, the device's name,
            the number of its threads (0: all) and its SIMD width.
    """

    def __init__(self, device: Device, *, serving: str = _PROCESS) -> None:
        selector, _, threads = device.name.partition("[")
        root = str(Path(__file__).parents[3])
        command = [sys.executable, "-W", "ignore", "-c", serving, root, selector]
        self._command = [
            *command,
            threads.removesuffix("]") or "0",
            str(device.traits.simd_width),
        ]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tune(self, kernel: str, problem: Mapping[str, Any], *, seconds: float = SECONDS) -> Finding:
        """Find the best choice for a problem.

        Args:
            kernel: name of the tunable.
            problem: what is computed, by name.
            seconds: about how long candidates are timed, building them not included.

        Returns:
            What was found.
        """
        rejected: dict[int, str] = {}
        while 0 not in rejected:
            request = {"kernel": kernel, "problem": dict(problem), "seconds": seconds}
            trying = None
            for answer in self._ask(request | {"skip": sorted(rejected)}):
                if "entry" in answer:
                    return Finding(Entry(**answer["entry"]), rejected)
                trying = answer.get("trying", trying)
                if "rejected" in answer:
                    rejected[answer["rejected"]] = answer["reason"]
            status = self.close()
            if trying is None:  # it died before it tried anything
                break
            rejected[trying] = f"the process died (status {status})"
        return Finding(None, rejected)

    def close(self) -> int | None:
        """End the process, if there is one; what it ended with."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return None
        with suppress(BrokenPipeError):  # it died with a request unread
            process.stdin.close()
        status = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return status

    def _ask(self, request: dict[str, Any]) -> Any:
        """The answers to a request, until the process ends or has answered it."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            return
        try:
            print(json.dumps(request), file=stdin, flush=True)
        except BrokenPipeError:
            return
        for line in stdout:
            yield json.loads(line)


def tune_at_first_use(tunings: Tunings, kernel: str, problem: Mapping[str, Any]) -> Entry | None:
    """Measure a problem on the device that tunings belong to, and keep what is found.

    Args:
        tunings: those of an opened device.
        kernel: name of the tunable.
        problem: what is computed, by name.

    Returns:
        What is best, or None where nothing can be measured: on a device that is absent, and in the
        process that measures.
    """
    where = next((d for d in opened_devices() if d.target.tunings is tunings), None)
    if where is None or tunings.path is None:
        return None
    with tunings.lock:  # one question at a time
        if tunings.tuner is None:
            tunings.tuner = Tuner(where)
            atexit.register(tunings.tuner.close)
        entry = tunings.tuner.tune(kernel, problem).entry
        if entry is not None:
            tunings.add([entry])
        return entry
