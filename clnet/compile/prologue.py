"""Sums over channels, and their pointwise readers, compute what they read instead of loading it.

A batch norm's backward reads its gradient twice, for two sums and then for the gradient of its
input. Where that gradient is pointwise (a ReLU's backward, say), writing it costs more than reading
in both places what it is made of; and the ReLU's result need not be read where the norm's input,
which is read anyway, gives it once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..array import Array
from ..device import Storage
from ..dtypes import float32
from ..ops.blocked_layers import BlockedSums
from ..shapes import is_contiguous
from .form import Form, compose, form_of, same_view
from .trace import Trace
from .tracer import Action, Step

_MOST_OPERANDS = 12
_MOST_NODES = 96
_WRITE = 2  # A line of memory is read before it is written.


def prologue(trace: Trace) -> Trace:
    """The trace with pointwise producers of sums computed by all who read them, where that pays."""
    while (found := _absorbed_once(trace)) is not trace:
        trace = found
    return trace


def _absorbed_once(trace: Trace) -> Trace:
    """The trace after the absorptions that have no step in common; the same if there is none."""
    changed: dict[int, Step | None] = {}
    read_anew: set[Storage] = set()
    for _, step in trace.ops:
        if not isinstance(step.function, BlockedSums):
            continue
        for made in dict.fromkeys(a.storage for a in step.inputs if a.ndim == 5):
            found = None if made in read_anew else _absorbed(trace, made)
            if found is None or not changed.keys().isdisjoint(found):
                continue
            changed |= found
            read_anew |= {a.storage for s in found.values() if s is not None for a in s.inputs}
    if not changed:
        return trace
    steps = (changed.get(i, s) for i, s in enumerate(trace.steps))
    return trace.with_steps([s for s in steps if s is not None])


def _absorbed(trace: Trace, made: Storage) -> dict[int, Step | None] | None:
    """The steps that read a value as they compute it, and none that makes it; None if no gain."""
    at = trace.producer(made)
    producer = None if at is None else _form(trace.steps[at])
    if at is None or producer is None or trace.outlives(made):
        return None
    if producer.changed or producer.cells or len(producer.made) != 1:
        return None
    (whole,) = producer.made
    found: dict[int, Step | None] = {at: None}
    before, after = _traffic(producer) + _WRITE * whole.nbytes, 0
    for reader in trace.readers[made]:
        step, form = trace.steps[reader], _form(trace.steps[reader])
        if not isinstance(step, Step) or form is None or not _reads_whole(form, whole):
            return None
        fused = compose(producer, form, ())
        if fused is None or not _unchanged(trace, producer.reads, at, reader):
            return None
        fused = _recomputed(trace, fused, reader)
        found[reader] = _step(step, fused)
        if found[reader] is None:
            return None
        before += _traffic(form)
        after += _traffic(fused)
    return found if after < before else None


def _recomputed(trace: Trace, form: Form, reader: int) -> Form:
    """A form that computes what it can from what it reads anyway."""
    for x in form.reads:
        at = trace.producer(x.storage)
        source = None if at is None else _form(trace.steps[at])
        if at is None or source is None or source.changed or source.cells or x.shape != form.shape:
            continue
        if _unchanged(trace, source.reads, at, reader):
            fused = compose(source, form, ())
            if fused is not None and _traffic(fused) < _traffic(form):
                return _recomputed(trace, fused, reader)
    return form


def _form(step: Step | Action | None) -> Form | None:
    """A pointwise step or sums of one in common form; of sums, what is summed stands as made."""
    if not isinstance(step, Step):
        return None
    if not isinstance(step.function, BlockedSums):
        return form_of(step)
    function = step.function
    x = next(a for a in step.inputs if a.ndim == 5)
    reads = tuple(a if a.ndim == 5 else _spread(a, x.shape[-1]) for a in step.inputs)
    summed = tuple(Array.abstract(x.shape, x.dtype, x.device) for _ in function.exprs)
    name = (function.op_name,)
    return Form(name, function.exprs, function.scalars, x.dtype, reads, (), summed)


def _step(step: Step, form: Form) -> Step | None:
    """A step as its new form says, or None where there is no such step."""
    if form.num_nodes > _MOST_NODES or len(form.reads) + len(form.written) > _MOST_OPERANDS:
        return None
    if not isinstance(step.function, BlockedSums):
        return form.step(step)
    if not all(a.dtype is float32 and (_is_blocked(a, form) or _is_spread(a)) for a in form.reads):
        return None
    function = replace(step.function, exprs=form.exprs, scalars=form.scalars)
    inputs = tuple(a if _is_blocked(a, form) else _channels(a) for a in form.reads)
    return replace(step, function=function, inputs=inputs)


def _is_blocked(array: Array, form: Form) -> bool:
    return array.shape == form.shape and is_contiguous(array.shape[2:], array.strides[2:])


def _is_spread(array: Array) -> bool:
    """Whether it is a dense vector, a value for each channel."""
    groups, lanes = array.shape[1::3] if array.ndim == 5 else (0, 0)
    return array.shape == (1, groups, 1, 1, lanes) and array.strides[1::3] == (lanes, 1)


def _spread(values: Array, lanes: int) -> Array:
    return values.view((1, values.size // lanes, 1, 1, lanes), (0, lanes, 0, 0, 1))


def _channels(spread: Array) -> Array:
    return spread.view((spread.size,), (1,))


def _reads_whole(form: Form, made: Array) -> bool:
    return all(same_view(x, made) for x in form.reads if x.storage is made.storage)


def _unchanged(trace: Trace, reads: Sequence[Array], low: int, high: int) -> bool:
    """Whether no step between two places writes what is read."""
    return not any(low < w < high for x in reads for w in trace.writers.get(x.storage, ()))


def _traffic(form: Form) -> int:
    """Bytes of whole arrays moved by a form; a value for each channel is nothing beside them."""
    whole = {a.storage: a.nbytes for a in form.reads if a.shape == form.shape}
    return sum(whole.values())
