"""A short run of the fuzzer of files, and that it sees what it is there to see."""

from __future__ import annotations

import dataclasses
import mmap
import sys
import time
from pathlib import Path

import pytest

from clnet.errors import DataError
from tests.fuzz import files
from tests.fuzz.kinds import KINDS, Kind

if sys.platform == "win32":
    pytest.skip("limits and signals of POSIX", allow_module_level=True)
pytest.importorskip("PIL", reason="images need Pillow, of the extra 'data'")


@pytest.fixture(scope="module")
def worker():
    """One process for all kinds, which take half a second of a core to import."""
    one = files.Worker(15, KINDS)
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damaged_files_give_what_was_written_or_a_clear_error(kind, worker):
    numbers = range(KINDS.index(kind), 30 * len(KINDS), len(KINDS))
    outcomes = [worker.run(number, kind) for number in numbers]
    assert {outcome.kind for outcome in outcomes} == {kind.name}
    assert len(outcomes) == 30
    assert not [outcome for outcome in outcomes if outcome.wrong]
    assert [outcome for outcome in outcomes if outcome.verdict != "differs"] or not kind.strict


@pytest.fixture(scope="module")
def watchman():
    """One for all tests: what hears of events is never taken away again."""
    return files.Watchman()


def planted(read) -> Kind:
    """A kind whose reader is right about whole files."""

    def make(folder: Path, rng) -> None:
        (folder / "a").write_bytes(b"whole")

    def guarded(folder: Path):
        content = (folder / "a").read_bytes() if (folder / "a").is_file() else b""
        return content if content == b"whole" else read(folder, content)

    return Kind("planted", make, guarded)


def refuse(folder: Path, content: bytes) -> None:
    raise DataError("planted", "it is not whole")


def loudly(folder: Path, content: bytes) -> None:
    raise DataError("planted", "x" * 3000)


def outside(folder: Path, content: bytes) -> bytes:
    (folder.parent.parent / "clnet-fuzz-planted").write_bytes(content)
    (folder.parent.parent / "clnet-fuzz-planted").unlink()
    return b"whole"


def passwords(folder: Path, content: bytes) -> bytes:
    Path("/etc/passwd").read_bytes()
    return b"whole"


def busy(folder: Path, content: bytes) -> bytes:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    return b"whole"


def greedy(folder: Path, content: bytes) -> bytes:
    with mmap.mmap(-1, 2**29) as memory:  # malloc may have as much at hand from earlier tests
        for page in range(0, len(memory), mmap.PAGESIZE):
            memory[page] = 1
    return b"whole"


@pytest.mark.parametrize(
    ("read", "verdict"),
    [
        (refuse, "error"),
        (loudly, "UNCLEAR"),
        (lambda folder, content: content, "SILENTLY DIFFERENT"),
        (lambda folder, content: {}["absent"], "INTERNAL"),
        (lambda folder, content: content.decode("ascii") + 1, "INTERNAL"),
        (outside, "OUTSIDE"),
        (passwords, "OUTSIDE"),
        (busy, "SLOW"),
        (greedy, "MEMORY"),
    ],
)
def test_each_fault_is_seen(read, verdict, watchman, monkeypatch):
    if verdict == "SLOW":
        monkeypatch.setattr(files, "CPU_SECONDS", 0.15)
    damaged = [files.run_case(planted(read), n, 0, watchman) for n in range(4)]
    seen = {outcome.verdict for outcome in damaged} - {"same"}
    assert seen == {verdict}


def test_crashes_and_hangs_are_seen_and_the_rest_goes_on(monkeypatch):
    kind = dataclasses.replace(KINDS[0], name="state")
    worker = files.Worker(0, [kind])
    serve = worker._command[:]
    for program, verdict, seconds in (
        ("import os; input(); os.abort()", "CRASH", 20.0),
        ("import time; time.sleep(99)", "HANG", 0.5),
    ):
        monkeypatch.setattr(files, "WALL_SECONDS", seconds)
        worker._command = [sys.executable, "-c", program]
        assert worker.run(0, kind).verdict == verdict
    worker._command = serve
    monkeypatch.setattr(files, "WALL_SECONDS", 90.0)
    assert worker.run(0, kind).verdict in ("same", "error")
    worker.close()


def test_a_case_is_the_same_again():
    kinds = [kind for kind in KINDS if kind.name in ("kept", "idx")]
    assert [*files.fuzz(4, 3, kinds)] == [*files.fuzz(4, 3, kinds)]
