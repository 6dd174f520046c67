"""Results that only linear layers read lie by columns, as tiles of products read them.

Between the two layers of a perceptron: the first one's product is stored the other way, which costs
it nothing, and the second one's comes into local memory by copies of sixteen bytes instead of four.
"""

from __future__ import annotations

from ..array import Array
from ..device import Storage
from ..ops.matmul import Linear
from ..ops.rewritten.finished import Finished
from ..ops.rewritten.turned import reads_columns
from .trace import Trace
from .tracer import Step


def by_columns(trace: Trace) -> Trace:
    """The trace with such results, and what reads them, as views of columns one after another."""
    turned: dict[Storage, tuple[int, int]] = {}
    for at, step in trace.ops:
        sizes = _sizes(step)
        if sizes is not None and all(_by_columns(y, sizes) is not None for y in step.outputs):
            (storage,) = step.made
            if _read_by_layers_alone(trace, at, storage, sizes):
                turned[storage] = sizes
    if not turned:
        return trace

    def lying(x: Array) -> Array:
        sizes = turned.get(x.storage)
        return x if sizes is None else _by_columns(x, sizes) or x

    return trace.with_views(lying)


def _sizes(step: Step) -> tuple[int, int] | None:
    """Rows and columns of what a layer computes; None if that is not all, or not a layer's."""
    function, inputs = step.function, step.inputs
    if isinstance(function, Finished):
        if function.reads or function.changed or len(step.outputs) != 1:
            return None
        function = function.product
    if type(function) is not Linear or step.mutated:
        return None
    return inputs[0].shape[0], inputs[1].shape[0]


def _read_by_layers_alone(trace: Trace, at: int, storage: Storage, sizes: tuple[int, int]) -> bool:
    """Whether layers alone read it, as their input, and one of them gains enough."""
    if not trace.is_value(storage) or trace.outlives(storage):
        return False
    gains = False
    for position in trace.readers[storage]:
        reader = trace.steps[position]
        if position <= at or not isinstance(reader, Step):
            return False
        function, first = reader.function, 0
        if isinstance(function, Finished):
            function, first = function.product, function.reads
        others = (*reader.inputs[:first], *reader.inputs[first + 1 :])
        if type(function) is not Linear or any(x.storage is storage for x in others):
            return False
        x, weight = reader.inputs[first : first + 2]
        if x.shape != sizes or _by_columns(x, sizes) is None:
            return False
        gains = gains or reads_columns(trace.device.target, x, weight)
    return gains


def _by_columns(x: Array, sizes: tuple[int, int]) -> Array | None:
    """The same elements of a dense array where columns lie densely; None if its axes join them."""
    rows, columns = sizes
    if not x.contiguous or x.offset or x.size != rows * columns or not x.size:
        return None
    steps = list[int]()
    for size, step in zip(x.shape, x.strides, strict=True):
        if size == 1:
            steps.append(1)
        elif step % columns == 0:
            steps.append(step // columns)
        elif step * size <= columns:
            steps.append(step * rows)
        else:
            return None
    return x.view(x.shape, tuple(steps))
