"""Python's garbage collector, paused and going on."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

import clnet
from clnet.values import collector
from clnet.values.collector import collecting_what_is_new, nobody_froze, paused_collector


@pytest.fixture
def collecting(nothing_frozen, monkeypatch):
    monkeypatch.setattr(collector._Pause, "believed", 0)
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_the_collector_goes_on_after_an_error(collecting):
    gc.enable()
    try:
        with paused_collector():
            assert not gc.isenabled()
            raise ValueError
    except ValueError:
        assert gc.isenabled()


def test_the_collector_goes_on_after_an_interrupt_at_the_end(collecting, monkeypatch):
    gc.enable()

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), paused_collector():
        patch.setattr(collector, "nobody_froze", interrupted)
    assert gc.isenabled()


def test_the_collector_goes_on_if_the_end_was_not_heard(collecting, monkeypatch):
    """Ctrl-C before the lock was taken: the next pause knows what is owed."""
    gc.enable()

    class Never:
        def __enter__(self):
            raise KeyboardInterrupt

        def __exit__(self, *exc):
            pass

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), paused_collector():
        patch.setattr(collector, "_LOCK", Never())
    with paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(collecting):
    gc.disable()
    with paused_collector():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_what_was_made_meanwhile_is_old_afterwards(collecting):
    gc.enable()
    with paused_collector():
        made = [[] for _ in range(10_000)]
    young = {id(x) for generation in (0, 1) for x in gc.get_objects(generation)}
    assert not young & {id(x) for x in made}
    assert nobody_froze()


def test_what_somebody_froze_stays_frozen(collecting):
    frozen = [[] for _ in range(100)]
    gc.freeze()
    try:
        with paused_collector():
            pass
        seen = {id(x) for x in gc.get_objects()}  # what is frozen is not among them
        assert not seen & {id(x) for x in frozen}
    finally:
        gc.unfreeze()
    assert {id(x) for x in gc.get_objects()} >= {id(x) for x in frozen}


def test_what_is_frozen_is_not_counted_again_and_again(collecting, monkeypatch):
    counted = []

    def count() -> int:
        counted.append(None)
        return 10_000

    monkeypatch.setattr(gc, "get_freeze_count", count)
    assert not any(nobody_froze() for _ in range(1001))
    assert len(counted) == 1
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 0)
    assert nobody_froze()  # it was thawed


class Circle:
    """Garbage that only the collector finds."""

    def __init__(self):
        self.me = self


def test_only_what_is_new_is_looked_through(collecting):
    old = [[] for _ in range(100)]
    before = weakref.ref(Circle())
    with collecting_what_is_new():
        assert before() is None
        assert not {id(x) for x in gc.get_objects()} & {id(x) for x in old}
        new = weakref.ref(Circle())
        gc.collect()
        assert new() is None
    assert nobody_froze()
    assert {id(x) for x in gc.get_objects()} >= {id(x) for x in old}


def test_what_was_thawed_meanwhile_is_no_reason_to_look_through_all(collecting, monkeypatch):
    monkeypatch.setattr(collector._Pause, "believed", 1000)  # as after a count of much
    old = [[] for _ in range(100)]
    with collecting_what_is_new():
        assert not {id(x) for x in gc.get_objects()} & {id(x) for x in old}


def test_what_somebody_froze_stays_frozen_while_others_collect(collecting):
    gc.freeze()
    try:
        with collecting_what_is_new():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.mark.device
def test_a_function_is_traced_without_the_collector(collecting):
    gc.enable()
    seen = []

    def step(x):
        seen.append(gc.isenabled())
        return x + 1

    assert clnet.compile(step)(clnet.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.device
def test_importing_leaves_the_collector_on():
    run = [sys.executable, "-c", "import gc, clnet; print(gc.isenabled())"]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "True\n"
