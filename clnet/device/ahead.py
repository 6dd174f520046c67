"""Kernels that are known before they are launched, built several at a time.

In processes, because a driver may hold a lock while it compiles: PoCL compiles one work-group
function at a time. :mod:`.builder` is what they run. Where the cache is empty, much will be built
soon: they are started with the device, and load the driver's compiler while Python imports and
makes a model; what that needs is built by one of them, so that this process loads no compiler.
Where that works, one is started, loads the compiler, and makes copies of itself.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import pyopencl as cl

from ..values.settings import inherited
from .builtin_functions import POCL, WITHOUT_HEADER
from .linking import linking_less

# A process starts in the time that two or three kernels take.
_FEWEST_EACH = 3
_MOST_PROCESSES = 8  # each takes some 200 MB
_TIMEOUT_S = 60
_FORKS = sys.platform == "linux"
_FAILURES = (OSError, EOFError, pickle.UnpicklingError)
_PROCESS = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


class Request(NamedTuple):
    """A program to be built.

    Attributes:
        text: OpenCL C.
        options: build options.
    """

    text: str
    options: tuple[str, ...]


FIRST = Request(
    "__kernel void nothing(__global int *x) { x[0] = 0; }\n", ("-cl-std=CL1.2", WITHOUT_HEADER)
)
"""A program that any compiler of a header takes."""


class Answer(NamedTuple):
    """A program that was built.

    Attributes:
        binary: empty where the driver refused it.
        front, code: seconds of a core for the front end, and from there to the binary.
        waiting: seconds that the process had no core meanwhile.
    """

    binary: bytes
    front: float
    code: float
    waiting: float


class Builder:
    """A process that waits for requests: one that was started, or a copy that it made of itself.

    Args:
        process: what was started.
        group: the process and its copies, as far as they are not closed; this one is added.
        requests, answers: pipes to it and from it.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], group: set[Builder], requests: Any, answers: Any
    ) -> None:
        self._process = process
        self._group = group
        self._requests, self._answers = requests, answers
        group.add(self)

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def alive(self) -> bool:
        """Whether it may be asked."""
        if self._process.poll() is not None:
            return False
        if not _FORKS:
            return True
        ended = select.poll()  # while nothing is asked, only the end of a pipe can be read
        ended.register(self._answers, select.POLLIN)
        return not ended.poll(0)

    def send(self, message: tuple[Any, ...]) -> None:
        """Write a message to it.

        Raises:
            OSError: if it ended.
        """
        pickle.dump(message, self._requests)
        self._requests.flush()

    def answer(self, request: Request) -> Answer:
        """What it makes of a request; it and its copies are ended if that takes too long.

        Raises:
            OSError, EOFError, pickle.UnpicklingError: if it fails.
        """
        watch = Timer(_TIMEOUT_S, self.kill)
        watch.start()
        try:
            self.send(tuple(request))
            return Answer(*pickle.load(self._answers))
        finally:
            watch.cancel()

    def kill(self) -> None:
        """End it, its copies and what it is a copy of."""
        if _FORKS and self._process.poll() is None:  # it ends after its copies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def close(self) -> None:
        """Ask nothing more: it ends. Who closes the last of a group waits for what was started."""
        with contextlib.suppress(OSError):  # it ended with a request that it never read
            self._requests.close()
        self._answers.close()
        self._group.discard(self)
        if not self._group:
            self._process.wait()


