"""An observer that writes down what a device was asked to do and how long that took.

It keeps no storage alive and changes nothing of what runs; what is made of it is in ``profiling``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..values.record import NamedTuple
from .watch import Record

if TYPE_CHECKING:
    from .device import Device

_NANOSECONDS = 1e-9
_MOST_PENDING = 4096
_BLOCKING = {"upload", "download", "map"}


PHASES = ("forward", "backward", "update")
"""What a training step consists of, by which time is told apart."""


class Command(NamedTuple):
    """A command the device has carried out.

    Attributes:
        device: the device's name.
        kind, name, op, module_path, phase, flops, bytes: as in :class:`clnet.device.Record`.
        start: when it began on the device, on the clock of ``time.perf_counter``.
        seconds: on the device.
        host_start, host_seconds: when the call that enqueued it began, and how long it took.
        allocations, allocated_bytes: blocks taken from the pool since the command before.
    """

    device: str
    kind: str
    name: str
    op: str
    module_path: str
    phase: str
    flops: int
    bytes: int
    start: float
    seconds: float
    host_start: float
    host_seconds: float
    allocations: int
    allocated_bytes: int

    @property
    def counted_in(self) -> str:
        """The phase that its time is counted in: what belongs to none counts as forward."""
        return self.phase or PHASES[0]


class Call(NamedTuple):
    """A call into OpenCL.

    Attributes:
        name: OpenCL's name of it.
        start: when it began, as ``time.perf_counter`` has it.
        seconds: how long it took on the host.
    """

    name: str
    start: float
    seconds: float


class Recorder:
    """Records the commands and calls of one device, in order.

    Args:
        device: the device it observes.

    Attributes:
        calls: what the host called.
        allocated: pairs of a time and the bytes in use then, wherever that changed.
    """

    profiling = True

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pending: deque[tuple[Record, int, int]] = deque()
        self._commands: list[Command] = []
        self._blocks = device.pool.statistics()
        # A command is enqueued within its call: that bounds the distance between the two clocks.
        self._clock_least, self._clock_most = float("-inf"), float("inf")
        self.calls: list[Call] = []
        self.allocated: list[tuple[float, int]] = []

    def command(self, record: Record) -> None:
        """Called by the queue after every command."""
        blocks, before = self._device.pool.statistics(), self._blocks
        self._blocks = blocks
        if not self.allocated or blocks.allocated != before.allocated:
            self.allocated.append((record.host_start, blocks.allocated))
        taken = blocks.num_allocations - before.num_allocations
        slim = replace(record, reads=(), writes=())  # so that it keeps no memory in use
        self._pending.append((slim, taken, blocks.allocated_in_all - before.allocated_in_all))
        if record.kind in _BLOCKING:  # all before is done; the event may hold a host array
            self._settle(len(self._pending))
        elif len(self._pending) >= _MOST_PENDING:
            self._settle(_MOST_PENDING // 2)

    def call(self, name: str, start: float, seconds: float) -> None:
        """Called after every call into OpenCL."""
        self.calls.append(Call(name, start, seconds))

    def commands(self) -> list[Command]:
        """What was carried out so far; waits for it."""
        with self._device.lock:  # other threads may still be observed
            self._settle(len(self._pending))
        distance = (self._clock_least + self._clock_most) / 2
        return [c._replace(start=c.start + distance) for c in tuple(self._commands)]

    def _settle(self, number: int) -> None:
        """Turn the oldest pending commands into figures, so that their events can go."""
        for _ in range(number):
            record, taken, nbytes = self._pending.popleft()
            record.event.wait()
            times: Any = record.event.profile
            start, queued = times.start * _NANOSECONDS, times.queued * _NANOSECONDS
            enqueued = record.host_start + record.host_seconds
            self._clock_least = max(self._clock_least, record.host_start - queued)
            self._clock_most = min(self._clock_most, enqueued - queued)
            self._commands.append(
                Command(
                    self._device.name,
                    record.kind,
                    record.name,
                    record.op,
                    record.module_path,
                    record.phase,
                    record.flops,
                    record.bytes,
                    start,
                    times.end * _NANOSECONDS - start,
                    record.host_start,
                    record.host_seconds,
                    taken,
                    nbytes,
                )
            )
