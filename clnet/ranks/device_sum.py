"""What devices of ranks of one machine exchange by themselves: sums, parts, and sums of parts.

A card with memory of its own copies at 55 GB/s from and to host memory that is pinned, where the
host adds at 5 to 10. So ranks share memory that each has had pinned by its device. A device leaves
there what its rank has, takes the others' parts of the slice that is its own, adds in the ranks'
order, leaves the sum, and takes the sums of the others. The host copies and adds nothing: it asks
queues of the device for all that, and tells the other ranks when it is done. The bits are those of
:class:`.Nearby`.

A bus carries both ways at once, so that elements go in pieces, and two queues are asked at a time.
Of two ranks each takes all that the other has, and adds up all (:class:`_Both`): as many bytes go
each way, ranks meet once a piece, and no copy waits for a sum, which on a card that computes waits
for its turn. Of more ranks each adds up its slice (:class:`_Slices`). Between two meetings, in
these orders:

======  =====================================  =================================
        first, one up and one down             then, one down and one up
======  =====================================  =================================
adding  others' parts of piece ``k`` come up,  the sum of that slice goes down
        and are added
moving  parts of piece ``k + 1`` go down       others' sums of piece ``k - 1``
                                               come up
======  =====================================  =================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import pairwise
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from ..array import Array
from ..device import Beside, Device, Storage
from ..errors import DeviceError, OutOfDeviceMemory
from ..expr import Expr, Input
from ..kernels.pointwise import pointwise
from ..values.dtypes import bool_, float32, from_name
from ..values.settings import SETTINGS
from ..values.shapes import round_up
from .device_room import LINE_BYTES, SOON_BYTES, Mover, Rooms, Route, pieces_of, span_of
from .nearby import NEAR_BYTES, Nearby

__all__ = ["DeviceSums", "Marked", "Wish", "may_add"]

_TRIED_BYTES = (NEAR_BYTES, 2**20, 4 * 2**20, 16 * 2**20)
_TRIES = 3


class Wish(IntEnum):
    """Who shall add, as a rank sees it: the host does if one rank wants that."""

    HOST, DEVICE, UNKNOWN = 0, 1, 2


def may_add(device: Device) -> bool:
    """Whether a device may be faster than the host: it has memory of its own, or is told to."""
    wanted = SETTINGS.sums
    return not device.traits.unified_memory if wanted is None else wanted == "device"


class Marked:
    """Dense arrays as they are at this place of a device's queue; their elements stay there.

    Args:
        array: the device's second queue reads and writes it until the exchange is done.
        *more: others of the device.
    """

    def __init__(self, array: Array, *more: Array) -> None:
        self.array, self.arrays = array, (array, *more)
        self._event = array.device.queue.mark()
        array.device.beside.keep_near(self._event)

    def wait(self) -> Marked:
        """What an exchange gets in the place of elements on the host."""
        self.array.device.beside.follow(self._event)
        return self

    def end(self) -> None:
        """Nothing is left to be done."""


def by_hosts(
    sources: Sequence[Array],
    targets: Sequence[Array],
    job: Callable[[list[np.ndarray], list[np.ndarray]], None],
) -> None:
    """Have arrays overwritten on the host with what it makes of others.

    Args:
        sources: dense, of one device and dtype.
        targets: as well.
        job: gets the elements of both, in a row each.
    """
    arrays = [x for x in (*sources, *targets) if x.size]
    if not arrays:
        job(*([np.empty(0, x.dtype.numpy) for x in some] for some in (sources, targets)))
        return
    device, beside = arrays[0].device, arrays[0].device.beside
    with device.queue.pinned.lend(sum(round_up(x.nbytes, LINE_BYTES) for x in arrays)) as raw:
        begin, hosts = 0, list[np.ndarray]()
        for x in (*sources, *targets):
            hosts.append(raw[begin : begin + x.nbytes].view(x.dtype.numpy))
            begin += round_up(x.nbytes, LINE_BYTES)
        given, into = hosts[: len(sources)], hosts[len(sources) :]
        come = [
            beside.read(host.view(np.uint8), x.storage, x.offset * x.dtype.itemsize)
            for host, x in zip(given, sources, strict=True)
            if x.size
        ]
        beside.wait(come)
        job(given, into)
        gone = [
            beside.write(x.storage, host.view(np.uint8), x.offset * x.dtype.itemsize)
            for host, x in zip(into, targets, strict=True)
            if x.size
        ]
        beside.wait(gone)


def by_host(x: Array, job: Callable[[np.ndarray], None], *, adds: bool) -> None:
    """Have an array's elements overwritten on the host.

    Args:
        x: dense.
        job: gets them in a row.
        adds: whether it computes with them, and so gets 16-bit floats as float32; else they come as
            they are, as hosts of other ranks give theirs.
    """
    beside, begin = x.device.beside, x.offset * x.dtype.itemsize
    with x.device.queue.pinned.lend(x.nbytes) as raw:
        beside.wait([beside.read(raw, x.storage, begin)])
        row = raw.view(x.dtype.numpy)
        narrow = adds and x.dtype.compute != x.dtype.real.name
        wide = row.astype(np.float32) if narrow else row
        job(wide)
        if narrow:
            row[:] = wide
        beside.wait([beside.write(x.storage, raw, begin)])


class DeviceSums:
    """What the devices of a group's ranks add up."""

    def __init__(self) -> None:
        self._rooms: Rooms | None = None
        self._place = 0, range(1)
        self._adders: dict[Device, _Adder | None] = {}  # None: it adds nothing

    def wish(self, x: Array, op: str) -> Wish:
        """Who shall overwrite a dense array with what ranks have together, by MPI's ``op``."""
        adds = op in ("SUM", "AVG") and x.dtype is not bool_
        return self.wish_to_move(x.device, x.nbytes) if adds else Wish.HOST

    def wish_to_move(self, device: Device, nbytes: float) -> Wish:
        """Who shall bring parts of so many bytes to other ranks."""
        if not may_add(device) or nbytes < NEAR_BYTES:
            return Wish.HOST
        if device not in self._adders:
            return Wish.UNKNOWN
        adder = self._adders[device]
        return Wish.DEVICE if adder and adder.least_bytes <= nbytes else Wish.HOST

    def least_bytes(self, device: Device) -> float:
        """Of a tensor that a device exchanges by itself."""
        adder = self._adders.get(device)
        return inf if adder is None else max(adder.least_bytes, NEAR_BYTES)

    def try_out(self, near: Nearby | None, device: Device) -> None:
        """Look from how many bytes on devices are faster than the host; all ranks do.

        Args:
            near: how the host adds; None: ranks share no memory.
            device: this rank's.
        """
        self._adders[device] = self._looked_for(near, device)

    def _looked_for(self, near: Nearby | None, device: Device) -> _Adder | None:
        """What adds; a thread that asks for a wish meanwhile hears that it is not known."""
        if near is None or near.spans_machines:
            return None
        if self._rooms is None:
            self._rooms = Rooms(near.here)
            self._place = near.here.rank, range(near.here.size)
        adder = self._adders.get(device)
        if adder is None and self._rooms.memory:
            kind = _Both if near.here.size == 2 else _Slices
            try:
                adder = kind(self._rooms, device)
            except (DeviceError, OutOfDeviceMemory):  # another has what it takes
                adder = None
        told = near.here.allgather((adder is not None, SETTINGS.sums))
        if adder is None or not all(able for able, _ in told):
            return None
        asked = any(wanted is not None for _, wanted in told)
        adder.least_bytes = 0 if asked else adder.measured(near)
        return adder

    def sum(self, x: Array, *, average: bool) -> None:
        """Overwrite a dense array with the sum over all ranks, once it may be read.

        Args:
            x: as many elements, of one dtype, on all ranks.
            average: whether the sum is divided by the number of ranks.
        """
        adder = self._adders[x.device]
        if adder is not None:
            adder.sum(x, average=average)

    def gather(self, x: Array) -> None:
        """Fill a dense array, in which this rank's part is there, with those of the others.

        Args:
            x: a part for each rank, of as many elements; of one dtype on all.
        """
        rank, ranks = self._place
        size = x.size // len(ranks)
        parts = [span_of(x.view((size,), (1,), x.offset + i * size)) for i in ranks]
        takes = [(i, 0, part) for i, part in enumerate(parts) if i != rank]
        self.move(x.device, Route([parts[rank]], takes, largest=parts[0].nbytes))

    def move(self, device: Device, route: Route) -> None:
        """Have parts of all ranks come where they go, once they may be read.

        Args:
            device: this rank's.
            route: of as many shares and as large a part on all ranks.
        """
        adder = self._adders[device]
        if adder is not None:
            adder.move(route)

    def sum_own(self, x: Array, *, average: bool) -> None:
        """Overwrite this rank's part of a dense array with the sum of that part over all ranks.

        Args:
            x: as for :meth:`gather`.
            average: as for :meth:`sum`.
        """
        adder = self._adders[x.device]
        if adder is not None:
            adder.sum_own(x, average=average)

    def free(self) -> None:
        """Give the memory back."""
        self._adders, self._rooms = {}, None


