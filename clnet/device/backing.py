"""Memory that gets its pages from a thread before kernels would fault for each of them.

Where a device's memory is the host's, a buffer has no pages at first: kernels bring them, one fault
for each 4 KiB, which takes longer than to fill them. Python knows roughly how much a plan will need
long before it knows the plan, and a core is idle meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from mmap import PAGESIZE
from threading import Event
from typing import Any

import numpy as np
import pyopencl as cl

from .beside import bytes_of_buffer

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


class Expecting:
    """Pages touched for a buffer that is created later; for devices in the host's memory.

    Args:
        context: the ``pyopencl.Context``.
        device: the ``pyopencl.Device``.
        lock: the device's.
    """

    def __init__(self, context: Any, device: Any, lock: Any) -> None:
        self._context, self._device, self._lock = context, device, lock
        self._backing: Backing | None = None

    def take(self, nbytes: int) -> Any:
        """The buffer that is expected, if it suits; else None."""
        return None if self._backing is None else self._backing.take(nbytes)

    @contextmanager
    def __call__(self, *, least: int, most: int) -> Iterator[None]:
        """Touch pages for a buffer that the body will create.

        Args:
            least: bytes it has at least; they are touched until it is created.
            most: bytes it has at most. The first buffer that lies between gets the pages.
        """
        backing: Backing | None = None
        with self._lock, suppress(cl.Error):  # no room: whoever needs it is told so
            if self._backing is None:  # else another thread expects something
                buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, most)
                bytes_of = partial(bytes_of_buffer, self._context, self._device)
                backing = self._backing = Backing(buffer, bytes_of, least=least)
        try:
            yield
        finally:
            if backing is not None:
                backing.close()
                self._backing = None
