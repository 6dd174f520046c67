"""Kept files: whole, by key, nobody else's to write; folders that are full, foreign, absent."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from clnet.values import atomic
from clnet.values import cache as module
from clnet.values.cache import Shelf, objection, private_folder, shelf
from tests.children import ending_soon

pytestmark = pytest.mark.skipif(
    not hasattr(os, "geteuid"), reason="the system has no users and modes of files"
)
ROOT = Path(__file__).parents[1]
NOBODY = 65534
KEY, DATA = "what it is kept for", b"what is kept\0" * 100
OPS = """
import clnet, numpy, warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    x = clnet.tensor(numpy.ones((8, 8), "float32"))
    assert (x @ x + x).relu().softmax(1).sum().item() == 8
told = [str(w.message) for w in told if w.category is RuntimeWarning]
print(len(told), *told, sep="\\n")
"""


@pytest.fixture
def fresh(monkeypatch):
    """What this process knows of caches is forgotten; private folders lie in one of the test's."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        module._cache.cache_clear()
        atomic.sweep.cache_clear()
        yield Path(folder)
    module._cache.cache_clear()


def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files to another user, and mounts")


def kept(folder: Path) -> Path:
    """The only file in a folder."""
    (path,) = (p for p in folder.rglob("*") if p.is_file())
    return path


def told_once(action, match: str):
    """What an action gives that warns once; again it warns no more."""
    with pytest.warns(RuntimeWarning, match=match) as seen:
        result = action()
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        action()
    return result


def test_what_is_kept_is_found_by_its_key(tmp_path, fresh):
    shelf(tmp_path, "a", "b").write(KEY, DATA)
    assert shelf(tmp_path, "a", "b").read(KEY) == DATA
    assert shelf(tmp_path, "a", "b").holds(KEY)
    assert shelf(tmp_path, "a", "b").read(f"{KEY}.") is None
    assert not shelf(tmp_path, "a").holds(KEY)
    shelf(tmp_path, "a", "b").write(KEY, b"")
    assert shelf(tmp_path, "a", "b").read(KEY) == b""


def test_reading_makes_nothing(tmp_path, fresh):
    assert shelf(tmp_path / "cache", "a").read(KEY) is None
    assert not list(tmp_path.iterdir())


def damaged() -> Iterator[tuple[str, bytes]]:
    """Files that differ from a whole one."""
    path = Path(tempfile.mkdtemp()) / "whole"
    path.write_bytes(module._head(b"key", DATA) + DATA)
    whole = path.read_bytes()
    path.unlink()
    path.parent.rmdir()
    for at in range(0, len(whole), 41):
        yield f"bit of byte {at}", whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
        yield f"first {at} bytes", whole[:at]
    yield "longer", whole + b"\0"
    yield "twice", whole * 2
    yield "other key", module._head(b"another", DATA) + DATA
    yield "huge", whole.replace(b" 0000", b" ffff", 1)


@pytest.mark.parametrize("content", [pytest.param(c, id=name) for name, c in damaged()])
def test_what_is_not_whole_is_as_good_as_absent(tmp_path, content):
    (tmp_path / "file").write_bytes(module._head(b"key", DATA) + DATA)
    (tmp_path / "file").chmod(0o600)
    assert module._read(tmp_path / "file", b"key") == DATA
    (tmp_path / "file").write_bytes(content)
    assert module._read(tmp_path / "file", b"key") is None


