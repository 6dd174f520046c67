"""Kernels that are known before they are launched, built several at a time.

In processes, because a driver may hold a lock while it compiles: PoCL compiles one work-group
function at a time. :mod:`.builder` is what they run. Where the cache is empty, much will be built
soon: they are started with the device, and load the driver's compiler while Python imports and
makes a model; what that needs is built by one of them, so that this process loads no compiler.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import pyopencl as cl

# A process starts in the time that two or three kernels take.
_FEWEST_EACH = 3
_MOST_PROCESSES = 8  # each takes some 200 MB
_TIMEOUT_S = 60
_FAILURES = (OSError, EOFError, pickle.UnpicklingError)
_Process = subprocess.Popen[bytes]
_PROCESS = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"


class Request(NamedTuple):
    """A program to be built.

    Attributes:
        text: OpenCL C.
        options: build options.
    """

    text: str
    options: tuple[str, ...]


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
        self._idle: deque[_Process] = deque()

    def start(self) -> None:
        """Start the processes; they end by themselves if nothing is asked of them for a minute."""
        if self._most < 2:
            return
        try:
            self._idle.extend([self._process(early=True) for _ in range(self._most)])
        except OSError:
            return  # no room for processes: this one builds
        atexit.register(self._end, os.getpid())

    def _end(self, owner: int) -> None:
        """End what was started and is not used, at the end of the process that started it."""
        while self._idle and os.getpid() == owner:
            process = self._idle.popleft()
            process.kill()
            process.communicate()

    def _process(self, *, early: bool = False) -> _Process:
        """One that waits for requests; the next of those that were started early, if any."""
        while self._idle and not early:
            process = self._idle.popleft()
            if process.poll() is None:
                return process
            process.communicate()
        command = [sys.executable, "-c", _PROCESS, str(Path(__file__).with_name("builder.py"))]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        pickle.dump((*self._place, early), _input(process))
        if early:
            _input(process).flush()
        return process

    def ask(self, request: Request) -> Answer | None:
        """A kernel built by a process that was started early; None: there is none, or it failed."""
        if not self._idle:
            return None
        process = self._process()
        try:
            answer = _answer(process, request)
        except _FAILURES:
            process.kill()
            process.communicate()
            return None
        self._idle.append(process)
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
        with ThreadPoolExecutor(processes) as pool:
            parts = [
                pool.submit(self._serve, requests, waiting, answers, done) for _ in range(processes)
            ]
        for part in parts:
            part.result()
        return answers

    def _serve(
        self,
        requests: Sequence[Request],
        waiting: deque[int],
        answers: list[Answer | None],
        done: Callable[[int], None],
    ) -> None:
        """Have one process build what nobody builds yet, until it fails or nothing is left."""
        try:
            with self._process() as process:
                while waiting:
                    number = waiting.popleft()
                    answer = _answer(process, requests[number])
                    if answer.binary:
                        answers[number] = answer
                        done(1)
        except (*_FAILURES, IndexError):
            return  # who launches the kernel builds it, and tells the user what is wrong


def _input(process: _Process) -> Any:
    return process.stdin


def _answer(process: _Process, request: Request) -> Answer:
    """What a process makes of a request; it is ended if it takes too long."""
    watch = Timer(_TIMEOUT_S, process.kill)
    watch.start()
    try:
        pickle.dump(tuple(request), _input(process))
        _input(process).flush()
        return Answer(*pickle.load(process.stdout))  # pyright: ignore[reportArgumentType] - a pipe
    finally:
        watch.cancel()


def _cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
