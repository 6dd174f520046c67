"""How the command ends otherwise than by an error of its own: signals, and output nobody takes."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_READER_GONE = 141  # as a shell reports SIGPIPE


class Termination:
    """While it is open, SIGTERM does what Ctrl-C does: a training leaves its checkpoint.

    A second one ends the process at once. Where somebody handles it already, or in another thread,
    nothing is changed; children of a fork are ended as ever.

    Attributes:
        came: whether there was one.
    """

    def __init__(self) -> None:
        self.came = False
        self._installed = False

    def __enter__(self) -> Termination:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            with suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGTERM, self._note)
                self._installed = True
        if self._installed and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.__exit__)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._installed:
            with suppress(ValueError):  # a child that another thread forked
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._installed = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        self.__exit__()
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # a shell's job in the background does not hear Ctrl-C
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)


@contextmanager
def output() -> Iterator[None]:
    """What is printed inside is written out at its end, where an error can still be told.

    Letters that the terminal's encoding has not are escaped.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def untaken() -> int | None:
    """The exit code if standard output takes no more, which gets no more then; else None.

    A reader that has gone (``| head``) is no error worth a word.
    """
    if sys.stdout is None:
        return None
    try:
        sys.stdout.flush()
        gone = _reader_is_gone(sys.stdout)  # nothing was left to flush
    except BrokenPipeError:
        gone = True
    except OSError as error:
        _discard(sys.stdout)
        with suppress(OSError):
            print(f"clnet: standard output: {error.strerror}", file=sys.stderr)
        return 1
    if gone:
        _discard(sys.stdout)
    return _READER_GONE if gone else None


def _reader_is_gone(stream: Any) -> bool:
    """Whether a stream is a pipe that nobody reads any more."""
    if not hasattr(select, "poll"):
        return False
    asked = select.poll()
    try:
        asked.register(stream.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _discard(stream: Any) -> None:
    """Send what a stream still holds nowhere, or Python complains once more at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
