"""Waiting for what comes soon: asking again and again, since sleeping and waking take longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["EAGER_SECONDS", "polled"]

EAGER_SECONDS = 100e-6
"""So long it is asked without a pause: who is there answers within some microseconds."""
_leave_core: Callable[[], object] = getattr(os, "sched_yield", lambda: None)  # not on Windows


def polled(test: Callable[[], object], *, stay: bool = False) -> bool:
    """Ask until something is so, for a moment; threads that wait for the core have it between.

    Args:
        test: whether it is so.
        stay: whether the core is kept for another such moment before: where others compute, a
            process that leaves it comes back some milliseconds later.

    Returns:
        Whether it is so.
    """
    start = time.monotonic()
    kept = EAGER_SECONDS if stay else 0.0
    while not test():
        waited = time.monotonic() - start
        if waited > kept + EAGER_SECONDS:
            return False
        if waited >= kept:
            _leave_core()
    return True
