"""Gradients of several slices of one array, as one op: the walk back makes it, and passes do."""

from __future__ import annotations

from math import prod

from ..array import Array
from ..device import Launch, Target
from ..kernels.moving import fill
from ..values.shapes import Shape
from .copying import copies
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply
from .shape import Slice, slice_view


class Placed(Function):
    """An array of ``shape`` with each input at a place of its own, and zeros elsewhere.

    Attributes:
        starts: of each input, where it begins along each axis; none overlaps another.
        shape: of the result.
    """

    takes_complex = True
    repeats = True
    op_name = "slice_backward"

    starts: tuple[tuple[int, ...], ...]
    shape: Shape

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, inputs[0].dtype, inputs[0].device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy for each, small ones together, behind a fill where they leave something out."""
        (y,) = outputs
        steps = (1,) * y.ndim
        whole = sum(x.size for x in inputs) == prod(self.shape)
        places = zip(self.starts, inputs, strict=True)
        pairs = [(slice_view(y, starts, steps, x.shape), x) for starts, x in places]
        return ([] if whole else fill(target, y, 0)) + copies(target, pairs)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each input's part."""
        steps = (1,) * len(self.shape)
        return tuple(
            apply(Slice(starts, steps, shape), grads[0]) if need else None
            for starts, (shape, _), need in zip(self.starts, saved.input_specs, needs, strict=True)
        )
