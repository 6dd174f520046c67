"""An observer that adds up what kernels cost. It changes nothing of what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .device import Device, current_device
from .device import device as open_device
from .queue import Record

_NANOSECONDS = 1e-9


@dataclass
class Total:
    """Sums over the commands of one name.

    Attributes:
        calls: how many there were.
        seconds: on the device.
        host_seconds: in the calls that enqueued them.
        flops: arithmetic operations.
        bytes: bytes moved at least.
    """

    calls: int = 0
    seconds: float = 0.0
    host_seconds: float = 0.0
    flops: int = 0
    bytes: int = 0


@dataclass
class Profile:
    """What was enqueued while it observed.

    Attributes:
        records: every command, in order.
        profiling: that it needs device times.
    """

    records: list[Record] = field(default_factory=list[Record])
    profiling: bool = True

    def command(self, record: Record) -> None:
        """Called by the queue after every command."""
        self.records.append(record)

    def totals(self, key: Callable[[Record], str] = lambda r: r.name) -> dict[str, Total]:
        """Sums by a key of the records (the kernel's name by default), the dearest first.

        Args:
            key: for instance ``lambda r: r.module_path``.
        """
        sums: dict[str, Total] = {}
        for record in self.records:
            total = sums.setdefault(key(record), Total())
            event = record.event
            event.wait()
            total.calls += 1
            total.seconds += (event.profile.end - event.profile.start) * _NANOSECONDS
            total.host_seconds += record.host_seconds
            total.flops += record.flops
            total.bytes += record.bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1].seconds))

    def table(self, key: Callable[[Record], str] = lambda r: r.name) -> str:
        """The totals as text: share, time, calls, average, GFLOP/s and GB/s.

        Args:
            key: as for :meth:`totals`.
        """
        totals = self.totals(key)
        everything = sum(t.seconds for t in totals.values()) or 1.0
        lines = [
            f"{'Time(%)':>8} {'Time':>10} {'Calls':>6} {'Avg':>10} {'GFLOP/s':>9} {'GB/s':>7}  Name"
        ]
        for name, t in totals.items():
            seconds = max(t.seconds, _NANOSECONDS)
            lines.append(
                f"{100 * t.seconds / everything:7.2f}% {1e3 * t.seconds:8.3f}ms {t.calls:6d} "
                f"{1e6 * t.seconds / t.calls:8.1f}us {t.flops / seconds / 1e9:9.2f} "
                f"{t.bytes / seconds / 1e9:7.2f}  {name}"
            )
        return "\n".join(lines)


@contextmanager
def profile(device: Device | str | None = None) -> Iterator[Profile]:
    """Observe a device while the body runs.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.

    Yields:
        The profile; its figures are complete when the body has ended.

    Example:
        >>> import clnet
        >>> with clnet.profile() as p:
        ...     y = clnet.ones(4).exp()
        >>> p.totals(lambda record: record.op)["exp"].calls
        1
    """
    opened: Any = current_device() if device is None else open_device(device)
    observer = Profile()
    with opened.queue.observe(observer):
        yield observer
        opened.queue.finish()
