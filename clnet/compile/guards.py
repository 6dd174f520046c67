"""What a plan depends on beside its arguments: modules, optimisers and their like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

from ..device import Storage
from ..values.changes import FLAGS, MODULES, PLACES
from .numbers import Numbers, Slot
from .outer import Outer
from .tracer import Tracer


class Premises:
    """What must be as it was traced, for a plan to be valid.

    Args:
        tracer: what found it.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._guards = Guards(tracer.watched.values(), tracer.numbers)
        self._places = Places(tracer.outside)
        self._flags = Flags(tracer.wanting.values())
        self._grads_before = tracer.grads_found()

    def valid(self, numbers: Sequence[Any] = ()) -> bool:
        """Whether modules, optimisers, gradients and parameters are as they were traced.

        Args:
            numbers: those among the call's arguments.
        """
        guards = self._guards
        if guards.outdated() or self._places.left() or self._flags.turned():
            return False
        if guards.numbers is not None and not guards.numbers.hold(numbers):
            return False
        return not self._grads_before or self.gradients_unchanged()

    def gradients_unchanged(self) -> bool:
        """Whether the gradients that the trace depends on are those that were there."""
        return all(leaf.grad is g for leaf, g in self._grads_before)

    def outdated(self) -> bool:
        """Whether a module or optimiser changed since, so that it never becomes valid again."""
        return self._guards.outdated()

    def differing_slots(self) -> Iterable[Slot]:
        """Where numbers lie that the function finds outside and that are others now."""
        return self._guards.differing_slots()

    def differing(self) -> list[str]:
        """The names of what the function finds outside that is another now."""
        return self._guards.differing()


class Guards:
    """Objects with the versions that they had when a function was traced.

    Args:
        watched: objects and their versions. Modules, whose class has ``_clnet_tells_changes``, are
            looked at when :data:`.MODULES` was told of a change: a network has hundreds, and to
            look at them took half of the host's time of a call.
        numbers: those that vary from call to call, if there are some.

    Attributes:
        numbers: the same; whether they hold for a call is asked apart.
    """

    def __init__(self, watched: Iterable[tuple[Any, Any]], numbers: Numbers | None = None) -> None:
        self._modules: list[tuple[Any, Any]] = []
        self._others: list[tuple[Any, Any]] = []
        for each in watched:
            tells = getattr(type(each[0]), "_clnet_tells_changes", False)
            (self._modules if tells else self._others).append(each)
        self._mark: object = None
        self.numbers = numbers or None

    def outdated(self) -> bool:
        """Whether one has another version now."""
        if self.numbers is not None and self.numbers.outdated():
            return True
        mark = MODULES.mark
        if mark is not self._mark:
            if _differ(self._modules):
                return True
            self._mark = mark
        return _differ(self._others)

    def differing_slots(self) -> Iterator[Slot]:
        """Where numbers lie that the function finds outside and that are others now."""
        for o, version in self._others:
            if isinstance(o, Outer):
                yield from (slot for slot, _ in o.changed_slots(version))

    def differing(self) -> list[str]:
        """The names of what the function finds outside that is another now, and is not counted."""
        outers: Any = [(o, version) for o, version in self._others if isinstance(o, Outer)]
        found = [name for outer, version in outers for name in outer.differing(version)]
        return found if self.numbers is None else [*found, *self.numbers.differing()]


class Places:
    """Memory outside that a trace reads or writes: are the tensors still there that it found?

    Args:
        outside: storages, and how many tensors had moved away when the function was traced.
    """

    def __init__(self, outside: Mapping[Storage, int]) -> None:
        self._outside = dict(outside)
        self._mark: object = None

    def left(self) -> bool:
        """Whether one was given other memory, by ``x.data = y``, and has not come back."""
        mark = PLACES.mark
        if mark is not self._mark:
            if any(storage.moves != moves for storage, moves in self._outside.items()):
                return True
            self._mark = mark
        return False


class Flags:
    """Tensors outside that a trace found: do they want gradients as they did then?

    Args:
        wanting: the tensors, and whether they did; those that are gone are nobody's any more.
    """

    def __init__(self, wanting: Iterable[tuple[ref[Any], bool]]) -> None:
        self._wanting = [each for each in wanting if each[0]() is not None]
        self._mark: object = None

    def turned(self) -> bool:
        """Whether one was frozen or thawed, and is not again what it was."""
        mark = FLAGS.mark
        if mark is not self._mark:
            for find, wanted in self._wanting:
                if (x := find()) is not None and x.requires_grad is not wanted:
                    return True
            self._mark = mark
        return False


def _differ(guards: list[tuple[Any, Any]]) -> bool:
    return any(
        o.differs(version) if isinstance(o, Outer) else o._clnet_version != version
        for o, version in guards
    )
