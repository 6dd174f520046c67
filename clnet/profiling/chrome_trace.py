"""Traces in Chrome's event format: the host's calls, the device's work, and the modules above."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..device import Command
from ..values.atomic import replacing
from ..values.exchanges import Exchange

if TYPE_CHECKING:
    from .profile import Profile

_HOST, _FIRST_DEVICE = 1, 2
_COMMANDS, _MODULES, _MEMORY = 1, 2, 3
_CALLS, _EXCHANGES = 1, 2
_PROCESSES = 1000  # of a rank, at most
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
    yield _name("thread_name", _HOST, _CALLS, "OpenCL calls")
    if profile.exchanges:
        yield _name("thread_name", _HOST, _EXCHANGES, "exchanges")
    for name, pid in pids.items():
        yield _name("process_name", pid, 0, f"{name} {profile.devices[name]}")
        yield _name("thread_name", pid, _COMMANDS, "kernels and copies")
        yield _name("thread_name", pid, _MODULES, "modules")
    for call in profile.calls:
        yield _slice(_HOST, _CALLS, call.name, call.start - profile.begin, call.seconds, "call", {})
    for exchange in profile.exchanges:
        yield from _of_exchange(exchange, profile.begin)
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


def of_ranks(told: Sequence[tuple[float, Sequence[dict[str, Any]]]]) -> Iterator[dict[str, Any]]:
    """The events of several ranks, on tracks of their own.

    Args:
        told: of each rank when its profile began, in seconds since 1970, and its events.

    Yields:
        The events, times in microseconds since the first profile began.
    """
    first = min(begin for begin, _ in told)
    for rank, (begin, of_rank) in enumerate(told):
        for event in of_rank:
            moved = {**event, "pid": rank * _PROCESSES + event["pid"]}
            if "ts" in event:
                moved["ts"] += (begin - first) * _MICROSECONDS
            if event["name"] == "process_name":
                moved["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
            yield moved


def write(told: Iterable[dict[str, Any]], path: Path) -> None:
    """Write events as one JSON file."""
    document = {"displayTimeUnit": "ms", "traceEvents": list(told)}
    with replacing(path) as file:
        file.write(json.dumps(document).encode())


def _of_exchange(exchange: Exchange, begin: float) -> Iterator[dict[str, Any]]:
    """Two slices: until the other ranks are there, and the exchange."""
    if exchange.waited > 0:
        label, start = f"{exchange.call}: others", exchange.start - begin
        yield _slice(_HOST, _EXCHANGES, label, start, exchange.waited, "waiting", {})
    rate = exchange.bytes / (exchange.seconds or 1.0) / 1e9
    details = {"bytes": exchange.bytes, "GB/s": round(rate, 3)}
    start = exchange.met - begin
    yield _slice(_HOST, _EXCHANGES, exchange.call, start, exchange.seconds, "exchange", details)


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
                label, phase = run[0].module_path or "(no module)", run[0].counted_in
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
