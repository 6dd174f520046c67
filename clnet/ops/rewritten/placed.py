"""Gradients of several slices of one array, as one op; compiled functions have it."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...kernels.moving import fill
from ...values.shapes import Shape
from ..copying import copy_launches
from ..machinery.function import Arrays, Function
from ..shape import slice_view


class Placed(Function):
    """An array of ``shape`` with each input at a place of its own, and zeros elsewhere.

    Attributes:
        starts: of each input, where it begins along each axis; none overlaps another.
        shape: of the result.
    """

    takes_complex = True
    op_name = "slice_backward"

    starts: tuple[tuple[int, ...], ...]
    shape: Shape

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, inputs[0].dtype, inputs[0].device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy for each input, behind a fill where they leave something out."""
        (y,) = outputs
        steps = (1,) * y.ndim
        whole = sum(x.size for x in inputs) == prod(self.shape)
        launches = [] if whole else fill(target, y, 0)
        for starts, x in zip(self.starts, inputs, strict=True):
            launches += copy_launches(target, slice_view(y, starts, steps, x.shape), x)
        return launches
