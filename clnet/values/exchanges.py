"""Exchanges between processes, as those who look on see them: what, when, and how much."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Exchange", "observed_exchanges", "tell_exchange"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One that has ended; times are ``time.perf_counter``'s.

    Attributes:
        call: what was called.
        start: when this process came to it.
        met: when all others had; of a message from one to another, as ``start``.
        end: when it was done.
        bytes: of this process's tensor; 0 where it is not known.
    """

    call: str
    start: float
    met: float
    end: float
    bytes: int

    @property
    def seconds(self) -> float:
        """Of the exchange itself."""
        return self.end - self.met

    @property
    def waited(self) -> float:
        """Seconds in which others were not there yet."""
        return self.met - self.start


_OBSERVERS: list[list[Exchange]] = []


@contextmanager
def observed_exchanges() -> Iterator[list[Exchange]]:
    """Write down what is exchanged while the body runs, by whatever thread."""
    found: list[Exchange] = []
    _OBSERVERS.append(found)
    try:
        yield found
    finally:
        _OBSERVERS[:] = [other for other in _OBSERVERS if other is not found]


def tell_exchange(exchange: Exchange) -> None:
    """Tell those who look on."""
    for observer in tuple(_OBSERVERS):
        observer.append(exchange)
