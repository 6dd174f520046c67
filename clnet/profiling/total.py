"""Sums over commands or calls, and how much of them the dearest make up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..device import Call, Command


@dataclass
class Total:
    """Sums over the commands, or the calls, of one name.

    Attributes:
        kind: ``"kernel"``, ``"upload"`` ..., or ``"call"``.
        calls: how many there were.
        seconds: on the device, of calls on the host.
        least, most: seconds of the shortest and of the longest.
        host_seconds: in the calls that enqueued them.
        flops: arithmetic operations.
        bytes: bytes moved at least.
        allocations, allocated_bytes: blocks taken from the pool for them.
    """

    kind: str = "kernel"
    calls: int = 0
    seconds: float = 0.0
    least: float = float("inf")
    most: float = 0.0
    host_seconds: float = 0.0
    flops: int = 0
    bytes: int = 0
    allocations: int = 0
    allocated_bytes: int = 0

    @property
    def average(self) -> float:
        """Seconds of one."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def gflops(self) -> float:
        """Arithmetic rate in GFLOP/s."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbytes(self) -> float:
        """Rate of bytes moved at least, in GB/s."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    def add_command(self, command: Command) -> None:
        """Count a command in."""
        self._add(command.kind, command.seconds)
        self.host_seconds += command.host_seconds
        self.flops += command.flops
        self.bytes += command.bytes
        self.allocations += command.allocations
        self.allocated_bytes += command.allocated_bytes

    def add_call(self, call: Call) -> None:
        """Count a call in."""
        self._add("call", call.seconds)
        self.host_seconds += call.seconds

    def _add(self, kind: str, seconds: float) -> None:
        self.kind = kind
        self.calls += 1
        self.seconds += seconds
        self.least = min(self.least, seconds)
        self.most = max(self.most, seconds)


def totals_of_commands(
    commands: Iterable[Command], key: Callable[[Command], str]
) -> dict[str, Total]:
    """Sums by a key, the dearest first.

    Args:
        commands: what was carried out.
        key: the name that a command counts under.

    Returns:
        The sums by name.
    """
    sums: dict[str, Total] = {}
    for command in commands:
        sums.setdefault(key(command), Total()).add_command(command)
    return _dearest_first(sums)


def totals_of_calls(calls: Iterable[Call]) -> dict[str, Total]:
    """Sums by name, the dearest first."""
    sums: dict[str, Total] = {}
    for call in calls:
        sums.setdefault(call.name, Total()).add_call(call)
    return _dearest_first(sums)


def dearest(totals: dict[str, Total], share: float) -> dict[str, Total]:
    """The first rows that together make up a share of the time.

    Args:
        totals: the dearest first.
        share: of the whole, in (0, 1].

    Returns:
        As few rows as reach it; all if it is 1.
    """
    if share >= 1:
        return totals
    wanted = share * sum(t.seconds for t in totals.values())
    kept: dict[str, Total] = {}
    reached = 0.0
    for name, total in totals.items():
        if kept and reached >= wanted:
            break
        kept[name] = total
        reached += total.seconds
    return kept


def _dearest_first(sums: dict[str, Total]) -> dict[str, Total]:
    return dict(sorted(sums.items(), key=lambda item: -item[1].seconds))
