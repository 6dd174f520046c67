"""Averages of gradients that are on their way while the walk back goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ...ranks.work import Work
from ...values import mode

__all__ = ["Averages", "Job"]

Job = Iterator[list[Work | None]]
"""What is done for a unit in turns: each yields what is waited for before the next."""


class Averages:
    """The jobs that a walk back has begun, and that its end waits for.

    One is on its way while the gradients behind it are computed, two where ranks have copies of
    parts, too: with more a rank would hold the whole gradients of as many units.
    """

    def __init__(self) -> None:
        self._left: list[tuple[Job, list[Work | None]]] = []

    @staticmethod
    def of_walk() -> Averages | None:
        """Those of the walk under way; None where gradients are looked at before it ends.

        So does a walk that is recorded, by a plan or to be differentiated, and one that looks for
        NaN.
        """
        now = mode.current()
        waits, ends = now.walk_waits, now.walk_ends
        if waits is None or ends is None or now.grad or now.tracer or now.anomaly:
            return None
        for wait in waits:
            owner = getattr(wait, "__self__", None)
            if isinstance(owner, Averages):
                return owner
        made = Averages()
        waits.append(made.finish)
        ends.append(made.give_up)
        return made

    def begin(self, job: Job) -> None:
        """Do a job's first turn; others come with those of jobs behind it, and at the end."""
        self._left.append((job, next(job)))

    def finish(self) -> None:
        """Wait for all."""
        while self._left:
            self.go_on()

    def go_on(self) -> None:
        """Do one more turn of each that was begun, the oldest first."""
        given, self._left = self._left, []
        try:
            while given:
                job, works = given[0]
                for work in works:
                    if work is not None:
                        work.wait()
                following = next(job, None)
                if following is not None:
                    self._left.append((job, following))
                del given[0]
        finally:
            self._left += given  # what an error leaves

    def give_up(self) -> None:
        """The walk has ended: of what an error left, wait for what reads and writes memory."""
        given, self._left = self._left, []
        for work in (work for _, works in given for work in works):
            if work is not None:
                with suppress(Exception):  # what goes wrong in the others is the same trouble
                    work.wait()
