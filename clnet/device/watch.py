"""Who looks on at a device: its queue, pool and programs tell them what they do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..values import mode
from .launch import Launch, Scratch, Storage


@dataclass(frozen=True, slots=True)
class Record:
    """What one command did, as observers see it.

    Attributes:
        kind: ``"kernel"``, ``"upload"``, ``"download"``, ``"copy"``, ``"fill"`` or ``"map"``.
        name: the kernel's name, or the kind.
        op, module_path, phase: who asked for it.
        reads, writes: storages it reads and writes.
        flops, bytes: operations and bytes moved.
        event: the ``pyopencl.Event``; it has times when the observer asked for profiling.
        host_start: when the call began, as ``time.perf_counter`` has it.
        host_seconds: wall time the call took on the host.
    """

    kind: str
    name: str
    op: str
    module_path: str
    phase: str
    reads: tuple[Storage | Scratch, ...]
    writes: tuple[Storage | Scratch, ...]
    flops: int
    bytes: int
    event: Any
    host_start: float
    host_seconds: float


class Observer(Protocol):
    """Something that looks on: the profiler, a counter, a checker."""

    profiling: bool

    def command(self, record: Record) -> None:
        """Called after every command that was enqueued."""
        ...


class CallObserver(Protocol):
    """An observer that wants to hear of the calls into OpenCL, too."""

    def call(self, name: str, start: float, seconds: float) -> None:
        """Called after every call that may take time.

        Args:
            name: OpenCL's name of it.
            start: when it began, as ``time.perf_counter`` has it.
            seconds: how long it took.
        """
        ...


class Watch:
    """The observers of one device.

    Attributes:
        observers: all of them; told of commands.
        callees: those that hear of calls.
    """

    __slots__ = ("callees", "observers")

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.callees: tuple[CallObserver, ...] = ()

    def set(self, observers: Sequence[Observer]) -> None:
        """Have these look on from now."""
        callees: Any = tuple([o for o in observers if hasattr(o, "call")])
        self.observers, self.callees = tuple(observers), callees

    def call(self, name: str, start: float) -> None:
        """Tell who wants to know that a call has just ended.

        Args:
            name: OpenCL's name of it.
            start: when it began, as ``time.perf_counter`` has it.
        """
        if self.callees:
            seconds = time.perf_counter() - start
            for callee in self.callees:
                callee.call(name, start, seconds)

    def launched(self, launch: Launch, written: Sequence[bool], event: Any, start: float) -> None:
        """Tell of a kernel.

        Args:
            launch: what was enqueued.
            written: for each argument, whether it is a pointer that is written.
            event: of the command.
            start: when the host began with it.
        """
        held = [
            (arg, w)
            for arg, w in zip(launch.args, written, strict=launch.check is None)
            if isinstance(arg, Storage | Scratch)
        ]
        record = Record(
            "kernel",
            launch.kernel.name,
            launch.op,
            launch.module_path,
            launch.phase,
            tuple(arg for arg, written in held if not written),
            tuple(arg for arg, written in held if written),
            launch.flops,
            launch.bytes,
            event,
            start,
            time.perf_counter() - start,
        )
        for observer in self.observers:
            observer.command(record)

    def copied(
        self,
        kind: str,
        reads: tuple[Storage, ...],
        writes: tuple[Storage, ...],
        nbytes: int,
        event: Any,
        start: float,
    ) -> None:
        """Tell of a copy, whose ``kind`` is its name, too; the others as of a :class:`Record`."""
        seconds = time.perf_counter() - start
        now = mode.current()
        record = Record(
            kind,
            kind,
            kind,
            now.module_path,
            now.phase,
            reads,
            writes,
            0,
            nbytes,
            event,
            start,
            seconds,
        )
        for observer in self.observers:
            observer.command(record)
