"""Parts of tensors that come to other ranks as they are, eager or as steps of a plan.

Devices bring them by themselves where they may (:mod:`.device_room`); else hosts do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array import Array, Visit
from ..tensor import Tensor
from ..values.record import NamedTuple
from .device_room import Route, span_of
from .device_sum import Marked, Wish, by_hosts, may_add
from .hosted import arrived, read_only, writable
from .traced import is_traced, record_exchange
from .work import Work
from .world import Group

__all__ = ["Move", "begin_move", "place_of", "to_each_other"]

_AGREED_LATER = 2**62


class Move(NamedTuple):
    """What one rank gives and takes in an exchange.

    Attributes:
        name: of the function that was called.
        members: the ranks.
        sources: what this rank gives; dense.
        targets: what is overwritten; dense, and none of the sources' memory.
        agree: tells the other ranks a wish, and gives those of all.
        by_host: brings elements on hosts: those of the sources, of the targets.
        gives: which sources go to others, by their places in the room.
        takes: of whom, from which place, to which target.
        keeps: which source this rank has for itself, and for which target; None: none.
        shares: how many sources a rank gives at most, on all ranks alike.
        whole: whether there is one source and one target, each with a part for each rank.
        sizes: when ranks have agreed, tells the bytes of the largest part of all, and from how many
            bytes on devices exchange, on all ranks alike; None: parts are all of one size.
    """

    name: str
    members: Group
    sources: Sequence[Tensor]
    targets: Sequence[Tensor]
    agree: Callable[[int], set[int]]
    by_host: Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
    gives: Sequence[int] = ()
    takes: Sequence[tuple[int, int, int]] = ()
    keeps: tuple[int, int] | None = None
    shares: int = 1
    whole: bool = False
    sizes: Callable[[], tuple[int, float]] | None = None

    def route(self, arrays: Sequence[Array], largest: int) -> Route:
        """The same, of bytes of a device.

        Args:
            arrays: of the sources, then of the targets.
            largest: bytes of the largest part.
        """
        spans = [span_of(x) for x in arrays]
        given, into = spans[: len(self.sources)], spans[len(self.sources) :]
        if self.whole:
            ranks = range(self.members.size())
            given, into = ([x.piece(i, largest) for i in ranks] for (x,) in (given, into))
        keeps = [] if self.keeps is None else [(given[self.keeps[0]], into[self.keeps[1]])]
        return Route(
            [given[i] for i in self.gives],
            [(rank, place, into[i]) for rank, place, i in self.takes],
            [(a, b) for a, b in keeps if a.nbytes and a != b],
            self.shares,
            largest,
        )


def to_each_other(rank: int, ranks: int) -> dict[str, Any]:
    """Of a :class:`Move`: sources and targets by rank, each rank gives each other one."""
    others = [i for i in range(ranks) if i != rank]
    takes = [(i, place_of(rank, i), i) for i in others]
    return {"gives": others, "takes": takes, "keeps": (rank, rank), "shares": max(ranks - 1, 1)}


def place_of(rank: int, giver: int) -> int:
    """The place of a rank's part among those that a rank gives the others."""
    return rank - (rank > giver)


def begin_move(move: Move, result: list[Any], *, async_op: bool) -> Work | None:
    """Do an exchange, or begin it.

    Args:
        move: what this rank does.
        result: what the handle's ``result`` gives.
        async_op: whether to go on at once.

    Returns:
        A handle with ``async_op``, else None.
    """
    tensors = [*move.sources, *move.targets]
    count = len(move.sources)

    def visit(arrays: Sequence[Array]) -> list[Visit | Marked]:
        if _wish(move, arrays) is Wish.HOST:
            return [x.visit(read=i < count, write=i >= count) for i, x in enumerate(arrays)]
        return [Marked(*arrays)]

    if is_traced():
        writes = tuple(i >= count for i in range(len(tensors)))
        return record_exchange(
            move.name,
            move.members,
            tensors,
            lambda given: _meet(move, given),
            writes=writes,
            async_op=async_op,
            visit=visit,
            alike=False,
        )
    arrays = [x.array for x in tensors]
    stays = may_add(arrays[0].device) and _wish(move, arrays) is not Wish.HOST
    given = Marked(*arrays) if stays else None

    def job() -> None:
        if given is not None:
            _meet(move, [given])
            for y in move.targets:
                with y.device.lock:
                    y.array.storage.written()
            return
        move.agree(Wish.HOST)
        if move.sizes is not None:
            move.sizes()
        with read_only(*move.sources) as parts, writable(*move.targets, read=False) as rows:
            move.by_host(parts, rows)

    return move.members.exchange(result, job, async_op)


def _largest(move: Move, arrays: Sequence[Array]) -> int:
    """The bytes of the largest part, unless ranks have yet to agree on that."""
    nbytes = arrays[0].nbytes // (move.members.size() if move.whole else 1)
    return nbytes if move.sizes is None else _AGREED_LATER


def _wish(move: Move, arrays: Sequence[Array]) -> Wish:
    """Who shall bring them, as this rank sees it."""
    devices = {x.device for x in arrays}
    if len(devices) > 1 or move.members.size() == 1:
        return Wish.HOST
    return move.members.device_sums.wish_to_move(devices.pop(), _largest(move, arrays))


def _meet(move: Move, given: Sequence[Visit | Marked]) -> None:
    """Agree with the others, and bring parts."""
    first, members, sums = given[0], move.members, move.members.device_sums
    if not isinstance(first, Marked):
        move.agree(Wish.HOST)
        if move.sizes is not None:
            move.sizes()
        hosts = [arrived(x) for x in given if isinstance(x, Visit)]
        move.by_host(hosts[: len(move.sources)], hosts[len(move.sources) :])
        return
    arrays = first.arrays
    device, largest = arrays[0].device, _largest(move, arrays)
    wishes = move.agree(_wish(move, arrays))
    first.wait()
    if Wish.UNKNOWN in wishes and Wish.HOST not in wishes:
        sums.try_out(members.nearby(), device)
        wishes = {_wish(move, arrays)}
    by_devices = wishes == {Wish.DEVICE}
    if move.sizes is not None:
        largest, least = move.sizes()
        by_devices = by_devices and largest >= least
    if by_devices:
        sums.move(device, move.route(arrays, largest))
    else:
        count = len(move.sources)
        by_hosts(arrays[:count], arrays[count:], move.by_host)
