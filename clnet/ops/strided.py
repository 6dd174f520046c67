"""Elements of a tensor's memory at other strides, as a view that the tape knows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..array import Array
from ..errors import ShapeError
from ..values.shapes import Shape, Strides
from .machinery.function import Function, Grads, Needs, Saved
from .replacement import take
from .scatter import index_add, index_fill
from .shape import reshape

if TYPE_CHECKING:
    from ..tensor import Tensor


class Strided(Function):
    """``size`` elements at ``stride``, beginning ``offset`` elements behind the first.

    Attributes:
        shape, own: sizes and strides of what is viewed.
    """

    takes_complex = True

    size: Shape
    stride: Strides
    offset: int
    shape: Shape
    own: Strides

    def places(self) -> np.ndarray:
        """Which of the input's elements, in their order, lie there.

        Raises:
            ShapeError: if one is none of them.
        """
        wanted = addresses(self.size, self.stride, self.offset)
        own = addresses(self.shape, self.own, 0).reshape(-1)
        order = np.argsort(own, kind="stable")
        found = np.searchsorted(own, wanted, sorter=order).clip(max=max(own.size - 1, 0))
        places = order[found] if own.size else found
        if wanted.size and (not own.size or np.any(own[places] != wanted)):
            law = "on the tape elements are those of the tensor"
            raise ShapeError("as_strided", law, size=self.size, stride=self.stride, x=self.shape)
        return places

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (x.view(self.size, self.stride, x.offset + self.offset),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Added up where they lie, among zeros."""
        (g,), places = grads, self.places().reshape(-1)
        flat = g.new_zeros((prod(self.shape),))
        added = index_add(flat, 0, _indices(g, places), reshape(g, (places.size,)))
        return (reshape(added, self.shape),)


class PutStrided(Strided):
    """The first input with the second at those strides, where it was written already."""

    def infer(self, x: Array, part: Array) -> tuple[Array, ...]:  # pyrefly: ignore[bad-override] - another input
        return (x,)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient with zeros there, and what lies there of it."""
        (g,), places = grads, self.places()
        at = _indices(g, places)
        flat = reshape(g, (prod(self.shape),))
        left = index_fill(flat, 0, reshape(at, (places.size,)), 0) if needs[0] else None
        return (
            None if left is None else reshape(left, self.shape),
            take(g, at) if needs[1] else None,
        )


def addresses(size: Shape, stride: Strides, offset: int) -> np.ndarray:
    """Where in memory elements of a shape lie, in elements."""
    places = np.full(tuple(size), offset, np.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape([-1 if k == axis else 1 for k in range(len(size))])
    return places


def _indices(g: Tensor, places: np.ndarray) -> Tensor:
    return type(g)(Array.from_numpy(places, g.device))
