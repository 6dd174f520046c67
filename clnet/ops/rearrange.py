"""Ops that put the elements of a tensor in another order, or repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, BoundsError, KindError, ShapeError
from ..expr import Input
from ..expr import le as less_or_equal
from ..expr import where as where_expr
from ..kernels.moving import copy
from ..kernels.moving import fill as launch_fill
from ..values.dtypes import bool_, from_name
from ..values.shapes import Shape, axis_of, normalize_dim, normalize_dims, resolve_reshape
from .arithmetic import le, where
from .copying import copy_launches
from .create import positions
from .machinery.another import as_another
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .machinery.pointwise import Pointwise
from .patches import Fold, patch_geometry
from .shape import (
    contiguous,
    dense_copy,
    expand,
    fresh,
    in_its_order,
    narrow,
    permute,
    reshape,
    sizes_of,
    slice_view,
)

if TYPE_CHECKING:
    from ..tensor import Tensor

_MOST_AXES = 64
"""NumPy's, to which results go."""


class Flip(Function):
    """Axes read backwards."""

    takes_complex = True
    repeats = True

    dims: tuple[int, ...]

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One copy, with steps below 0 that no tensor has."""
        (y,), (x,) = outputs, inputs
        turned = self.dims if x.size else ()
        strides = tuple(-s if d in turned else s for d, s in enumerate(x.strides))
        last = x.offset + sum((x.shape[d] - 1) * x.strides[d] for d in turned)
        return copy(target, y, x.view(x.shape, strides, last))

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Flipped back."""
        return (apply(self, grads[0]),)


class Roll(Function):
    """Elements moved along axes, by so many positions for each; those that leave come in again."""

    takes_complex = True
    repeats = True

    steps: tuple[int, ...]

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy for each corner of the axes that move."""
        (y,), (x,) = outputs, inputs
        # Of each axis where parts begin in y and in x, and their length.
        parts = [
            [(step, 0, size - step), (0, size - step, step)] if step else [(0, 0, size)]
            for step, size in zip(self.steps, x.shape, strict=True)
        ]
        launches: list[Launch] = []
        for corner in product(*parts):
            to, source, shape = zip(*corner, strict=True) if corner else ((), (), ())
            ones = (1,) * x.ndim
            part = slice_view(x, source, ones, shape)
            launches += copy_launches(target, slice_view(y, to, ones, shape), part)
        return launches

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Moved back."""
        sizes = saved.input_specs[0][0]
        steps = (-step % size if step else 0 for step, size in zip(self.steps, sizes, strict=True))
        return (apply(Roll(tuple(steps)), grads[0]),)


