"""Damaged files of every kind: each gives what was written, or one clear error of clnet's.

``python -m tests.fuzz.files --count 10000 --seed 1`` reports each that does not: an error of
another kind, a crash, a hang, contents that differ where the format has checksums, memory beyond a
bound, a file touched outside the folder. ``--only KIND --case N`` shows one again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import queue
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clnet.data import source
from clnet.errors import ClnetError
from clnet.values.cache import shelf

from .kinds import KINDS, Kind
from .mutate import mutated

CPU_SECONDS = 4.0  # a case may compute so long
WALL_SECONDS = 90.0  # a case may take so long, on a machine that is busy
MEMORY = 300 * 2**20  # bytes a case may add to the peak
ADDRESS_SPACE = 3 * 2**30
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        case: its number.
        kind: of the file.
        how: it was damaged.
        verdict: ``same``, ``error``, ``differs`` (allowed where there are no checksums), or what
            is wrong.
        detail: the error.
    """

    case: int
    kind: str
    how: str
    verdict: str
    detail: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it is a failure."""
        return self.verdict not in ("same", "error", "differs")


def digest(value: Any) -> str:
    """A value as text, arrays by their bytes."""
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"{value.dtype}{value.shape}{content}"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k!r}: {digest(v)}' for k, v in sorted(value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(digest, value))})"
    return repr(value)


class Watchman:
    """Notes what is opened outside a folder; libraries and what the system says may be read."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.outside: list[str] = []
        libraries = (sys.prefix, sys.base_prefix, _ROOT, "/proc", "/dev", "/sys", "/usr", "/etc/ld")
        real = (os.path.realpath(p) for p in libraries)
        self._readable = tuple({*map(str, libraries), *real, *filter(None, sys.path)})
        sys.addaudithook(self._heard)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        if self.folder is None or not args or not isinstance(args[0], str | bytes | os.PathLike):
            return
        if event not in ("open", "os.remove", "os.rename", "os.mkdir", "os.symlink", "os.link"):
            return
        path = os.path.abspath(os.fsdecode(args[0]))
        if path.startswith(self.folder):
            return
        flags = args[2] if event == "open" and isinstance(args[2], int) else os.O_WRONLY
        reading = not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not (reading and path.startswith(self._readable)):
            self.outside.append(f"{event} {path}")


def damage(kind: Kind, folder: Path, rng: random.Random) -> tuple[str, bool]:
    """Damage a valid file; by what, and whether that is what a checksum would not find."""
    path = rng.choice(sorted(p for p in folder.rglob("*") if p.is_file()))
    way = rng.random()
    if way < 0.01:
        path.unlink()
        if rng.random() < 0.5:
            path.mkdir()
        else:
            path.symlink_to(folder / "nowhere")
        return "no file", False
    content = path.read_bytes()
    if kind.inner and way < 0.5:
        how, plain = mutated(rng, gzip.decompress(content))
        if rng.random() < 0.1:
            how, plain = f"{how}+bomb", plain + bytes(2**28 + 2**20)
        path.write_bytes(gzip.compress(plain, 1))
        return f"inside: {how}", True
    how, content = mutated(rng, content)
    path.write_bytes(content)
    return how, False


