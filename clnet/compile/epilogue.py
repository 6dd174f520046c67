"""A ReLU behind a product or a convolution is applied before its result is stored."""

from __future__ import annotations

from dataclasses import replace

from ..expr import Input, where
from ..ops.blocked import BlockedConv2d
from ..ops.conv import Conv2d
from ..ops.function import Function
from ..ops.matmul import Linear
from ..ops.pointwise import Pointwise
from .form import same_view
from .trace import Trace
from .tracer import Action, Step

_RELU = where(Input(0) <= 0, 0, Input(0))


def epilogue(trace: Trace) -> Trace:
    """The trace without ReLUs whose operand only they read, made by an op that can apply one."""
    steps: list[Step | Action | None] = list(trace.steps)
    for position, step in trace.ops:
        if not isinstance(step.function, Pointwise) or step.function.exprs != (_RELU,):
            continue
        (x,), (y,) = step.inputs, step.outputs
        made = trace.producer(x.storage)
        producer = None if made is None else steps[made]
        if made is None or not isinstance(producer, Step) or not trace.is_value(y.storage):
            continue
        function = _activated(producer.function)
        alone = len(trace.readers[x.storage]) == 1 and not trace.outlives(x.storage)
        same = same_view(x, producer.outputs[0]) and (x.strides, x.dtype) == (y.strides, y.dtype)
        if function is None or not alone or not same:
            continue
        steps[made] = replace(producer, function=function, outputs=(y,))
        steps[position] = None
    return trace.with_steps([s for s in steps if s is not None])


def _activated(function: Function) -> Function | None:
    """The op with a ReLU behind; None if it has no such form."""
    if isinstance(function, Linear | Conv2d | BlockedConv2d) and function.activation is None:
        return replace(function, activation="relu")
    return None
