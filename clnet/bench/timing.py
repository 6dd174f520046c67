"""What benchmarks share: a stopwatch, and PyTorch as the peer where it is installed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from ..device import Device

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_KEEP_BYTES = 2**30
_SETTLE_SECONDS = 0.05


def settle() -> None:
    """Wait until nobody spins: OpenMP's and BLAS's threads do for a while after their work."""
    time.sleep(_SETTLE_SECONDS)


def seconds(run: Callable[[], object], where: Device | None, repeats: int = 1) -> float:
    """Wall time of one call, once the processor is quiet.

    Args:
        run: what is timed.
        where: the device to wait for at the end, or None for a peer that has finished on return.
        repeats: calls, over which the time is averaged.

    Returns:
        Seconds a call.
    """
    settle()
    run()  # wakes the threads that run it
    if where is not None:
        where.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    if where is not None:
        where.synchronize()
    return (time.perf_counter() - start) / repeats


def torch_peer(threads: int) -> Any:
    """The ``torch`` module at its best on a CPU, or None where it is not installed.

    glibc gives large blocks back to the system when they are freed, so that PyTorch, which
    allocates its results anew, pays for fresh pages at every step. It is told to keep them.

    Args:
        threads: how many PyTorch may use.
    """
    try:
        import torch  # noqa: PLC0415 - an optional peer
    except ImportError:
        return None
    torch.set_num_threads(threads)
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):
        allocator.mallopt(_M_MMAP_THRESHOLD, _KEEP_BYTES)
        allocator.mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
    return torch