class Diagonal(Function):
    """The diagonal of two axes as the last axis."""

    takes_complex = True
    views = True

    offset: int
    dims: tuple[int, int]

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (_diagonal_view(x, self.offset, self.dims),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Put back among zeros."""
        shape = saved.input_specs[0][0]
        return (apply(DiagonalBackward(self.offset, self.dims, shape), grads[0]),)


class DiagonalBackward(Function):
    """Zeros of ``shape`` with the input on the diagonal of two axes."""

    takes_complex = True
    repeats = True

    offset: int
    dims: tuple[int, int]
    shape: Shape

    def infer(self, x: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Fill, then copy onto the diagonal."""
        (y,), (x,) = outputs, inputs
        place = _diagonal_view(y, self.offset, self.dims)
        return launch_fill(target, y, 0) + copy_launches(target, place, x)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The diagonal of the gradient."""
        return (apply(Diagonal(self.offset, self.dims), grads[0]),)


class PutDiagonal(Function):
    """The first input with the second, converted, on the diagonal of two axes."""

    takes_complex = True
    repeats = True

    offset: int
    dims: tuple[int, int]

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Copy, then copy onto the diagonal."""
        (y,), (x, part) = outputs, inputs
        place = _diagonal_view(y, self.offset, self.dims)
        return copy_launches(target, y, x) + copy_launches(target, place, part)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The gradient with zeros on the diagonal, and the diagonal of it."""
        (g,), (_, (shape, _)) = grads, saved.input_specs
        return (
            apply(self, g, g.new_zeros(shape)) if needs[0] else None,
            apply(Diagonal(self.offset, self.dims), g) if needs[1] else None,
        )


def _diagonal_view(x: Array, offset: int, dims: tuple[int, int]) -> Array:
    first, second = dims
    start = max(offset, 0) * x.strides[second] + max(-offset, 0) * x.strides[first]
    length = min(x.shape[first] - max(-offset, 0), x.shape[second] - max(offset, 0))
    kept = [d for d in range(x.ndim) if d not in dims]
    shape = (*(x.shape[d] for d in kept), max(length, 0))
    strides = (*(x.strides[d] for d in kept), x.strides[first] + x.strides[second])
    return x.view(shape, strides, x.offset + (start if prod(shape) else 0))


# Axes.


@op()
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes ``source`` moved to places ``destination``, the others in their order; a view.

    Raises:
        ShapeError: if they are not as many, or one is named twice.
        BoundsError: if there is no such axis.
    """
    given = [(d,) if isinstance(d, int) else tuple(d) for d in (source, destination)]
    places = [[normalize_dim("movedim", d, x.ndim) for d in dims] for dims in given]
    if len(places[0]) != len(places[1]) or any(len(set(p)) != len(p) for p in places):
        raise ShapeError(
            "movedim",
            "source and destination are as many, each named once",
            source=source,
            destination=destination,
        )
    if x.ndim == 0:
        return x
    came = dict(zip(places[1], places[0], strict=True))
    others = iter([d for d in range(x.ndim) if d not in places[0]])
    return permute(x, tuple(came[d] if d in came else next(others) for d in range(x.ndim)))


@op(seen=as_another)
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """An axis split into several; one size may be -1; a view where the strides allow it.

    Raises:
        ShapeError: if the sizes do not multiply to that of the axis.
    """
    at = normalize_dim("unflatten", dim, x.ndim)
    inner = resolve_reshape("unflatten", x.shape[at : at + 1], tuple(sizes))
    return reshape(x, (*x.shape[:at], *inner, *x.shape[at + 1 :]))


@op()
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one position of an axis, without the axis; a view.

    Raises:
        BoundsError: if the position lies outside the axis.
    """
    at = normalize_dim("select", dim, x.ndim)
    if x.ndim == 0 or not -x.shape[at] <= index < x.shape[at]:
        raise BoundsError("select", "the index lies inside the axis", x=x.shape, index=index)
    taken = narrow(x, at, index % x.shape[at], 1)
    return reshape(taken, (*x.shape[:at], *x.shape[at + 1 :]))


@op()
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes as the last axis, without a copy.

    Args:
        x: two axes or more.
        offset: above the main diagonal, or below it if negative.
        dim1: the rows' axis.
        dim2: the columns' axis.

    Returns:
        The other axes, then the diagonal.

    Raises:
        ShapeError: if the axes are the same one.
    """
    dims = normalize_dim("diagonal", dim1, x.ndim), normalize_dim("diagonal", dim2, x.ndim)
    if dims[0] == dims[1]:
        raise ShapeError("diagonal", "it has two axes", x=x.shape, dim1=dim1, dim2=dim2)
    return apply(Diagonal(offset, dims), x)


@op()
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last axis of ``x`` on the diagonal of two new axes.

    Args:
        x: one axis or more.
        offset: above the main diagonal, or below it if negative.
        dim1: the rows' axis in the result.
        dim2: the columns' axis in the result.

    Returns:
        One axis more than ``x``.

    Raises:
        ShapeError: if the axes are the same one, or ``x`` has none.
    """
    ndim = x.ndim + 1
    named = (dim1, dim2) if x.ndim else (0, 0)
    dims = normalize_dim("diag_embed", named[0], ndim), normalize_dim("diag_embed", named[1], ndim)
    if dims[0] == dims[1]:
        raise ShapeError("diag_embed", "it makes two axes of one", x=x.shape, dim1=dim1, dim2=dim2)
    others = iter(x.shape[:-1])
    side = x.shape[-1] + abs(offset)
    shape = tuple(side if d in dims else next(others) for d in range(ndim))
    return apply(DiagonalBackward(offset, dims, shape), x)


@op()
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix's diagonal, or the matrix with a vector on its diagonal.

    Raises:
        ShapeError: if ``x`` is neither.
    """
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise ShapeError("diag", "x is a vector or a matrix", x=x.shape)
    return dense_copy(apply(Diagonal(diagonal, (0, 1)), x))


@op()
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two axes, 0 above.

    Args:
        x: two axes or more.
        diagonal: the last one that is kept, counted upwards from the main one.

    Returns:
        The shape and dtype of ``x``.

    Raises:
        ShapeError: if it has fewer axes.
    """
    return _triangle("tril", x, diagonal, lower=True)


@op()
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two axes, 0 below; arguments as :func:`tril`'s."""
    return _triangle("triu", x, diagonal - 1, lower=False)


_EXACT = 2**24  # up to which float32 has all whole numbers
_ON_OR_BELOW = less_or_equal(Input(0), Input(1))
_LOWER = where_expr(_ON_OR_BELOW, Input(2), 0)
_UPPER = where_expr(_ON_OR_BELOW, 0, Input(2))


def _triangle(name: str, x: Tensor, diagonal: int, *, lower: bool) -> Tensor:
    """What is on or below a diagonal, or what is above it, and 0."""
    if x.ndim < 2:
        raise ShapeError(name, "x has two axes or more", x=x.shape)
    x = contiguous(x)  # so is the result
    rows, columns = x.shape[-2:]
    reach = max(-rows, min(columns, diagonal))  # further out nothing changes but overflows
    compute = from_name(x.dtype.compute)
    if x.dtype.differentiable and not x.dtype.is_complex and rows + columns < _EXACT:
        # Places as numbers of its own type: one launch of vectors, and no mask in memory.
        row = positions(type(x), rows, x.device, start=reach, dtype=compute)
        column = positions(type(x), columns, x.device, dtype=compute)
        function = Pointwise(name, (_LOWER if lower else _UPPER,), (), compute, (x.dtype,))
        return apply(function, column, reshape(row, (rows, 1)), x)
    row = positions(type(x), rows, x.device, start=reach)
    kept = le(positions(type(x), columns, x.device), reshape(row, (rows, 1)))
    nothing = False if x.dtype is bool_ else 0  # that leaves the dtype of x what it is
    return where(kept, x, nothing) if lower else where(kept, nothing, x)


# Repetition and order.


@op(Face.METHOD)
def repeat(x: Tensor, *sizes: Any) -> Tensor:
    """``x`` laid end to end, ``sizes[d]`` times along each axis; missing axes come first.

    Raises:
        ShapeError: if there are fewer sizes than axes, or one is negative.
    """
    times = sizes_of("repeat", sizes)
    if len(times) < x.ndim or any(n < 0 for n in times):
        law = "there is a size, 0 or more, for every axis"
        raise ShapeError("repeat", law, x=x.shape, sizes=times)
    if len(times) > _MOST_AXES:
        raise ShapeError("repeat", f"a tensor has at most {_MOST_AXES} axes", axes=len(times))
    shape = (1,) * (len(times) - x.ndim) + x.shape
    apart = reshape(x, tuple(n for size in shape for n in (1, size)))
    together = expand(apart, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return fresh(reshape(together, tuple(t * n for t, n in zip(times, shape, strict=True))), x)


@op()
def tile(x: Tensor, *sizes: Any, dims: Sequence[int] | None = None) -> Tensor:
    """As :meth:`repeat`; where there are fewer sizes than axes, the first axes are kept."""
    times = sizes_of("tile", sizes, dims)
    return repeat(x, (1,) * (x.ndim - len(times)) + times)


@op()
def flip(x: Tensor, *axes: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Axes in the opposite direction; a copy, as strides are never negative.

    Args:
        x: any shape.
        *axes: dims, or one sequence of them.
        dims: the same by name.

    Returns:
        The shape of ``x``, its axes in memory in the same order.

    Raises:
        ShapeError: if an axis is named twice.
        KindError: if no dims are given.
    """
    if dims is None and not axes:
        raise KindError("flip", "dims are given", dims=None)
    named = normalize_dims("flip", sizes_of("flip", axes, dims), x.ndim)
    if not x.array.contiguous:  # by the axes as they lie
        named = tuple(map(x.array.order.index, named))
    return in_its_order(x, lambda y: apply(Flip(named), y))


@op()
def fliplr(x: Tensor) -> Tensor:
    """The second axis in the opposite direction.

    Raises:
        ShapeError: if there is none.
    """
    if x.ndim < 2:
        raise ShapeError("fliplr", "x has two axes or more", x=x.shape)
    return flip(x, 1)


@op()
def flipud(x: Tensor) -> Tensor:
    """The first axis in the opposite direction.

    Raises:
        ShapeError: if there is none.
    """
    if x.ndim < 1:
        raise ShapeError("flipud", "x has an axis or more", x=x.shape)
    return flip(x, 0)


@op()
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes; what leaves at one end comes in at the other.

    Args:
        x: any shape.
        shifts: by how many positions, for each axis.
        dims: the axes; None: as if ``x`` were flat.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if there are not as many shifts as axes.
    """
    steps = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None:
        if len(steps) != 1:
            raise ShapeError("roll", "without dims there is one shift", shifts=shifts)
        return reshape(roll(reshape(x, (x.numel(),)), steps, 0), x.shape)
    axes = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(axes) != len(steps):
        raise ShapeError("roll", "there is a shift for each axis", shifts=shifts, dims=dims)
    moved = [0] * x.ndim
    for axis, step in zip((axis_of("roll", d, x.shape) for d in axes), steps, strict=True):
        size = x.shape[axis]
        moved[axis] = (moved[axis] + step) % size if size else 0
    return apply(Roll(tuple(moved)), x) if any(moved) else dense_copy(x)


@op()
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by ``k`` right angles, from the first axis of ``dims`` towards the second.

    Raises:
        ShapeError: if ``dims`` are not two different axes.
    """
    axes = tuple(normalize_dim("rot90", d, x.ndim) for d in dims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ShapeError("rot90", "dims are two axes", x=x.shape, dims=tuple(dims))
    turns = k % 4
    if turns in (0, 2):
        return flip(x, axes) if turns else dense_copy(x)
    order = list(range(x.ndim))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return flip(permute(x, order), axes[0] if turns == 1 else axes[1])


# Windows.


class Windows(Function):
    """Windows of an axis, at its place their number, behind all axes their elements."""

    takes_complex = True
    views = True

    axis: int
    size: int
    step: int

    def infer(self, x: Array) -> tuple[Array, ...]:
        """A view in which windows may overlap."""
        far = x.strides[self.axis]
        strides = [far * self.step if d == self.axis else n for d, n in enumerate(x.strides)]
        return (x.view((*self._counted(x.shape), self.size), (*strides, far)),)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Summed into the places that they were taken from, as patches of images one row wide."""
        shape = saved.input_specs[0][0]
        if 0 in grads[0].shape:
            return (grads[0].new_zeros(shape),)
        length = shape[self.axis]
        outer, inner = prod(shape[: self.axis]), prod(shape[self.axis + 1 :])
        count = self._counted(shape)[self.axis]
        taps = reshape(grads[0], (outer, count, inner, self.size))
        taps = reshape(permute(taps, (0, 3, 1, 2)), (outer, 1, self.size, 1, count, inner))
        sizes, settings = (length, inner), ((self.size, 1), (self.step, 1), 0, 1)
        fold = Fold(patch_geometry(self.name, 1, sizes, settings))
        return (reshape(apply(fold, contiguous(taps)), shape),)

    def _counted(self, shape: Shape) -> Shape:
        count = (shape[self.axis] - self.size) // self.step + 1
        return (*shape[: self.axis], count, *shape[self.axis + 1 :])


@op(Face.METHOD, name="Tensor.unfold")
def windows(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements along an axis, ``step`` apart: ``x.unfold(dim, size, step)``.

    Args:
        x: any shape; a number is taken for an axis of one.
        dimension: the axis.
        size: of a window.
        step: from one to the next.

    Returns:
        ``x``'s shape with the number of windows at ``dim``, and ``size`` as last axis; a view. Of
        a number the window alone, ``(size,)``.

    Raises:
        ArgumentError: if a window is longer than the axis, or the step is not positive.
    """
    if x.ndim == 0:
        normalize_dim("unfold", dimension, 0)
        return windows(reshape(x, (1,)), 0, size, step)[0]
    axis = axis_of("unfold", dimension, x.shape)
    if not 0 <= size <= x.shape[axis] or step < 1:
        law = "a window fits the axis, and the step is positive"
        raise ArgumentError("unfold", law, size=size, step=step, x=x.shape)
    count = (x.shape[axis] - size) // step + 1
    if size <= step and count * step <= x.shape[axis]:  # whose gradient is no sum
        shape = (*x.shape[:axis], count, step, *x.shape[axis + 1 :])
        apart = reshape(narrow(x, axis, 0, count * step), shape)
        return movedim(narrow(apart, axis + 1, 0, size), axis + 1, -1)
    return apply(Windows(axis, size, step), x)
