"""Sums over channels, and their pointwise readers, compute what they read instead of loading it.

A batch norm's backward reads its gradient twice, for two sums and then for the gradient of its
input. Where that gradient is pointwise (a ReLU's backward, say), writing it costs more than reading
in both places what it is made of; and the ReLU's result need not be read where the norm's input,
which is read anyway, gives it once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..array import Array
from ..device import Storage
from ..ops.reduce import Reduce
from ..ops.rewritten.blocked_layers import BlockedSums
from ..values.dtypes import float32
from ..values.shapes import is_contiguous
from .fusion_obstacle import FusionObstacle, UnfusedPair
from .pointwise_step import PointwiseStep, as_pointwise, compose, same_view
from .trace import Trace
from .tracer import Action, Step

_MOST_OPERANDS = 12
_MOST_NODES = 96
_WRITE = 2  # A line of memory is read before it is written.


def prologue(trace: Trace) -> Trace:
    """The trace with pointwise producers of sums computed by all who read them, where that pays."""
    for change in (_absorbed, _made_with):
        while (found := _changed_once(trace, change)) is not trace:
            trace = found
    return trace


def unfused_pairs(trace: Trace) -> Iterator[UnfusedPair]:
    """Pointwise steps that sums do not compute instead of reading their results, and why."""
    for position, step in trace.ops:
        if not isinstance(step.function, BlockedSums | Reduce):
            continue
        for storage in dict.fromkeys(x.storage for x in step.inputs):
            at = trace.producer(storage)
            producer = None if at is None else trace.steps[at]
            if at is None or not isinstance(producer, Step) or as_pointwise(producer) is None:
                continue
            blocked = isinstance(step.function, BlockedSums)
            found = _absorbed(trace, storage) if blocked else FusionObstacle.LOADED
            if isinstance(found, FusionObstacle):
                yield at, position, found


Changes = dict[int, Step | None]
"""Steps by position that take the place of others; None of none."""


def _changed_once(
    trace: Trace, change: Callable[[Trace, Storage], Changes | FusionObstacle]
) -> Trace:
    """The trace after the changes that have no step in common; the same if there is none."""
    changed: Changes = {}
    read_anew: set[Storage] = set()
    for _, step in trace.ops:
        if not isinstance(step.function, BlockedSums):
            continue
        for made in dict.fromkeys(a.storage for a in step.inputs if a.ndim == 5):
            if made in read_anew:
                continue
            found = change(trace, made)
            if isinstance(found, FusionObstacle) or not changed.keys().isdisjoint(found):
                continue
            changed |= found
            read_anew |= {a.storage for s in found.values() if s is not None for a in s.inputs}
    if not changed:
        return trace
    steps = (changed.get(i, s) for i, s in enumerate(trace.steps))
    return trace.with_steps([s for s in steps if s is not None])


def _absorbed(trace: Trace, made: Storage) -> Changes | FusionObstacle:
    """The steps that read a value as they compute it, and none that makes it."""
    at = trace.producer(made)
    producer = None if at is None else _pure(trace.steps[at])
    if at is None or producer is None:
        return FusionObstacle.CHANGED
    if trace.outlives(made):
        return FusionObstacle.RETURNED
    (whole,) = producer.made
    readers = {r: _form(trace.steps[r]) for r in trace.readers[made]}
    if not all(f is not None and _reads_whole(f, whole) for f in readers.values()):
        return FusionObstacle.READ_TWICE
    found: Changes = {at: None}
    before, after = _traffic(producer) + _WRITE * whole.nbytes, 0
    for reader, form in readers.items():
        step = trace.steps[reader]
        if not isinstance(step, Step) or form is None:
            return FusionObstacle.READ_TWICE
        fused = compose(producer, form, ())
        if isinstance(fused, FusionObstacle):
            return fused
        if trace.is_disturbed(at, reader, reads=producer.reads):
            return FusionObstacle.ORDER
        fused = _recomputed(trace, fused, reader)
        found[reader] = _step(step, fused)
        if found[reader] is None:
            return FusionObstacle.OPERANDS
        before += _traffic(form)
        after += _traffic(fused)
    return found if after < before else FusionObstacle.BYTES


def _made_with(trace: Trace, made: Storage) -> Changes | FusionObstacle:
    """A value that others read, too, made in the same pass as what is summed of it."""
    at = trace.producer(made)
    producer = None if at is None else _pure(trace.steps[at])
    if at is None or producer is None:
        return FusionObstacle.CHANGED
    (whole,) = producer.made
    for reader in trace.readers[made]:
        step, form = trace.steps[reader], _form(trace.steps[reader])
        if not isinstance(step, Step) or not isinstance(step.function, BlockedSums) or form is None:
            continue
        if not _reads_whole(form, whole) or trace.is_disturbed(at, reader, reads=form.reads):
            continue
        fused = compose(producer, form, (whole,))
        joined = fused if isinstance(fused, PointwiseStep) else None
        found = None if joined is None else _step(step, joined, (whole, *step.outputs))
        if found is not None:
            return {at: found, reader: None}
    return FusionObstacle.READ_TWICE


def _pure(step: Step | Action) -> PointwiseStep | None:
    """A pointwise step with one output that changes nothing and reads no cell."""
    form = as_pointwise(step) if isinstance(step, Step) else None
    if form is None or form.changed or form.cells or len(form.made) != 1:
        return None
    return form


def _recomputed(trace: Trace, form: PointwiseStep, reader: int) -> PointwiseStep:
    """A form that computes what it can from what it reads anyway."""
    for x in form.reads:
        at = trace.producer(x.storage)
        step = None if at is None else trace.steps[at]
        source = as_pointwise(step) if isinstance(step, Step) else None
        if at is None or source is None or source.changed or source.cells or x.shape != form.shape:
            continue
        if _traffic(form, source) < _traffic(form) and not trace.is_disturbed(
            at, reader, reads=source.reads
        ):
            fused = compose(source, form, ())
            if isinstance(fused, PointwiseStep) and _traffic(fused) < _traffic(form):
                return _recomputed(trace, fused, reader)
    return form


def _form(step: Step | Action | None) -> PointwiseStep | None:
    """A pointwise step or sums of one in common form; of sums, what is summed stands as made."""
    if not isinstance(step, Step):
        return None
    if not isinstance(step.function, BlockedSums):
        return as_pointwise(step)
    function = step.function
    x = next(a for a in step.inputs if a.ndim == 5)
    reads = tuple(a if a.ndim == 5 else _spread(a, x.shape[-1]) for a in step.inputs)
    summed = [Array.abstract(x.shape, x.dtype, x.device) for _ in function.exprs[function.made :]]
    written = (*step.outputs[: function.made], *summed)
    name = (function.op_name,)
    return PointwiseStep(name, function.exprs, function.scalars, x.dtype, reads, (), written)


def _step(step: Step, form: PointwiseStep, outputs: tuple[Array, ...] | None = None) -> Step | None:
    """A step as its new form says, or None where there is no such step.

    Args:
        step: as it was.
        form: what it is to be.
        outputs: of sums, with what is made beside them; None: the step's.
    """
    if form.obstacle(operands=_MOST_OPERANDS, nodes=_MOST_NODES):
        return None
    if not isinstance(step.function, BlockedSums):
        return form.step(step)
    if not all(a.dtype is float32 and (_is_blocked(a, form) or _is_spread(a)) for a in form.reads):
        return None
    written = outputs or step.outputs
    function = BlockedSums(
        "+".join(dict.fromkeys(form.parts)),
        form.exprs,
        form.scalars,
        sum(y.ndim == 5 for y in written),
    )
    inputs = tuple(a if _is_blocked(a, form) else _channels(a) for a in form.reads)
    return replace(step, function=function, inputs=inputs, outputs=written)


def _is_blocked(array: Array, form: PointwiseStep) -> bool:
    return array.shape == form.shape and is_contiguous(array.shape[2:], array.strides[2:])


def _is_spread(array: Array) -> bool:
    """Whether it is a dense vector, a value for each channel."""
    groups, lanes = array.shape[1::3] if array.ndim == 5 else (0, 0)
    return array.shape == (1, groups, 1, 1, lanes) and array.strides[1::3] == (lanes, 1)


def _spread(values: Array, lanes: int) -> Array:
    return values.view((1, values.size // lanes, 1, 1, lanes), (0, lanes, 0, 0, 1))


def _channels(spread: Array) -> Array:
    return spread.view((spread.size,), (1,))


def _reads_whole(form: PointwiseStep, made: Array) -> bool:
    return all(same_view(x, made) for x in form.reads if x.storage is made.storage)


def _traffic(form: PointwiseStep, source: PointwiseStep | None = None) -> int:
    """Bytes of whole arrays read by a form; a value for each channel is nothing beside them.

    Args:
        form: the form.
        source: what makes some of them, if it is to be computed instead of read.
    """
    made = () if source is None else [y.storage for y in source.made]
    reads = form.reads if source is None else (*form.reads, *source.reads)
    return sum(
        {
            a.storage: a.nbytes for a in reads if a.shape == form.shape and a.storage not in made
        }.values()
    )
