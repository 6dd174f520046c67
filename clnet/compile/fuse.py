"""Chains of pointwise steps become one: what one step makes and another reads stays in registers.

Nothing is rounded otherwise than before, so results keep their bits: only values that are stored as
they are computed are passed on, and floats stored in 16 bits, which are rounded in registers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence

from ..array import Array
from ..device import Storage
from ..values.record import NamedTuple
from .fusion_obstacle import FusionObstacle, UnfusedPair
from .pointwise_step import PointwiseStep, as_pointwise, compose, same_view
from .trace import Trace, is_disturbed
from .tracer import Action, Step

_MOST_OPERANDS = 16
_MOST_NODES = 160
_MOST_REPEATED_WORK = 1 << 16
_MOST_READS_TURNED = 2
NEAR = 12


def fuse(trace: Trace, guests: Collection[int] = ()) -> Trace:
    """The trace with fewer, longer pointwise steps.

    A producer moves down to its consumer, or the consumer up to it, whichever the reads and writes
    in between allow. Where others read what is made, too, both outputs are made in one pass.

    Args:
        trace: what is to run.
        guests: positions of pointwise steps that may join a later one as its producers do, if both
            read one array as a whole.
    """
    return _Fusion(trace, guests).run()


def unfused_pairs(trace: Trace) -> Iterator[UnfusedPair]:
    """Pointwise steps that are not fused with those whose results they read, and why."""
    fusion = _Fusion(trace)
    for at in sorted(fusion.forms):
        for producer in fusion.producers(at):
            found = fusion.joined(producer, at)
            if isinstance(found, FusionObstacle):
                yield producer, at, found


class _Joined(NamedTuple):
    """Two steps in one.

    Attributes:
        form: what it computes.
        place: the position of one of them, where it is done.
        stays: whether the producer, a constant, is left for others.
    """

    form: PointwiseStep
    place: int
    stays: bool


class _Fusion:
    """The steps while they are being fused: a place for each, empty once it is fused away."""

    def __init__(self, trace: Trace, guests: Collection[int] = ()) -> None:
        self.trace = trace
        self.guests = sorted(guests)
        self.steps: list[Step | Action | None] = list(trace.steps)
        self.forms: dict[int, PointwiseStep] = {}
        self.readers = {s: set(at) for s, at in trace.readers.items()}
        self.writers = {s: set(at) for s, at in trace.writers.items()}
        self.actions = [i for i, s in enumerate(self.steps) if isinstance(s, Action)]
        self.made_by: dict[Storage, int] = {}
        for position, step in trace.ops:
            form = as_pointwise(step)
            if form is not None and form.written[0].size > 0:
                self.forms[position] = form
                self.made_by.update({y.storage: position for y in form.made if self._value(y)})

    def run(self) -> Trace:
        for start in sorted(self.forms):
            position: int | None = start if start in self.forms else None
            while position is not None:
                position = self._grown(position)
        return self.trace.with_steps([s for s in self.steps if s is not None])

    def _value(self, array: Array) -> bool:
        dense = array.dense_order is not None and array.offset == 0
        return dense and self.trace.is_value(array.storage)

    def _grown(self, at: int) -> int | None:
        """Fuse a step with one of the producers of what it reads; where the result is, or None."""
        for producer in self.producers(at):
            found = self.joined(producer, at)
            if isinstance(found, _Joined):
                self._replace(producer, at, found)
                return found.place
        return None

    def producers(self, at: int) -> list[int]:
        """Where the steps are whose results a step reads, and its guests, the latest first."""
        reads = (x.storage for x in self.forms[at].reads)
        found = {self.made_by[s] for s in reads if s in self.made_by}
        found.update(self._guests_of(at))
        return sorted((p for p in found if p < at), reverse=True)

    def _guests_of(self, at: int) -> Iterator[int]:
        """Guests closely before a step that read what it reads."""
        first = bisect_left(self.guests, at - NEAR)
        for guest in self.guests[first : bisect_left(self.guests, at)]:
            if guest in self.forms and share(self.forms[guest], self.forms[at]):
                yield guest

    def joined(self, p: int, c: int) -> _Joined | FusionObstacle:
        """A step together with one that reads what it makes."""
        producer, consumer = self.forms[p], self.forms[c]
        if any(y.storage not in self.made_by for y in producer.made):
            return FusionObstacle.CHANGED
        others = {r for y in producer.made for r in self.readers.get(y.storage, ())} - {c}
        keep = [
            y
            for y in producer.made
            if self.trace.outlives(y.storage) or self.readers.get(y.storage, set()) - {c}
        ]
        constant = not producer.reads and not producer.changed
        if constant:
            fused, place = compose(producer, consumer, ()), c  # repeated at will
        elif self._far(p, c) and (keep or _bytes(producer.reads) > _bytes(producer.made)):
            return FusionObstacle.FAR
        else:
            place = self._meeting(p, c, others)
            if place is None:
                return FusionObstacle.ORDER
            fused = compose(producer, consumer, keep)
        if isinstance(fused, FusionObstacle):
            return fused
        against = _obstacle(producer, consumer, fused)
        return against or _Joined(fused, place, stays=bool(keep) and constant)

    def _far(self, p: int, c: int) -> bool:
        """Whether fusing might keep operands alive for much longer."""
        first, last = self.steps[p], self.steps[c]
        apart = isinstance(first, Step) and isinstance(last, Step) and first.phase != last.phase
        return apart or c - p > NEAR

    def _meeting(self, p: int, c: int, others: set[int]) -> int | None:
        """Where both steps can be done at once.

        ==========================  ===========================================================
        at the consumer's place     none of the producer's other readers comes before, and the
                                    producer may move down to it
        else at the producer's      all that the consumer reads is there, and it may move up
        else nowhere                also if the consumer reads or writes what the producer changes
        ==========================  ===========================================================
        """
        producer, consumer = self.forms[p], self.forms[c]
        changed = {a.storage for a in producer.changed}
        if changed & {a.storage for a in (*consumer.reads, *consumer.changed)}:
            return None
        if not any(r < c for r in others) and self._moves(producer, p, c):
            return c
        there = all(self._is_there(x.storage, p) for x in consumer.reads)
        return p if there and self._moves(consumer, p, c) else None

    def _is_there(self, storage: Storage, place: int) -> bool:
        """Whether a value has been made at a place; of a variable :meth:`_moves` is asked."""
        made = max(self.writers.get(storage, ()), default=-1)
        return made <= place or not self.trace.is_value(storage)

    def _moves(self, form: PointwiseStep, low: int, high: int) -> bool:
        """Whether nothing between two places reads what a form changes or writes what it uses."""
        if form.cells and bisect_right(self.actions, low) != bisect_right(self.actions, high):
            return False
        places, reads = (low, high), form.reads
        return not is_disturbed(
            places, self.writers, self.readers, reads=reads, changed=form.changed
        )

    def _replace(self, p: int, c: int, joined: _Joined) -> None:
        like = self.steps[c]
        if not isinstance(like, Step):
            return
        for at in (c,) if joined.stays else (p, c):
            self._forget(at)
        fused, place = joined.form, joined.place
        step = fused.step(like)
        self.steps[place] = step
        self.forms[place] = fused
        for x in step.inputs:
            self.readers.setdefault(x.storage, set()).add(place)
        for storage in step.writes:
            self.writers.setdefault(storage, set()).add(place)
        self.made_by.update({y.storage: place for y in fused.made if self._value(y)})

    def _forget(self, at: int) -> None:
        step = self.steps[at]
        if isinstance(step, Step):
            for x in step.inputs:
                self.readers[x.storage].discard(at)
            for storage in step.writes:
                self.writers[storage].discard(at)
                self.made_by.pop(storage, None)
        self.steps[at] = None
        del self.forms[at]


def share(form: PointwiseStep, other: PointwiseStep) -> bool:
    """Whether two forms of one shape read one array as a whole."""
    if form.shape != other.shape:
        return False
    wholes = {x.storage for x in form.reads if x.shape == form.shape}
    return any(x.storage in wholes and x.shape == form.shape for x in other.reads)


def _obstacle(
    producer: PointwiseStep, consumer: PointwiseStep, fused: PointwiseStep
) -> FusionObstacle | None:
    """Why one launch instead of two would not be sound, or no faster."""
    if too_large := fused.obstacle(operands=_MOST_OPERANDS, nodes=_MOST_NODES):
        return too_large
    if not _safe(fused):
        return FusionObstacle.OVERLAP
    if not producer.reads:
        return None
    elements, own = consumer.written[0].size, producer.written[0].size
    if elements > own and producer.work * (elements - own) > _MOST_REPEATED_WORK:
        return FusionObstacle.REPEATED
    made = {y.storage: y for y in producer.made}
    views = [x for x in consumer.reads if x.storage in made]
    as_made = all(same_view(x, made[x.storage]) for x in views)
    return None if as_made or len(producer.reads) <= _MOST_READS_TURNED else FusionObstacle.TURNED


def _bytes(arrays: Sequence[Array]) -> int:
    return sum({a.storage: a.nbytes for a in arrays}.values())


def _safe(form: PointwiseStep) -> bool:
    """Whether every element is read before its place is written, by the same work-item."""
    places: Sequence[Array] = form.changed
    if len({a.storage for a in places}) < len(places):
        return False
    return all(same_view(x, a) for a in places for x in form.reads if x.storage is a.storage)
