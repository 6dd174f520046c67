"""Cross entropies read 16-bit scores where these are, and give gradients of 16 bits, on GPUs.

A loss is computed in float32, so that eager ones, and autocast's, convert scores before, and
gradients behind: of a language model's words these are its largest arrays by far. The kernels make
the same numbers in the same order of what they read themselves, and round what they store.
"""

from __future__ import annotations

from dataclasses import replace

from ..array import Array
from ..expr import Input
from ..kernels.grid import in_groups
from ..ops.loss import CrossEntropy, CrossEntropyBackward
from ..ops.rewritten.widened import WidenedCrossEntropy, WidenedCrossEntropyBackward
from .narrow_sums import narrow_source
from .pointwise_step import as_pointwise
from .simplify import without_dead_steps
from .trace import Trace
from .tracer import Action, Step


def narrow_losses(trace: Trace) -> Trace:
    """The trace with losses of 16-bit scores in place of those of what was made of them."""
    if not in_groups(trace.device.target.traits):
        return trace
    found: dict[int, Step] = {}
    left: set[int] = set()  # conversions of gradients
    for position, step in trace.ops:
        if type(step.function) is CrossEntropy:
            source = narrow_source(trace, position, step.inputs[0])
            if source is not None:
                function = WidenedCrossEntropy(step.function, step.function.check)
                inputs = (source, *step.inputs[1:])
                found[position] = replace(step, function=function, inputs=inputs)
        elif type(step.function) is CrossEntropyBackward:
            source = narrow_source(trace, position, step.inputs[1])
            if source is not None:
                at, made = _rounded(trace, step.outputs[0], source)
                left |= at
                function = WidenedCrossEntropyBackward(step.function, made.dtype)
                inputs = (step.inputs[0], source, *step.inputs[2:])
                found[position] = replace(step, function=function, inputs=inputs, outputs=(made,))
    if not found:
        return trace
    steps: list[Step | Action] = [
        found.get(position, step)
        for position, step in enumerate(trace.steps)
        if position not in left
    ]
    return without_dead_steps(trace.with_steps(steps))


def _rounded(trace: Trace, gx: Array, scores: Array) -> tuple[set[int], Array]:
    """Where a gradient is rounded as its scores are, and what becomes of it; nowhere: itself."""
    nowhere = set[int](), gx
    readers = trace.readers[gx.storage]
    if not trace.is_value(gx.storage) or trace.outlives(gx.storage) or len(readers) != 1:
        return nowhere
    step = trace.steps[readers[0]]
    form = as_pointwise(step) if isinstance(step, Step) else None
    if form is None or form.exprs != (Input(0),) or form.changed or len(form.reads) != 1:
        return nowhere
    (made,), (read,) = form.made, form.reads
    alike = made.dtype is scores.dtype and read.contiguous and read.size == gx.size
    if not alike or not trace.is_value(made.storage):
        return nowhere
    return {readers[0]}, made.view(gx.shape, gx.strides, made.offset)
