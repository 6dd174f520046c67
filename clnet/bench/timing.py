"""What benchmarks share: a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

_SETTLE_SECONDS = 0.05


class Waits(Protocol):
    """A device, or a peer, that works on while the host goes on."""

    def synchronize(self) -> None:
        """Wait until it is done."""
        ...


def settle() -> None:
    """Wait until nobody spins: OpenMP's and BLAS's threads do for a while after their work."""
    time.sleep(_SETTLE_SECONDS)


def seconds(run: Callable[[], object], where: Waits, repeats: int = 1) -> float:
    """Wall time of one call, once the processor is quiet.

    Args:
        run: what is timed.
        where: waited for at the end.
        repeats: calls, over which the time is averaged.

    Returns:
        Seconds a call.
    """
    settle()
    run()  # wakes the threads that run it
    where.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    where.synchronize()
    return (time.perf_counter() - start) / repeats


def environment_of(threads: int | None) -> dict[str, str]:
    """Variables of the environment of a process that is to use so many threads of a CPU.

    Args:
        threads: how many; None: all, and nothing is said.
    """
    if threads is None:
        return {}
    # PoCL makes so many threads; where it says nothing to a runtime, the device is divided.
    return {"POCL_MAX_PTHREAD_COUNT": str(threads), "OMP_NUM_THREADS": str(threads)}
