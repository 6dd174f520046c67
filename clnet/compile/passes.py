"""The passes that rewrite a trace, in order; each is a pure function in a file of its own."""

from __future__ import annotations

from collections.abc import Callable

from .layout import layout
from .simplify import simplify, with_constants
from .trace import Trace

PASSES: tuple[Callable[[Trace], Trace], ...] = (simplify, layout, with_constants)
"""From what was recorded to what is planned: the one list, in order."""


def rewrite(trace: Trace) -> Trace:
    """The trace after every pass."""
    for rewriting in PASSES:
        trace = rewriting(trace)
    return trace
