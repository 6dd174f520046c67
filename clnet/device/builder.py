"""A process that builds kernels for another: sources come in, binaries go out.

Run as a script, apart from clnet, so that it starts in the time pyopencl takes. What it is asked
and answers is in :mod:`.ahead`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import select
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from threading import Timer
from typing import Any, NoReturn

import pyopencl as cl

_IDLE_S = 60
# Who is in a line waits no longer, lest somebody before it has ended.
_LINE_S = 10


def build(
    context: Any,
    text: str,
    options: Sequence[str],
    replaced: Sequence[tuple[bytes, bytes]] = (),
) -> tuple[bytes, float, float, float]:
    """The binary of a program for a context's only device, and what it took.

    Args:
        context: the ``pyopencl.Context``.
        text: OpenCL C.
        options: build options.
        replaced: as of a :class:`.builders.Request`. The driver keeps what it made of the binary,
            so that it is loaded in no time.

    Returns:
        The binary, empty if the driver refuses the program; seconds of a core for the front end
        and for the binary; seconds without a core.
    """
    begin, used = time.perf_counter(), time.thread_time()
    try:
        program = cl.Program(context, text).build(options=list(options), cache_dir=False)  # pyrefly: ignore[bad-argument-type] - no cache
        parsed = time.thread_time()
        binary: Any = program.get_info(cl.program_info.BINARIES)[0]  # pyrefly: ignore[bad-index] - a list
        if replaced:
            binary = changed(binary, replaced)
            again: Any = cl.Program(context, context.devices, [binary])
            again.build(options=list(options), cache_dir=False)
    except (cl.Error, LookupError):
        # Who asked builds it once more, and tells the user what is wrong.
        return b"", 0.0, 0.0, 0.0
    done = time.thread_time()
    waiting = max(time.perf_counter() - begin - (done - used), 0.0)
    return bytes(binary), parsed - used, done - parsed, waiting


def changed(binary: bytes, replaced: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A binary that is a text, with some of it replaced.

    Args:
        binary: perhaps with zeros behind it.
        replaced: what by what, in regular expressions.

    Raises:
        LookupError: if the first of these is not found.
    """
    text = binary.rstrip(b"\0")
    for number, (pattern, replacement) in enumerate(replaced):
        text, found = re.subn(pattern, replacement, text)
        if not found and number == 0:
            raise LookupError(pattern)
    return text


def serve() -> None:
    """Answer requests on the standard input with binaries until there are no more.

    The first says which device, or of which platform it may be, if that is told later; what to
    build in advance (None: nothing); in which pipes copies of this process answer: loading the
    compiler takes as long as several kernels, and a copy has it; and perhaps the ends of a
    :class:`.builders.Line`: then the first answer is that the device is open. Each process ends if
    it is asked nothing for a minute, this one after its copies.
    """
    warnings.simplefilter("ignore")
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a driver prints is no answer
    place, first, pipes, *line = pickle.load(requests)
    context, guess = None, None
    if isinstance(place, str):
        guess = _first_place(place)
        if guess is not None:
            context = _opened(guess, first, line)
        place = _next(requests)
    if place is None:
        return
    if context is None or place != guess:
        context = _opened(place, first, line)
    if line:
        pickle.dump("open", answers)
        answers.flush()
    while pipes:
        # A copy keeps the pipe that it answers in, and this process those of the next copies.
        own = pipes.pop()
        if os.fork() == 0:
            _be_copy(context, own, (requests, answers, *pipes))
        _close(own)
    _answer(context, requests, answers)
    _outlive_copies()


def _first_place(platform_name: str) -> tuple[int, int] | None:
    """Where a platform of a name is, and that it has a device; None: there is none."""
    names = [platform.name for platform in cl.get_platforms()]
    if platform_name not in names:
        return None
    platform = names.index(platform_name)
    return (platform, 0) if cl.get_platforms()[platform].get_devices() else None


def _opened(place: tuple[int, int], first: Any, line: Sequence[tuple[int, int]]) -> Any:
    """A context of a device, for which something was built if it was to be."""
    platform, device = place
    with _turn(*line[0]) if line else contextlib.nullcontext():
        context = cl.Context([cl.get_platforms()[platform].get_devices()[device]])
    if first is not None:
        build(context, *first)
    return context


@contextlib.contextmanager
def _turn(read: int, write: int) -> Iterator[None]:
    """Wait in a line until it is this process's turn, and let the next one have it then."""
    given, last = select.poll(), time.monotonic() + _LINE_S
    given.register(read, select.POLLIN)
    while given.poll(1000 * max(last - time.monotonic(), 0)):
        with contextlib.suppress(BlockingIOError):  # another was faster
            os.read(read, 1)
            break
    try:
        yield
    finally:
        os.write(write, b"\0")
        _close((read, write))


def _next(messages: Any) -> Any:
    """The next message; None: there are no more. The process ends if it takes a minute."""
    idle = Timer(_IDLE_S, _leave)
    idle.daemon = True
    idle.start()
    try:
        return pickle.load(messages)
    except EOFError:
        return None
    finally:
        idle.cancel()


def _be_copy(context: Any, own: tuple[int, int], others: Iterable[Any]) -> NoReturn:
    """Answer in a pipe of one's own until there are no more requests, and end."""
    try:
        for each in others:
            _close(each)
        with os.fdopen(own[0], "rb") as requests, os.fdopen(own[1], "wb") as answers:
            _answer(context, requests, answers)
    finally:
        os._exit(0)


def _outlive_copies() -> None:
    """Wait for this process's copies, if it has any."""
    with contextlib.suppress(ChildProcessError):
        while hasattr(os, "fork"):
            os.wait()


def _leave() -> None:
    _outlive_copies()
    os._exit(0)


def _close(pipe: Any) -> None:
    """Close a file, or the two descriptors of a pipe."""
    if isinstance(pipe, tuple):
        for end in pipe:
            os.close(end)
    else:
        pipe.close()


def _answer(context: Any, requests: Any, answers: Any) -> None:
    while (request := _next(requests)) is not None:
        pickle.dump(build(context, *request), answers)
        answers.flush()


if __name__ == "__main__":
    serve()
    os._exit(0)  # the driver need not tidy up
