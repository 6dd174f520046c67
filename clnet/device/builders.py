"""Processes that build kernels, as who asks them sees them; :mod:`.builder` is what they run.

Where nothing was ever built, much will be soon: so they start while Python imports clnet, which
takes as long as loading a compiler does. This module is the first of the package, and knows
neither pyopencl nor what devices there are: they load the compiler of PoCL, if they find it, and
are told later which device it is.
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
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any

from ..values.record import NamedTuple
from ..values.settings import SETTINGS, inherited
from .builtin_functions import POCL, WITHOUT_HEADER
from .linking import linking_less

_MOST_PROCESSES = 8  # each takes some 200 MB
_TIMEOUT_S = 60
FORKS = sys.platform == "linux"
"""Whether a process can make copies of itself, and is told when one ends."""
# NumPy's linear algebra, which is not asked there, has a thread for each core that waits busily for
# a first product: 0.08 s of the core on which this process imports meanwhile.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
_PROCESS = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"

Place = tuple[int, int]
"""Which device of which platform, as they are listed."""


class Request(NamedTuple):
    """A program to be built.

    Attributes:
        text: OpenCL C.
        options: build options.
        replaced: what of the binary is replaced by what, in regular expressions, of which the first
            is found; what comes of it is built again.
    """

    text: str
    options: tuple[str, ...]
    replaced: tuple[tuple[bytes, bytes], ...] = ()


FIRST = Request(
    "__kernel void nothing(__global int *x) { x[0] = 0; }\n", ("-cl-std=CL1.2", WITHOUT_HEADER)
)
"""A program that any compiler of a header takes."""


class Line:
    """Processes that open a device one after another, where others open it at all.

    NVIDIA's driver makes one context after another, and of eight that are asked for at once all are
    there at the end; in a line the first can build when an eighth of that time has gone. A pipe of
    bytes: who reads one may open the device, and writes it again behind that. Who tries the device
    (:mod:`.probe`) puts the first bytes there, one where contexts have to wait for each other.
    """

    def __init__(self) -> None:
        self.ends: tuple[int, int] = os.pipe()
        os.set_blocking(self.ends[0], False)  # several may be told of one byte

    def close(self) -> None:
        """Once the processes that are to know of it have begun."""
        _close([self.ends])


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
        opens: whether it says so when it has opened the device.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        group: set[Builder],
        requests: Any,
        answers: Any,
        *,
        opens: bool = False,
    ) -> None:
        self._process = process
        self._opens = opens
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
        # While nothing is asked, only the end of a pipe can be read, or that the device is open.
        return not FORKS or self._opens or not self._can_be_read(0)

    def opened(self, seconds: float) -> bool:
        """Whether it has opened the device, or ended; asked before, it answers then.

        Args:
            seconds: to wait for that.
        """
        if self._opens and self._can_be_read(seconds):
            with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
                pickle.load(self._answers)
            self._opens = False
        return not self._opens

    @staticmethod
    def soonest(builders: Sequence[Builder]) -> Builder:
        """Of some, one that has opened the device, once there is one."""
        for _ in range(2):
            found = next((builder for builder in builders if builder.opened(0)), None)
            if found is not None:
                return found
            said = select.poll()
            for builder in builders:
                said.register(builder._answers, select.POLLIN)
            said.poll(1000 * _TIMEOUT_S)
        return builders[0]

    def _can_be_read(self, seconds: float) -> bool:
        said = select.poll()
        said.register(self._answers, select.POLLIN)
        return bool(said.poll(1000 * seconds))

    def send(self, message: tuple[Any, ...]) -> None:
        """Write a message to it, of types that Python has: clnet is not imported there.

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
            self.opened(_TIMEOUT_S)
            return Answer(*pickle.load(self._answers))
        finally:
            watch.cancel()

    def kill(self) -> None:
        """End it, its copies and what it is a copy of."""
        if FORKS and self._process.poll() is None:  # it ends after its copies
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def place(self, place: Place) -> bool:
        """Tell what was started without a place where it builds; whether it could be told."""
        try:
            self.send(place)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Ask nothing more: it ends. Who closes the last of a group waits for what was started."""
        with contextlib.suppress(OSError):  # it ended with a request that it never read
            self._requests.close()
        self._answers.close()
        self._group.discard(self)
        if not self._group:
            self._process.wait()


def most_processes(limit: int = _MOST_PROCESSES) -> int:
    """How many build at the same time: as many as asked for, or one for each core, up to a limit.

    Processes of one job that are on this machine share the cores.
    """
    if getattr(sys, "frozen", False) or not sys.executable:  # no Python to run
        return 0
    asked = SETTINGS.build_processes
    if asked is not None:
        return asked
    return min(max(_cores() // SETTINGS.ranks_here, 1), limit)


def start(
    copies: int, *, early: bool, place: Place | None, line: Line | None = None
) -> list[Builder]:
    """Start one, which makes copies of itself.

    Args:
        copies: how many.
        early: it loads the compiler before it is asked.
        place: where it builds; None: that of PoCL if there is one, until :meth:`Builder.place`.
        line: in which it opens the device, and says so; None: at once.

    Raises:
        OSError: if no process can be started.
    """
    command = [sys.executable, "-c", _PROCESS, str(Path(__file__).with_name("builder.py"))]
    pipes = [(os.pipe(), os.pipe()) for _ in range(copies)]
    theirs = [(requests[0], answers[1]) for requests, answers in pipes]
    ours = [(requests[1], answers[0]) for requests, answers in pipes]
    ends = [line.ends] if line is not None else []
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[end for both in (*theirs, *ends) for end in both],
            start_new_session=FORKS,
            env={**linking_less(inherited()), **_ONE_THREAD},
        )
    except OSError:
        _close(ours)
        raise
    finally:
        _close(theirs)
    group: set[Builder] = set()
    opens = line is not None
    builders = [Builder(process, group, process.stdin, process.stdout, opens=opens)]
    builders += [
        Builder(process, group, os.fdopen(requests, "wb"), os.fdopen(answers, "rb"))
        for requests, answers in ours
    ]
    with contextlib.suppress(BrokenPipeError):  # one that ended fails at the first request
        builders[0].send((place or POCL, tuple(FIRST) if early else None, theirs, *ends))
    return builders


class Early:
    """Builders that are started while clnet is imported, until a device takes them."""

    def __init__(self) -> None:
        self._builders: list[Builder] = []
        self._owner = os.getpid()

    def start(self) -> None:
        """Start as many as would build together, where nothing was ever built for a device."""
        if not self._are_worth_it() or most_processes() < 2:
            return
        with contextlib.suppress(OSError):  # no room for processes: the device finds out
            self._builders = start(most_processes() - 1, early=True, place=None)
            atexit.register(self.end)

    @staticmethod
    def _are_worth_it() -> bool:
        """Whether a device will soon need them, as far as can be seen before there is one."""
        asked = (SETTINGS.device or POCL).lower()
        if not FORKS or not asked.startswith(("pocl", "cpu", POCL.lower())):
            return False
        # A process of a pool has a parent that has built, or is one of many.
        if getattr(sys.modules.get("multiprocessing.process"), "parent_process", _nobody)():
            return False
        kernels = SETTINGS.cache_dir / "kernels"
        try:
            return not kernels.is_dir() or not any(kernels.iterdir())
        except OSError:
            return False

    def take(self, place: Place) -> list[Builder]:
        """What was started, which builds there from now on; nothing, if it was not or has ended."""
        builders, self._builders = self._builders, []
        if os.getpid() != self._owner or not builders:
            return []
        if builders[0].alive() and builders[0].place(place):
            return builders
        _end(builders)
        return []

    def end(self) -> None:
        """End what no device takes."""
        builders, self._builders = self._builders, []
        if os.getpid() == self._owner:
            _end(builders)


def _end(builders: Sequence[Builder]) -> None:
    for builder in builders:
        builder.kill()
        builder.close()


def _nobody() -> None:
    return None


def _close(pipes: Sequence[tuple[int, int]]) -> None:
    for end in (end for both in pipes for end in both):
        os.close(end)


def _cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


EARLY = Early()
EARLY.start()
