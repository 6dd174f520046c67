"""Large pages under memory that the host copies again and again.

PoCL's buffers have pages of 4 KiB: a copy of 16 MiB that a kernel has just written takes half as
long again as one between NumPy's arrays, which ask for pages of 2 MiB. Asked for before a buffer is
first used they were slower (docs/notes/memory.md): so they are asked for under what is there.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

__all__ = ["LargePages"]

_PAGE_BYTES = 2 * 2**20
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25  # the latter from Linux 6.1 on
# The memory of so many arrays is remembered; of programs that have more nothing is asked again.
_MOST_ARRAYS = 4096


class LargePages:
    """Asks Linux for large pages under arrays that come a second time; elsewhere it does nothing.

    Attributes:
        given: bytes that have got them.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bool] = {}
        self._madvise = _found()
        self.given = 0

    def used(self, host: np.ndarray) -> None:
        """An array of the process's own memory is copied.

        It takes Linux as long as to copy it: once, when it comes the second time.

        Args:
            host: dense, of any size.
        """
        if self._madvise is None or host.nbytes < _PAGE_BYTES:
            return
        place = host.ctypes.data, host.nbytes
        again = self._seen.get(place)
        if again is None and len(self._seen) < _MOST_ARRAYS:
            self._seen[place] = False
        elif again is False:
            self._seen[place] = True
            begin, end = -(-place[0] // _PAGE_BYTES), sum(place) // _PAGE_BYTES
            if end > begin:
                self._ask(begin * _PAGE_BYTES, (end - begin) * _PAGE_BYTES)

    def _ask(self, begin: int, nbytes: int) -> None:
        if self._madvise is None or self._madvise(begin, nbytes, _MADV_HUGEPAGE):
            self._madvise = None  # a Linux without them
        elif not self._madvise(begin, nbytes, _MADV_COLLAPSE):
            self.given += nbytes


def _found() -> Any:
    if sys.platform != "linux":
        return None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return madvise
