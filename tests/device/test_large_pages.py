"""Large pages under what is copied again and again."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np
import pytest

from clnet.device.large_pages import LargePages

MIB = 2**20


def memory(nbytes: int) -> np.ndarray:
    """Of small pages, each touched."""
    found = np.frombuffer(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), "u1")
    found[:] = np.arange(nbytes) % 251
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Linux gives them")
def test_they_come_the_second_time_and_change_no_byte():
    pages, host = LargePages(), memory(9 * MIB)[1:]
    before = host.copy()
    for turn in range(4):
        pages.used(host)
        if turn == 0:
            assert pages.given == 0
    assert (host == before).all()
    if not pages.given:
        pytest.skip("this Linux has none to give: it is older than 6.1, or they are turned off")
    assert pages.given in (6 * MIB, 8 * MIB)  # once, of those that lie within


def test_small_arrays_and_a_linux_without_them_go_on_as_they_are():
    asked: list[Any] = []

    def refuses(*words: int) -> int:
        asked.append(words)
        return -1

    pages, host = LargePages(), np.zeros(8 * MIB, np.uint8)
    pages._madvise = refuses
    for _ in range(3):
        pages.used(host[:MIB])
    assert not asked
    for _ in range(3):
        pages.used(host)
        pages.used(host[4 * MIB + 1 :])  # another one, of which one large page lies within
    assert len(asked) == 1  # then it is not asked again
    assert pages.given == 0
    assert pages._madvise is None
