"""A batch norm by given statistics behind a convolution goes into the convolution's filters.

Its factors scale the filters, and what it adds is the bias: both are made of parameters alone, once
for all replays until a parameter changes. Where a gradient is wanted the norm's operand is read
again, and everything stays.
"""

from __future__ import annotations

from dataclasses import replace

from ..array import Array
from ..expr import Input, Scalar, rsqrt
from ..ops.conv import Conv2d
from ..ops.machinery.pointwise import Pointwise
from ..ops.norm import by_statistics
from .pointwise_step import same_view
from .trace import Trace
from .tracer import Action, Step

_NORM = by_statistics(Input(0), Input(1), Input(2), Input(3), Input(4), Scalar(0))
_FACTOR = rsqrt(Input(1) + Scalar(0)) * Input(2)
_FILTERS = Input(0) * _FACTOR
# With the convolution's own bias as input 4, and without.
_BIAS = Input(3) - Input(0) * _FACTOR
_BIAS_TOO = (Input(4) - Input(0)) * _FACTOR + Input(3)


def fold(trace: Trace) -> Trace:
    """The trace with such norms folded away."""
    steps: list[list[Step | Action]] = [[step] for step in trace.steps]
    for position, step in trace.ops:
        found = _folded(trace, step)
        if found is not None:
            made, instead = found
            steps[made], steps[position] = instead, []
    return trace.with_steps([step for group in steps for step in group])


def _folded(trace: Trace, step: Step) -> tuple[int, list[Step | Action]] | None:
    """Where the convolution of a norm is, and what takes its place."""
    norm = step.function
    if not isinstance(norm, Pointwise) or norm.exprs != (_NORM,):
        return None
    x, *vectors = step.inputs
    made = trace.producer(x.storage)
    producer = None if made is None else trace.steps[made]
    if made is None or not isinstance(producer, Step) or not isinstance(producer.function, Conv2d):
        return None
    image, weight, *bias = producer.inputs
    alone = len(trace.readers[x.storage]) == 1 and not trace.outlives(x.storage)
    fixed = all(_is_parameter(trace, a) for a in (weight, *bias, *vectors))
    if not (alone and fixed and same_view(x, producer.outputs[0])):
        return None
    if norm.dtypes[0] is not x.dtype or producer.function.activation is not None:
        return None
    mean, var, scale, shift = (_channels(a) for a in vectors)
    filters = Array.abstract(weight.shape, weight.dtype, weight.device)
    offset = Array.abstract(mean.shape, mean.dtype, mean.device)

    def pointwise(expr: object, inputs: tuple[Array, ...], made: Array) -> Step:
        function = Pointwise("fold", (expr,), norm.scalars, norm.compute, (made.dtype,))  # pyrefly: ignore[bad-argument-type] - an expression
        return Step(function, inputs, (made,), step.module_path, step.phase)

    columns = tuple(a.view((a.size, 1, 1, 1), (a.strides[0], 0, 0, 0)) for a in (var, scale))
    shifted = (mean, var, scale, shift, *bias)
    return made, [
        pointwise(_FILTERS, (weight, *columns), filters),
        pointwise(_BIAS_TOO if bias else _BIAS, shifted, offset),
        replace(producer, inputs=(image, filters, offset), outputs=step.outputs),
    ]


def _is_parameter(trace: Trace, array: Array) -> bool:
    """Whether an array lies outside and no step changes it."""
    return array.storage in trace.outside and array.storage not in trace.writers


def _channels(array: Array) -> Array:
    """A vector that was seen as axis 1, as a vector again."""
    return array.view((array.shape[1],), (array.strides[1],))
