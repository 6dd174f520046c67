"""What pointwise steps make of a product or a convolution is applied before its result is stored.

That is a ReLU; and behind a blocked convolution a sum with another value, such as a shortcut's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..array import Array
from ..expr import Input, where
from ..ops.conv import Conv2d
from ..ops.machinery.fused import Fused
from ..ops.machinery.pointwise import Pointwise
from ..ops.matmul import Linear
from ..ops.rewritten.blocked import BlockedConv2d
from ..ops.rewritten.last import LastConv2d
from .fusion_obstacle import FusionObstacle, UnfusedPair
from .pointwise_step import same_view
from .trace import Trace
from .tracer import Action, Step

_RELU = where(Input(0) < 0, 0, Input(0))
_SUM = Input(0) + Input(1)


def epilogue(trace: Trace) -> Trace:
    """The trace without sums, then ReLUs, whose operand only they read and an op can apply them."""
    return _applied(_applied(trace, _SUM), _RELU)


def _applied(trace: Trace, wanted: Any) -> Trace:
    """The trace after all steps of one expression that what makes their operand can apply.

    The op takes the step's place: all that it reads beside its operand is there.
    """
    steps: list[Step | Action | None] = list(trace.steps)
    for made, position in _pairs(trace):
        producer, step = steps[made], steps[position]
        if not (isinstance(producer, Step) and isinstance(step, Step)):
            continue
        if step is not trace.steps[position] or not _computes(step, wanted):
            continue
        if _obstacle(trace, made, position) is None:
            function: Any = producer.function
            change = {"added": True} if wanted is _SUM else {"activation": "relu"}
            others = tuple(x for x in step.inputs if x.storage is not producer.outputs[0].storage)
            steps[made] = None
            steps[position] = replace(
                producer,
                function=replace(function, **change),
                inputs=(*producer.inputs, *others),
                outputs=step.outputs,
            )
    return trace.with_steps([s for s in steps if s is not None])


def unfused_pairs(trace: Trace) -> Iterator[UnfusedPair]:
    """Pointwise steps that are not applied by the product whose result they read, and why."""
    for made, position in _pairs(trace):
        found = _obstacle(trace, made, position)
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


def _obstacle(trace: Trace, made: int, position: int) -> FusionObstacle | None:
    producer, step = trace.steps[made], trace.steps[position]
    if not (isinstance(producer, Step) and isinstance(step, Step)):
        return FusionObstacle.ONLY_RELU
    (x,) = producer.outputs
    if len(trace.readers[x.storage]) > 1:
        return FusionObstacle.READ_TWICE
    if trace.outlives(x.storage):
        return FusionObstacle.RETURNED
    others = [a for a in step.inputs if a.storage is not x.storage]
    if not _computes(step, _RELU) and not (_computes(step, _SUM) and _adds(producer, others)):
        return FusionObstacle.ONLY_RELU
    (operand,), (y,) = (a for a in step.inputs if a.storage is x.storage), step.outputs
    if any(a.dtype is not x.dtype for a in (y, *others)):
        return FusionObstacle.DTYPE
    if not trace.is_value(y.storage):
        return FusionObstacle.CHANGED
    if trace.is_disturbed(made, position, reads=producer.inputs):
        return FusionObstacle.ORDER
    return None if same_view(operand, x) and operand.strides == y.strides else FusionObstacle.VIEW


def _computes(step: Step, expr: Any) -> bool:
    return isinstance(step.function, Pointwise) and step.function.exprs == (expr,)


def _adds(producer: Step, others: list[Array]) -> bool:
    """Whether a step can add one more value, of the result's shape and dense."""
    (x,) = producer.outputs
    return (
        isinstance(producer.function, BlockedConv2d)
        and producer.function.adds
        and len(others) == 1
        and others[0].shape == x.shape
        and others[0].contiguous
    )


def _activates(step: Step | Action | None) -> bool:
    """Whether a step may apply a ReLU, and does not yet."""
    return (
        isinstance(step, Step)
        and isinstance(step.function, Linear | Conv2d | BlockedConv2d | LastConv2d)
        and step.function.activation is None
    )
