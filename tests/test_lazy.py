"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

import os
import re
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

import clnet
from clnet.values.lazy import lazy


@dataclass(frozen=True)
class Square:
    side: float
    made: list[float]

    @lazy
    def area(self) -> float:
        """Of the square."""
        self.made.append(self.side)
        return self.side**2


def test_a_value_is_made_once_for_each_instance():
    one, two = Square(3.0, []), Square(4.0, [])
    assert (one.area, one.area, two.area) == (9.0, 9.0, 16.0)
    assert (one.made, two.made) == ([3.0], [4.0])
    assert Square.area.__doc__ == "Of the square."


def test_an_error_is_not_kept():
    class Late:
        ready = False

        @lazy
        def value(self) -> int:
            if not self.ready:
                raise ValueError("not yet")
            return 1

    late = Late()
    with pytest.raises(ValueError, match="not yet"):
        _ = late.value
    late.ready = True
    assert late.value == 1


class Slow:
    """Makes its value when it may."""

    begun, may = threading.Event(), threading.Event()

    @lazy
    def value(self) -> list[int]:
        if threading.current_thread() is not threading.main_thread():
            self.begun.set()
            assert self.may.wait(60)
        return [0]


def test_threads_that_come_together_get_one_value():
    slow, found = Slow(), list[list[int]]()
    thread = threading.Thread(target=lambda: found.append(slow.value))
    Slow.begun.clear(), Slow.may.clear()
    thread.start()
    assert Slow.begun.wait(60)
    first = slow.value  # nobody waits for the other thread
    Slow.may.set()
    thread.join(60)
    assert found[0] is first is slow.value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_process_forked_while_a_value_is_made_makes_its_own():
    Slow.begun.clear(), Slow.may.clear()
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    assert Slow.begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it if it waits for ever
        os._exit(Slow().value[0])
    Slow.may.set()
    thread.join(60)
    assert os.waitpid(child, 0)[1] == 0


def test_no_source_uses_the_attribute_with_a_lock():
    for path in Path(str(clnet.__file__)).parent.rglob("*.py"):
        used = re.search(r"(import .*|@(functools\.)?)\bcached_property\b", path.read_text("utf-8"))
        assert used is None, path
