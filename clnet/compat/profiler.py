"""``clnet.profiler``: PyTorch's profiler over clnet's own, :func:`clnet.profile`.

A key is an op as clnet names it (``"matmul (backward)"``), a copy, or a block that
:func:`record_function` named. Its host time is that of the calls that enqueued its kernels, its
device time that of the kernels; host times do not nest, but for a named block, which has all that
ran in it.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ..errors import ArgumentError
from ..profiling import Profile
from ..profiling import profile as observed
from ..profiling.table import aligned, duration, op_of, size

__all__ = [
    "EventList",
    "FunctionEvent",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]

_MICRO = 1e6


class ProfilerActivity(Enum):
    """What PyTorch's profiler looks at; clnet's looks at host and device always."""

    CPU, CUDA, XPU, MTIA, HPU, PrivateUse1 = 0, 2, 3, 4, 5, 6


class ProfilerAction(Enum):
    """What it does in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = 0, 1, 2, 3


class FunctionEvent:
    """What was spent on one name, in microseconds and bytes.

    Attributes:
        key: the name; ``name`` also.
        count: how many kernels, copies or blocks.
        cpu_time_total: on the host; ``self_cpu_time_total`` also.
        device_time_total: on the device; ``self_device_time_total`` also.
        flops: arithmetic operations.
        device_memory_usage: bytes taken from the device's pool.
    """

    def __init__(self, key: str) -> None:
        self.key = self.name = key
        self.count = self.flops = self.device_memory_usage = 0
        self.cpu_time_total = self.device_time_total = 0.0

    def add(
        self, host: float, device: float, flops: int = 0, memory: int = 0, *, count: int = 1
    ) -> None:
        """Count one in, or several.

        Args:
            host: seconds.
            device: seconds.
            flops: arithmetic operations.
            memory: bytes.
            count: how many.
        """
        self.count += count
        self.cpu_time_total += host * _MICRO
        self.device_time_total += device * _MICRO
        self.flops += flops
        self.device_memory_usage += memory

    cpu_time = property(lambda self: self.cpu_time_total / max(self.count, 1), doc="Of one.")
    device_time = property(lambda self: self.device_time_total / max(self.count, 1), doc="Of one.")
    self_cpu_time_total = property(lambda self: self.cpu_time_total, doc="On the host.")
    self_device_time_total = property(lambda self: self.device_time_total, doc="On the device.")
    cuda_time, cuda_time_total, self_cuda_time_total = (
        device_time,
        self_device_time_total,
        self_device_time_total,
    )
    cpu_memory_usage = self_cpu_memory_usage = property(lambda self: 0, doc="None is counted.")
    self_device_memory_usage = property(lambda self: self.device_memory_usage, doc="Bytes.")
    cpu_time_str = property(lambda self: duration(self.cpu_time / _MICRO), doc="As text.")

    def __repr__(self) -> str:
        times = f"cpu_time={self.cpu_time_total:.3f}us device_time={self.device_time_total:.3f}us"
        return f"<FunctionEvent key={self.key} count={self.count} {times}>"


