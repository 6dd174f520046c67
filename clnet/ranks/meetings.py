"""Ranks of one machine meet: each waits until all have come to a point."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["KEEPS_ORDER", "Meetings", "Wait"]

KEEPS_ORDER = platform.machine().lower() in ("x86_64", "amd64")
"""Whether a rank that sees another's number sees what it has written before; else MPI tells."""

Wait = Callable[[Callable[[], bool]], None]
"""Waits until something is so."""


class Meetings:
    """Ranks of a machine tell each other that they have come to a point, by numbers in memory.

    Args:
        here: the communicator of the machine's ranks.
        lines: of each rank, bytes that all see and it alone writes; 0 at first.
    """

    def __init__(self, here: Any, lines: Sequence[memoryview]) -> None:
        self._here = here
        self._met = [line.cast("q") for line in lines]  # to how many each rank has come

    def come(self) -> Callable[[], bool]:
        """Come to the point, and go on: what this rank has written is seen by who meets it there.

        Returns:
            Whether all have come, each time that it is asked.
        """
        if not KEEPS_ORDER:
            return self._here.Ibarrier().Test
        number = self._met[self._here.rank][0] + 1
        self._met[self._here.rank][0] = number
        late = [m for m in self._met if m[0] < number]

        def met() -> bool:
            while late and late[-1][0] >= number:
                late.pop()
            return not late

        return met

    def meet(self, until: Wait) -> None:
        """Come, and wait for all.

        Args:
            until: waits until something is so.
        """
        until(self.come())
