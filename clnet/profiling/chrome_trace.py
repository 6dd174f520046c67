"""Traces in Chrome's event format: the host's calls, the device's work, and the modules above."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import Command

if TYPE_CHECKING:
    from .profile import Profile

_HOST, _FIRST_DEVICE = 1, 2
_COMMANDS, _MODULES, _MEMORY = 1, 2, 3
_MICROSECONDS = 1e6


def events(profile: Profile) -> Iterator[dict[str, Any]]:
    """The events of a profile; times are microseconds since it began.

    Args:
        profile: a finished one.

    Yields:
        Metadata first, then calls, commands with their modules, and the memory in use.
    """
    pids = {name: _FIRST_DEVICE + i for i, name in enumerate(profile.devices)}
    yield _name("process_name", _HOST, 0, "host")
    yield _name("thread_name", _HOST, 1, "OpenCL calls")
    for name, pid in pids.items():
        yield _name("process_name", pid, 0, f"{name} {profile.devices[name]}")
        yield _name("thread_name", pid, _COMMANDS, "kernels and copies")
        yield _name("thread_name", pid, _MODULES, "modules")
    for call in profile.calls:
        yield _slice(_HOST, 1, call.name, call.start - profile.begin, call.seconds, "call", {})
    for command in profile.commands:
        yield _of_command(command, pids[command.device], profile.begin)
    yield from _of_modules(profile, pids)
    for name, pairs in profile.allocated.items():
        for when, nbytes in pairs:
            yield {
                "ph": "C",
                "pid": pids[name],
                "tid": _MEMORY,
                "name": "bytes in use",
                "ts": (when - profile.begin) * _MICROSECONDS,
                "args": {"bytes": nbytes},
            }


def write(profile: Profile, path: Path) -> None:
    """Write the events as one JSON file."""
    document = {"displayTimeUnit": "ms", "traceEvents": list(events(profile))}
    path.write_text(json.dumps(document), encoding="utf-8")


def _of_command(command: Command, pid: int, begin: float) -> dict[str, Any]:
    rate = command.seconds or 1.0
    details = {
        "op": command.op,
        "module": command.module_path,
        "phase": command.phase,
        "GFLOP/s": round(command.flops / rate / 1e9, 3),
        "GB/s": round(command.bytes / rate / 1e9, 3),
        "bytes": command.bytes,
    }
    begun = command.start - begin
    return _slice(pid, _COMMANDS, command.name, begun, command.seconds, command.kind, details)


def _of_modules(profile: Profile, pids: dict[str, int]) -> Iterator[dict[str, Any]]:
    """A slice for each run of commands of one module and phase."""
    for name, pid in pids.items():
        run: list[Command] = []
        for command in (*(c for c in profile.commands if c.device == name), None):
            if run and (command is None or _place(command) != _place(run[0])):
                begun, end = run[0].start, run[-1].start + run[-1].seconds
                label, phase = run[0].module_path or "(no module)", run[0].phase or "forward"
                details = {"phase": phase, "commands": len(run)}
                begun, seconds = begun - profile.begin, end - begun
                yield _slice(pid, _MODULES, label, begun, seconds, phase, details)
                run = []
            if command is not None:
                run.append(command)


def _place(command: Command) -> tuple[str, str]:
    return command.module_path, command.phase


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(
    pid: int, tid: int, name: str, begun: float, seconds: float, kind: str, details: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "name": name,
        "cat": kind,
        "ts": begun * _MICROSECONDS,
        "dur": seconds * _MICROSECONDS,
        "args": details,
    }
