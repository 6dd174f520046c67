"""Drawn calls of the whole public surface: ``python -m tests.fuzz.calls --count 10000 --seed 1``.

Each call runs in a worker process. It ends in a result or an error that names the op and what came;
anything else is a finding: an internal error, a crash, a hang, and where PyTorch is installed a
silent difference from it that ``known.py`` does not list.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

from .draw import call, name_of
from .evaluate import CRASH, FINDINGS, HANG, Outcome
from .known import reason
from .surface import surface

SECONDS = 45.0
"""What a call may take; a cold kernel cache and a busy machine are not yet a hang."""
GRAD_EVERY = 4
"""One call of so many is differentiated, too."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """A call and what it ended with.

    Attributes:
        text: the call.
        outcome: what it ended with.
    """

    text: str
    outcome: Outcome

    @property
    def is_finding(self) -> bool:
        """Whether it is to be mended."""
        return self.outcome.kind in FINDINGS and not reason(self.text, self.outcome)


class Worker:
    """A process that evaluates calls, started again after a crash or hang."""

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def ask(self, text: str, *, grad: bool) -> Outcome:
        """What a call ends with."""
        process = self._process or self._start()
        assert process.stdin is not None
        phase = "clnet"
        try:
            process.stdin.write(json.dumps({"text": text, "grad": grad}).encode() + b"\n")
            process.stdin.flush()
            end = time.monotonic() + SECONDS
            while answer := self._line(process, end):
                if "kind" in answer:
                    return Outcome(answer["kind"], answer["detail"])
                phase = answer["phase"]
            kind, detail = CRASH, f"the process ended with {process.wait(10)}"
        except BrokenPipeError:
            kind, detail = CRASH, "the process had ended"
        except subprocess.TimeoutExpired:
            kind, detail = HANG, "the process answers no more and does not end"
        except TimeoutError:
            kind, detail = HANG, f"more than {SECONDS:.0f} s"
        self.close()
        return Outcome(kind, detail) if phase == "clnet" else Outcome("result", "PyTorch " + kind)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.fuzz.worker", *(["--alone"] * self._alone)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONFAULTHANDLER": "", "OMP_NUM_THREADS": "1"},
        )
        self._line(self._process, time.monotonic() + 120)
        return self._process

    def _line(self, process: subprocess.Popen[bytes], end: float) -> dict[str, str]:
        """The next answer; nothing if the process has ended."""
        assert process.stdout is not None
        while b"\n" not in self._read:
            if not select.select([process.stdout], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError
            more = os.read(process.stdout.fileno(), 2**16)
            if not more:
                return {}
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            self._process, self._read = None, b""


def run(texts: Iterable[str], *, jobs: int = 1, alone: bool = False) -> Iterator[Case]:
    """The calls with what they ended with, as they end.

    Args:
        texts: the calls.
        jobs: worker processes.
        alone: without PyTorch.
    """
    source, lock = iter(texts), Lock()

    def serve() -> list[Case]:
        worker, done = Worker(alone=alone), []
        while True:
            with lock:
                batch = list(islice(source, 1))
            if not batch:
                break
            (text,) = batch
            case = Case(text, worker.ask(text, grad=len(text) % GRAD_EVERY == 0))
            if case.is_finding:
                print(f"{case.outcome.kind:9} {text}\n          {case.outcome.detail}", flush=True)
            done.append(case)
            if len(done) % 100 == 0:
                print(f"{len(done)} calls of a worker", file=sys.stderr, flush=True)
        worker.close()
        return done

    with ThreadPoolExecutor(jobs) as pool:
        for found in [pool.submit(serve) for _ in range(jobs)]:
            yield from found.result()


def report(cases: list[Case]) -> int:
    """Print the counts; the number of findings."""
    kinds = Counter(case.outcome.kind for case in cases)
    listed: dict[str, int] = defaultdict(int)
    for case in cases:
        if case.outcome.kind in FINDINGS and (why := reason(case.text, case.outcome)):
            listed[why] += 1
    found = [case for case in cases if case.is_finding]
    drawn = {name_of(case.text) for case in cases} & set(surface())
    print(f"{len(cases)} calls of {len(drawn)} of {len(surface())} names")
    print(", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    for why, count in sorted(listed.items(), key=lambda pair: -pair[1]):
        print(f"  listed {count:5}  {why}")
    counts = Counter(case.outcome.kind for case in found)
    print("findings: " + ", ".join(f"{kind} {counts[kind]}" for kind in FINDINGS))
    return len(found)


def main() -> int:
    """Draw, run and report; 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="how many calls")
    parser.add_argument("--seed", type=int, default=1, help="which row of calls")
    parser.add_argument("--first", type=int, default=0, help="where in the row to begin")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--text", action="append", help="this call, instead of drawn ones")
    parser.add_argument("--log", type=Path, help="a file for every call's outcome")
    given = parser.parse_args()
    row = (call(given.seed, k) for k in range(given.first, given.first + given.count))
    cases = list(run(given.text or row, jobs=given.jobs, alone=given.alone))
    if given.log:
        lines = (f"{c.outcome.kind}\t{c.text}\t{c.outcome.detail}\n" for c in cases)
        given.log.write_text("".join(lines))
    if given.text:
        for case in cases:
            print(f"{case.outcome.kind:9} {case.text}\n          {case.outcome.detail}")
    return int(report(cases) > 0)


if __name__ == "__main__":
    sys.exit(main())
