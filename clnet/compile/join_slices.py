"""Sums of the gradients of slices that do not overlap are these gradients, each at its place.

Queries, keys and values that were taken out of one array leave three arrays of its size, most of
which are zeros, and two sums of them. An op that can write its outputs anywhere, as attention's
gradient, puts them there itself.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import cast

from ..array import Array
from ..device import Storage
from ..expr import Input
from ..ops.attention import AttentionBackward
from ..ops.placed import Placed
from ..ops.shape import SliceBackward, slice_view
from .pointwise_step import as_pointwise
from .trace import Trace
from .tracer import Action, Step

# The first element along each axis, and the sizes.
_Box = tuple[tuple[int, ...], tuple[int, ...]]
_SUM = (Input(0) + Input(1),)


def join_slices(trace: Trace) -> Trace:
    """The trace with such sums as one step that copies each gradient to its place, or as none."""
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
    return _made_there(trace.with_steps([s for s in steps if s is not None]))


def _made_there(trace: Trace) -> Trace:
    """The trace without copies of what an op can write to its place."""
    steps: list[Step | Action | None] = list(trace.steps)
    for at, step in trace.ops:
        made = trace.producer(step.inputs[0].storage) if isinstance(step.function, Placed) else None
        maker = None if made is None else steps[made]
        found = _there(trace, maker, made, at) if isinstance(maker, Step) else None
        if made is not None and found is not None:
            steps[made], steps[at] = found, None
    return trace.with_steps([s for s in steps if s is not None])


def _there(trace: Trace, maker: Step, made: int | None, at: int) -> Step | None:
    """The step that makes all of what another copies, writing it where that would; or None."""
    placing = cast("Step", trace.steps[at])
    function, (y,) = maker.function, placing.outputs
    whole = y.contiguous and sum(x.size for x in placing.inputs) == y.size
    if not isinstance(function, AttentionBackward) or not function.writes_anywhere(maker.inputs):
        return None
    if not whole or not trace.is_value(y.storage) or y.offset:
        return None
    outputs = {output.storage: output for output in maker.outputs}
    for (start, sizes), x in zip(_boxes(placing), placing.inputs, strict=True):
        output = outputs.get(x.storage)
        alone = trace.readers[x.storage] == [at] and not trace.outlives(x.storage)
        if output is None or not alone or trace.producer(x.storage) != made:
            return None
        placed = _lying_in(output, x, slice_view(y, start, (1,) * y.ndim, sizes))
        if placed is None or x.dtype is not y.dtype:
            return None
        outputs[x.storage] = placed
    return replace(maker, outputs=tuple(outputs[output.storage] for output in maker.outputs))


def _lying_in(output: Array, x: Array, place: Array) -> Array | None:
    """An output, of which ``x`` is a view with all its elements, as the same view of a place."""
    if not x.contiguous or x.offset or output.offset or output.size != x.size:
        return None
    steps = list[int]()
    for size, step in zip(output.shape, output.strides, strict=True):
        # The axis of x that it goes along, or a part of.
        axes = (
            (own, there)
            for n, own, there in zip(x.shape, x.strides, place.strides, strict=True)
            if n > 1 and step % own == 0 and step * size <= own * n
        )
        own, there = next(axes, (1, 1 if size == 1 else 0))
        if there == 0:
            return None
        steps.append(step // own * there)
    return Array(place.storage, output.shape, tuple(steps), place.offset, output.dtype)


def _placed(step: Step) -> Step | None:
    """The gradient of one slice of neighbours as such a step; of several it is one."""
    function = step.function
    if isinstance(function, Placed):
        return step
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
    # Boxes count along the axes that the step wrote, which a view may have cut in others.
    if cast("Placed", found[1].function).shape != y.shape:
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
