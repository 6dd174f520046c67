"""Memory that gets its pages from a thread before kernels would fault for each of them.

Where a device's memory is the host's, a buffer has no pages at first: kernels bring them, one fault
for each 4 KiB, which takes as long as to fill them several times. Python knows roughly how much a
plan will need long before it knows the plan, and one core is idle meanwhile.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from concurrent.futures import Future
from mmap import PAGESIZE
from threading import Event, Thread
from typing import Any

import pyopencl as cl

_POPULATE = 23  # MADV_POPULATE_WRITE, since Linux 5.14; it changes nothing that is there
_CHUNK = 8 * 2**20


class Backing:
    """A buffer for somebody who does not know yet how much of it is needed.

    Its pages come in the order of addresses: those that are needed for sure at once, the others
    when it is taken. Without them (an old kernel of Linux) it is a buffer like any other.

    Args:
        buffer: the ``pyopencl.Buffer``, in the host's memory; what has no pages costs nothing.
        address_of: where it lies; asked by the thread. It raises pyopencl's errors.
        least: bytes that are needed for sure.
    """

    def __init__(self, buffer: Any, address_of: Callable[[Any], int], *, least: int) -> None:
        self._buffer, self._address_of = buffer, address_of
        self._least = self._wanted = least
        self._place: Future[int] = Future()
        self._decided = Event()
        Thread(target=self._run, name="clnet pages", daemon=True).start()

    @staticmethod
    def possible() -> bool:
        """Whether this system can bring pages."""
        return sys.platform == "linux"

    def take(self, nbytes: int) -> Any:
        """The buffer, for somebody who needs so many bytes; None if it does not suit.

        Args:
            nbytes: what is needed; what was brought already lies within.
        """
        fits = self._least <= nbytes <= self._buffer.size and not self._decided.is_set()
        if not fits or self._place.exception() is not None:
            return None
        self._wanted = nbytes
        self._decided.set()
        return self._buffer

    def close(self) -> None:
        """Bring no more, unless somebody took it."""
        if not self._decided.is_set():
            self._wanted = 0
            self._decided.set()

    def _run(self) -> None:
        try:
            begin = -(-self._address_of(self._buffer) // PAGESIZE) * PAGESIZE
        except cl.Error as error:  # the device has no room for it
            self._place.set_exception(error)
            return
        self._place.set_result(begin)
        done = self._bring(begin, 0)
        self._decided.wait()
        self._bring(begin, done)

    def _bring(self, begin: int, done: int) -> int:
        """Bring the pages that are wanted so far; what is done."""
        populate = _populate()
        while done < (wanted := self._wanted):
            step = min(_CHUNK, wanted - done)
            if populate(begin + done, step // PAGESIZE * PAGESIZE, _POPULATE):
                break  # this Linux cannot: kernels bring them
            done += step
        return done


def _populate() -> Callable[[int, int, int], int]:
    """``madvise`` of the C library, which lets other threads of Python go on."""
    function = ctypes.CDLL(None).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