class EventList(list[Any]):
    """Events, as PyTorch's profiler gives them."""

    _profile: Any = None  # whose events they are, if all of it

    def key_averages(self, *args: Any, **given: Any) -> EventList:
        """Sums by name, as :meth:`profile.key_averages`; of sums, themselves."""
        return self if self._profile is None else self._profile.key_averages()

    def export_chrome_trace(self, path: str) -> None:
        """As :meth:`profile.export_chrome_trace`.

        Raises:
            ArgumentError: if these are no events of a whole profile.
        """
        if self._profile is None:
            raise ArgumentError("export_chrome_trace", "sums by name have no order; ask events()")
        self._profile.export_chrome_trace(path)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host."""
        return sum(e.self_cpu_time_total for e in self)

    def total_average(self) -> FunctionEvent:
        """One event with everything in it."""
        total = FunctionEvent("Total")
        for e in self:
            host, device = e.cpu_time_total / _MICRO, e.device_time_total / _MICRO
            total.add(host, device, e.flops, e.device_memory_usage, count=e.count)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        **given: Any,
    ) -> str:
        """A row each: name, host and device time with shares, memory, calls, operations.

        Args:
            sort_by: an attribute, the largest first.
            row_limit: the most rows; -1: all.
            max_src_column_width: taken.
            max_name_column_width: longer names are cut.
            max_shapes_column_width: taken.
            header: a line above.
            top_level_events_only: taken.
            **given: taken, as PyTorch's versions differ.

        Raises:
            ArgumentError: if events have no such attribute.
        """
        rows = list(self)
        if sort_by is not None:
            known = [n for n in dir(FunctionEvent("")) if not n.startswith("_")]
            if sort_by not in known:
                raise ArgumentError("table", f"sort_by is one of {known}", sort_by=repr(sort_by))
            rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        host = sum(e.cpu_time_total for e in rows) or 1.0
        device = sum(e.device_time_total for e in rows) or 1.0
        shown = rows if row_limit < 0 else rows[:row_limit]
        lines = [
            (
                *(f"{100 * e.cpu_time_total / host:.2f}%", duration(e.cpu_time_total / _MICRO)),
                *(f"{100 * e.device_time_total / device:.2f}%",),
                *(duration(t / _MICRO) for t in (e.device_time_total, e.device_time)),
                *(size(e.device_memory_usage), str(e.count), f"{e.flops / 1e6:.3f}"),
                e.key[:max_name_column_width],
            )
            for e in shown
        ]
        titles = ("CPU %", "CPU total", "device %", "device total", "device avg", "memory")
        text = aligned([(*titles, "# of Calls", "MFLOPs", "Name"), *lines])
        return text if header is None else f"{header}\n{text}"

    def __str__(self) -> str:
        return self.table()


class record_function:  # noqa: N801 - PyTorch's name
    """A block with a name, also a decorator: a row of its own in a :class:`profile`.

    Args:
        name: the row's.
        args: taken.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._begun: list[float] = []

    def __enter__(self) -> record_function:
        self._begun.append(time.perf_counter())
        return self

    def __exit__(self, *raised: object) -> None:
        block = (self.name, self._begun.pop(), time.perf_counter())
        for each in tuple(profile.running):  # other threads begin and end theirs
            each.blocks.append(block)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the block around each call."""

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **given: Any
) -> Callable[[int], ProfilerAction]:
    """Which steps a profiler records, as PyTorch counts them.

    Args:
        wait: steps that are not recorded.
        warmup: steps after them that are not recorded either.
        active: steps after them that are; 1 or more.
        repeat: how often all that is done; 0: to the end.
        skip_first: steps before the first time.
        **given: further settings of PyTorch's versions, taken.

    Returns:
        What a profiler does in a step, of its number.

    Raises:
        ArgumentError: if a number is below 0, or no step is recorded.
    """
    counts = {"wait": wait, "warmup": warmup, "repeat": repeat, "skip_first": skip_first}
    if active < 1 or min(counts.values()) < 0:
        law = "active is 1 or more, the other numbers are 0 or more"
        raise ArgumentError("schedule", law, active=active, **counts)

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        at, whole = step - skip_first, wait + warmup + active
        if repeat and at >= repeat * whole:
            return ProfilerAction.NONE
        at %= whole
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == whole - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def _default_schedule_fn(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """What ``on_trace_ready`` takes: it writes each trace into a folder.

    Args:
        dir_name: the folder, which is made.
        worker_name: what files' names begin with.
        use_gzip: taken; traces are not packed.
    """

    def handler(prof: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        prof.export_chrome_trace(
            str(folder / f"{worker_name or 'clnet'}.{time.time_ns()}.pt.trace.json")
        )

    return handler


class profile:  # noqa: N801 - PyTorch's name
    """A block whose kernels and calls are recorded, all or in some steps.

    Args:
        activities: taken; False: nothing is recorded, as ``autograd.profiler.profile`` has it.
        schedule: which steps are recorded, of :func:`schedule`; None: all.
        on_trace_ready: called with the profiler when a recording is complete.
        record_shapes: taken.
        profile_memory: taken: it is counted always.
        with_stack: taken.
        with_flops: taken: they are counted always.
        with_modules: taken: modules are told apart always.
        **given: further settings of PyTorch's versions, taken.

    Attributes:
        step_num: how often :meth:`step` was called.
        recorded: what clnet's profiler saw, complete after the block: it has ``summary()``.
    """

    running: list[profile] = []  # noqa: RUF012 - of all

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | bool | None = None,
        *,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **given: Any,
    ) -> None:
        enabled = given.get("enabled", activities is not False)
        self._schedule = schedule or _default_schedule_fn
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.recorded: Profile | None = None
        self.blocks: list[tuple[str, float, float]] = []
        self._stack: ExitStack | None = None
        self._enabled = enabled

    def _begin(self) -> None:
        wanted = self._schedule(self.step_num) in (
            ProfilerAction.RECORD,
            ProfilerAction.RECORD_AND_SAVE,
        )
        if wanted and self._stack is None and self._enabled:
            self._stack, self.blocks = ExitStack(), []
            self.recorded = self._stack.enter_context(observed())
            profile.running.append(self)

    def _end(self) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            profile.running.remove(self)
            stack.close()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def start(self) -> None:
        """Begin, as the block does."""
        self._begin()

    def stop(self) -> None:
        """End, as the block does."""
        self._end()

    def step(self) -> None:
        """The next step begins."""
        ends = self._schedule(self.step_num) is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        if ends:
            self._end()
        self._begin()

    def __enter__(self) -> profile:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _complete(self, name: str) -> Profile:
        if self.recorded is None or self._stack is not None:
            hint = "Ask after the block, of a step that was recorded"
            raise ArgumentError(name, "something was recorded", step=self.step_num, remedy=hint)
        return self.recorded

    def events(self) -> EventList:
        """Every kernel and copy, in order.

        Raises:
            ArgumentError: if nothing was recorded yet.
        """
        found = EventList()
        found._profile = self
        for command in self._complete("events").commands:
            event = FunctionEvent(op_of(command) or command.name)
            event.add(command.host_seconds, command.seconds, command.flops, command.allocated_bytes)
            found.append(event)
        return found

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **given: Any
    ) -> EventList:
        """Sums by name, the dearest on the device first.

        Args:
            group_by_input_shape: taken: names alone are told apart.
            group_by_stack_n: taken.
            **given: taken.

        Raises:
            ArgumentError: if nothing was recorded yet.
        """
        commands = self._complete("key_averages").commands
        sums: dict[str, FunctionEvent] = {}
        for c in commands:
            key = op_of(c) or c.name
            sums.setdefault(key, FunctionEvent(key)).add(
                c.host_seconds, c.seconds, c.flops, c.allocated_bytes
            )
        for name, begin, end in self.blocks:
            inside = [c for c in commands if begin <= c.host_start < end]
            sums.setdefault(name, FunctionEvent(name)).add(
                end - begin,
                sum(c.seconds for c in inside),
                sum(c.flops for c in inside),
                sum(c.allocated_bytes for c in inside),
            )
        return EventList(sorted(sums.values(), key=lambda e: -e.device_time_total))

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing.

        Args:
            path: the JSON file.

        Raises:
            ArgumentError: if nothing was recorded yet.
        """
        self._complete("export_chrome_trace").save_trace(path)

    def table(self, **given: Any) -> str:
        """``key_averages().table()``."""
        return self.key_averages().table(**given)

    @property
    def function_events(self) -> EventList:
        """:meth:`events`, as ``autograd.profiler.profile`` has them."""
        return self.events()

    def total_average(self) -> FunctionEvent:
        """``key_averages().total_average()``."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host."""
        return self.events().self_cpu_time_total

    def add_metadata(self, key: str, value: str) -> None:
        """Taken: traces have no notes."""

    add_metadata_json = add_metadata


def profiler_enabled() -> bool:
    """Whether any profiler records."""
    return bool(profile.running)


def disable_profiler() -> None:
    """End those that record, as trainers do behind an error."""
    for running in tuple(profile.running):
        running.stop()


def kineto_available() -> bool:
    """False: the profiler is clnet's own."""
    return False


def supported_activities() -> set[ProfilerActivity]:
    """Host and devices."""
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA}


class emit_nvtx:  # noqa: N801 - PyTorch's name
    """A block with marks for NVIDIA's profiler, which sees kernels' names without.

    Args:
        enabled: taken.
        record_shapes: taken.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> emit_nvtx:
        return self

    def __exit__(self, *raised: object) -> None:
        """There is nothing to end."""


def _taken(*args: Any, **kwargs: Any) -> None:
    """A setting of PyTorch's profiler."""


profiler = sys.modules[__name__]  # PyTorch's module of the classes
_utils = ModuleType("torch.profiler._utils", "Of PyTorch's profiler.")
_utils.__dict__["_init_for_cuda_graphs"] = _taken
