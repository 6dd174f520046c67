"""Waits for exchanges with other processes come late, and what does not need them before."""

from __future__ import annotations

from ..device import Storage
from .trace import Trace
from .tracer import Action, Step


def wait_late(trace: Trace) -> Trace:
    """The trace with each wait behind all that needs neither it nor one that comes after it.

    Waits keep their order, and so do steps that others wait for: exchanges begin in one order on
    all ranks, and devices meet in one. A step follows the last wait that it depends on, at once or
    by others: an optimiser changes the parameters whose gradients are there while others are on
    their way. Actions on the host stay between the same steps, but for waits.
    """
    if not any(step.function.waits for _, step in trace.ops):
        return trace
    order = _Order()
    levels = [order.level(step) for step in trace.steps]
    places = sorted(range(len(levels)), key=levels.__getitem__)
    return trace.with_steps([trace.steps[i] for i in places])


class _Order:
    """After how many waits a step comes, at least."""

    def __init__(self) -> None:
        self._waits = self._host = self._most = self._reported = 0
        self._written: dict[Storage, int] = {}
        self._touched: dict[Storage, int] = {}

    def level(self, step: Step | Action) -> int:
        """Of each step in order."""
        if isinstance(step, Action):
            self._host = self._most
            return self._host
        if step.function.waits:
            self._waits = found = max(self._waits, *self._conflicts(step), 0) + 1
        else:
            found = max(self._host, *self._conflicts(step))
            if step.function.reports:
                self._reported = found = max(found, self._reported)
            self._most = max(self._most, found)
        for storage in step.writes:
            self._written[storage] = found
        for storage in step.storages:
            self._touched[storage] = max(found, self._touched.get(storage, 0))
        return found

    def _conflicts(self, step: Step) -> list[int]:
        """Of steps before it that write what it touches, or touch what it writes."""
        reads = [self._written.get(s, 0) for s in step.storages]
        return [0, *reads, *(self._touched.get(s, 0) for s in step.writes)]
