"""Losses of 16-bit floats whose results are not narrowed again."""

from __future__ import annotations

from ...array import Array
from ...device import Check, Launch, Target
from ...values.dtypes import DType, from_name
from ..loss import CrossEntropy, CrossEntropyBackward
from ..machinery.function import Function

Arrays = tuple[Array, ...]


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
