"""Where things that need memory for a while lie, so that those alive together do not overlap.

It knows sizes and times, no tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..values.record import NamedTuple
from ..values.shapes import ceil_div


class Tenant(NamedTuple):
    """Something that needs memory for a while.

    Attributes:
        nbytes: how much.
        first, last: when: from one step to another, both included.
    """

    nbytes: int
    first: int
    last: int


class Place(NamedTuple):
    """Where a tenant lies.

    Attributes:
        arena: which one.
        offset: its first byte there.
    """

    arena: int
    offset: int


class Packing(NamedTuple):
    """Where everything lies.

    Attributes:
        places: of all tenants, in their order.
        arenas: bytes of each arena.
        num_residences: how many arenas, the first ones, are those of residents.
    """

    places: tuple[Place, ...]
    arenas: tuple[int, ...]
    num_residences: int = 0


# In which order tenants choose their places; none is best for every network.
_ORDERS: tuple[Callable[[Tenant], tuple[int, ...]], ...] = (
    lambda t: (-t.nbytes, t.first),
    lambda t: (-t.nbytes * (t.last - t.first + 1), t.first),
    lambda t: (t.first - t.last, -t.nbytes),
    lambda t: (t.first, -t.nbytes),
)
_NO_ROOM = np.iinfo(np.int64).max
_GOOD_ENOUGH = 1.01  # of what no packing can do without
_WORTH_IT = 1.02  # less is not worth to let them choose again, at most so often
_MOST_TURNS, _MOST_AGAIN = 2048, 8


def pack(
    tenants: Sequence[Tenant], *, alignment: int, largest: int, residents: Sequence[int] = ()
) -> Packing:
    """Give every tenant a place in few arenas.

    Each tenant takes the smallest gap that fits among those that are alive with it. Of several
    orders in which they may choose the best counts, or the first that wastes next to nothing; where
    none does, those that found no room come first in the next.

    Args:
        tenants: what needs memory, and when.
        alignment: of the places, in bytes.
        largest: bytes an arena may have; a tenant that is larger gets one of its own.
        residents: positions of tenants that lie apart in arenas no larger than they need, where
            others may lie while they do not.

    Returns:
        The places.
    """
    needed = busiest(tenants, alignment=alignment)[0]
    pairs: list[tuple[Packing, list[int]]] = []
    for order in _ORDERS:
        turns = sorted(range(len(tenants)), key=lambda i: order(tenants[i]))
        pairs.append((_packed(tenants, turns, alignment, largest, residents), turns))
        if sum(pairs[-1][0].arenas) <= _GOOD_ENOUGH * needed:
            return pairs[-1][0]
    found, turns = min(pairs, key=lambda pair: _size(pair[0]))
    best = found
    for _ in range(min(ceil_div(_MOST_TURNS, max(len(tenants), 1)), _MOST_AGAIN)):
        if sum(best.arenas) <= _WORTH_IT * needed:
            break
        turns = _outermost_first(tenants, turns, found, needed)
        found = _packed(tenants, turns, alignment, largest, residents)
        best = min(best, found, key=_size)
    return best


def _size(packing: Packing) -> tuple[int, int]:
    return sum(packing.arenas), len(packing.arenas)


def _outermost_first(
    tenants: Sequence[Tenant], turns: list[int], found: Packing, needed: int
) -> list[int]:
    """Another order: those first that were left with places beyond what is needed."""
    room = needed - sum(found.arenas[: found.num_residences])

    def beyond(index: int) -> bool:
        place = found.places[index]
        outside = place.arena >= found.num_residences
        return outside and place.offset + tenants[index].nbytes > room

    return sorted(turns, key=lambda index: not beyond(index))


def busiest(tenants: Sequence[Tenant], *, alignment: int = 1) -> tuple[int, int]:
    """What no packing can do without.

    Returns:
        The bytes alive at the busiest step, and that step (0, 0 if there are no tenants).
    """
    changes: dict[int, int] = {}
    for tenant in tenants:
        size = _aligned(tenant.nbytes, alignment)
        changes[tenant.first] = changes.get(tenant.first, 0) + size
        changes[tenant.last + 1] = changes.get(tenant.last + 1, 0) - size
    alive = most = at = 0
    for step in sorted(changes):
        alive += changes[step]
        if alive > most:
            most, at = alive, step
    return most, at


def _packed(
    tenants: Sequence[Tenant],
    turns: Sequence[int],
    alignment: int,
    largest: int,
    residents: Sequence[int],
) -> Packing:
    """Each tenant at the first gap of an arena that is free while it lives, in the order of turns.

    Residents come first, as if they lived all the time, in arenas that take none beside them.
    """
    places = [Place(0, 0)] * len(tenants)
    arenas: list[_Arena] = []

    def settle(index: int, span: Tenant) -> None:
        tenant = tenants[index]
        size = _aligned(tenant.nbytes, alignment)
        gaps = ((number, arena.gap(size, span)) for number, arena in enumerate(arenas))
        place = next((Place(n, g) for n, g in gaps if g + size <= arenas[n].limit), None)
        if place is None:
            place = Place(len(arenas), 0)
            arenas.append(_Arena(len(tenants), largest))
        arenas[place.arena].put(place.offset, size, tenant)
        places[index] = place

    whole = Tenant(
        0, min((t.first for t in tenants), default=0), max((t.last for t in tenants), default=0)
    )
    for index in residents:
        settle(index, whole)
    num_residences = len(arenas)
    for arena in arenas:
        arena.limit = arena.nbytes
    settled = set(residents)
    for index in turns:
        if index not in settled:
            settle(index, tenants[index])
    return Packing(tuple(places), tuple(arena.nbytes for arena in arenas), num_residences)


class _Arena:
    """Tenants that have a place in one arena, as columns of numbers, by where they begin.

    Attributes:
        limit: bytes it may have.
        nbytes: bytes it has.
    """

    def __init__(self, most: int, limit: int) -> None:
        self.limit = limit
        self._columns = np.zeros((4, most), np.int64)  # begin, end, first, last
        self._count = 0
        self.nbytes = 0

    def gap(self, size: int, tenant: Tenant) -> int:
        """Where the smallest gap begins that has room, else where the highest neighbour ends."""
        begins, ends, first, last = self._columns[:, : self._count]
        alive = (first <= tenant.last) & (last >= tenant.first)
        begins, tops = begins[alive], np.maximum.accumulate(ends[alive])
        if not len(tops):
            return 0
        rooms = begins.copy()  # below each: the first has room from 0 on
        rooms[1:] -= tops[:-1]
        rooms[rooms < size] = _NO_ROOM
        best = rooms.argmin()
        if rooms[best] == _NO_ROOM:
            return int(tops[-1])
        return int(tops[best - 1]) if best else 0

    def put(self, offset: int, size: int, tenant: Tenant) -> None:
        """Give a tenant its place."""
        count = self._count
        at = self._columns[0, :count].searchsorted(offset, "right")
        self._columns[:, at + 1 : count + 1] = self._columns[:, at:count]
        self._columns[:, at] = offset, offset + size, tenant.first, tenant.last
        self._count += 1
        self.nbytes = max(self.nbytes, offset + size)


def _aligned(nbytes: int, alignment: int) -> int:
    return -(-max(nbytes, 1) // alignment) * alignment
