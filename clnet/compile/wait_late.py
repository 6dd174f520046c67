"""Waits for exchanges with other processes come late, and what does not need them before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..device import Storage
from .trace import Trace
from .tracer import Action, Step

# Waits that an exchange may come before although it stood behind them. Parameters in parts depend
# on nothing in a step: begun as early as they can be, all of them would be whole at once.
_MOST_AHEAD = 1


def wait_late(trace: Trace) -> Trace:
    """The trace with each wait behind all that needs neither it nor one that comes after it.

    Exchanges of what lies outside, as parameters in parts do, begin before the wait for the one
    before of their kind: one is on its way while another is computed with, and what is exchanged
    of its results comes behind. All others keep their order, and so do waits and steps that others
    wait for: exchanges begin in one order on all ranks, and devices meet in one. A step follows the
    last wait that it depends on, at once or by others: an optimiser changes the parameters whose
    gradients are there while others are on their way. Actions on the host stay between the same
    steps, but for waits; so do exchanges for which ranks have other tensors, since they need other
    steps on each rank.
    """
    if not any(step.function.waits for _, step in trace.ops):
        return trace
    order = _Order(*_fixed(trace, _early(trace)))
    levels = [order.level(step) for step in trace.steps]
    if order.held:
        _hold_back(trace.steps, levels, order.held)
    places = sorted(range(len(levels)), key=levels.__getitem__)
    return trace.with_steps([trace.steps[i] for i in places])


def _early(trace: Trace) -> set[int]:
    """The places of exchanges that need only what lies outside, as it is before all steps."""
    found = set[int]()
    written, touched = set(trace.given), set(trace.given)  # by what may come behind a wait
    for i, step in enumerate(trace.steps):
        if isinstance(step, Action) or step.function.keeps_place:
            break
        late = not (written.isdisjoint(step.storages) and touched.isdisjoint(step.writes))
        if step.function.begins and not late:
            found.add(i)
        if late or step.function.begins or step.function.waits:
            written.update(step.writes)
            touched.update(step.storages)
    return found


def _fixed(trace: Trace, early: Collection[int]) -> tuple[Mapping[int, int], Collection[int]]:
    """After how many waits each wait comes, itself included, and each early exchange, by place.

    What was begun between two early exchanges is waited for behind the second, which begins before:
    the places of these waits come second.
    """
    begun: dict[tuple[Storage, ...], int] = {}
    order, behind, put_off = list[int](), list[int](), set[int]()
    before: dict[int, int] = {}  # of an early exchange, the wait for the one before
    last: int | None = None
    for i, step in trace.ops:
        if i in early and last is not None:
            before[i] = last
        if step.function.begins:
            begun[step.reads] = i
        if not step.function.waits:
            continue
        start = begun.get(step.reads, -1)
        if start in early:
            order += [i, *behind]
            behind, last = [], i
        elif last is not None and start > last:
            behind.append(i)
            put_off.add(i)
        else:
            order.append(i)
    numbers = {place: k for k, place in enumerate((*order, *behind), 1)}
    ahead = {i: numbers[before[i]] - _MOST_AHEAD if i in before else 0 for i in early}
    return {**numbers, **ahead}, put_off


def _hold_back(steps: Sequence[Step | Action], levels: list[int], held: set[int]) -> None:
    """Let what only exchanges need that were held back come with them: it is memory until then.

    Args:
        steps: in order.
        levels: of each; changed in place.
        held: places of the exchanges.
    """
    action = max(levels)  # the least of those behind
    written: dict[Storage, int] = {}  # the least levels of those behind that write it
    touched: dict[Storage, int] = {}  # ... or touch it
    first: dict[Storage, int] = {}  # which of those behind is the first that touches it
    late = set(held)
    for i in reversed(range(len(steps))):
        step = steps[i]
        if isinstance(step, Action):
            action = min(action, levels[i])
            continue
        behind = {first.get(s, -1) for s in step.writes}
        if behind and not (step.function.reports or step.function.waits) and behind <= late:
            before = [touched[s] for s in step.writes]
            before += [written[s] for s in step.storages if s in written]
            levels[i] = max(levels[i], min(action, *before))
            late.add(i)
        for storage in step.writes:
            written[storage] = min(levels[i], written.get(storage, levels[i]))
        for storage in {*step.storages, *step.writes}:
            touched[storage] = min(levels[i], touched.get(storage, levels[i]))
            first[storage] = i


class _Order:
    """After how many waits a step comes, at least.

    Args:
        fixed: of waits, and of exchanges that may come before all, by their places.
        put_off: places of waits that come behind others that they stood before.

    Attributes:
        held: places of exchanges that come later than they could.
    """

    def __init__(self, fixed: Mapping[int, int], put_off: Collection[int]) -> None:
        self.held: set[int] = set()
        self._fixed, self._put_off = fixed, put_off
        self._count = -1
        self._waits = self._host = self._most = self._reported = 0
        self._written: dict[Storage, int] = {}
        self._touched: dict[Storage, int] = {}

    def level(self, step: Step | Action) -> int:
        """Of each step in order."""
        self._count += 1
        if isinstance(step, Action):
            self._host = self._most
            return self._host
        if self._count in self._fixed:
            found = max(self._fixed[self._count], *self._conflicts(step))
            if step.function.begins:
                self.held.add(self._count)
            elif self._count not in self._put_off:
                self._waits = max(self._waits, found)
        else:
            found = max(self._host, *self._conflicts(step))
            earliest = self._waits - _MOST_AHEAD
            if step.function.begins and found < earliest:  # what it fills is memory from then on
                found = earliest
                self.held.add(self._count)
            if step.function.reports:
                self._reported = found = max(found, self._reported)
            self._most = max(self._most, found)
            if step.function.keeps_place:
                self._host = found = self._most
        for storage in step.writes:
            self._written[storage] = found
        for storage in step.storages:
            self._touched[storage] = max(found, self._touched.get(storage, 0))
        return found

    def _conflicts(self, step: Step) -> list[int]:
        """Of steps before it that write what it touches, or touch what it writes."""
        reads = [self._written.get(s, 0) for s in step.storages]
        return [0, *reads, *(self._touched.get(s, 0) for s in step.writes)]
