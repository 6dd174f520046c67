"""Functions that find the same objects, traced and replayed by several threads at once.

While a function is traced, its counters hold what stands for numbers, and attributes hold tensors
without memory; then its first run leaves there what it counted. Meanwhile nobody else may trace or
change what it finds: he would take these for what they stand for, or count what is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import active_count, get_ident
from time import sleep
from typing import Protocol, TypeVar

from ..device import opened_devices
from ..values.process import in_child, process_lock

__all__ = ["CLAIMS", "Claim", "claim_beside", "wait_beside"]

_LOOK_SECONDS = 0.001


class Reaching(Protocol):
    """What names the objects that it has found."""

    @property
    def reach(self) -> frozenset[object]:
        """They, by what tells them from others."""
        ...


T = TypeVar("T", bound=Reaching)


class Claim:
    """What a thread that traces has to itself, as far as compiled functions go.

    It ends when it is no longer in :data:`CLAIMS`, of which a ``finally`` takes it by ``pop``, a
    function of C's: before that no Ctrl-C is heard. Who has one waits for no other's, and who waits
    holds no lock of a device: so threads cannot wait for each other.

    Attributes:
        reach: what it holds.
        thread: whose it is.
    """

    def __init__(self) -> None:
        self.reach = frozenset[object]()
        self.thread = get_ident()

    def found(self, find: Callable[[], T]) -> T:
        """What ``find`` gives when all that it has found is this thread's.

        Args:
            find: called again where others may have been at work the first time.
        """
        alone = active_count() == 1
        while True:
            found = find()
            if found.reach <= self.reach:
                return found
            self._take(found.reach | self.reach)
            if alone:
                return found

    def _take(self, reach: frozenset[object]) -> None:
        """Wait until no other thread has any of these objects, and have them."""
        while True:
            with _LOCK:
                CLAIMS.pop(self, None)
                other = claim_beside(reach)
                if other is None:
                    self.reach = reach
                    CLAIMS[self] = None
                    break
            other.wait()
        for device in opened_devices():
            with device.lock:  # replays that had begun before have ended
                pass

    def wait(self) -> None:
        """Until it has ended."""
        while self in CLAIMS:
            sleep(_LOOK_SECONDS)


_LOCK = process_lock()
CLAIMS: dict[Claim, None] = {}
"""Those of all threads."""
in_child(CLAIMS.clear)  # the others' threads are not there


def claim_beside(reach: frozenset[object]) -> Claim | None:
    """Another thread's claim on some of these objects; None if there is none.

    Args:
        reach: the objects.
    """
    if not CLAIMS:
        return None
    mine = get_ident()
    others = (each for each in [*CLAIMS] if each.thread != mine)
    return next((each for each in others if not reach.isdisjoint(each.reach)), None)


def wait_beside(reach: frozenset[object]) -> None:
    """Wait until no other thread has a claim on any of these objects.

    Args:
        reach: the objects.
    """
    while (claim := claim_beside(reach)) is not None:
        claim.wait()
