"""What one process makes others wait for, whatever becomes of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clnet.device.claims import Claims
from clnet.values import atomic
from clnet.values.cache import shelf
from tests.threads import in_threads

pytestmark = pytest.mark.skipif(atomic._LOCKS is None, reason="the system has no locks of files")
ROOT = Path(__file__).parents[1]
HOLDER = """
import json, sys
from pathlib import Path
from clnet.values.cache import shelf
place, key = shelf(Path(sys.argv[1])), json.loads(sys.argv[2])
with place.claimed(key):
    print("claimed", flush=True)
    sys.stdin.readline()
    place.write(key, b"made")
"""
LONG, SHORT = 60, 0.2  # seconds: more than any test takes; less than it would wait


@contextmanager
def holder(folder: Path, key: str = "key") -> Iterator[subprocess.Popen[str]]:
    """A process that makes something until it is told to go on."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), json.dumps(key)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def claims(folder: Path) -> list[Path]:
    return list(folder.glob("*.partial"))


def waited(folder: Path, key: str = "key") -> tuple[bool, bytes | None]:
    """Whether nobody else was making it, and what is kept then."""
    with shelf(folder).claimed(key) as first:
        return first, shelf(folder).read(key)


def test_who_wants_it_waits_and_finds_it(tmp_path):
    with holder(tmp_path) as process:
        assert waited(tmp_path, "another key") == (True, None)
        assert len(claims(tmp_path)) == 1
        threading.Timer(SHORT, os.write, (process.stdin.fileno(), b"go on\n")).start()
        assert waited(tmp_path) == (False, b"made")
    assert not claims(tmp_path)
    assert waited(tmp_path) == (True, b"made")


def test_who_is_killed_is_not_waited_for(tmp_path):
    with holder(tmp_path) as process:
        threading.Timer(SHORT, process.kill).start()
        start = time.monotonic()
        assert waited(tmp_path) == (False, None)
        assert SHORT / 2 < time.monotonic() - start < LONG / 2
    assert not claims(tmp_path)


def test_a_claim_of_the_living_is_not_swept(tmp_path):
    with holder(tmp_path) as process:
        atomic.sweep.cache_clear()
        atomic.sweep(tmp_path)
        assert len(claims(tmp_path)) == 1
        process.kill()
        process.wait()
        assert len(claims(tmp_path)) == 1
        atomic.sweep.cache_clear()
        atomic.sweep(tmp_path)
        assert not claims(tmp_path)


def test_who_is_stopped_is_waited_for_once(tmp_path):
    place = shelf(tmp_path)
    place._patience_s = SHORT
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        for fewest, most in ((SHORT, LONG), (0, SHORT)):
            start = time.monotonic()
            with place.claimed("key") as first:
                assert not first
            assert fewest <= time.monotonic() - start < most
    assert place._patience_s == 0


def test_a_child_that_is_forked_meanwhile_holds_nothing(tmp_path):
    gone, end = os.pipe()
    with shelf(tmp_path).claimed("key"):
        child = os.fork()
        if child == 0:
            os.close(end)
            os.read(gone, 1)  # until this process lets it go
            os._exit(0)
    try:
        with holder(tmp_path):
            assert len(claims(tmp_path)) == 1
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(gone)


def test_threads_of_a_process_do_not_wait_for_each_other(tmp_path):
    """One may hold a lock that the other needs to go on."""
    together = threading.Barrier(3, timeout=LONG)

    def claim(_: int) -> bool:
        with shelf(tmp_path).claimed("key") as first:
            together.wait()
            return first

    start = time.monotonic()
    in_threads(claim, 3)
    assert time.monotonic() - start < LONG / 2
    assert not claims(tmp_path)


def refusing(number: int):
    """Locks of a file system that has none."""

    class Locks:
        LOCK_EX, LOCK_NB = 2, 4

        @staticmethod
        def flock(file, how) -> None:
            raise OSError(number, os.strerror(number))

    return Locks


@pytest.mark.parametrize(
    "locks",
    [None, refusing(errno.ENOLCK), refusing(errno.ENOTSUP)],
    ids=["windows", "none", "unknown"],
)
def test_without_locks_nobody_waits(tmp_path, monkeypatch, locks):
    with holder(tmp_path):
        monkeypatch.setattr(atomic, "_LOCKS", locks)
        start = time.monotonic()
        with shelf(tmp_path).claimed("key") as first, shelf(tmp_path).claimed("other") as second:
            assert first
            assert second
            assert len(claims(tmp_path)) <= 1
        assert time.monotonic() - start < LONG / 2


def test_a_folder_that_is_none_is_no_reason_to_wait(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with atomic.claimed(tmp_path / "file" / "key", seconds=LONG) as first:
        assert first


def test_a_file_system_that_counts_no_names_is_no_reason_to_wait(tmp_path, monkeypatch):
    def without_names(handle: int) -> os.stat_result:
        return os.stat_result([0] * 10)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", without_names)
        with atomic.claimed(tmp_path / "key", seconds=LONG) as first:
            assert first


def test_a_process_builds_of_a_plan_what_no_other_does(tmp_path):
    place, keys = shelf(tmp_path), ["kept", "claimed", "free"]
    place.write("kept", b"made")
    ours = Claims(place, keys)
    with holder(tmp_path, "claimed") as process:
        assert [ours.take(n) for n in range(3)] == [False, False, True]
        assert len(claims(tmp_path)) == 2
        process.kill()
        process.wait()
        assert ours.take(1)
    ours.release(2)
    assert len(claims(tmp_path)) == 1
    ours.close()
    assert not claims(tmp_path)
