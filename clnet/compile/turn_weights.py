"""Weights of linear layers that no step changes are turned once, as tiles of products read them.

Where they lie along k, as PyTorch has them, they come into local memory by copies of four bytes.
Products that turn them for themselves do so at every call: that needs no memory of its own, and is
left to those whose many rows take far longer than the copy.
"""

from __future__ import annotations

from dataclasses import replace

from ..array import Array
from ..device import Storage
from ..ops.matmul import Linear
from ..ops.rewritten.turned import TurnWeight, turns
from ..values.shapes import Shape, Strides
from .trace import Trace
from .tracer import Action, Step


def turn_weights(trace: Trace) -> Trace:
    """The trace with such layers reading copies, which ``with_constants`` then makes once."""
    first, steps = list[Step](), list[Step | Action]()
    made: dict[tuple[Storage, int, Shape, Strides], Array] = {}
    for step in trace.steps:
        if not isinstance(step, Step) or type(step.function) is not Linear:
            steps.append(step)
            continue
        x, weight, *bias = step.inputs
        key = weight.storage, weight.offset, weight.shape, weight.strides
        if key not in made:
            if not _stays(trace, weight) or not turns(trace.device.target, x.shape[0], weight):
                steps.append(step)
                continue
            turning = TurnWeight()
            (made[key],) = outputs = turning.infer(weight)
            first.append(replace(step, function=turning, inputs=(weight,), outputs=outputs))
        steps.append(replace(step, inputs=(x, made[key], *bias)))
    return trace.with_steps([*first, *steps])


def _stays(trace: Trace, weight: Array) -> bool:
    """Whether a weight is the same at all replays, as far as the trace says."""
    known = weight.storage in trace.outside or weight.storage in trace.constants
    return known and weight.storage not in trace.writers