class _Adder(Mover):
    """A device that adds what all ranks have.

    Args:
        rooms: what they share.
        device: the device.

    Attributes:
        least_bytes: of a tensor for which this is faster than the host.

    Raises:
        OutOfDeviceMemory: if it has no memory for the parts of others.
        DeviceError: if its driver does not take the host's memory.
    """

    least_bytes: float = inf

    def __init__(self, rooms: Rooms, device: Device) -> None:
        super().__init__(rooms, device)
        # Queues that bring others' elements, by turns, and where: one may still add those it has.
        self._up = list[tuple[Beside, Storage]]()

    def _room(self, nbytes: int) -> Storage:
        storage = Storage(self._device, nbytes)
        self._device.beside.reserve(storage)
        return storage

    def measured(self, near: Nearby) -> float:
        """From how many bytes on it is faster than the host; all ranks ask."""
        here, queue, least = near.here, self._device.beside, inf
        size = _TRIED_BYTES[-1] // float32.itemsize
        x = Array(self._room(_TRIED_BYTES[-1]), (size,), (1,), 0, float32)
        queue.wait([queue.write(x.storage, np.zeros(size, np.float32), 0)])
        for nbytes in reversed(_TRIED_BYTES):
            part = x.view((nbytes // float32.itemsize,), (1,))
            ways: list[Callable[[], None]] = [
                lambda part=part: by_host(
                    part, lambda row: near.sum(row, average=False), adds=True
                ),
                lambda part=part: self.sum(part, average=False),
            ]
            hosts, devices = [max(here.allgather(_least_seconds(here, way))) for way in ways]
            if devices >= hosts:
                break
            least = nbytes
        return least

    def sum(self, x: Array, *, average: bool) -> None:
        """As :meth:`DeviceSums.sum`."""
        raise NotImplementedError

    def sum_own(self, x: Array, *, average: bool) -> None:
        """As :meth:`DeviceSums.sum_own`.

        A piece is one of each part, side by side in a rank's room but for its own. Rooms are as for
        :meth:`gather`; what is brought is added before its queue brings more.
        """
        soon, size, rooms = x.nbytes <= SOON_BYTES, x.size // len(self._ranks), self._rooms
        views = [x.view((size,), (1,), x.offset + i * size) for i in self._ranks]
        parts = [self._pieces(view, len(self._others)) for view in views]
        width, taken = parts[0][0].size, list[Any]()
        left = self._leave_each(parts, 0)
        for k, piece in enumerate(parts[self._mine]):
            self._down.wait(left, soon=soon)
            self._taking.wait(taken, soon=soon)
            self._meet(soon=soon)
            queue, room = self._up[rooms.number % len(self._up)]
            terms = [piece] * len(self._ranks)
            for place, i in enumerate(self._others):
                begin = (self._mine - (self._mine > i)) * width
                given = rooms.given(i, rooms.number, piece.dtype.numpy)[begin:][: piece.size]
                terms[i] = Array(room, piece.shape, (1,), place * width, piece.dtype)
                taken.append(queue.write(room, given, place * width * piece.dtype.itemsize))
            self._add(queue, terms, average=average)
            queue.flush()
            rooms.number += 1
            if k + 1 < len(parts[0]):
                left = self._leave_each(parts, k + 1)
        for queue, room in self._up:
            queue.wait([queue.read(rooms.told(self._mine), room, 0)], soon=soon)
        self._meet(soon=soon)

    def _leave_each(self, parts: list[list[Array]], k: int) -> list[Any]:
        """Begin to give a piece of each other rank's part, side by side."""
        begun, rooms, width = list[Any](), self._rooms, parts[0][0].size
        for place, i in enumerate(self._others):
            piece = parts[i][k]
            row = rooms.given(self._mine, rooms.number, piece.dtype.numpy)[place * width :]
            at = piece.offset * piece.dtype.itemsize
            begun.append(self._down.read(row[: piece.size], piece.storage, at))
        self._down.flush()
        return begun

    def _leave(self, piece: Array, number: int) -> Any:
        """Begin to give a piece to the others."""
        room = self._rooms.given(self._mine, number, piece.dtype.numpy)[: piece.size]
        event = self._down.read(room, piece.storage, piece.offset * piece.dtype.itemsize)
        self._down.flush()
        return event

    def _pieces(self, x: Array, shares: int = 1) -> list[Array]:
        """A dense array in some of equal size, of which so many fit into a room.

        Complex numbers are two each.
        """
        dtype = x.dtype.real
        parts = x.dtype.itemsize // dtype.itemsize
        row = Array(x.storage, (parts * x.size,), (1,), parts * x.offset, dtype)
        count = pieces_of(x.nbytes, shares, self._rooms.piece_bytes)
        step = round_up(-(-row.size // count), LINE_BYTES // dtype.itemsize)
        return [
            row.view((min(step, row.size - begin),), (1,), row.offset + begin)
            for begin in range(0, row.size, step)
        ]

    def _add(self, queue: Beside, terms: list[Array], *, average: bool) -> None:
        """Overwrite this rank's term with the sum of all ranks', in their order."""
        total: Expr = Input(0)
        for i in self._ranks[1:]:
            total = total + Input(i)
        total = total / len(terms) if average else total
        own = terms[self._mine]
        compute = from_name(own.dtype.compute)
        queue.run(pointwise(self._device.target, [own], terms, (total,), compute=compute))


class _Both(_Adder):
    """One of two devices, which both add up all.

    One queue leaves pieces; two take the other's by turns, and add them: one brings a piece while
    a sum of the other waits for its turn on the card. Copies tell what is done, also that sums are:
    NVIDIA's tells of a kernel when the queue that computes has run dry, and no sooner.

    Args, raises:
        as for :class:`_Adder`.
    """

    def __init__(self, rooms: Rooms, device: Device) -> None:
        super().__init__(rooms, device)
        queues = self._taking, device.beside.another()
        self._up = [(queue, self._room(rooms.piece_bytes)) for queue in queues]

    def sum(self, x: Array, *, average: bool) -> None:
        """As :meth:`DeviceSums.sum`.

        A piece is on its way down before ranks meet for the one before, so that the bus is never
        idle. Who comes to meeting ``k`` has taken piece ``k - 2``: so who has met for ``k - 1``
        may leave piece ``k + 1`` where ``k - 3`` was.
        """
        soon = x.nbytes <= SOON_BYTES
        pieces, rooms = self._pieces(x), self._rooms
        left, taken = [self._leave(pieces[0], rooms.number)], []
        for k, piece in enumerate(pieces):
            if k + 1 < len(pieces):
                left.append(self._leave(pieces[k + 1], rooms.number + 1))
            self._down.wait([left[k]], soon=soon)
            queue, room = self._up[rooms.number % 2]
            if k > 1:
                queue.wait([taken[k - 2]], soon=soon)
            self._meet(soon=soon)
            part = Array(room, piece.shape, (1,), 0, piece.dtype)
            given = rooms.given(self._others[0], rooms.number, piece.dtype.numpy)
            taken.append(queue.write(room, given[: piece.size], 0))
            terms = [piece if i == self._mine else part for i in self._ranks]
            self._add(queue, terms, average=average)
            queue.flush()
            rooms.number += 1
        for number in range(rooms.number - min(2, len(pieces)), rooms.number):
            queue, room = self._up[number % 2]
            queue.wait([queue.read(rooms.told(self._mine), room, 0)], soon=soon)


class _Piece:
    """A part of a tensor, of which each rank adds up a slice.

    Args:
        rooms: what ranks share.
        number: of the piece.
        x: it.

    Attributes:
        slices: of ``x``, by rank; those behind may be empty.
        given: what each rank gives for each slice, by rank and slice.
        sums: of the slices.
        width: elements of a slice.
    """

    def __init__(self, rooms: Rooms, number: int, x: Array) -> None:
        ranks, kind = range(rooms.here.size), x.dtype.numpy
        self.width = round_up(-(-x.size // len(ranks)), LINE_BYTES // x.dtype.itemsize)
        bounds = [min(i * self.width, x.size) for i in range(len(ranks) + 1)]
        spans = list(pairwise(bounds))
        self.slices = [x.view((end - begin,), (1,), x.offset + begin) for begin, end in spans]
        rows = [rooms.given(i, number, kind) for i in ranks]
        self.given = [[row[begin:end] for begin, end in spans] for row in rows]
        self.sums = [rooms.sum(i, number, kind)[: y.size] for i, y in enumerate(self.slices)]


class _Way:
    """What is asked of a queue.

    Args:
        queue: does it in order.
    """

    def __init__(self, queue: Beside) -> None:
        self.queue = queue
        self._begun: list[Any] = []
        self._to_meet = 0  # how many are done before ranks meet

    def leave(self, room: np.ndarray, x: Array) -> None:
        """Copy an array down."""
        if x.size:
            begin = x.offset * x.dtype.itemsize
            self._begun.append(self.queue.read(room, x.storage, begin))

    def take(self, x: Array, room: np.ndarray) -> None:
        """Copy into an array."""
        if x.size:
            begin = x.offset * x.dtype.itemsize
            self._begun.append(self.queue.write(x.storage, room, begin))

    def flush(self, *, meets: bool) -> None:
        """Have the device begin.

        Args:
            meets: whether ranks meet when what was asked so far is done.
        """
        self.queue.flush()
        if meets:
            self._to_meet = len(self._begun)

    def wait_to_meet(self, *, soon: bool) -> None:
        """Wait until ranks may meet; ``soon`` as there."""
        done, self._begun = self._begun[: self._to_meet], self._begun[self._to_meet :]
        self._to_meet = 0
        self.queue.wait(done, soon=soon)

    def wait(self, *, soon: bool) -> None:
        """Wait for all; ``soon`` as in :meth:`.Beside.wait`."""
        self.queue.wait(self._begun, soon=soon)


class _Slices(_Adder):
    """A device that adds up a slice of what all ranks have.

    Args, raises:
        as for :class:`_Adder`.
    """

    def __init__(self, rooms: Rooms, device: Device) -> None:
        super().__init__(rooms, device)
        self._moving, self._adding = _Way(self._down), _Way(self._taking)
        self._parts = self._room(rooms.piece_bytes + LINE_BYTES * rooms.here.size)
        self._up = [(self._taking, self._parts)]

    def sum(self, x: Array, *, average: bool) -> None:
        """As :meth:`DeviceSums.sum`.

        Ranks that have met have read of a room what it held before it is written again: who comes
        to meeting ``k`` has left the sum of piece ``k - 1``, so it has taken its parts, and it has
        left the parts of piece ``k``, so it has taken the others' sums of piece ``k - 3``.
        """
        soon = x.nbytes <= SOON_BYTES
        pieces = [_Piece(self._rooms, i, part) for i, part in enumerate(self._pieces(x))]
        self._leave_parts(pieces[0])
        for k in range(len(pieces) + 1):
            for way in (self._moving, self._adding):
                way.wait_to_meet(soon=soon)
            self._meet(soon=soon)
            if k < len(pieces):
                self._add_slice(pieces[k], average=average)
            if k + 1 < len(pieces):
                self._leave_parts(pieces[k + 1])
            if k:
                self._take_sums(pieces[k - 1])
        self._moving.wait(soon=soon)

    def _leave_parts(self, piece: _Piece) -> None:
        for i in self._others:
            self._moving.leave(piece.given[self._mine][i], piece.slices[i])
        self._moving.flush(meets=True)

    def _add_slice(self, piece: _Piece, *, average: bool) -> None:
        """Overwrite the slice that is this rank's with the sum, and leave it."""
        own = piece.slices[self._mine]
        if not own.size:
            return
        terms = [own] * len(self._ranks)
        for place, i in enumerate(self._others):
            terms[i] = Array(self._parts, own.shape, (1,), place * piece.width, own.dtype)
            self._adding.take(terms[i], piece.given[i][self._mine])
        self._add(self._adding.queue, terms, average=average)
        self._adding.leave(piece.sums[self._mine], own)
        self._adding.flush(meets=True)

    def _take_sums(self, piece: _Piece) -> None:
        for i in self._others:
            self._moving.take(piece.slices[i], piece.sums[i])
        self._moving.flush(meets=False)


def _least_seconds(here: Any, way: Callable[[], None]) -> float:
    """Of some tries, which ranks begin together."""

    def once() -> float:
        here.Barrier()
        begin = perf_counter()
        way()
        return perf_counter() - begin

    return min(once() for _ in range(_TRIES))
