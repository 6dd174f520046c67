"""Kernels that are known before they are launched, built several at a time.

In processes, because a driver may hold a lock while it compiles: PoCL compiles one work-group
function at a time. :mod:`.builders` are they. Where the cache is empty, much will be built soon:
they are started with the device, if not before, and load the driver's compiler while Python
imports and makes a model; what that needs is built by one of them, so that this process loads no
compiler. Where that works, one is started, loads the compiler, and makes copies of itself.
"""

from __future__ import annotations

import atexit
import heapq
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain, islice
from queue import SimpleQueue
from threading import Condition
from typing import Any

import pyopencl as cl

from .builders import EARLY, FORKS, Answer, Builder, Line, Request, most_processes, start
from .builtin_functions import POCL

# A process starts in the time that two or three kernels take.
_FEWEST_EACH = 3
# Whether others have built all meanwhile.
_LOOKS_S = 0.02
_FAILURES = (OSError, EOFError, pickle.UnpicklingError)


class Ahead:
    """Builds kernels of a device in processes of their own.

    Args:
        handle: the ``pyopencl.Device``; not a part of another.
        processes: how many there are at most, or None for :func:`.most_processes`.
    """

    def __init__(self, handle: Any, processes: int | None = None) -> None:
        platforms = cl.get_platforms()
        platform = platforms.index(handle.platform)
        self._place = (platform, platforms[platform].get_devices().index(handle))
        self._most = most_processes() if processes is None else processes
        # Its compiler runs in the thread that asks. Others' may need threads that a copy lacks.
        self._copies = FORKS and handle.platform.name == POCL
        self._idle: deque[Builder] = deque()

    def start(self, line: Line | None = None) -> None:
        """Start the processes; they end by themselves if nothing is asked of them for a minute.

        Those that were started before this device was known are taken.

        Args:
            line: in which they open the device; None: all at once.
        """
        if self._most < 2:
            return
        if self._copies:
            self._idle.extend(EARLY.take(self._place))
        try:
            if not self._idle:
                self._idle.extend(self._processes(self._most, early=True, line=line))
        except OSError:
            return  # no room for processes: this one builds
        atexit.register(self._end, os.getpid())

    def _end(self, owner: int) -> None:
        """End what was started and is not used, at the end of the process that started it."""
        while self._idle and os.getpid() == owner:
            builder = self._idle.popleft()
            builder.kill()
            builder.close()

    def _alive(self, count: int) -> list[Builder]:
        """Up to so many that wait for requests: those that were started early, while they last."""
        found: list[Builder] = []
        while len(found) < count:
            try:
                builder = self._idle.popleft()
            except IndexError:  # there is none, or another thread has just taken it
                break
            if builder.alive():
                found.append(builder)
            else:
                builder.close()
        return found

    def _processes(self, count: int, *, early: bool, line: Line | None = None) -> list[Builder]:
        """New ones, of which the first makes the others if it can."""
        if self._copies:
            return start(count - 1, early=early or count > 1, place=self._place)
        asked: Any = {"early": early, "place": self._place, "line": line}
        return [builder for _ in range(count) for builder in start(0, **asked)]

    def ask(self, request: Request) -> Answer | None:
        """A kernel built by a process that was started early; None: there is none, or it failed."""
        found = self._alive(self._most)
        if not found:
            return None
        builder = Builder.soonest(found)
        self._idle.extend(other for other in found if other is not builder)
        try:
            answer = builder.answer(request)
        except _FAILURES:
            builder.kill()
            builder.close()
            return None
        self._idle.append(builder)
        return answer

    @contextmanager
    def begun(
        self, requests: Iterable[Request], wanted: Callable[[int], bool]
    ) -> Iterator[Iterator[tuple[int, Answer]]]:
        """Have kernels built; few are left to be built when they are launched.

        Args:
            requests: what to build; the first are built while the others are asked for, if
                processes wait already. All have been asked for when the body begins.
            wanted: whether a request, by its number, is to be built once there is a process for it.

        Yields:
            The number of a request, and what was built, as they come; not of those that the driver
            refused, or that a process failed with.
        """
        requests = iter(requests)
        first = list(islice(requests, 1))
        builders = self._alive(self._most) if first else []
        early = bool(builders)
        if not early:  # it takes some to be worth starting processes
            first += requests
            count = min(self._most, len(first) // _FEWEST_EACH)
            with suppress(OSError):
                builders = self._processes(count, early=False) if count > 1 else []
        waiting, answers = _Waiting(), SimpleQueue[tuple[int, Answer] | None]()
        with ThreadPoolExecutor(max(len(builders), 1)) as pool:
            for builder in builders:
                pool.submit(self._serve, builder, waiting, answers, wanted, keep=early)
            try:
                for number, request in enumerate(chain(first, requests)):
                    waiting.put(number, request)
                waiting.close()
                yield _until_done(answers, len(builders))
            finally:
                waiting.close(at_once=True)

    def _serve(
        self,
        builder: Builder,
        waiting: _Waiting,
        answers: SimpleQueue[tuple[int, Answer] | None],
        wanted: Callable[[int], bool],
        *,
        keep: bool,
    ) -> None:
        """Have one process build what nobody builds yet, until it fails or nothing is left."""
        try:
            while not builder.opened(_LOOKS_S) and not waiting.is_over():
                pass
            while (found := waiting.take()) is not None:
                number, request = found
                if not wanted(number):
                    continue
                answer = builder.answer(request)
                if answer.binary:
                    answers.put((number, answer))
            if keep:
                self._idle.append(builder)
        except _FAILURES:
            keep = False  # who launches the kernel builds it, and tells the user what is wrong
        finally:
            answers.put(None)
            if not keep:
                builder.close()


class _Waiting:
    """Requests that no process has taken; long texts first: what is left at the end is short."""

    def __init__(self) -> None:
        self._requests: list[tuple[int, int, Request]] = []
        self._open, self._changed = True, Condition()

    def put(self, number: int, request: Request) -> None:
        """One more."""
        with self._changed:
            heapq.heappush(self._requests, (-len(request.text), number, request))
            self._changed.notify()

    def close(self, *, at_once: bool = False) -> None:
        """There are no more, and ``at_once`` those that wait are not built either."""
        with self._changed:
            self._open = False
            if at_once:
                self._requests.clear()
            self._changed.notify_all()

    def is_over(self) -> bool:
        """Whether there is nothing more to be built."""
        return not self._open and not self._requests

    def take(self) -> tuple[int, Request] | None:
        """The next one, once there is one; None: there are no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or not self._open)
            return heapq.heappop(self._requests)[1:] if self._requests else None


def _until_done(
    answers: SimpleQueue[tuple[int, Answer] | None], servers: int
) -> Iterator[tuple[int, Answer]]:
    """What so many threads put, of which each puts None in the end."""
    while servers:
        answer = answers.get()
        if answer is None:
            servers -= 1
        else:
            yield answer
