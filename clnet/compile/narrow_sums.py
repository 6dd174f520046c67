"""Reductions read 16-bit floats where these are, instead of what the user has widened for them.

They add up in float32 either way: of half the bytes a kernel makes the same numbers in the same
order.
"""

from __future__ import annotations

from ..array import Array
from ..expr import Input
from ..ops.reduce import Reduce
from ..values.dtypes import bfloat16, float16, float32
from .pointwise_step import as_pointwise, seen_through
from .simplify import without_dead_steps
from .trace import Trace
from .tracer import Action, Step


def narrow_sums(trace: Trace) -> Trace:
    """The trace with reductions of 16-bit floats in place of those of what was made of them."""
    steps = [_narrowed(trace, position, step) for position, step in enumerate(trace.steps)]
    if all(new is old for new, old in zip(steps, trace.steps, strict=True)):
        return trace
    return without_dead_steps(trace.with_steps(steps))


def _narrowed(trace: Trace, position: int, step: Step | Action) -> Step | Action:
    if not isinstance(step, Step) or not isinstance(step.function, Reduce):
        return step
    source = narrow_source(trace, position, step.inputs[0])
    if source is None:
        return step
    return Step(step.function, (source,), step.outputs, step.module_path, step.phase)


def narrow_source(trace: Trace, position: int, x: Array) -> Array | None:
    """The 16-bit floats that a step before converted to ``x``, if they are still what they were.

    Args:
        trace: the steps.
        position: of the one that reads.
        x: what it reads.
    """
    at = trace.producer(x.storage)
    made = None if at is None else trace.steps[at]
    if at is None or not isinstance(made, Step) or x.dtype is not float32:
        return None
    form = as_pointwise(made)
    if form is None or form.exprs != (Input(0),) or form.changed or len(form.reads) != 1:
        return None
    if form.reads[0].dtype not in (float16, bfloat16) or form.reads[0].shape != form.shape:
        return None
    if trace.is_disturbed(at, position, reads=form.reads):
        return None
    found = seen_through(x, form.made[0], form.reads)
    return None if found is None else found[0]
