"""Plans that a compiled function keeps, by what tells its calls apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from .finish import Finish
from .plan import Plan
from .spanning import SpanningPlan

__all__ = ["MOST_PLANS", "AnyPlan", "Kept", "KeptPlans"]

MOST_PLANS = 16
"""Signatures of which a compiled function keeps plans."""
_USES = count()

AnyPlan = Plan | SpanningPlan


class Kept:
    """Plans of one signature, with what makes results of their arrays.

    Attributes:
        entries: the plans; others are another object's.
        used: larger than that of plans that were used before.
    """

    def __init__(self, entries: Sequence[tuple[AnyPlan, Finish]]) -> None:
        self.entries = tuple(entries)
        self.touch()

    def touch(self) -> None:
        """They are the ones that were used last."""
        self.used = next(_USES)


class KeptPlans:
    """Plans by signature; of many the least recently used go.

    A plan holds memory between its calls: arenas, gradients that it leaves, copies of weights. It
    can be made again, so where a device has no room left all go but those that were used last.
    Calls look here without a lock; who traces enters and removes.
    """

    def __init__(self) -> None:
        self._kept: dict[Any, Kept] = {}
        self._made_room = False

    @property
    def full(self) -> bool:
        """Whether there are as many as may be, or room was made once."""
        return self._made_room or len(self._kept) >= MOST_PLANS

    def __iter__(self) -> Iterator[Kept]:
        """Those of all signatures, the least recently used first."""
        return iter(sorted(self._kept.values(), key=lambda each: each.used))

    def signatures(self) -> list[Any]:
        """What tells their calls apart."""
        return list(self._kept)

    def get(self, key: Any) -> Kept | None:
        """The plans of a signature, or None."""
        return self._kept.get(key)

    def put(self, key: Any, entries: Sequence[tuple[AnyPlan, Finish]]) -> None:
        """Keep plans of a signature, in the place of those that there were."""
        kept = self._kept
        kept[key] = Kept(entries)
        while len(kept) > MOST_PLANS:
            kept.pop(min(list(kept), key=lambda each: kept[each].used), None)

    def pop(self, key: Any) -> Kept | None:
        """The plans of a signature, which are kept no longer, or None."""
        return self._kept.pop(key, None)

    def make_room(self) -> bool:
        """Let all go but those that were used last; whether there were any.

        Whoever finds no room calls it, in any thread, perhaps while another one traces: that one's
        plan may be kept no longer, and is made again.
        """
        kept = self._kept
        last = max(kept.items(), key=lambda each: each[1].used, default=None)
        self._kept = {} if last is None else {last[0]: last[1]}
        self._made_room = self._made_room or len(kept) > 1
        return len(kept) > 1
