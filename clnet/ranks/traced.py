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

__all__ = ["Exchange", "RecordedWork", "Visited", "is_traced", "record_exchange", "record_steps"]


Visited = Sequence[Visit | Marked]
"""Elements that an exchange looks at."""


class Exchange:
    """One exchange of a plan, from its first step to its last.

    Args:
        start: begins to look at the tensors and exchanges them in a thread; gives what is looked
            at, and the handle.
        runner: does it, after what was begun before; None: whoever comes first.
    """

    def __init__(
        self,
        start: Callable[[Sequence[Array]], tuple[Visited, Work]],
        runner: Runner | None,
    ) -> None:
        self._start, self.runner = start, runner
        self._visits: Visited = ()
        self._work: Work | None = None

    def begin(self, arrays: Sequence[Array]) -> None:
        """Have the elements brought, and exchanged in a thread."""
        self._visits, self._work = self._start(arrays)

    def end(self) -> None:
        """Wait for it."""
        work, self._work = self._work, None
        visits, self._visits = self._visits, ()
        try:
            if work is not None:
                work.wait()
        finally:
            for visit in visits:
                visit.end()


class ExchangeStep(Function):
    """A step of an exchange, for what it does on the host: it begins, or is waited for."""

    exchange: Exchange
    call: str
    begins: bool
    mutates: tuple[int, ...]
    keeps_place: bool = False

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
    def runner(self) -> Runner | None:
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
    visit: Callable[[Sequence[Array]], Visited] | None = None,
    alike: bool = True,
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
        visit: begins to look at the tensors; None: at each one's elements on the host.
        alike: whether all ranks have the same tensors there; what differs keeps its place, since
            ranks begin exchanges in one order.

    Returns:
        A handle with ``async_op``, else None.
    """

    def look(arrays: Sequence[Array]) -> Visited:
        return [x.visit(read=True, write=w) for x, w in zip(arrays, writes, strict=True)]

    def start(arrays: Sequence[Array]) -> tuple[Visited, Work]:
        visits = look(arrays) if visit is None else visit(arrays)
        return visits, group.meet(lambda: job(visits), begin=True)

    exchange = Exchange(start, group.runner)
    work = record_steps(call, exchange, tensors, writes, behind=behind, alike=alike)
    if async_op:
        return work
    work.wait()
    return None


def record_steps(
    call: str,
    exchange: Exchange,
    tensors: Sequence[Tensor],
    writes: Sequence[bool],
    *,
    behind: Callable[[], Any] | None = None,
    alike: bool = True,
) -> RecordedWork:
    """Record that an exchange begins; where the handle is waited for, a plan waits.

    Args:
        call: its name.
        exchange: what begins.
        tensors: dense.
        writes: for each tensor, whether it is overwritten.
        behind: as for :func:`record_exchange`.
        alike: as there.
    """
    inputs = tuple(x.array for x in tensors)
    mutates = tuple(i for i, written in enumerate(writes) if written)
    tracer: Any = mode.current().tracer
    tracer.record(ExchangeStep(exchange, call, True, mutates, not alike), inputs, ())
    work = RecordedWork(ExchangeStep(exchange, call, False, mutates), inputs, behind)
    tracer.ends.append(work.end)
    return work
