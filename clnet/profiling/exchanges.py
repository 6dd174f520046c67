"""Exchanges with other ranks: their time, and how much of it the device computed beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..device import Command
from ..values.exchanges import Exchange

__all__ = ["hidden_seconds"]


def hidden_seconds(exchanges: Iterable[Exchange], commands: Sequence[Command]) -> float:
    """Seconds of exchanges in which a kernel ran on a device.

    Args:
        exchanges: of one process.
        commands: of its devices.
    """
    busy = _joined([(c.start, c.start + c.seconds) for c in commands if c.kind == "kernel"])
    return sum(
        max(min(end, e.end) - max(start, e.met), 0.0) for e in exchanges for start, end in busy
    )


def _joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans as ones that do not overlap."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found
