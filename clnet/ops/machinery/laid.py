"""How the results of pointwise ops lie in memory: as their operands do."""

from __future__ import annotations

from ...array import Array
from ...values import mode
from ...values.dtypes import DType
from ...values.shapes import Shape, broadcast_strides, memory_order, strides_in


def laid_alike(
    shape: Shape, dtypes: tuple[DType, ...], inputs: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Abstract results, dense, their axes in the order in which the operands' lie, as PyTorch's.

    In a trace an operand that is row-major decides before others: where a network goes on from
    images' channels to rows, its sums would stay turned, and each norm behind them copy.

    Args:
        shape: of the results, the operands' broadcast one.
        dtypes: of each result.
        inputs: the operands.
    """
    device = inputs[0].storage.device
    outputs = tuple([Array.abstract(shape, dtype, device) for dtype in dtypes])
    if all(x.contiguous for x in inputs):
        return outputs
    traced = mode.current().tracer is not None
    if traced and any(x.contiguous and x.shape == shape for x in inputs):
        return outputs
    strides = tuple([broadcast_strides(x.shape, x.strides, shape) for x in inputs])
    order = memory_order(shape, strides)
    if order == tuple(range(len(shape))):
        return outputs
    steps = strides_in(shape, order)
    return tuple([y.view(shape, steps) for y in outputs])
