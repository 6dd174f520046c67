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


# By identity: threads come and go by one step each, and lists of the same elements are equal.
_OBSERVERS: dict[int, list[Exchange]] = {}


@contextmanager
def observed_exchanges() -> Iterator[list[Exchange]]:
    """Write down what is exchanged while the body runs, by whatever thread."""
    found: list[Exchange] = []
    _OBSERVERS[id(found)] = found
    try:
        yield found
    finally:
        del _OBSERVERS[id(found)]


def tell_exchange(exchange: Exchange) -> None:
    """Tell those who look on."""
    for observer in tuple(_OBSERVERS.values()):
        observer.append(exchange)
