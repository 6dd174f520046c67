"""Waiting for what comes soon: asking again and again, since sleeping and waking take longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

__all__ = ["EAGER_SECONDS", "polled"]

EAGER_SECONDS = 100e-6
"""So long it is asked without a pause: who is there answers within some microseconds."""
_leave_core: Callable[[], object] = getattr(os, "sched_yield", lambda: None)  # not on Windows


def polled(test: Callable[[], object]) -> bool:
    """Ask until something is so, for a moment; threads that wait for the core have it between.

    Returns:
        Whether it is so.
    """
    start = time.monotonic()
    while not test():
        if time.monotonic() - start > EAGER_SECONDS:
            return False
        _leave_core()
    return True
