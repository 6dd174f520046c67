"""Messages under way from one rank to another: none waits for another, whatever their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple

from ..errors import DistributedError
from ..values.exchanges import Exchange, tell_exchange
from ..values.polling import EAGER_SECONDS
from .short_turns import SHORT_TURNS
from .work import Work

__all__ = ["PAUSE_SECONDS", "Asked", "Post", "gone", "no_answer"]

PAUSE_SECONDS = 50e-6
# So often it is looked whether a rank has left that a message waits for, and so long a message may
# still be on its way that it sent before.
_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 1.0
# What MPI takes back at most so long: a receive that nobody has answered, at once.
_WITHDRAWN_SECONDS = 1.0


class Asked(NamedTuple):
    """A request of MPI's that a message waits for.

    Attributes:
        request: has ``Test``.
        received: whether MPI can take it back: a receive, not a send.
        peers: the places in the group of who may answer it.
        status: where ``Test`` leaves who sent, if that is asked for.
    """

    request: Any
    received: bool
    peers: tuple[int, ...] = ()
    status: Any = None

    def done(self) -> bool:
        """Whether it is."""
        return self.request.Test(self.status)


Message = Generator[Asked, None, Any]
"""Yields what it waits for, and returns what the handle's ``result`` gives."""


def no_answer(what: str, seconds: float, **found: object) -> DistributedError:
    """The error of a rank that others keep waiting."""
    return DistributedError(
        what,
        "other ranks do not answer",
        seconds=round(seconds, 1),
        **found,
        remedy="Look which rank is stalled, or give init_process_group a longer timeout",
    )


def gone(what: str, ended: Sequence[int], rank: int) -> DistributedError:
    """The error of a rank that waits for others which come no more."""
    law = "a rank has ended, or left the group, that others wait for"
    return DistributedError(what, law, ended=ended, rank=rank)


@dataclass(eq=False)
class _UnderWay:
    message: Message
    work: Work
    what: str
    begun: float = field(default_factory=time.monotonic)
    came: float = field(default_factory=time.perf_counter)
    asked: Asked | None = None
    missed: float | None = None  # since when nobody is there who may answer

    def go_on(self) -> bool:
        """Whether something has happened; at the end it tells the handle."""
        try:
            if self.asked is not None and not self.asked.done():
                return False
            self.asked = next(self.message)
        except StopIteration as end:
            tell_exchange(Exchange(self.what, self.came, self.came, time.perf_counter(), 0))
            self.work.settle(end.value)
        except BaseException as error:  # raised where it is waited for
            self.work.settle(error=error)
        return True


class Post:
    """Moves all messages of a group on, in a thread that begins with the first.

    Args:
        name: of the thread.
        ranks: in the world, by place in the group.
        rank: this one.
        seconds: how long others are waited for.
        has_left: whether the rank in a place has told that it left.

    Attributes:
        lost: sends that nobody has received in time: MPI may still read their memory.
    """

    def __init__(
        self,
        name: str,
        ranks: Sequence[int],
        rank: int,
        seconds: float,
        has_left: Callable[[int], bool],
    ) -> None:
        self._name, self._seconds = name, seconds
        self._ranks, self._rank = ranks, rank
        self._has_left = has_left
        self._new: SimpleQueue[_UnderWay | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._starting = Lock()
        self.lost: list[_UnderWay] = []

    def begin(self, what: str, message: Message) -> Work:
        """Have a message begin after those that were begun before, and not wait for them."""
        work = Work()
        SHORT_TURNS.begin()
        with self._starting:
            self._new.put(_UnderWay(message, work, what))
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return work

    def close(self) -> None:
        """Let the thread end when all is done that was begun."""
        if self._thread is not None:
            self._new.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        under_way: list[_UnderWay] = []
        closing = False
        last = looked = time.monotonic()
        while under_way or not closing:
            try:
                new = self._new.get(block=not under_way)
            except Empty:
                new = None
            else:
                closing = closing or new is None
            if new is not None:
                under_way.append(new)
            moved = [m for m in under_way if m.go_on()]
            now = time.monotonic()
            late = [m for m in under_way if now - m.begun > self._seconds]
            if now - looked > _LOOK_SECONDS:
                looked = now
                late += [m for m in under_way if m not in late and self._misses(m, now)]
            late = [m for m in late if not m.work.is_completed()]
            for message in late:
                self._give_up(message)
            if moved or late or new is not None:
                left = [m for m in under_way if not m.work.is_completed()]
                for _ in range(len(under_way) - len(left)):
                    SHORT_TURNS.end()
                under_way, last = left, now
            elif now - last > EAGER_SECONDS:
                time.sleep(PAUSE_SECONDS)

    def _misses(self, message: _UnderWay, now: float) -> bool:
        """Whether all have left, a while ago, who may answer a message."""
        peers = () if message.asked is None else message.asked.peers
        if not peers or not all(map(self._has_left, peers)):
            return False
        message.missed = now if message.missed is None else message.missed
        return now - message.missed > _GRACE_SECONDS

    def _give_up(self, late: _UnderWay) -> None:
        """Take a receive back; a send's memory is kept, since somebody may yet receive it."""
        asked = late.asked
        if asked is not None and not (asked.received and _withdrawn(asked)):
            self.lost.append(late)
        awaited = [] if asked is None else [self._ranks[i] for i in asked.peers]
        if late.missed is None:
            error = no_answer(late.what, time.monotonic() - late.begun, awaited=awaited)
        else:
            error = gone(late.what, awaited, self._rank)
        late.work.settle(error=error)


def _withdrawn(asked: Asked) -> bool:
    asked.request.Cancel()
    until = time.monotonic() + _WITHDRAWN_SECONDS
    while not asked.done():
        if time.monotonic() > until:
            return False
        time.sleep(PAUSE_SECONDS)
    return True
