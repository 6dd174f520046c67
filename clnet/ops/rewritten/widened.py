"""Reductions of 16-bit floats whose results are not narrowed again."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...kernels.reduce import Reduction, reduce
from ...values.dtypes import from_name
from ..machinery.function import Function
from ..reduce import reduced_shape

Arrays = tuple[Array, ...]


class WidenedReduce(Function):
    """:class:`.Reduce` of 16-bit floats as if they were converted to float32 before.

    Attributes:
        op_name: the op's.
        kind: what is reduced.
        dims: over which axes.
        keepdim: whether they stay, of size 1.
    """

    op_name: str
    kind: Reduction
    dims: tuple[int, ...]
    keepdim: bool

    def infer(self, x: Array) -> Arrays:
        """In the dtype of the arithmetic."""
        shape = reduced_shape(x.shape, self.dims, keepdim=self.keepdim)
        return (Array.abstract(shape, from_name(x.dtype.compute), x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """As many launches as of float32, which sum in the same order."""
        return reduce(target, outputs[0], inputs[0], dims=self.dims, kind=self.kind)
