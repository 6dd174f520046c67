"""``clnet.profile``: what devices did while a body of code ran, and what the host spent on it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import (
    PHASES,
    Call,
    Command,
    Device,
    Recorder,
    current_device,
    on_open,
    opened_devices,
)
from ..device import device as open_device
from ..values.exchanges import Exchange, observed_exchanges
from . import chrome_trace, html, table
from .exchanges import hidden_seconds
from .host_usage import HostUsage, peak_resident_bytes
from .limits import Limits, known_limits
from .startup import StartUp, seconds_since_process_start
from .total import Total, totals_of_calls, totals_of_commands

if TYPE_CHECKING:
    from ..ranks.world import Group

_SHARE = 0.9


class Profile:
    """What was enqueued and called while it observed; complete when its body has ended.

    Attributes:
        commands: kernels and copies, in order.
        calls: calls into OpenCL on the host, in order.
        exchanges: with other processes, in order.
        allocated: by device, pairs of a time and the bytes in use then.
        devices: names of the devices, and what they are.
        limits: what a device reaches at best, where it was measured before.
        start: where the time before the first result went.
        begin: when it began, as ``time.perf_counter`` has it.
        begin_unix: when it began, in seconds since 1970.
        wall: seconds from begin to end.
        host: what the process used of the host meanwhile: user and system time, page faults.
        peak_resident_bytes: the most memory the process has had resident; None where the
            system does not say.
        peak_allocated_bytes: the most bytes tensors had in use on a device.
    """

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.calls: list[Call] = []
        self.exchanges: list[Exchange] = []
        self.allocated: dict[str, list[tuple[float, int]]] = {}
        self.devices: dict[str, str] = {}
        self.limits: dict[str, Limits] = {}
        self.start = StartUp()
        self.wall = 0.0
        self.host = HostUsage()
        self.peak_resident_bytes: int | None = 0
        self._recorders: dict[Device, Recorder] = {}
        self.begin, self.begin_unix = time.perf_counter(), time.time()
        self._host_begin = HostUsage.now()

    @property
    def cpu(self) -> float:
        """Processor seconds the process used meanwhile, all threads together."""
        return self.host.user + self.host.system

    @property
    def device_seconds(self) -> float:
        """Seconds of all kernels and copies."""
        return sum(c.seconds for c in self.commands)

    @property
    def peak_allocated_bytes(self) -> int:
        """The most bytes tensors had in use on a device."""
        return max((b for pairs in self.allocated.values() for _, b in pairs), default=0)

    def totals(self, key: Callable[[Command], str] = lambda c: c.name) -> dict[str, Total]:
        """Sums over the commands by a key (the kernel's name by default), the dearest first.

        Args:
            key: for instance ``lambda c: c.op``.
        """
        return totals_of_commands(self.commands, key)

    def call_totals(self) -> dict[str, Total]:
        """Sums over the calls of the host by name, the dearest first."""
        return totals_of_calls(self.calls)

    def phases(self) -> dict[str, float]:
        """Device seconds of forward, backward and update."""
        found = self.totals(lambda c: c.counted_in)
        return {p: found[p].seconds if p in found else 0.0 for p in PHASES}

    def table(self, key: Callable[[Command], str] = lambda c: c.name, *, share: float = 1.0) -> str:
        """The totals as text: type, share, time, calls, average, least, most, rates and name.

        Args:
            key: as for :meth:`totals`.
            share: leave out rows beyond this share of the time.
        """
        return table.activity(self.totals(key), self.common_limits, share)

    def summary(self, share: float = _SHARE) -> str:
        """Everything worth a look: two tables of the dearest, layers, ops, start-up and memory.

        Args:
            share: leave out rows beyond this share of the time.
        """
        return table.summary(self, share)

    @property
    def common_limits(self) -> Limits | None:
        """The limits of the device, when all commands ran on one whose limits are known."""
        names = {c.device for c in self.commands}
        return self.limits.get(names.pop()) if len(names) == 1 else None

    def fields(self) -> dict[str, Any]:
        """The figures as plain values, for JSON."""
        return table.fields(self)

    @property
    def hidden_exchange_seconds(self) -> float:
        """Seconds of exchanges in which a device computed."""
        return hidden_seconds(self.exchanges, self.commands)

    def save_trace(self, path: str | os.PathLike[str], *, ranks: Group | None = None) -> None:
        """Write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: the JSON file.
            ranks: whose traces go into one file, each with tracks of its own; their first writes
                it, and all call this. ``distributed.group.WORLD``: all.
        """
        mine = list(chrome_trace.events(self))
        if ranks is None:
            chrome_trace.write(mine, Path(path))
            return
        told = ranks.collected((self.begin_unix, mine))
        if told is not None:
            chrome_trace.write(chrome_trace.of_ranks(told), Path(path))

    def save_html(self, path: str | os.PathLike[str], title: str = "clnet profile") -> None:
        """Write a report with charts: one file that needs no network.

        Args:
            path: the HTML file.
            title: its heading.
        """
        html.write(self, Path(path), title)

    def observe(self, device: Device) -> ExitStack:
        """Have it look on at a device until the result is closed."""
        recorder = self._recorders[device] = Recorder(device)
        self.start.add(device, -1)
        stack = ExitStack()
        stack.enter_context(device.queue.observe(recorder))
        return stack

    @property
    def observed(self) -> tuple[Device, ...]:
        """The devices it looked on at."""
        return tuple(self._recorders)

    def opened(self, device: Device) -> None:
        """Note that a device was opened meanwhile, and what that cost."""
        self.start.context += device.open_seconds
        self.calls.append(Call("clCreateContext", device.open_start, device.open_seconds))

    def finish(self) -> None:
        """Wait for the devices and gather what was recorded; nothing in a child that was forked."""
        if any(device.inherited for device in self._recorders):
            return
        for device in self._recorders:
            device.queue.wait()
        self.wall = time.perf_counter() - self.begin
        self.host = HostUsage.now().since(self._host_begin)
        self.peak_resident_bytes = peak_resident_bytes()
        for device, recorder in self._recorders.items():
            self.commands += recorder.commands()
            self.calls += recorder.calls
            self.allocated[device.name] = recorder.allocated
            self.devices[device.name] = device.identity.name
            self.start.add(device)
            limits = known_limits(device)
            if limits is not None:
                self.limits[device.name] = limits
        self.commands.sort(key=lambda c: c.start)
        self.calls.sort(key=lambda c: c.start)
        self.exchanges = sorted(self.exchanges, key=lambda e: e.start)


@contextmanager
def profile(
    device: Device | str | None = None, *, whole_program: bool = False
) -> Iterator[Profile]:
    """Observe devices while the body runs.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one, all that were opened, and
            all that the body opens.
        whole_program: count what the process did before towards the start-up, and open no device.

    Yields:
        The profile; its figures are complete when the body has ended.

    Example:
        >>> import clnet
        >>> with clnet.profile() as p:
        ...     y = clnet.ones(4).exp()
        >>> p.totals(lambda command: command.op)["exp"].calls
        1
    """
    before = seconds_since_process_start() if whole_program else None
    if device is not None:
        chosen = [open_device(device)]
    else:
        chosen = list(opened_devices())
        if not whole_program and current_device() not in chosen:
            chosen.append(current_device())
    observer = Profile()
    observer.start.process = before
    with ExitStack() as stack:
        observer.exchanges = stack.enter_context(observed_exchanges())
        for each in chosen:
            stack.enter_context(observer.observe(each))

        def opened(new: Device) -> None:
            observer.opened(new)
            stack.enter_context(observer.observe(new))

        if device is None:
            stack.enter_context(on_open(opened))
        try:
            yield observer
        except GeneratorExit:  # never left, as when the interpreter ends: nobody reads its figures
            raise
        except BaseException:
            observer.finish()
            raise
        observer.finish()
    for each in observer.observed:
        if not each.inherited:
            each.synchronize()  # kernels may have found bad data
