"""Scores of classes that do not fill whole runs of 16 bytes lie in rows with room behind them.

Rows of 50257 words begin anywhere: products read such an operand by copies of four bytes instead of
sixteen, or copy it first, and store it one by one. Where a layer's scores go to a cross entropy
alone, and its gradient to products, nobody sees how they lie.
"""

from __future__ import annotations

from ..array import Array
from ..device import Storage
from ..kernels.grid import in_groups
from ..ops.loss import CrossEntropy, CrossEntropyBackward
from ..ops.matmul import Linear, MatMul
from ..ops.rewritten.widened import WidenedCrossEntropy, WidenedCrossEntropyBackward
from ..values.dtypes import bfloat16, float16, float32
from ..values.shapes import round_up
from .trace import Trace
from .tracer import Step

# Elements that rows are a multiple of, a line of most caches; the smallest worth the room.
_LINE, _LEAST_BYTES, _RUN_BYTES = 32, 2**20, 16
_SLOPES = (CrossEntropyBackward, WidenedCrossEntropyBackward)
_LOSSES = (CrossEntropy, WidenedCrossEntropy, *_SLOPES)


def pad_rows(trace: Trace) -> Trace:
    """The trace with such scores and gradients."""
    traits = trace.device.target.traits
    if not in_groups(traits) or not traits.asynchronous_copies:
        return trace
    padded: dict[Storage, tuple[Storage, int, int]] = {}
    for _, step in trace.ops:
        if isinstance(step.function, _SLOPES) and _pads(trace, step):
            for x in (step.inputs[1], step.outputs[0]):
                rows, classes = x.shape
                pitch = round_up(classes, _LINE)
                held = Array.abstract((rows, pitch), x.dtype, x.device)
                padded[x.storage] = held.storage, classes, pitch
    if not padded:
        return trace

    def lying(x: Array) -> Array:
        found = padded.get(x.storage)
        if found is None:
            return x
        storage, classes, pitch = found
        return Array(storage, x.shape, _steps(x, classes, pitch) or (), 0, x.dtype)

    return trace.with_views(lying)


def _pads(trace: Trace, step: Step) -> bool:
    """Whether a gradient's scores, and it, are large, and read by nobody who wants them dense."""
    x, gx = step.inputs[1], step.outputs[0]
    if x.ndim != 2 or x.dtype not in (float32, float16, bfloat16) or x.nbytes < _LEAST_BYTES:
        return False
    if x.shape[1] % (_RUN_BYTES // x.dtype.itemsize) == 0:
        return False
    made = trace.producer(x.storage)
    maker = None if made is None else trace.steps[made]
    if not isinstance(maker, Step) or type(maker.function) is not Linear:
        return False
    return _read_alone(trace, x, _LOSSES) and _read_alone(trace, gx, (MatMul,))


def _read_alone(trace: Trace, x: Array, kinds: tuple[type, ...]) -> bool:
    """Whether only ops of some kinds read a value, each as rows, or as columns, of its classes."""
    storage, classes = x.storage, x.shape[1]
    if not trace.is_value(storage) or trace.outlives(storage):
        return False
    for position in (trace.producers[storage], *trace.readers[storage]):
        step = trace.steps[position]
        if not isinstance(step, Step):
            return False
        arrays = [a for a in (*step.outputs, *step.inputs) if a.storage is storage]
        if position != trace.producers[storage] and type(step.function) not in kinds:
            return False
        if any(a.offset or _steps(a, classes, classes) is None for a in arrays):
            return False
    return True


def _steps(x: Array, classes: int, pitch: int) -> tuple[int, ...] | None:
    """A view's strides where rows are ``pitch`` apart; None if an axis goes over their ends."""
    steps = list[int]()
    for size, step in zip(x.shape, x.strides, strict=True):
        if step % classes == 0:
            steps.append(step // classes * pitch)
        elif step * (size - 1) < classes:
            steps.append(step)
        else:
            return None
    return tuple(steps)
