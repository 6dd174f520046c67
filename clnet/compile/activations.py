"""Functions of a blocked convolution's result are applied before it is stored.

A ReLU6, a SiLU, a GELU: whatever pointwise step reads the result alone and has no numbers of its
own at run time, which later calls may change. A ReLU or a sum is put there by ``epilogue``.
"""

from __future__ import annotations

from dataclasses import replace

from ..expr import Input, substitute
from ..kernels.epilogue import Activation
from ..ops.rewritten.blocked import BlockedConv2d
from ..values.dtypes import float32
from .pointwise_step import PointwiseStep, as_pointwise, same_view
from .trace import Trace
from .tracer import Action, Step

# A longer expression holds more values beside a tile's sums than there are registers.
_MOST_NODES = 32


def activations(trace: Trace) -> Trace:
    """The trace with pointwise steps computed by the blocked convolutions whose results they read.

    The convolution takes the step's place: all that it reads is there.
    """
    steps: list[Step | Action | None] = list(trace.steps)
    for made, producer in trace.ops:
        function = producer.function
        if not isinstance(function, BlockedConv2d) or function.activation is not None:
            continue
        (x,) = producer.outputs
        readers = trace.readers.get(x.storage, ())
        if len(readers) != 1 or trace.outlives(x.storage):
            continue
        (position,) = readers
        step = trace.steps[position]
        form = as_pointwise(step) if isinstance(step, Step) else None
        if form is None or not _suits(producer, form):
            continue
        (y,) = form.made
        if not trace.is_value(y.storage):
            continue
        if trace.is_disturbed(made, position, reads=producer.inputs):
            continue
        expr = substitute(form.exprs[0], {Input(i): Input(0) for i in range(len(form.reads))})
        applied = replace(function, activation=Activation("+".join(form.parts), expr))
        steps[made] = None
        steps[position] = replace(producer, function=applied, outputs=(y,))
    return trace.with_steps([s for s in steps if s is not None])


def _suits(producer: Step, form: PointwiseStep) -> bool:
    """Whether a form is a function of nothing but the result, as it lies."""
    (x,) = producer.outputs
    if len(form.made) != 1 or form.changed or form.scalars or form.num_nodes > _MOST_NODES:
        return False
    (y,) = form.made
    return (
        form.compute is x.dtype is y.dtype is float32
        and bool(form.reads)
        and all(same_view(a, x) and a.strides == y.strides for a in form.reads)
    )
