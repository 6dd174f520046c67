"""Exchanges of several threads: a replay and others' jobs do not wait for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import clnet
from clnet.ops.machinery.function import host_action
from clnet.ranks.hosted import arrived
from clnet.ranks.traced import record_exchange
from clnet.ranks.work import Runner

SECONDS = 20


class Alone:
    """A group of one process, with a thread for its exchanges."""

    def __init__(self) -> None:
        self.runner = Runner("test")

    def meet(self, job: Callable[[], Any], *, begin: bool = False) -> Any:
        return self.runner.begin(job) if begin else self.runner.do(job)


def both_end(*jobs: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads)


def test_an_exchange_of_another_thread_comes_before_a_replay_or_behind_it(device):
    """It wants the device's lock, which a replay holds while it waits for its own exchange."""
    group: Any = Alone()
    asked, in_replay = threading.Event(), threading.Event()
    done: list[str] = []

    def pause() -> None:
        in_replay.set()
        asked.wait(SECONDS)
        time.sleep(0.1)  # so that the other has begun, if it may

    @clnet.compile
    def step(x):
        y = x * 2
        host_action(pause)
        record_exchange(
            "add", group, [y], lambda given: arrived(given[0]).__iadd__(1), writes=(True,)
        )
        return y

    asked.set()
    assert step(clnet.ones(3)).tolist() == [3, 3, 3]
    for begins in (True, False):
        asked.clear()
        in_replay.clear()

        def replay() -> None:
            assert step(clnet.ones(3)).tolist() == [3, 3, 3]
            done.append("replay")

        def job() -> None:
            with device.lock:
                done.append("job")

        def other(begin: bool = begins) -> None:
            assert in_replay.wait(SECONDS)
            asked.set()
            work = group.meet(job, begin=begin)
            if begin:
                work.wait()

        both_end(replay, other)
    assert sorted(done) == ["job", "job", "replay", "replay"]
    group.runner.close()


def test_who_reserves_waits_for_what_goes_on_and_may_reserve_again():
    runner = Runner("test")
    begun, order = threading.Event(), list[str]()

    def slow() -> None:
        begun.set()
        time.sleep(0.1)
        order.append("elsewhere")

    thread = threading.Thread(target=lambda: runner.do(slow))
    thread.start()
    assert begun.wait(SECONDS)
    with runner.reserve(), runner.reserve():
        order.append("reserved")
        runner.begin(lambda: order.append("own")).wait()
        runner.do(lambda: order.append("own"))
    thread.join()
    both_end(lambda: runner.do(lambda: order.append("later")))
    assert order == ["elsewhere", "reserved", "own", "own", "later"]
    runner.close()