class Ahead:
    """Builds kernels of a device in processes of their own.

    Args:
        handle: the ``pyopencl.Device``; not a part of another.
        processes: how many there are at most, or None for one for each core, but no more than 8.
    """

    def __init__(self, handle: Any, processes: int | None) -> None:
        platforms = cl.get_platforms()
        platform = platforms.index(handle.platform)
        self._place = (platform, platforms[platform].get_devices().index(handle))
        self._most = min(_cores(), _MOST_PROCESSES) if processes is None else processes
        if getattr(sys, "frozen", False) or not sys.executable:  # no Python to run
            self._most = 0
        # Its compiler runs in the thread that asks. Others' may need threads that a copy lacks.
        self._copies = _FORKS and handle.platform.name == POCL
        self._idle: deque[Builder] = deque()

    def start(self) -> None:
        """Start the processes; they end by themselves if nothing is asked of them for a minute."""
        if self._most < 2:
            return
        try:
            self._idle.extend(self._processes(self._most, early=True))
        except OSError:
            return  # no room for processes: this one builds
        atexit.register(self._end, os.getpid())

    def _end(self, owner: int) -> None:
        """End what was started and is not used, at the end of the process that started it."""
        while self._idle and os.getpid() == owner:
            builder = self._idle.popleft()
            builder.kill()
            builder.close()

    def _waiting(self, count: int) -> list[Builder]:
        """Some that wait for requests, of those that were started early as far as they last.

        Raises:
            OSError: if no process can be started.
        """
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
        if len(found) < count:
            found += self._processes(count - len(found), early=False)
        return found

    def _processes(self, count: int, *, early: bool) -> list[Builder]:
        """New ones, of which the first makes the others if it can."""
        if not self._copies:
            return [b for _ in range(count) for b in self._started(0, early=early)]
        return self._started(count - 1, early=early or count > 1)

    def _started(self, copies: int, *, early: bool) -> list[Builder]:
        """One, and copies of it.

        Args:
            copies: how many.
            early: it loads the compiler before it is asked.
        """
        command = [sys.executable, "-c", _PROCESS, str(Path(__file__).with_name("builder.py"))]
        pipes = [(os.pipe(), os.pipe()) for _ in range(copies)]
        theirs = [(requests[0], answers[1]) for requests, answers in pipes]
        ours = [(requests[1], answers[0]) for requests, answers in pipes]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[end for both in theirs for end in both],
                start_new_session=_FORKS,
                env=linking_less(inherited()),
            )
        except OSError:
            _close(ours)
            raise
        finally:
            _close(theirs)
        group: set[Builder] = set()
        builders = [Builder(process, group, process.stdin, process.stdout)]
        builders += [
            Builder(process, group, os.fdopen(requests, "wb"), os.fdopen(answers, "rb"))
            for requests, answers in ours
        ]
        with contextlib.suppress(BrokenPipeError):  # one that ended fails at the first request
            builders[0].send((*self._place, FIRST if early else None, theirs))
        return builders

    def ask(self, request: Request) -> Answer | None:
        """A kernel built by a process that was started early; None: there is none, or it failed."""
        if not self._idle:
            return None
        (builder,) = self._waiting(1)
        try:
            answer = builder.answer(request)
        except _FAILURES:
            builder.kill()
            builder.close()
            return None
        self._idle.append(builder)
        return answer

    def build(
        self, requests: Sequence[Request], done: Callable[[int], None]
    ) -> list[Answer | None]:
        """The binaries of kernels; few are left to be built when they are launched.

        Args:
            requests: what to build.
            done: called with 1 for each that is built, by several threads.

        Returns:
            For each what was built, or None where the driver refused it or a process failed.
        """
        answers: list[Answer | None] = [None] * len(requests)
        fewest = 1 if self._idle else _FEWEST_EACH
        processes = min(self._most, len(requests) // fewest)
        if processes < 2:
            return answers
        # Long texts first: what is left at the end is short.
        order = sorted(range(len(requests)), key=lambda i: len(requests[i].text), reverse=True)
        waiting = deque(order)
        try:
            builders = self._waiting(processes)
        except OSError:
            return answers
        with ThreadPoolExecutor(processes) as pool:
            parts = [
                pool.submit(self._serve, builder, requests, waiting, answers, done)
                for builder in builders
            ]
        for part in parts:
            part.result()
        return answers

    def _serve(
        self,
        builder: Builder,
        requests: Sequence[Request],
        waiting: deque[int],
        answers: list[Answer | None],
        done: Callable[[int], None],
    ) -> None:
        """Have one process build what nobody builds yet, until it fails or nothing is left."""
        try:
            with builder:
                while waiting:
                    number = waiting.popleft()
                    answer = builder.answer(requests[number])
                    if answer.binary:
                        answers[number] = answer
                        done(1)
        except (*_FAILURES, IndexError):
            return  # who launches the kernel builds it, and tells the user what is wrong


def _close(pipes: Sequence[tuple[int, int]]) -> None:
    for end in (end for both in pipes for end in both):
        os.close(end)


def _cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
