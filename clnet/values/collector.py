"""Python's garbage collector, told to wait while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """No search for circular garbage while the body runs; what is counted down still goes at once.

    The collector looks through all objects again and again as their number grows: of imports and
    of tracing, which leave no circles, that was a fifth of the time. What the body made counts as
    old afterwards, so that the next two searches, which are for young objects, do not begin there.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # else somebody else's objects would be thawed
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
