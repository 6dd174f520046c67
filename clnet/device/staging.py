"""Host memory for what is on its way to a device, so that nobody waits for an upload."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyopencl as cl

from ..values.record import NamedTuple

# As much as uploads may hold of the host's memory; larger arrays are waited for.
MOST_BYTES = 64 * 2**20
_LEAST_BYTES = 64 * 2**10
# Room for so many arrays as large as the largest, the device's and the host's among them.
_ARRAYS = 4
_ALIGNMENT = 64


class _Sent(NamedTuple):
    """Bytes of the ring that a command reads."""

    event: Any
    begin: int
    end: int


class Staging:
    """A ring of bytes: an upload is copied to its end, and leaves room when it is done.

    It grows with the largest upload. Whoever calls it holds the device's lock, from :meth:`place`
    to :meth:`sent`.

    Args:
        allocate: gives so many bytes that the device can read.
    """

    def __init__(self, allocate: Callable[[int], np.ndarray]) -> None:
        self._allocate = allocate
        self._ring: np.ndarray = np.empty(0, np.uint8)
        self._sent: deque[_Sent] = deque()
        self._placed = (0, 0)

    @property
    def pending(self) -> int:
        """How many uploads hold memory."""
        return len(self._sent)

    def place(self, array: np.ndarray) -> np.ndarray:
        """The bytes of a dense array, copied; waits for earlier uploads if they leave no room.

        Args:
            array: of ``MOST_BYTES`` at most.
        """
        nbytes = -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        wanted = min(max(_ARRAYS * nbytes, _LEAST_BYTES), MOST_BYTES)
        if wanted > self._ring.nbytes:
            while self._sent:
                self._forget_oldest()
            self._ring = self._allocate(1 << (wanted - 1).bit_length())
        begin = self._room(nbytes)
        self._placed = begin, begin + nbytes
        copied = self._ring[begin : begin + array.nbytes]
        copied[:] = array.reshape(-1).view(np.uint8)
        return copied

    def sent(self, event: Any) -> None:
        """Keep what was placed last until a command is done."""
        self._sent.append(_Sent(event, *self._placed))

    def forget(self) -> None:
        """Let go of what is done; what other threads have sent meanwhile stays."""
        while self._sent and _done(self._sent[0].event):
            self._sent.popleft()

    def _room(self, nbytes: int) -> int:
        """Where so many bytes are free: behind the last that were sent, or before the first."""
        while self._sent:
            first, last = self._sent[0].begin, self._sent[-1].end
            # They run over the ring's end where the last lie before the first.
            end = first if last <= first else self._ring.nbytes
            if not _done(self._sent[0].event):
                if last + nbytes <= end:
                    return last
                if last > first >= nbytes:
                    return 0
            self._forget_oldest()
        return 0

    def _forget_oldest(self) -> None:
        """Wait for the oldest upload; that it failed is told by whoever waits for the queue."""
        with suppress(cl.RuntimeError):
            self._sent.popleft().event.wait()


def _done(event: Any) -> bool:
    """Whether a command is over: done, or failed."""
    return event.command_execution_status <= cl.command_execution_status.COMPLETE
