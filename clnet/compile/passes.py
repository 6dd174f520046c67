"""The passes that rewrite a trace, in order; each is a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .fuse import fuse
from .layout import layout
from .prologue import prologue
from .simplify import simplify, with_constants
from .trace import Trace

Pass = Callable[[Trace], Trace]

PASSES: tuple[Pass, ...] = (simplify, layout, fuse, prologue, with_constants)
"""From what was recorded to what is planned: the one list, in order."""


def rewrite(trace: Trace, passes: Sequence[Pass] = PASSES) -> Trace:
    """The trace after every pass."""
    for rewriting in passes:
        trace = rewriting(trace)
    return trace
