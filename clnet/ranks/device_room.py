"""Memory of ranks of one machine that their devices read and write, and moves through it.

Each rank has rooms, which it alone writes. A device leaves there what its rank gives, ranks meet,
and the others' devices take of it what is theirs. The host copies nothing: it asks queues for that,
and tells the other ranks when it is done. What is left and what is taken has its own queue, since a
bus carries both ways at once; so elements go in pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from ..array import Array
from ..device import Device, Pin, Storage
from ..values.polling import polled
from ..values.record import NamedTuple
from ..values.shapes import round_up
from .meetings import Meetings
from .nearby import shared_memory

__all__ = ["LINE_BYTES", "SOON_BYTES", "Mover", "Rooms", "Route", "Span", "pieces_of", "span_of"]

# The most of a piece; all ranks' devices pin the rooms of each.
PIECE_BYTES = 16 * 2**20
# What a bus would carry while ranks meet. The last piece's way comes behind the others, so that a
# tensor of n pieces takes n + 1 times a piece and a meeting: least where n is the root of that.
MEETING_BYTES = 4 * 2**20
LINE_BYTES = 64
# A piece is left when the parts of the one before are read, and its sum when the one before's may
# still be: what a rank has met for tells of no more (:meth:`Mover.move`, ``device_sum``).
_GIVEN_ROOMS, _SUM_ROOMS = 2, 3
_ROOMS_OF_TWO = 4
# Who asks on and on for what takes longer keeps Python from the thread that launches.
SOON_BYTES = 2 * 2**20
_PAUSE_SECONDS = 20e-6


class Span(NamedTuple):
    """Bytes of a storage.

    Attributes:
        storage: whose.
        begin: where in it they begin.
        nbytes: how many.
    """

    storage: Storage
    begin: int
    nbytes: int

    def piece(self, number: int, step: int) -> Span:
        """Those behind so many steps, a step at most; none at the end."""
        start = min(number * step, self.nbytes)
        return Span(self.storage, self.begin + start, min(step, self.nbytes - start))


def span_of(x: Array) -> Span:
    """The bytes of a dense array."""
    return Span(x.storage, x.offset * x.dtype.itemsize, x.nbytes)


class Route(NamedTuple):
    """Where parts go, as one rank sees it.

    Attributes:
        gives: what this rank gives, each in a place of its room.
        takes: what it takes: of whom, from which place, to where.
        keeps: what it has for itself: from where, to where.
        shares: how many places the room of a rank has at most, on all ranks alike.
        largest: the bytes of the largest part of all ranks.
    """

    gives: Sequence[Span] = ()
    takes: Sequence[tuple[int, int, Span]] = ()
    keeps: Sequence[tuple[Span, Span]] = ()
    shares: int = 1
    largest: int = 0


class Rooms:
    """The memory that ranks of a machine share for it; all of them make it together.

    Args:
        here: their communicator.

    Attributes:
        memory: of each rank: what it gives, the sums of its slices where it adds up such, a line
            for meetings; or nothing.
        piece_bytes: the most of a piece.
        number: of the next piece, but for slices', whatever device takes it: all count alike.
    """

    def __init__(self, here: Any) -> None:
        self.here, self.number, self.piece_bytes = here, 0, PIECE_BYTES
        self._given = _ROOMS_OF_TWO if here.size == 2 else _GIVEN_ROOMS
        self._sums = 0 if here.size == 2 else _SUM_ROOMS
        self._sum_bytes = round_up(self.piece_bytes // here.size, LINE_BYTES) + LINE_BYTES
        line = self._given * self.piece_bytes + self._sums * self._sum_bytes
        found = shared_memory(here, line + 2 * LINE_BYTES)
        self.memory = [memoryview(m) for m in found or ()]
        self.meetings = Meetings(here, [m[line : line + LINE_BYTES] for m in self.memory])

    def given(self, rank: int, piece: int, dtype: np.dtype) -> np.ndarray:
        """What a rank gives to others of a piece."""
        begin = piece % self._given * self.piece_bytes
        return np.frombuffer(self.memory[rank][begin : begin + self.piece_bytes], dtype)

    def sum(self, rank: int, piece: int, dtype: np.dtype) -> np.ndarray:
        """The sum of a rank's slice of a piece."""
        begin = self._given * self.piece_bytes + piece % self._sums * self._sum_bytes
        return np.frombuffer(self.memory[rank][begin : begin + self._sum_bytes], dtype)

    def told(self, rank: int) -> np.ndarray:
        """A few bytes that say nothing, for a copy whose end is what is asked for."""
        return np.frombuffer(self.memory[rank][-LINE_BYTES:], np.uint8)


