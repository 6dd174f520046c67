"""What elements make together where an index points: products, and any function of two."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Check, Launch, Scratch, Target
from ..kernels import index as kernels
from ..values.dtypes import int64
from ..values.shapes import Shape, contiguous_strides
from .arithmetic import eq, mul, where
from .copying import copy_launches
from .create import positions
from .index import GatherBackward, GatherRowsBackward, added_up, select_within
from .join import cat
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply
from .shape import contiguous, expand, narrow, reshape, to_dtype
from .sort import argsort

if TYPE_CHECKING:
    from ..tensor import Tensor


class MetAlong(Function):
    """A dense ``x`` with the most, or least, of each element and those of ``src`` it is named for.

    The index is as ``src``, or a vector for all lines along axis 1 of three. It knows no gradient:
    its inputs are off the tape.

    Attributes:
        dim: the axis along which the index points.
        how: ``"most"`` or ``"least"``.
        check: reports what is out of range.
    """

    sixteen_bit = False
    repeats = True

    dim: int
    how: str
    check: Check | None = None

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, then the elements in order."""
        (y,), (x, src, index) = outputs, inputs
        how = {"dim": self.dim, "check": self.check}
        return [
            *copy_launches(target, y, x),
            *kernels.meet_along(target, y, src, index, self.how, **how),
        ]


class ProductsAlong(Function):
    """A dense ``x``, each element times those of ``src`` whose index along ``dim`` names it.

    The index is as that of :class:`MetAlong`.
    """

    sixteen_bit = False
    repeats = True
    saved_inputs = (0, 1, 2)

    dim: int
    check: Check | None = None

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, then the elements in order."""
        (y,), (x, src, index) = outputs, inputs
        how = {"dim": self.dim, "check": self.check}
        return [
            *copy_launches(target, y, x),
            *kernels.meet_along(target, y, src, index, "times", **how),
        ]

    def of_complex(self, x: Tensor, src: Tensor, index: Tensor) -> Tensor:
        """Products of neighbours."""
        return self.decompose(x, src, index)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """One pass forward and one back."""
        function = ProductsAlongBackward(self.dim)
        x, src, index = (saved.inputs[k] for k in range(3))
        places = contiguous(for_all_lines(index, src))
        return (*apply(function, contiguous(grads[0]), x, src, places), None)

    def decompose(self, x: Tensor, src: Tensor, index: Tensor) -> Tensor:
        """In products of neighbours behind a sort."""
        index = for_all_lines(index, src)
        ones = index.new_ones(index.shape)
        named = added_up(GatherBackward(self.dim, x.shape), ones, contiguous(index)) > 0
        found = combined(mul, x.shape, self.dim, index, src)
        return where(named, x * where(named, found, 1), x)


class ProductsAlongBackward(Function):
    """The gradients of :class:`ProductsAlong` to ``x`` and ``src``."""

    sixteen_bit = False
    repeats = True

    dim: int

    def infer(self, g: Array, x: Array, src: Array, index: Array) -> tuple[Array, ...]:
        return tuple(Array.abstract(each.shape, g.dtype, g.device) for each in (x, src))

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Two copies, and a walk."""
        (gx, gsrc), (g, x, src, index) = outputs, inputs
        before = Array.scratch(Scratch(x.device), x.shape, x.dtype)
        return [
            *copy_launches(target, before, x),
            *copy_launches(target, gx, g),
            *kernels.multiply_along_gradient(target, gsrc, before, gx, src, index, dim=self.dim),
        ]


def for_all_lines(index: Tensor, src: Tensor) -> Tensor:
    """An index of the shape of ``src``, of a vector for all its lines, too."""
    if index.ndim == src.ndim:
        return index
    return expand(reshape(index, (1, index.numel(), 1)), src.shape)


def met(
    x: Tensor,
    axis: int,
    src: Tensor,
    index: Tensor,
    how: str,
    *,
    rows: Tensor | None,
    check: Check | None,
) -> Tensor:
    """``x`` with the elements of ``src`` that the index names along an axis.

    Args:
        x: any shape with an axis, dense or not.
        axis: along which the index points.
        src: the index's shape.
        index: places.
        how: ``"times"``; ``"most"`` or ``"least"``, off the tape.
        rows: the vector that the index was expanded from, if it was.
        check: reports what is out of range.
    """
    dim, shape = axis, x.shape
    if rows is not None and kernels.meets_in_order(x.device.target):
        outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
        x = reshape(x, (outer, shape[axis], inner))
        dim, src, index = 1, reshape(src, (outer, rows.numel(), inner)), rows
    function = ProductsAlong(dim, check) if how == "times" else MetAlong(dim, how, check)
    y = apply(function, contiguous(x), contiguous(src), contiguous(index))
    return reshape(y, shape)


def multiplied(
    x: Tensor,
    axis: int,
    src: Tensor,
    index: Tensor,
    *,
    rows: Tensor | None,
    check: Check | None,
) -> Tensor:
    """``x`` times the elements of ``src`` that the index names; arguments as :func:`met`'s."""
    if kernels.multiplies_along(x.device.target, index.shape, axis):
        return met(x, axis, src, index, "times", rows=rows, check=check)
    return ProductsAlong(axis, check).decompose(x, src, index)


def combined(
    combine: Callable[..., Tensor], shape: Shape, axis: int, index: Tensor, src: Tensor
) -> Tensor:
    """What the elements of ``src`` for each place make together; 0 where there are none.

    The places are sorted, neighbours of one place combined 1, 2, 4 ... apart; the last one of each
    place has all of them then.

    Args:
        combine: a function of two, in public ops.
        shape: of the places.
        axis: along which the index points.
        index: any shape that fits.
        src: as the index.
    """
    strides = contiguous_strides(shape)
    places = to_dtype(index, int64) * strides[axis]
    for d, size in enumerate(index.shape):
        if d != axis:
            along = positions(type(src.detach()), size, src.device) * strides[d]
            places = places + reshape(along, (size, *(1,) * (index.ndim - d - 1)))
    flat = reshape(places, (places.numel(),))
    order = argsort(flat)
    flat = select_within(flat, order)
    values = select_within(reshape(src, (src.numel(),)), order)
    size, back = flat.shape[0], 1
    while back < size:
        left, right = narrow(values, 0, 0, size - back), narrow(values, 0, back, size - back)
        same = eq(narrow(flat, 0, 0, size - back), narrow(flat, 0, back, size - back))
        # 1 stands for another place's: by its NaN or infinity no gradient of this one is multiplied
        joined = where(same, combine(where(same, left, 1), right), right)
        values = cat([narrow(values, 0, 0, back), joined])
        back *= 2
    more = eq(narrow(flat, 0, 1, size - 1), narrow(flat, 0, 0, size - 1)) if size else flat
    last = where(cat([more, more.new_zeros(1)]), 0, values) if size else values
    places_of_all = GatherRowsBackward(prod(shape), wrap=False, skip=-1)
    found = added_up(places_of_all, reshape(last, (1, size, 1)), flat)
    return reshape(found, shape)
