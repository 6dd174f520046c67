"""Memory that gets its pages from a thread before kernels would fault for each of them.

Where a device's memory is the host's, a buffer has no pages at first: kernels bring them, one fault
for each 4 KiB, which takes longer than to fill them. Python knows roughly how much a plan will need
long before it knows the plan, and a core is idle meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from mmap import PAGESIZE
from threading import Event
from typing import Any

import numpy as np
import pyopencl as cl

_CHUNK = 16 * 2**20  # some 10 ms, for which whoever takes the buffer may have to wait


class Backing:
    """A buffer for somebody who does not know yet how much of it is needed.

    A thread touches its first pages until it is taken; the others cost nothing until they are used.

    Args:
        buffer: the ``pyopencl.Buffer``.
        bytes_of: its bytes as long as the body runs, asked for by the thread; raises pyopencl's
            errors.
        least: how many are needed for sure.
    """

    def __init__(
        self,
        buffer: Any,
        bytes_of: Callable[[Any], AbstractContextManager[np.ndarray]],
        *,
        least: int,
    ) -> None:
        self._buffer, self._bytes_of, self._least = buffer, bytes_of, least
        self._decided = Event()
        thread = ThreadPoolExecutor(1, "clnet pages")
        self._done = thread.submit(self._touch)
        thread.shutdown(wait=False)

    def take(self, nbytes: int) -> Any:
        """The buffer, for somebody who needs so many bytes; None if it does not suit, or is taken.

        Args:
            nbytes: what is needed; what was touched already lies within.
        """
        if self._decided.is_set() or not self._least <= nbytes <= self._buffer.size:
            return None
        self._decided.set()
        try:
            self._done.result()
        except cl.Error:  # the device has no room for it
            return None
        return self._buffer

    def close(self) -> None:
        """Touch no more."""
        self._decided.set()

    def _touch(self) -> None:
        with self._bytes_of(self._buffer) as memory:
            for begin in range(0, self._least, _CHUNK):
                if self._decided.is_set():
                    return
                # NumPy lets other threads of Python go on.
                memory[begin : min(begin + _CHUNK, self._least) : PAGESIZE] = 0
