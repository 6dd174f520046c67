"""An exchange with which a function begins comes behind some work that does not need it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from ..device import Storage
from .trace import Trace
from .tracer import Action, Step

# Of other work: the host asks for it sooner than a device has done it.
_MOST_STEPS = 32


def work_first(trace: Trace) -> Trace:
    """The trace with its first exchange, and what only that needs, behind some steps after it.

    Buffers are exchanged before the forward pass. While the host begins with that, a device that
    was given nothing yet would stand. What changes places touches nothing that the other writes,
    and no other exchange, wait or action on the host comes to stand elsewhere.
    """
    steps = trace.steps
    begin = next((i for i, step in trace.ops if step.function.begins), None)
    if begin is None or begin >= _MOST_STEPS:
        return trace
    needed = _needed(steps[:begin], steps[begin])
    moved, before = _Moved(), list[Step | Action]()
    for i, step in enumerate(steps[:begin]):
        if i in needed:
            moved.take(step)
        elif moved.lets_pass(step):
            before.append(step)
        else:
            return trace
    moved.take(steps[begin])
    after = list(takewhile(moved.lets_pass, islice(steps, begin + 1, begin + 1 + _MOST_STEPS)))
    rest = steps[begin + 1 + len(after) :]
    return trace.with_steps([*before, *after, *moved.steps, *rest])


def _needed(steps: Sequence[Step | Action], last: Step | Action) -> set[int]:
    """The places of steps that another depends on."""
    found: set[int] = set()
    wanted = set(last.storages) if isinstance(last, Step) else set[Storage]()
    for i in reversed(range(len(steps))):
        step = steps[i]
        if isinstance(step, Step) and not wanted.isdisjoint(step.writes):
            found.add(i)
            wanted.update(step.storages)
    return found


class _Moved:
    """Steps that come later than they did.

    Attributes:
        steps: these, in order.
    """

    def __init__(self) -> None:
        self.steps: list[Step | Action] = []
        self._touches: set[Storage] = set()
        self._writes: set[Storage] = set()

    def take(self, step: Step | Action) -> None:
        """Move a step, too."""
        self.steps.append(step)
        if isinstance(step, Step):
            self._touches.update(step.storages)
            self._writes.update(step.writes)

    def lets_pass(self, step: Step | Action) -> bool:
        """Whether a step behind them may come before them."""
        if not self.steps:
            return True
        if isinstance(step, Action) or step.function.waits or step.function.reports:
            return False
        return self._touches.isdisjoint(step.writes) and self._writes.isdisjoint(step.storages)
