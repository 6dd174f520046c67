"""A ReLU behind a product or a convolution is applied before its result is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..expr import Input, where
from ..ops.blocked import BlockedConv2d
from ..ops.conv import Conv2d
from ..ops.fused import Fused
from ..ops.matmul import Linear
from ..ops.pointwise import Pointwise
from .form import same_view
from .refusal import Apart, Refusal
from .trace import Trace
from .tracer import Action, Step

_RELU = where(Input(0) <= 0, 0, Input(0))


def epilogue(trace: Trace) -> Trace:
    """The trace without ReLUs whose operand only they read, made by an op that can apply one."""
    steps: list[Step | Action | None] = list(trace.steps)
    for made, position in _pairs(trace):
        producer, relu = steps[made], trace.steps[position]
        if not isinstance(producer, Step) or not isinstance(relu, Step):
            continue
        if _refusal(trace, producer, relu) is None:
            function: Any = producer.function
            steps[made] = replace(
                producer, function=replace(function, activation="relu"), outputs=relu.outputs
            )
            steps[position] = None
    return trace.with_steps([s for s in steps if s is not None])


def apart(trace: Trace) -> Iterator[Apart]:
    """Pointwise steps that are not applied by the product whose result they read, and why."""
    for made, position in _pairs(trace):
        producer, step = trace.steps[made], trace.steps[position]
        if isinstance(producer, Step) and isinstance(step, Step):
            found = _refusal(trace, producer, step)
            if found is not None:
                yield made, position, found


def _pairs(trace: Trace) -> Iterator[tuple[int, int]]:
    """Where products are, and pointwise steps that read their results."""
    for position, step in trace.ops:
        if isinstance(step.function, Pointwise | Fused):
            for storage in dict.fromkeys(x.storage for x in step.inputs):
                made = trace.producer(storage)
                producer = None if made is None else trace.steps[made]
                if made is not None and _activates(producer):
                    yield made, position


def _refusal(trace: Trace, producer: Step, step: Step) -> Refusal | None:
    (x,) = producer.outputs
    if len(trace.readers[x.storage]) > 1:
        return Refusal.READ_TWICE
    if trace.outlives(x.storage):
        return Refusal.RETURNED
    function = step.function
    if not isinstance(function, Pointwise) or function.exprs != (_RELU,):
        return Refusal.ONLY_RELU
    (operand,), (y,) = step.inputs, step.outputs
    if y.dtype is not x.dtype:
        return Refusal.DTYPE
    if not trace.is_value(y.storage):
        return Refusal.CHANGED
    return None if same_view(operand, x) and operand.strides == y.strides else Refusal.VIEW


def _activates(step: Step | Action | None) -> bool:
    """Whether a step may apply a ReLU, and does not yet."""
    return (
        isinstance(step, Step)
        and isinstance(step.function, Linear | Conv2d | BlockedConv2d)
        and step.function.activation is None
    )
