"""Gradients of slices of one tensor, held until all have come, and made one array at once.

A tensor that is cut in pieces (``unbind``, ``chunk``, ``x[:, t]`` for each ``t``) would else get
for each of them an array of its own size, nearly all zeros, and a sum.
"""

from __future__ import annotations

from bisect import bisect
from typing import Any

from ..ops.machinery.function import apply
from ..ops.placed import Placed
from ..ops.shape import Slice, SliceBackward
from ..values.shapes import Shape

__all__ = ["Parts", "cut_of"]


def cut_of(node: Any) -> int | None:
    """The axis along which a node takes neighbours, all others whole; None: it does not."""
    function = node.function
    if type(function) is not Slice or {*function.steps} - {1}:
        return None
    (shape, _), *_ = node.input_specs
    axes = [d for d, n in enumerate(function.shape) if n != shape[d]]
    return axes[0] if len(axes) == 1 else None


class Parts:
    """Gradients of slices of a tensor along one axis, of which none overlaps another.

    Args:
        axis: the axis.
        shape: the tensor's.
    """

    def __init__(self, axis: int, shape: Shape) -> None:
        self.axis, self.shape = axis, shape
        self.grads: list[Any] = []
        self._starts: list[tuple[int, ...]] = []
        # Where parts begin, in order, and where they end.
        self._begins: list[int] = []
        self._ends: list[int] = []

    def takes(self, axis: int, starts: tuple[int, ...], grad: Any) -> bool:
        """Hold one more, if it can be among these."""
        start = starts[axis]
        end = start + grad.shape[axis]
        at = bisect(self._begins, start)
        if axis != self.axis or (self.grads and grad.dtype is not self.grads[0].dtype):
            return False
        if at and self._ends[at - 1] > start:
            return False
        if at < len(self._begins) and self._begins[at] < end:
            return False
        self._begins.insert(at, start)
        self._ends.insert(at, end)
        self._starts.append(starts)
        self.grads.append(grad)
        return True

    def joined(self) -> Any:
        """The tensor's gradient by all of them."""
        if len(self.grads) == 1:
            steps = (1,) * len(self.shape)
            return apply(SliceBackward(self._starts[0], steps, self.shape), self.grads[0])
        return apply(Placed(tuple(self._starts), self.shape), *self.grads)
