"""Exchanges within a function that is compiled: steps of its plan, in their place at every replay.

A step begins where the tensors have been computed: it has them brought to the host, and a thread
exchanges them while the device goes on with what comes behind. Another waits, at the end of the
function if nobody waits before. All ranks trace the same function, so that their exchanges come in
one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..array import Array, Visit
from ..errors import TraceError
from ..ops.machinery.function import Function
from ..tensor import Tensor
from ..values import mode
from .device_sum import Marked
from .work import Runner, Work
from .world import Group

__all__ = ["RecordedWork", "is_traced", "record_exchange"]


class Exchange:
    """One exchange of a plan, from its first step to its last.

    Args:
        group: who takes part.
        job: exchanges the tensors' elements, which it waits for when ranks have agreed.
        writes: for each tensor, whether it is overwritten.
        visit: begins to look at one that is; None: at its elements on the host.
    """

    def __init__(
        self,
        group: Group,
        job: Callable[[Sequence[Any]], None],
        writes: tuple[bool, ...],
        visit: Callable[[Array], Visit | Marked] | None = None,
    ) -> None:
        self._group, self._job, self._writes = group, job, writes
        self._visit = visit
        self._visits: list[Visit | Marked] = []
        self._work: Work | None = None

    def begin(self, arrays: Sequence[Array]) -> None:
        """Have the elements brought, and exchanged in a thread."""
        visits = [
            self._visit(x) if w and self._visit is not None else x.visit(read=True, write=w)
            for x, w in zip(arrays, self._writes, strict=True)
        ]
        self._visits = visits
        self._work = self._group.meet(lambda: self._job(visits), begin=True)

    def end(self) -> None:
        """Wait for it."""
        work, self._work = self._work, None
        visits, self._visits = self._visits, []
        try:
            if work is not None:
                work.wait()
        finally:
            for visit in visits:
                visit.end()

    @property
    def runner(self) -> Runner:
        """Does the exchange, after those that were begun before: they may need a device's lock."""
        return self._group.runner


class ExchangeStep(Function):
    """A step of an exchange, for what it does on the host: it begins, or is waited for."""

    exchange: Exchange
    call: str
    begins: bool
    mutates: tuple[int, ...]

    reports = True

    @property
    def waits(self) -> bool:
        """Whether it is the one that is waited for."""
        return not self.begins

    @property
    def name(self) -> str:
        """What was called, or that it is waited for."""
        return self.call if self.begins else f"{self.call}_wait"

    def on_host(self, outputs: tuple[Array, ...], inputs: tuple[Array, ...]) -> Callable[[], None]:
        """Begin, or wait."""
        del outputs
        return (lambda: self.exchange.begin(inputs)) if self.begins else self.exchange.end

    @property
    def runner(self) -> Runner:
        """The exchange's."""
        return self.exchange.runner


def is_traced() -> bool:
    """Whether a function is being compiled."""
    return mode.current().tracer is not None


class RecordedWork(Work):
    """The handle of an exchange that is recorded: where it is waited for, a plan waits.

    Args:
        step: the step that waits.
        inputs: its arrays.
        behind: called then, to record what comes behind.
    """

    def __init__(
        self, step: Function, inputs: tuple[Array, ...], behind: Callable[[], Any] | None
    ) -> None:
        super().__init__()
        self._step, self._inputs, self._behind = step, inputs, behind

    def wait(self, timeout: Any = None) -> bool:
        """Record the wait, once.

        Raises:
            TraceError: outside the function that was traced.
        """
        del timeout
        if self.is_completed():
            return True
        if mode.current().tracer is None:
            raise TraceError(
                "wait",
                "an exchange begun in a function that is compiled is waited for there",
                remedy="Call wait() in the function",
            )
        self._record()
        self.settle()
        return True

    def end(self) -> None:
        """At the end of the function: what it returns has been exchanged, if nobody waited."""
        if not self.is_completed():
            self._record()

    def _record(self) -> None:
        tracer: Any = mode.current().tracer
        tracer.record(self._step, self._inputs, ())
        if self._behind is not None:
            self._behind()


def record_exchange(
    call: str,
    group: Group,
    tensors: Sequence[Tensor],
    job: Callable[[Sequence[Any]], None],
    *,
    writes: tuple[bool, ...],
    async_op: bool = False,
    behind: Callable[[], Any] | None = None,
    visit: Callable[[Array], Visit | Marked] | None = None,
) -> Work | None:
    """Record an exchange of a function that is traced.

    Args:
        call: its name.
        group: who takes part.
        tensors: dense.
        job: agrees with the others, then exchanges what the visits of the tensors find.
        writes: for each tensor, whether it is overwritten.
        async_op: whether steps that follow run meanwhile.
        behind: records what comes behind it.
        visit: as of an :class:`Exchange`.

    Returns:
        A handle with ``async_op``, else None.
    """
    inputs = tuple(x.array for x in tensors)
    mutates = tuple(i for i, written in enumerate(writes) if written)
    exchange = Exchange(group, job, writes, visit)
    tracer: Any = mode.current().tracer
    tracer.record(ExchangeStep(exchange, call, True, mutates), inputs, ())
    work = RecordedWork(ExchangeStep(exchange, call, False, mutates), inputs, behind)
    if async_op:
        tracer.ends.append(work.end)
        return work
    work.wait()
    return None
