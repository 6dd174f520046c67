"""An iterable run ahead of its consumer in a thread; it knows nothing of data sets."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Made(Generic[T]):
    value: T


@dataclass(frozen=True)
class _Ended:
    error: BaseException | None


def prefetched(source: Iterable[T], depth: int) -> Generator[T]:
    """The items of ``source``, made by a daemon thread that keeps up to ``depth`` of them ready.

    Closing the iterator (leaving a ``for`` loop early does) stops the thread after the item it is
    making; it is not waited for. What ``source`` raises is raised here, with its traceback.

    Args:
        source: any iterable; only the thread touches it.
        depth: items ready or in the making, 1 or more.

    Yields:
        The items, in order.
    """
    # Two queues of C code instead of a bounded one: no lock that a thread killed at the end of the
    # process could hold, and no polling. `wanted` carries one token for each free place.
    wanted: SimpleQueue[None] = SimpleQueue()
    ready: SimpleQueue[_Made[T] | _Ended] = SimpleQueue()
    stopped = Event()
    for _ in range(depth):
        wanted.put(None)
    Thread(
        target=_produce, args=(source, wanted, ready, stopped), name="clnet-prefetch", daemon=True
    ).start()
    try:
        while isinstance(item := ready.get(), _Made):
            wanted.put(None)
            yield item.value
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        wanted.put(None)


def _produce(
    source: Iterable[T],
    wanted: SimpleQueue[None],
    ready: SimpleQueue[_Made[T] | _Ended],
    stopped: Event,
) -> None:
    error: BaseException | None = None
    try:
        items = iter(source)
        while True:
            wanted.get()
            if stopped.is_set():
                return
            try:
                value = next(items)
            except StopIteration:
                break
            ready.put(_Made(value))
    except BaseException as caught:  # the consumer raises it, whatever it is
        error = caught
    ready.put(_Ended(error))
