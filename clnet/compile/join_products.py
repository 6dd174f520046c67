"""Linear layers of the same input, such as those of queries, keys and values, are one launch.

Each alone leaves a part of a GPU idle: its last groups end while others wait for the next launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..array import Array
from ..ops.matmul import Linear
from ..ops.rewritten.together import Together, are_together
from .trace import Trace
from .tracer import Action, Step

_MOST = 4


def join_products(trace: Trace) -> Trace:
    """The trace with such layers as one step, at the place of the first.

    Sums may be added up in another order than in launches of their own.
    """
    target = trace.device.target
    if not target.traits.dedicated_local_memory:
        return trace
    steps: list[Step | Action | None] = list(trace.steps)
    layers = {i: s for i, s in trace.ops if isinstance(s.function, Linear)}
    for at, first in layers.items():
        if steps[at] is None:
            continue
        readers = sorted({*trace.readers[first.inputs[0].storage]} & {*layers})
        beside = [i for i in readers if i > at and steps[i] is not None]
        beside = [i for i in beside if _fits(trace, at, first, i, layers[i])][: _MOST - 1]
        group = [first, *(layers[i] for i in beside)]
        if beside and (joined := _joined(trace, group)):
            steps[at] = joined
            for i in beside:
                steps[i] = None
    return trace.with_steps([s for s in steps if s is not None])


def _joined(trace: Trace, group: Sequence[Step]) -> Step | None:
    """Steps as one, if that takes less time."""
    layers = tuple([s.function for s in group if isinstance(s.function, Linear)])
    outputs = tuple([s.outputs[0] for s in group])
    if not are_together(trace.device.target, layers, outputs, [s.inputs for s in group]):
        return None
    first = group[0]
    inputs = (first.inputs[0], *(x for s in group for x in s.inputs[1:]))
    function = Together(layers, len(first.inputs) == 3)
    return Step(function, inputs, outputs, first.module_path, first.phase)


def _fits(trace: Trace, first: int, own: Step, at: int, step: Step) -> bool:
    """Whether a layer has the same input as the first, and can be done as early."""
    alike = own.function == step.function and len(own.inputs) == len(step.inputs)
    values = all(trace.is_value(y.storage) for y in (*own.outputs, *step.outputs))
    if not alike or not values or not _same(own.inputs[0], step.inputs[0]):
        return False
    return not trace.is_disturbed(first, at, reads=step.inputs)


def _same(x: Array, y: Array) -> bool:
    """Whether two views are of the same elements."""
    places = [(a.storage, a.shape, a.strides, a.offset, a.dtype) for a in (x, y)]
    return places[0] == places[1]