def run_case(kind: Kind, number: int, seed: int, watchman: Watchman) -> Outcome:
    """Make a file, damage it, read it."""
    rng = random.Random(f"{kind.name} {seed} {number}")
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        files, kept = folder / "files", folder / "cache"
        files.mkdir(mode=0o700)
        source.kept = lambda name: shelf(kept, name)  # what is decoded is kept with the case
        kind.make(files, rng)
        written = digest(kind.read(files))
        shutil.rmtree(kept, ignore_errors=True)
        how, lenient = damage(kind, files, rng)
        before, start = _peak_bytes(afresh=True), time.process_time()
        watchman.folder, watchman.outside = str(folder), []
        try:
            found = digest(kind.read(files))
            absent = kind.name == "kept" and found == "None"
            same = "same" if found == written or absent else "differs"
            allowed = same == "same" or not kind.strict or lenient
            verdict, detail = same if allowed else "SILENTLY DIFFERENT", found[:200]
        except ClnetError as error:
            verdict, detail = "error", str(error)
            if len(detail) > 2000 or "\n" in detail.strip():
                verdict = "UNCLEAR"
        except Exception:
            verdict, detail = "INTERNAL", traceback.format_exc(limit=-4)
        finally:
            watchman.folder = None
        if watchman.outside:
            verdict, detail = "OUTSIDE", str(watchman.outside)
        if time.process_time() - start > CPU_SECONDS:
            verdict, detail = "SLOW", f"{time.process_time() - start:.1f} s"
        if _peak_bytes() - before > MEMORY:
            verdict, detail = "MEMORY", f"{(_peak_bytes() - before) / 2**20:.0f} MiB more"
        return Outcome(number, kind.name, how, verdict, detail.replace(str(folder), "FOLDER"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _peak_bytes(*, afresh: bool = False) -> int:
    """The most memory this process has held, since the last time it was measured afresh."""
    if afresh:  # what was held before would hide what a case takes
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def serve(seed: int, kinds: list[Kind]) -> None:
    """Run the cases whose numbers come in, a line each; print their outcomes."""
    warnings.simplefilter("ignore")
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, hard))
    watchman = Watchman()
    for line in sys.stdin:
        number = int(line)
        outcome = run_case(kinds[number % len(kinds)], number, seed, watchman)
        print(json.dumps(outcome.__dict__), flush=True)


class Worker:
    """A process that runs cases, and may die of them."""

    def __init__(self, seed: int, kinds: list[Kind]) -> None:
        only = ",".join(kind.name for kind in kinds)
        self._command = [sys.executable, "-m", "tests.fuzz.files", "--serve"]
        self._command += ["--seed", str(seed), "--only", only]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._listener = threading.Thread()
        self._ended = False

    def run(self, number: int, kind: Kind) -> Outcome:
        """The outcome of a case."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        print(number, file=process.stdin, flush=True)
        try:
            line = self._lines.get(timeout=WALL_SECONDS)
        except queue.Empty:
            line = ""
        if line:
            return Outcome(**json.loads(line))
        hung = process.poll() is None and not self._ended
        self.close()
        verdict = "HANG" if hung else "CRASH"
        return Outcome(number, kind.name, "?", verdict, f"status {process.returncode}")

    def _start(self) -> None:
        pipe = subprocess.PIPE
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
        self._process = process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT, env=environment
        )
        self._lines, self._ended = queue.Queue(), False
        lines = self._lines

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            self._ended = True
            lines.put("")

        self._listener = threading.Thread(target=listen, daemon=True)
        self._listener.start()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.kill()
            process.wait()
            self._listener.join()
            process.stdin.close()
            assert process.stdout is not None
            process.stdout.close()


def fuzz(count: int, seed: int, kinds: list[Kind], *, first: int = 0) -> Iterator[Outcome]:
    """The outcomes of so many cases."""
    worker = Worker(seed, kinds)
    try:
        for number in range(first, first + count):
            yield worker.run(number, kinds[number % len(kinds)])
    finally:
        worker.close()


def main() -> int:
    """Run cases and print what came of them; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help=f"with commas, of {', '.join(k.name for k in KINDS)}")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [kind.name for kind in KINDS]
    kinds = [kind for kind in KINDS if kind.name in names]
    if options.serve:
        serve(options.seed, kinds)
        return 0
    start = time.perf_counter()
    first, count = (0, options.count) if options.case is None else (options.case, 1)
    outcomes: list[Outcome] = []
    for outcome in fuzz(count, options.seed, kinds, first=first):
        outcomes.append(outcome)
        if outcome.wrong or options.case is not None:
            print(f"{outcome.kind} {outcome.case} ({outcome.how}): {outcome.verdict}")
            print(f"    {outcome.detail.rstrip()}", flush=True)
        if len(outcomes) % 1000 == 0:
            print(f"{len(outcomes)} files", flush=True)
    counts = Counter((o.kind, o.verdict) for o in outcomes)
    for name in names:
        found = ", ".join(f"{n} {v}" for (k, v), n in sorted(counts.items()) if k == name)
        print(f"{name:14} {found}")
    wrong = sum(outcome.wrong for outcome in outcomes)
    seconds = time.perf_counter() - start
    print(f"{len(outcomes)} files, seed {options.seed}: {wrong} wrong, {seconds:.0f} s")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
