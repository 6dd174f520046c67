"""Sums of the gradients of slices that do not overlap are these gradients, each at its place.

Queries, keys and values that were taken out of one array leave three arrays of its size, most of
which are zeros, and two sums of them.
"""

from __future__ import annotations

from itertools import product
from typing import cast

from ..array import Array
from ..device import Storage
from ..expr import Input
from ..ops.rewritten.placed import Placed
from ..ops.shape import SliceBackward
from .pointwise_step import as_pointwise
from .trace import Trace
from .tracer import Action, Step

# The first element along each axis, and the sizes.
_Box = tuple[tuple[int, ...], tuple[int, ...]]
_SUM = (Input(0) + Input(1),)


def join_slices(trace: Trace) -> Trace:
    """The trace with such sums as one step that copies each gradient to its place."""
    steps: list[Step | Action | None] = list(trace.steps)
    placed: dict[Storage, tuple[int, Step]] = {}
    for at, step in trace.ops:
        form = _placed(step)
        if form is None:
            form = _summed(trace, placed, at, step)
            if form is None:
                continue
            for x in step.inputs:
                steps[placed.pop(x.storage)[0]] = None
            steps[at] = form
        placed[step.outputs[0].storage] = (at, form)
    return trace.with_steps([s for s in steps if s is not None])


def _placed(step: Step) -> Step | None:
    """The gradient of one slice of neighbours as such a step."""
    function = step.function
    if not isinstance(function, SliceBackward) or {*function.steps} - {1}:
        return None
    form = Placed((function.starts,), function.shape)
    return Step(form, step.inputs, step.outputs, step.module_path, step.phase)


def _summed(
    trace: Trace, placed: dict[Storage, tuple[int, Step]], at: int, step: Step
) -> Step | None:
    """A sum of two that do not overlap, as one."""
    form = as_pointwise(step)
    if form is None or form.exprs != _SUM or form.changed or len(step.inputs) != 2:
        return None
    (y,) = step.outputs
    if any(not _whole(trace, placed, at, x, y) for x in step.inputs):
        return None
    first, second = (placed[x.storage][1] for x in step.inputs)
    if first is second or _overlap(_boxes(first), _boxes(second)):
        return None
    starts = tuple(start for part in (first, second) for start, _ in _boxes(part))
    inputs = (*first.inputs, *second.inputs)
    return Step(Placed(starts, y.shape), inputs, step.outputs, step.module_path, step.phase)


def _whole(
    trace: Trace, placed: dict[Storage, tuple[int, Step]], at: int, x: Array, y: Array
) -> bool:
    """Whether all of ``x`` was made by such a step, for this sum alone, which it can be done in."""
    found = placed.get(x.storage)
    if found is None or x.shape != y.shape or x.dtype is not y.dtype or not x.contiguous:
        return False
    alone = len(trace.readers[x.storage]) == 1 and not trace.outlives(x.storage)
    if not alone or not trace.is_value(x.storage) or not trace.is_value(y.storage):
        return False
    return not trace.is_disturbed(found[0], at, reads=found[1].inputs)


def _boxes(step: Step) -> list[_Box]:
    """Where a step puts its inputs."""
    starts = cast("Placed", step.function).starts
    return [(start, x.shape) for start, x in zip(starts, step.inputs, strict=True)]


def _overlap(some: list[_Box], others: list[_Box]) -> bool:
    """Whether one of some lies in one of the others; neither does so among its own."""
    return any(
        all(a < b + m and b < a + n for a, n, b, m in zip(start, sizes, begin, extent, strict=True))
        for (start, sizes), (begin, extent) in product(some, others)
    )