def test_files_that_change_places_are_not_taken_for_each_other(tmp_path, fresh):
    place = shelf(tmp_path)
    place.write("a", b"of a")
    first = kept(tmp_path)
    place.write("b", b"of b")
    (second,) = {*tmp_path.iterdir()} - {first}
    second.replace(first)
    assert place.read("a") is None
    place.write("a", b"of a")
    assert place.read("a") == b"of a"


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_nobody_else_may_write_whatever_the_umask(tmp_path, fresh, umask):
    before = os.umask(umask)
    try:
        shelf(tmp_path / "cache", "part").write(KEY, DATA)
    finally:
        os.umask(before)
    places = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert len(places) == 3
    assert not [p for p in places if p.stat().st_mode & 0o077]
    assert shelf(tmp_path / "cache", "part").read(KEY) == DATA


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o707])
@pytest.mark.parametrize("part", [".", "part"])
def test_a_folder_that_others_may_write_is_not_used(tmp_path, fresh, mode, part):
    root = tmp_path / "cache"
    shelf(root, "part").write(KEY, b"of somebody")
    (root / part).chmod(mode)
    module._cache.cache_clear()
    place = shelf(root, "part")
    assert told_once(lambda: place.read(KEY), r"may be written by .*clnet-\d+ is used") is None
    before = kept(root).read_bytes()
    place.write(KEY, DATA)
    assert kept(root).read_bytes() == before
    module._cache.cache_clear()
    again = shelf(root, "part")
    assert told_once(lambda: again.read(KEY), "set CLNET_CACHE_DIR to a folder of your own") == DATA
    assert kept(private_folder()).parent.parent == private_folder()


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
def test_a_file_that_others_may_write_is_made_anew(tmp_path, fresh, mode):
    place = shelf(tmp_path)
    place.write(KEY, DATA)
    kept(tmp_path).chmod(mode)
    assert place.read(KEY) is None
    place.write(KEY, DATA)
    assert place.read(KEY) == DATA


