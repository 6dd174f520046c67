"""Whole parameters on their way before they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType, WeakKeyDictionary, ref

from ...ranks.device_sum import may_add
from ...ranks.work import Work
from ...ranks.world import Group
from ...tensor import Tensor
from ...values import mode
from ...values.record import NamedTuple

if TYPE_CHECKING:
    from .sharded import Unit

__all__ = ["Coming", "Order"]


class Coming(NamedTuple):
    """Whole parameters on their way.

    Attributes:
        rows: all ranks' parts, for each dtype, ``(ranks, elements)``.
        works: bring them.
        state: of the parts when it was begun.
    """

    rows: list[Tensor]
    works: list[Work]
    state: list[Any]


class Order:
    """In which order units of a group's ranks are gathered, which they are once more next time.

    While a unit runs, the one that came behind it last time is on its way: in backward passes,
    where it would come behind the averages of the unit before, and in all where devices exchange
    by themselves, which takes no processor's time. All ranks gather alike, so they begin alike.
    """

    _of: ClassVar[WeakKeyDictionary[Group, Order]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._last: tuple[ReferenceType[Unit], str] | None = None
        # Who is on its way, and for whose follower it was taken.
        self._begun: tuple[ReferenceType[Unit], ReferenceType[Unit], str] | None = None

    @staticmethod
    def of(unit: Unit) -> Order | None:
        """The order of a unit's group; None where nobody else has parts, and in traces."""
        if mode.current().tracer is not None or not unit.pieces or unit.group.size() == 1:
            return None
        return Order._of.setdefault(unit.group, Order())

    def taken(self, unit: Unit) -> Coming | None:
        """What is on its way for a unit, unless its parts have changed since."""
        if self._begun is None:
            return None
        awaited, before, phase = self._begun
        other, self._begun = awaited(), None
        coming = None if other is None else other.ahead
        if other is None or coming is None:
            return None
        other.ahead = None
        if other is unit and unit.is_current(coming):
            return coming
        # For nothing: it is not taken for granted again.
        for work in coming.works:
            work.wait()
        foregoer = before()
        if foregoer is not None:
            foregoer.followers.pop(phase, None)
        return None

    def go_on(self, unit: Unit) -> None:
        """A unit was gathered: begin with the next."""
        phase, own = mode.current().phase, ref(unit)
        last = None if self._last is None or self._last[1] != phase else self._last[0]()
        if last is not None and last is not unit:
            last.followers[phase] = own
        self._last = own, phase
        if phase != "backward" and not may_add(unit.pieces[0].shard.device):
            return
        known = unit.followers.get(phase)
        follower = None if known is None else known()
        if known is not None and follower is not None and not follower.is_open:
            follower.begin()
            self._begun = known, own, phase
