"""Builders that are started while clnet is imported: when, for whom, and that they end."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import clnet
from clnet.device import builders
from clnet.device.ahead import Ahead
from clnet.device.builtin_functions import POCL
from clnet.device.discovery import discover, select
from clnet.values.settings import SETTINGS

module = import_module("clnet.device.device")

pytestmark = [
    pytest.mark.device,
    pytest.mark.skipif(
        clnet.device().identity.platform != POCL or sys.platform != "linux",
        reason="only PoCL's compiler can be copied with its process",
    ),
]

COUNT = """
import clnet
from clnet.device.builders import EARLY
print(len(EARLY._builders), *(b._process.pid for b in EARLY._builders))
"""
USE = f"""{COUNT}
early = list(EARLY._builders)
x = clnet.arange(100, device="DEVICE") * 2.5
assert x.sum().item() == 2.5 * 4950
ahead = x.device.programs._ahead
assert set(ahead._idle) == set(early)
assert not EARLY._builders
assert x.device.programs.statistics.built > 1
"""


def run(script: str, cache: Path, **variables: str) -> list[int]:
    """How many were started, and which processes they are."""
    own = {"CLNET_CACHE_DIR": str(cache), "CLNET_BUILD_PROCESSES": "2", "CLNET_DEVICE": ""}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**os.environ, **own, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [int(word) for word in done.stdout.split()]


def ends(process: int) -> bool:
    """Whether a process is gone, or goes within some seconds."""
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_a_device_takes_what_was_started_and_all_ends_with_the_process(tmp_path):
    count, *processes = run(USE.replace("DEVICE", "pocl"), tmp_path)
    assert count == 2
    assert all(map(ends, processes))
    assert run(COUNT, tmp_path) == [0], "what was built is kept: there is less to build"


def test_it_may_be_another_device_than_was_thought(tmp_path):
    two = {"POCL_DEVICES": "pthread pthread"}
    count, *_ = run(USE.replace("DEVICE", "pocl:1"), tmp_path, **two)
    assert count == 2


def test_without_a_device_all_ends_with_the_process(tmp_path):
    count, *processes = run(COUNT, tmp_path)
    assert count == 2
    assert all(map(ends, processes))


@pytest.mark.parametrize(
    "variables",
    [{"CLNET_BUILD_PROCESSES": "0"}, {"CLNET_BUILD_PROCESSES": "1"}, {"CLNET_DEVICE": "nvidia"}],
    ids=str,
)
def test_none_is_started_that_nobody_would_ask(tmp_path, variables):
    assert run(COUNT, tmp_path, **variables) == [0]


@pytest.mark.parametrize(
    ("gib", "cores", "ranks", "count"),
    [(80, 4, 1, 4), (8, 4, 1, 2), (3, 4, 1, 0), (80, 64, 1, 16), (80, 4, 2, 2), (80, 4, 16, 1)],
)
def test_a_gpu_has_room_for_some_and_ranks_share_the_cores(monkeypatch, gib, cores, ranks, count):
    monkeypatch.setattr(
        builders, "SETTINGS", replace(SETTINGS, build_processes=None, ranks_here=ranks)
    )
    monkeypatch.setattr(builders, "_cores", lambda: cores)
    here = clnet.device()
    card = replace(here.traits, unified_memory=False, global_memory_bytes=gib * 2**30)
    kept = SimpleNamespace(is_empty=lambda: False)
    ahead = module._ahead(select(here.name, discover()), card, kept, None)
    assert (ahead._most if ahead else 0) == count


def test_processes_of_a_pool_start_none(tmp_path):
    path = tmp_path / "pool.py"
    path.write_text("""
from importlib import import_module
from multiprocessing import get_context

def count(module):
    return len(import_module(module).EARLY._builders)

if __name__ == "__main__":
    with get_context("spawn").Pool(1) as pool:
        print(pool.apply(count, ["clnet.device.builders"]))
""")
    done = run(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", tmp_path)
    assert done == [0]


def test_builders_are_told_nothing_for_which_they_would_import_clnet(monkeypatch):
    sent: list[bytes] = []
    send = builders.Builder.send
    monkeypatch.setattr(
        builders.Builder, "send", lambda self, m: (sent.append(pickle.dumps(m)), send(self, m))
    )
    (builder,) = builders.start(0, early=True, place=None)
    assert builder.place((0, 0))
    assert builder.answer(builders.FIRST).binary
    builder.close()
    assert len(sent) == 3
    assert not any(b"clnet" in message for message in sent)


def test_who_waits_in_a_line_opens_the_device_after_another():
    line = builders.Line()
    read, write = line.ends
    started = [b for _ in range(2) for b in builders.start(0, early=False, place=(0, 0), line=line)]
    assert not any(builder.opened(1) for builder in started)  # none may begin
    assert all(builder.alive() for builder in started)
    os.write(write, b"\0")  # one, and then another
    assert builders.Builder.soonest(started) in started
    assert all(builder.opened(60) for builder in started)
    assert os.read(read, 9) == b"\0"
    assert all(builder.alive() and builder.answer(builders.FIRST).binary for builder in started)
    for builder in started:
        builder.close()
    line.close()


def test_what_is_to_be_built_is_built_by_who_has_opened_the_device():
    """The other one never opens it: nobody says so, and nothing waits for it."""
    (here,) = builders.start(0, early=False, place=(0, 0))
    line = builders.Line()
    (never,) = builders.start(0, early=False, place=(0, 0), line=line)
    ahead = Ahead(clnet.device()._found.handle, 2)
    ahead._idle.extend([never, here])
    assert ahead.ask(builders.FIRST).binary
    with ahead.begun([builders.FIRST] * 3, lambda _: True) as built:
        assert sorted(number for number, answer in built if answer.binary) == [0, 1, 2]
    assert set(ahead._idle) == {never, here}
    assert never._opens
    never.kill()
    for builder in (never, here):
        builder.close()
    line.close()