def test_a_link_in_the_place_of_a_file_is_made_anew(tmp_path, fresh):
    place = shelf(tmp_path / "cache")
    place.write(KEY, DATA)
    path = kept(tmp_path)
    path.replace(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert place.read(KEY) is None
    place.write(KEY, DATA)
    assert place.read(KEY) == DATA
    assert not path.is_symlink()


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_file_does_not_hang(tmp_path, fresh, kind):
    place = shelf(tmp_path)
    place.write(KEY, DATA)
    path = kept(tmp_path)
    path.unlink()
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    assert place.read(KEY) is None


def test_a_link_to_a_folder_of_the_users_own_is_followed(tmp_path, fresh):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    shelf(tmp_path / "link", "part").write(KEY, DATA)
    assert shelf(tmp_path / "real", "part").read(KEY) == DATA


def test_folders_above_count_too(tmp_path):
    above = tmp_path / "above"
    (above / "cache").mkdir(parents=True, mode=0o700)
    assert objection(above / "cache", above / "cache") is None
    above.chmod(0o777)
    assert "above may be written by everybody" in str(objection(above / "cache", above / "cache"))
    above.chmod(0o1777)  # as /tmp: nobody renames what is another's
    assert objection(above / "cache", above / "cache") is None


def test_the_users_own_group_may_write_above(tmp_path, monkeypatch):
    above = tmp_path / "above"
    (above / "cache").mkdir(parents=True, mode=0o700)
    above.chmod(0o775)
    for own in (True, False):
        monkeypatch.setattr(module, "_own_group", lambda found, own=own: own)
        assert (objection(above / "cache", above / "cache") is None) == own


def test_folders_and_files_of_another_user_are_not_used(tmp_path, fresh):
    as_root()
    place = shelf(tmp_path / "cache", "part")
    place.write(KEY, DATA)
    os.chown(kept(tmp_path), NOBODY, NOBODY)
    assert place.read(KEY) is None
    place.write(KEY, DATA)
    assert place.read(KEY) == DATA
    for name in (".", "part"):
        os.chown(tmp_path / "cache" / name, NOBODY, NOBODY)
        module._cache.cache_clear()
        other = shelf(tmp_path / "cache", "part")
        told_once(lambda other=other: other.read(KEY), f"belongs to user {NOBODY}")
        os.chown(tmp_path / "cache" / name, 0, 0)


@pytest.mark.parametrize("squatted", ["file", "link", "open"])
def test_a_private_folder_that_is_not_private_keeps_nothing(tmp_path, fresh, squatted):
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(0o777)
    private = private_folder()
    if squatted == "file":
        private.write_text("in the way")
    elif squatted == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        private.symlink_to(tmp_path / "target")
    else:
        private.mkdir()
        private.chmod(0o777)
    place = shelf(root)
    told_once(lambda: place.write(KEY, DATA), "no private folder to use instead; nothing is kept")
    assert place.read(KEY) is None
    assert not place.holds(KEY)


@pytest.mark.parametrize("obstacle", ["a file", "a file above", "a dangling link"])
def test_a_folder_that_cannot_be_made_is_told_once(tmp_path, fresh, obstacle):
    root = tmp_path / "cache"
    if obstacle == "a dangling link":
        root.symlink_to(tmp_path / "nowhere" / "at all")
    else:
        root.write_text("in the way")
    place = shelf(root / "below" if obstacle == "a file above" else root, "part")
    told_once(lambda: place.write(KEY, DATA), "^cache: cannot write .*Set|set CLNET_CACHE_DIR")
    assert place.read(KEY) is None


def test_a_folder_that_goes_away_is_made_again(tmp_path, fresh):
    place = shelf(tmp_path / "cache", "part")
    place.write(KEY, DATA)
    kept(tmp_path).unlink()
    (tmp_path / "cache" / "part").rmdir()
    (tmp_path / "cache").rmdir()
    assert place.read(KEY) is None
    place.write(KEY, DATA)
    assert place.read(KEY) == DATA


def test_a_file_that_may_not_grow_is_not_left(tmp_path, fresh):
    """A bound on the size of files: what a full disk or a quota does, for any user."""
    place = shelf(tmp_path / "cache")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        told_once(lambda: place.write(KEY, DATA), "cannot write .*File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list((tmp_path / "cache").iterdir())
    place.write(KEY, DATA)
    assert place.read(KEY) == DATA


@pytest.fixture
def mounted(tmp_path):
    """Mounts a file system of so many KiB, and takes it away again."""
    places: list[Path] = []

    def mount(kibibytes: int, *options: str) -> Path:
        as_root()
        place = tmp_path / f"mount-{len(places)}"
        place.mkdir()
        size = f"size={kibibytes}k,mode=700"
        command = ["mount", "-t", "tmpfs", "-o", ",".join([size, *options]), "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


def run(program: str, **environment: str) -> list[str]:
    """The lines a Python program prints that must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": ending_soon(), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """KiB that the files take which :data:`OPS` leaves in a cache: others on each machine."""
    place = tmp_path_factory.mktemp("wanted") / "cache"
    assert run(OPS, CLNET_CACHE_DIR=str(place)) == ["0"]
    pages = [-(-path.stat().st_size // 4096) for path in place.rglob("*") if path.is_file()]
    assert len(pages) > 2, "there is something to write"
    return 4 * sum(pages)


@pytest.mark.device
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.95])
def test_on_a_full_disk_work_goes_on_and_later_processes_are_sound(mounted, wanted, share):
    place = mounted(max(4, int(share * wanted)))
    count, *told = run(OPS, CLNET_CACHE_DIR=str(place / "cache"))
    assert count == "1"
    assert "cannot write" in told[0]
    assert "No space left" in told[0]
    assert not list(place.rglob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=8m", str(place)], check=True)
    assert run(OPS, CLNET_CACHE_DIR=str(place / "cache")) == ["0"]
    assert run(OPS, CLNET_CACHE_DIR=str(place / "cache")) == ["0"]


@pytest.mark.device
def test_a_cache_that_cannot_be_written_is_read(mounted):
    place = mounted(8192)
    assert run(OPS, CLNET_CACHE_DIR=str(place / "cache")) == ["0"]
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    warm = f"{OPS}\nprint(clnet.device().programs.statistics.built)"
    assert run(warm, CLNET_CACHE_DIR=str(place / "cache")) == ["0", "0"]
    new = f"{OPS.replace('relu()', 'tanh()').replace('== 8', '> 7')}"
    count, *told = run(new, CLNET_CACHE_DIR=str(place / "cache"))
    assert (count, "Read-only file system" in told[0]) == ("1", True)


@pytest.mark.device
def test_a_user_without_a_home_works(tmp_path):
    as_root()
    program = f"import os\nos.setgid(12345); os.setuid(12345)\nos.chdir('/')\n{OPS}"
    absent = dict.fromkeys(("CLNET_CACHE_DIR", "XDG_CACHE_HOME", "CLNET_TUNINGS"), "")
    readable = not [p for p in (ROOT, *ROOT.parents) if not p.stat().st_mode & 0o005]
    if not readable or os.access(Path(sys.prefix).resolve().parent, os.X_OK) is False:
        pytest.skip("the checkout or Python is not everybody's to read")
    (tmp_path / "pocl").mkdir()
    tmp = tempfile.mkdtemp()
    os.chmod(tmp, 0o777)
    probe = "import os; os.setgid(12345); os.setuid(12345); import numpy, pyopencl"
    environment = {**os.environ, "HOME": "/nonexistent", "POCL_CACHE_DIR": tmp, "TMPDIR": tmp}
    if subprocess.run([sys.executable, "-c", probe], env=environment, check=False).returncode:
        pytest.skip("Python's packages are not everybody's to read")
    lines = run(program, HOME="/nonexistent", POCL_CACHE_DIR=tmp, TMPDIR=tmp, **absent)
    assert lines[0] == "1"
    assert "cannot write /nonexistent" in lines[1]


def test_a_home_that_is_no_folder_is_one_warning(tmp_path):
    absent = dict.fromkeys(("CLNET_CACHE_DIR", "XDG_CACHE_HOME", "CLNET_TUNINGS"), "")
    absent["PYOPENCL_NO_CACHE"] = "false"  # what pyopencl takes where nothing is said
    home = tmp_path / "home"
    home.touch()
    count, told = run(OPS, HOME=str(home), POCL_CACHE_DIR=str(tmp_path), **absent)
    assert count == "1"
    assert f"cannot write {home}" in told


def writing(folder: Path) -> subprocess.Popen[str]:
    """A process that stands still in the middle of writing a file."""
    program = (
        "import sys, time; from pathlib import Path; from clnet.values.atomic import replacing\n"
        "with replacing(Path(sys.argv[1], 'file')) as file:\n"
        "    file.write(b'a part'); file.flush(); print('half', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "half\n"
    return process


def partials(folder: Path) -> list[Path]:
    return list(folder.glob("*.partial"))


def test_what_a_killed_process_left_is_swept_and_no_living_ones(tmp_path, fresh):
    dead, alive = writing(tmp_path), writing(tmp_path)
    try:
        assert len(partials(tmp_path)) == 2
        dead.kill()
        dead.wait()
        shelf(tmp_path).write(KEY, DATA)
        (left,) = partials(tmp_path)
        assert left.read_bytes() == b"a part"
        assert shelf(tmp_path).read(KEY) == DATA
    finally:
        for process in (dead, alive):
            process.kill()
            process.communicate()
    atomic.sweep.cache_clear()
    shelf(tmp_path).write(KEY, DATA)
    assert not partials(tmp_path)


def test_files_of_others_are_not_swept(tmp_path, fresh):
    others = [".clnet-1.partial", "clnet-0123456789abcdef.partial", ".other-0123.partial", "a.tmp"]
    for name in others:
        (tmp_path / name).write_text("of others")
    (tmp_path / ".clnet-0123456789abcdef.partial").symlink_to("a.tmp")
    shelf(tmp_path).write(KEY, DATA)
    assert {*others} < {path.name for path in tmp_path.iterdir()}


def test_a_writer_that_was_swept_before_it_took_its_lock_begins_again(tmp_path, monkeypatch):
    real, swept = atomic._LOCKS, []

    class Slow:
        """Lets a sweeper come first."""

        LOCK_EX, LOCK_NB = real.LOCK_EX, real.LOCK_NB

        @staticmethod
        def flock(file, how) -> None:
            if not swept and how == real.LOCK_EX:
                (partial,) = partials(tmp_path)
                swept.append(partial)
                atomic._delete_unlocked(str(partial))
            real.flock(file, how)

    monkeypatch.setattr(atomic, "_LOCKS", Slow)
    with atomic.replacing(tmp_path / "file") as file:
        file.write(DATA)
    assert (tmp_path / "file").read_bytes() == DATA
    assert len(swept) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full device is Linux's")
def test_a_full_disk_is_an_error_that_names_the_file():
    full = Path("/dev/full")
    with pytest.raises(OSError, match="/dev/full"), atomic.replacing(full) as file:
        file.write(DATA)


def test_processes_that_are_killed_at_any_time_leave_nothing_that_hurts(tmp_path, fresh):
    program = (
        "import sys; from pathlib import Path; from clnet.values.cache import shelf\n"
        "place = shelf(Path(sys.argv[1]), 'part'); print('ready', flush=True)\n"
        "while True:\n"
        "    for i in range(20): place.write(str(i), str(i).encode() * 100_000)\n"
    )
    for delay in (0.0, 0.003, 0.011, 0.02, 0.05):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
                stdout=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(delay)
        for process in processes:
            process.kill()
            process.communicate()
        place = Shelf(module.Cache(tmp_path), ("part",), "")
        for i in range(20):
            assert place.read(str(i)) in (None, str(i).encode() * 100_000)
    atomic.sweep.cache_clear()
    shelf(tmp_path, "part").write(KEY, DATA)
    assert not partials(tmp_path / "part")
