"""What benchmarks share: a stopwatch, and PyTorch as the peer where it is installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..device import Device


def seconds(run: Callable[[], object], where: Device | None, repeats: int = 1) -> float:
    """Wall time of one call.

    Args:
        run: what is timed.
        where: the device to wait for at the end, or None for a peer that has finished on return.
        repeats: calls, over which the time is averaged.

    Returns:
        Seconds a call.
    """
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    if where is not None:
        where.synchronize()
    return (time.perf_counter() - start) / repeats


def torch_peer(threads: int) -> Any:
    """The ``torch`` module, told to use ``threads`` threads, or None where it is not installed."""
    try:
        import torch  # noqa: PLC0415 - an optional peer
    except ImportError:
        return None
    torch.set_num_threads(threads)
    return torch