class Mover:
    """A device that leaves and takes what ranks give each other.

    Args:
        rooms: what they share.
        device: the device.

    Raises:
        OutOfDeviceMemory: if it has no memory for the parts of others.
        DeviceError: if its driver does not take the host's memory.
    """

    def __init__(self, rooms: Rooms, device: Device) -> None:
        self._rooms, self._device = rooms, device
        self._ranks, self._mine = range(rooms.here.size), rooms.here.rank
        self._others = [i for i in self._ranks if i != self._mine]
        self._pins: list[Pin] = [device.beside.pin(m) for m in rooms.memory]
        self._down, self._taking = device.beside, device.beside.another()

    def move(self, route: Route) -> None:
        """Have all parts of all ranks come where they go; all ranks ask for the same.

        While others' pieces come up the next one of this rank goes down. Who comes to a meeting has
        taken the piece before, so that its room may be written again; to the last, all.
        """
        rooms, largest = self._rooms, max(route.largest, 1)
        soon = largest * route.shares <= SOON_BYTES
        count = pieces_of(largest, route.shares, rooms.piece_bytes)
        step = round_up(-(-largest // count), LINE_BYTES)
        taken = list[Any]()
        left = self._begin(route) + self._leave_places(route.gives, 0, step, rooms.number)
        for k in range(-(-largest // step)):
            self._down.wait(left, soon=soon)
            self._taking.wait(taken, soon=soon)
            self._meet(soon=soon)
            left = self._leave_places(route.gives, k + 1, step, rooms.number + 1)
            for rank, place, target in route.takes:
                storage, begin, nbytes = target.piece(k, step)
                if nbytes:
                    given = rooms.given(rank, rooms.number, _BYTE)[place * step :][:nbytes]
                    taken.append(self._taking.write(storage, given, begin))
            self._taking.flush()
            rooms.number += 1
        self._taking.wait(taken, soon=soon)
        self._meet(soon=soon)

    def _begin(self, route: Route) -> list[Any]:
        """Copies of one queue whose end says that parts of others may come up by the other.

        That is behind what was enqueued when the exchange was asked for. Who gives nothing has some
        bytes copied for it, NVIDIA's tells of no other command at once.
        """
        begun = [
            self._down.copy(target.storage, target.begin, *source) for source, target in route.keeps
        ]
        if not route.gives and route.takes:
            storage, begin, nbytes = route.takes[0][2]
            told = self._rooms.told(self._mine)[:nbytes]
            begun += [self._down.read(told, storage, begin)] if nbytes else []
        return begun

    def _leave_places(self, gives: Sequence[Span], k: int, step: int, number: int) -> list[Any]:
        """Begin to give a piece of each part, side by side in the room of that number."""
        begun, room = list[Any](), self._rooms.given(self._mine, number, _BYTE)
        for place, span in enumerate(gives):
            storage, begin, nbytes = span.piece(k, step)
            if nbytes:
                row = room[place * step :][:nbytes]
                begun.append(self._down.read(row, storage, begin))
        self._down.flush()
        return begun

    def _meet(self, *, soon: bool) -> None:
        """All ranks have come to this point."""
        here = self._rooms.here

        def until(met: Callable[[], bool]) -> None:
            if not (soon and polled(met, stay=True)):
                while not met():
                    here.Iprobe()  # so that MPI goes on with what others still wait for
                    time.sleep(_PAUSE_SECONDS)

        self._rooms.meetings.meet(until)


_BYTE = np.dtype(np.uint8)


def pieces_of(nbytes: int, shares: int, piece_bytes: int) -> int:
    """In how many pieces so many bytes go, of which so many lie side by side in a room."""
    most = piece_bytes // shares // LINE_BYTES * LINE_BYTES
    return max(-(-nbytes // most), round(sqrt(nbytes * shares / MEETING_BYTES)), 1)
