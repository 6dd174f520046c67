"""Threads of Python change places often while something is exchanged."""

from __future__ import annotations

import sys
from threading import Lock

__all__ = ["SHORT_TURNS"]

_SECONDS = 1e-4


class _ShortTurns:
    """Counts the exchanges that are under way in this process.

    A thread that launches kernels keeps Python for as long as another may wait for it, 5 ms unless
    told otherwise: more than most exchanges take, which need it a few times each.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._usual = _SECONDS

    def begin(self) -> None:
        """One more is under way."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SECONDS))

    def end(self) -> None:
        """It is done."""
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._usual)


SHORT_TURNS = _ShortTurns()
