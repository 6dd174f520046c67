"""What of a kernel can be tuned: its problems and candidates, and how one of them is chosen.

A family declares one :class:`Tunable` beside its kernel and lists it in :mod:`.tunables`. The
declaration serves the default, the tuner and the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from ...device import Device, Launch, Target
from ...device.tunings import Entry
from ...values.settings import SETTINGS
from .tuner import tune_at_first_use


class Fields(Protocol):
    """A NamedTuple of numbers, texts and booleans."""

    def _asdict(self) -> dict[str, Any]: ...


P = TypeVar("P", bound=Fields)
C = TypeVar("C", bound=Fields)
C_contra = TypeVar("C_contra", contravariant=True)


class Trial(Protocol[C_contra]):
    """A problem with random operands, on which candidates are compared.

    Attributes:
        turns: copies of the operands, so that together they exceed the caches.
    """

    turns: int

    def launches(self, choice: C_contra, turn: int) -> list[Launch]:
        """What computes the problem on one of the copies."""
        ...

    def poison(self) -> None:
        """Overwrite the first copy's result with NaN."""
        ...

    def fault(self) -> str | None:
        """What is wrong with the first copy's result, by a reference; None if it is right."""
        ...


@dataclass(frozen=True)
class Tunable(Generic[P, C]):
    """A choice that a kernel leaves open.

    Attributes:
        name: the kernel's, in databases.
        version: of the declaration; it is raised when older measurements say nothing any more.
        problem: what a choice is made for, a NamedTuple.
        choice: what is chosen, a NamedTuple.
        default: the choice where nothing was measured.
        candidates: all choices that a target can run and that keep its limits: the default, then
            the most promising first.
        trial: makes operands for a problem.
    """

    name: str
    version: int
    problem: type[P]
    choice: type[C]
    default: Callable[[Target, P], C]
    candidates: Callable[[Target, P], Sequence[C]]
    trial: Callable[[Device, P], Trial[C]]

    def choose(self, target: Target, problem: P) -> C:
        """The choice for a problem: measured on the device or one like it, else the default.

        Args:
            target: what the device is like, and what was measured.
            problem: what is computed.
        """
        choice = target.choices.get((self.name, problem))
        if choice is None:
            key = (self.name, problem)
            choice = target.choices.setdefault(key, self._decide(target, problem))
        return choice

    def forced(self, target: Target, problem: P, choice: C) -> Target:
        """A target on which this choice is made for a problem, for trials."""
        changed = replace(target)
        changed.choices.update({**target.choices, (self.name, problem): choice})
        return changed

    def _decide(self, target: Target, problem: P) -> C:
        known = problem._asdict()
        for own, entry in target.tunings.find(self.name, known):
            choice = self.reading(entry)
            fitting = choice is not None and choice in self.candidates(target, problem)
            if choice is not None and fitting and (own or not SETTINGS.tune):
                return choice
            if own and not fitting:
                target.tunings.note(
                    f"tunings: what was measured for {self.name} does not fit it any more and is "
                    "ignored; clnet tune measures again"
                )
        entry = tune_at_first_use(target.tunings, self.name, known) if SETTINGS.tune else None
        choice = None if entry is None else self.reading(entry)
        return self.default(target, problem) if choice is None else choice

    def reading(self, entry: Entry) -> C | None:
        """The choice of an entry, or None if it was made for another version."""
        if entry.version != self.version or entry.choice.keys() != {*_names(self.choice)}:
            return None
        return self.choice(**entry.choice)


def _names(kind: type[Any]) -> tuple[str, ...]:
    return kind._fields
