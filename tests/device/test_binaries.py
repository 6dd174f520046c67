"""Binaries of programs are kept at once, or at a process's end where a driver loses places."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

import clnet
from clnet.device import binaries
from clnet.device.binaries import loses_places
from clnet.device.builtin_functions import POCL
from tests.device.test_program import Bench, Source, files, several

pytestmark = pytest.mark.device

VERSION = "OpenCL 3.0 PoCL {}  Linux, Release, RELOC, LLVM 14.0.6"
SCRIPT = """
import clnet
from clnet.device import binaries
clnet.device().programs._loses_places = True
binaries.AT_ONCE = 0
assert clnet.ones(5).tolist() == [1.0] * 5
print(clnet.device().programs.statistics.built, len(binaries._LATE.programs))
"""


@pytest.mark.parametrize(
    ("version", "expected"), [("3.0-rc2", True), ("3.1", True), ("4.0", False), ("10.1", False)]
)
def test_pocl_before_4_loses_places(version, expected):
    text = VERSION.format(version)
    identity = replace(clnet.device().identity, platform=POCL, platform_version=text)
    assert loses_places(identity) is expected
    assert not loses_places(replace(identity, platform="another"))


@pytest.fixture
def late(monkeypatch):
    """What a process puts off that has asked for no binary yet; the test ends it."""
    state = binaries._Late()
    monkeypatch.setattr(binaries, "_LATE", state)
    monkeypatch.setattr(binaries, "AT_ONCE", 2)
    monkeypatch.setattr(binaries.atexit, "register", lambda _: None)
    return state


def test_some_are_kept_at_once_and_the_others_at_the_end(tmp_path, late):
    bench, sources = Bench(tmp_path, loses_places=True), several(5)
    assert [bench.run(s) for s in sources] == [[1.0 + 2 * n] * 3 for n in range(1, 6)]
    assert bench.counts == (5, 0)
    assert len(files(tmp_path)) == 2
    late.ask()
    assert len(files(tmp_path)) == 5
    assert not late.programs
    again = Bench(tmp_path, loses_places=True)
    assert [again.run(s) for s in several(5)] == [[1.0 + 2 * n] * 3 for n in range(1, 6)]
    assert again.counts == (0, 5)


def test_other_drivers_are_asked_at_once(tmp_path, late):
    bench = Bench(tmp_path)
    for source in several(5):
        bench.cache.get(source)
    assert len(files(tmp_path)) == 5
    assert late.taken == 0


def test_a_forked_child_asks_for_nothing(tmp_path, late, monkeypatch):
    late.put_off(None, "key", None)  # neither is touched
    monkeypatch.setattr(binaries.INHERITANCE, "lost", True)
    late.ask()
    assert not late.programs


@pytest.mark.filterwarnings("ignore:Pre-build attribute access")
def test_a_program_that_the_driver_refuses_is_passed_over(tmp_path, late):
    bench = Bench(tmp_path, loses_places=True)
    for source in several(4):
        bench.cache.get(source)
    unbuilt = binaries.cl.Program(clnet.device().queue._context, Source().text())
    late.programs.insert(0, (bench.shelf, "unbuilt", unbuilt))
    late.ask()
    assert len(files(tmp_path)) == 4


def test_a_process_keeps_its_binaries_when_it_ends(tmp_path):
    environment = {**os.environ, "CLNET_CACHE_DIR": str(tmp_path), "CLNET_BUILD_PROCESSES": "0"}
    script = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    built, put_off = map(int, done.stdout.split())
    assert built == put_off > 0
    assert len([p for p in (tmp_path / "kernels").rglob("*") if p.is_file()]) == built
