"""Reductions and losses of 16-bit floats whose results are not narrowed again."""

from __future__ import annotations

from ...array import Array
from ...device import Check, Launch, Target
from ...kernels.reduce import Reduction, reduce
from ...values.dtypes import DType, from_name
from ..loss import CrossEntropy, CrossEntropyBackward
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


class WidenedCrossEntropy(Function):
    """:class:`.CrossEntropy` of 16-bit scores as if they were converted to float32 before.

    Attributes:
        plain: that op.
    """

    repeats = True

    plain: CrossEntropy
    check: Check | None = None

    @property
    def name(self) -> str:
        return self.plain.name

    def infer(self, x: Array, targets: Array, *weight: Array) -> Arrays:
        """In float32."""
        wide = Array.abstract(x.shape, from_name(x.dtype.compute), x.device)
        return self.plain.infer(wide, targets, *weight)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Its launches."""
        return self.plain.lower(target, outputs, inputs)


class WidenedCrossEntropyBackward(Function):
    """:class:`.CrossEntropyBackward` of 16-bit scores, likewise.

    Attributes:
        plain: that op.
        dtype: of the gradient, which is rounded to it: float32, or as the scores.
    """

    repeats = True
    elementwise = True

    plain: CrossEntropyBackward
    dtype: DType

    @property
    def name(self) -> str:
        return self.plain.name

    def infer(self, gy: Array, x: Array, *rest: Array) -> Arrays:
        """``x``'s shape."""
        return (Array.abstract(x.shape, self.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Its launch."""
        return self.plain.lower(target, outputs, inputs)
