"""A trace as passes see it: steps over abstract arrays, and who writes and reads their storages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ..array import Array
from ..device import Device, Storage
from ..values.lazy import lazy
from .tracer import Action, Step

Places = Mapping[Storage, Collection[int]]
"""The positions of steps that write, or read, each storage."""


def is_disturbed(
    between: tuple[int, int],
    writers: Places,
    readers: Places,
    *,
    reads: Iterable[Array],
    changed: Collection[Array] = (),
) -> bool:
    """Whether a step between two places keeps another from moving past it.

    It does if it writes what the other reads or changes, or reads what the other changes.

    Args:
        between: the two places.
        writers: who writes.
        readers: who reads.
        reads: what the step that moves reads.
        changed: what it overwrites.
    """
    low, high = between

    def passed(places: Places, array: Array) -> bool:
        return any(low < i < high for i in places.get(array.storage, ()))

    written = any(passed(writers, x) for x in (*reads, *changed))
    return written or any(passed(readers, x) for x in changed)


@dataclass(frozen=True)
class Trace:
    """What a function did, in order; a pass takes one and returns another.

    Views are resolved already: an array names its storage, shape, strides and offset, so no step
    is needed to make one. A storage is a *value* if one step writes it, once, without reading what
    was there: steps that write and read it may be moved, merged or fused. All others are
    *variables* (parameters, running statistics, momenta, gradients that are added to, arguments
    that are overwritten): the order of their reads and writes stays.

    Attributes:
        steps: ops, and actions on the host between them.
        arguments: dense arrays, overwritten with the call's tensors before each replay.
        results: what the caller gets, as it stands after the last step.
        kept: storages of gradients that leaves keep from replay to replay.
        device: where it runs.
        setup: ops on constants and on what lies outside and no step changes, done before the first
            replay, and again when that changed; what they make stays.
        passes: the names of those that rewrote it, in order.
        num_saved: how many of the last results only backward sees.
        passed: positions of results that the caller has already, an argument or something outside,
            and gets so: nobody needs a copy.
    """

    steps: tuple[Step | Action, ...]
    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    kept: tuple[Storage, ...]
    device: Device
    setup: tuple[Step, ...] = ()
    passes: tuple[str, ...] = ()
    num_saved: int = 0
    passed: frozenset[int] = frozenset()

    @lazy
    def ops(self) -> tuple[tuple[int, Step], ...]:
        """The steps that are ops, with their positions."""
        return tuple((i, step) for i, step in enumerate(self.steps) if isinstance(step, Step))

    @lazy
    def writers(self) -> Mapping[Storage, Sequence[int]]:
        """For each storage that steps write, their positions."""
        found: dict[Storage, list[int]] = {}
        for position, step in self.ops:
            for storage in step.writes:
                found.setdefault(storage, []).append(position)
        return found

    @lazy
    def readers(self) -> Mapping[Storage, Sequence[int]]:
        """For each storage that steps take as an input, changed in place or not, their positions.

        What is read after the last step (results, kept gradients) is not among them.
        """
        found: dict[Storage, list[int]] = {}
        for position, step in self.ops:
            for storage in step.reads:
                found.setdefault(storage, []).append(position)
        return found

    @lazy
    def outside(self) -> frozenset[Storage]:
        """Storages of parameters, state and whatever else has memory before there is a plan.

        It is found once: a plan gives the others memory, and the trace still says the same.
        """
        ends = (a.storage for a in (*self.arguments, *self.results))
        return frozenset(s for s in (*self.touched, *ends, *self.kept) if s.buffer is not None)

    @lazy
    def touched(self) -> frozenset[Storage]:
        """All storages that steps write or read, those of the setup included."""
        steps = (*self.setup, *(step for _, step in self.ops))
        return frozenset(chain.from_iterable(step.storages for step in steps))

    @lazy
    def lasting(self) -> frozenset[Storage]:
        """Abstract storages that must hold what they hold after the last step.

        They are those of results, of kept gradients, and of arguments that are changed.
        """
        returned = (r.storage for r in self.results)
        changed = (s for s in self.given if s in self.writers)
        return frozenset((*returned, *self.kept, *changed)) - self.outside

    @lazy
    def returned(self) -> frozenset[Storage]:
        """Values that are results: what the caller gets is made where he keeps it."""
        storages = (r.storage for r in self.results)
        return frozenset(s for s in storages if self.is_value(s) and s not in self.kept)

    @lazy
    def callers(self) -> frozenset[Storage]:
        """Storages of results that the caller may write: no two of them become one."""
        return frozenset(r.storage for r in self.results[: len(self.results) - self.num_saved])

    @lazy
    def constants(self) -> tuple[Storage, ...]:
        """What the setup makes, in order."""
        return tuple(dict.fromkeys(s for step in self.setup for s in step.made))

    @lazy
    def given(self) -> frozenset[Storage]:
        """The arguments' storages: written before the first step."""
        return frozenset(a.storage for a in self.arguments)

    @lazy
    def last_use(self) -> Mapping[Storage, int]:
        """For each storage, the position of the last step that writes or reads it."""
        found: dict[Storage, int] = {}
        for position, step in self.ops:
            for storage in step.storages:
                found[storage] = position
        return found

    @lazy
    def producers(self) -> Mapping[Storage, int]:
        """For each value, the position of the step that makes it."""
        others = self.outside | self.given
        return {
            storage: position
            for position, step in self.ops
            for storage in step.made
            if len(self.writers[storage]) == 1
            and storage not in others
            and storage not in step.mutated
        }

    def is_value(self, storage: Storage) -> bool:
        """Whether one step makes it and none changes it."""
        return storage in self.producers

    def outlives(self, storage: Storage) -> bool:
        """Whether what it holds after the last step is seen by someone."""
        return storage in self.outside or storage in self.lasting

    def producer(self, storage: Storage) -> int | None:
        """The position of the step that makes a value, None if it is none."""
        return self.producers.get(storage)

    def is_disturbed(
        self, low: int, high: int, *, reads: Iterable[Array], changed: Collection[Array] = ()
    ) -> bool:
        """Whether a step between two places keeps another from moving past it."""
        between = (low, high)
        return is_disturbed(between, self.writers, self.readers, reads=reads, changed=changed)

    def with_views(self, lying: Callable[[Array], Array]) -> Trace:
        """The same steps over arrays that lie elsewhere: ``lying`` gives each in place of one."""
        steps = list[Step | Action]()
        for step in self.steps:
            if isinstance(step, Step):
                outputs, inputs = (tuple(map(lying, xs)) for xs in (step.outputs, step.inputs))
                step = replace(step, outputs=outputs, inputs=inputs)
            steps.append(step)
        return self.with_steps(steps)

    def with_steps(self, steps: Sequence[Step | Action]) -> Trace:
        """The same trace with other steps."""
        return replace(self, steps=tuple(steps))
