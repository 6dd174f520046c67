"""Picking elements by position: indexing, embeddings, gathers; gradients add in fixed order."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ..array import Array
from ..device import Check, Launch, Target
from ..errors import DtypeError, ShapeError
from ..kernels import index as kernels
from ..values.dtypes import bool_, from_name, int32, int64
from ..values.shapes import Shape, broadcast_shapes, normalize_dim
from .arithmetic import ge, logical_and, lt, ne, where
from .check import of_index
from .complex_parts import by_parts
from .copying import copy_launches
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply, op
from .shape import contiguous, expand, narrow, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


def _require_rows(check: Check | None, rows: int, index: Array) -> None:
    """Whether there is anything to be picked: no kernel may run to find that there is not."""
    if rows == 0 and index.size and check is not None:
        got: dict[str, object] = {check.argument: f"{index.size} of them", check.bound: rows}
        raise check.error(check.op, check.law, remedy=None, **got)


class GatherRows(Function):
    """``y[o, i] = x[o, index[i]]`` for ``x`` of ``(outer, rows, inner)``.

    With ``zero`` an index out of range picks zeros, else NaN.
    """

    takes_complex = True
    repeats = True

    wrap: bool
    check: Check | None = None
    zero: bool = False
    saved_inputs = (1,)

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        outer, rows, inner = x.shape
        _require_rows(self.check, rows, index)
        return (Array.abstract((outer, index.size, inner), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        how = {"wrap": self.wrap, "check": self.check, "zero": self.zero}
        return kernels.gather_rows(target, outputs[0], *inputs, **how)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Rows added up where they came from."""
        function = GatherRowsBackward(saved.input_specs[0][0][1], self.wrap, -1)
        return added_up(function, grads[0], saved.inputs[1]), None


class GatherRowsBackward(Function):
    """``y[o, r]``: the sum of ``x[o, i]`` with ``index[i] == r``; 0 for the row ``skip``."""

    of_complex = by_parts
    repeats = True

    rows: int
    wrap: bool
    skip: int
    check: Check | None = None
    saved_inputs = (1,)

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        outer, _, inner = x.shape
        _require_rows(self.check, self.rows, index)
        return (Array.abstract((outer, self.rows, inner), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A sort of the index, then sums over runs of equal ones."""
        return kernels.gather_rows_gradient(
            target, outputs[0], *inputs, wrap=self.wrap, skip=self.skip, check=self.check
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """The rows picked again; what was added nowhere gets 0."""
        index = saved.inputs[1]
        picked = apply(GatherRows(self.wrap, zero=True), contiguous(grads[0]), index)
        if self.skip >= 0:
            picked = where(reshape(ne(index, self.skip), (-1, 1)), picked, 0.0)
        return picked, None


class MovedRows(Function):
    """``y[i] = x[index[i]]`` for ``x`` of ``(rows, inner)``, zeros where there is no such row.

    No row goes to two places: the third input says to which, and a place beyond the last for one
    that goes nowhere. So the gradient is the same op with both exchanged, and sorts nothing.
    """

    repeats = True
    saved_inputs = (1, 2)
    op_name = "moved_rows"

    def infer(self, x: Array, index: Array, inverse: Array) -> tuple[Array, ...]:
        return (Array.abstract((index.size, x.shape[1]), x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        x, index, _ = inputs
        y, rows = (a.view((1, *a.shape), (a.size, *a.strides)) for a in (outputs[0], x))
        return kernels.gather_rows(target, y, rows, index, zero=True)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Rows moved back."""
        gx = apply(MovedRows(), contiguous(grads[0]), saved.inputs[2], saved.inputs[1])
        return gx, None, None


class PutRows(Function):
    """``x[o, index[i]] = value[o, i]`` in place; of equal indices the last one stays."""

    takes_complex = True
    repeats = True

    wrap: bool
    check: Check | None = None
    op_name: str = "put_rows"

    mutates = (0,)

    def infer(self, x: Array, value: Array, index: Array) -> tuple[Array, ...]:
        """No outputs."""
        _require_rows(self.check, x.shape[1], index)
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A sort of the index, then the last of each run of equal ones."""
        return kernels.put_rows(target, *inputs, wrap=self.wrap, check=self.check)


class FoldIndices(Function):
    """Several indices as one into the flattened axes."""

    repeats = True

    sizes: Shape
    check: Check | None = None

    def infer(self, *indices: Array) -> tuple[Array, ...]:
        return (Array.abstract(indices[0].shape, int32, indices[0].device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.fold_indices(target, outputs[0], inputs, sizes=self.sizes, check=self.check)


class Gather(Function):
    """``y[..., i, ...] = x[..., index[..., i, ...], ...]`` at ``dim``."""

    takes_complex = True
    repeats = True

    dim: int
    check: Check | None = None
    saved_inputs = (1,)

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        """A dense output of the index's shape."""
        return (Array.abstract(index.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        return kernels.gather_along(target, outputs[0], *inputs, dim=self.dim, check=self.check)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Elements added up where they came from."""
        function = GatherBackward(self.dim, saved.input_specs[0][0])
        return added_up(function, grads[0], contiguous(saved.inputs[1])), None


class GatherBackward(Function):
    """The transpose of :class:`Gather`; ``shape`` is that of what was gathered from."""

    of_complex = by_parts
    repeats = True

    dim: int
    shape: Shape
    check: Check | None = None
    saved_inputs = (1,)

    def infer(self, gy: Array, index: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, gy.dtype, gy.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Sums within lines, or a sort and sums over runs."""
        return kernels.gather_along_gradient(
            target, outputs[0], *inputs, dim=self.dim, check=self.check
        )

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Gathered again: the op is linear."""
        return apply(Gather(self.dim), grads[0], saved.inputs[1]), None


class ExtremesAlong(Function):
    """The most, or least, of the elements whose index says so, of :func:`.scatter_reduce`.

    It knows no gradient: its inputs are off the tape.
    """

    sixteen_bit = False
    repeats = True

    dim: int
    shape: Shape
    largest: bool

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        return (Array.abstract(self.shape, x.dtype, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Lines of one item each."""
        how = {"dim": self.dim, "largest": self.largest}
        return kernels.extremes_along(target, outputs[0], *inputs, **how)


def added_up(function: GatherRowsBackward | GatherBackward, x: Tensor, index: Tensor) -> Tensor:
    """The sums of ``x`` that a function makes; those of 16-bit floats in float32."""
    wide = x if x.dtype.is_complex else to_dtype(x, from_name(x.dtype.compute))
    return to_dtype(apply(function, contiguous(wide), index), x.dtype)


class Scatter(Function):
    """The first input with the second at ``index`` along ``dim``; of equal indices the last."""

    of_complex = by_parts
    repeats = True

    dim: int
    check: Check | None = None
    saved_inputs = (2,)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, then the elements put into it."""
        (y,), (x, src, index) = outputs, inputs
        return [
            *copy_launches(target, y, x),
            *kernels.put_along(target, y, src, index, dim=self.dim, check=self.check),
        ]

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What stayed keeps its gradient; what was put in gathers its own, all equal ones too."""
        index = saved.inputs[2]
        gx = gsrc = None
        if needs[0]:
            gx = apply(Scatter(self.dim), grads[0], grads[0].new_zeros(index.shape), index)
        if needs[1]:
            gsrc = apply(Gather(self.dim), grads[0], index)
        return gx, gsrc, None


class ScatterInto(Function):
    """As :class:`Scatter`, in place."""

    repeats = True

    dim: int
    check: Check | None = None
    op_name: str = "scatter_"

    mutates = (0,)

    def infer(self, x: Array, src: Array, index: Array) -> tuple[Array, ...]:
        """No outputs."""
        return ()

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """The elements put into it."""
        return kernels.put_along(target, *inputs, dim=self.dim, check=self.check)


class ReplaceRows(Function):
    """As :class:`PutRows`, in a copy."""

    takes_complex = True
    repeats = True

    wrap: bool
    check: Check | None = None
    saved_inputs = (2,)

    def infer(self, x: Array, value: Array, index: Array) -> tuple[Array, ...]:
        _require_rows(self.check, x.shape[1], index)
        return super().infer(x, value, index)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """A copy, then the rows put into it."""
        (y,), (x, value, index) = outputs, inputs
        return [
            *copy_launches(target, y, x),
            *kernels.put_rows(target, y, value, index, wrap=self.wrap, check=self.check),
        ]

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """What stayed keeps its gradient; what was put in gathers its own, all equal ones too."""
        g, index = contiguous(grads[0]), saved.inputs[2]
        gx = gvalue = None
        if needs[0]:
            zeros = g.new_zeros(g.shape[0], index.shape[0], g.shape[2])
            gx = apply(ReplaceRows(self.wrap), g, zeros, index)
        if needs[1]:
            gvalue = apply(GatherRows(self.wrap), g, index)
        return gx, gvalue, None


@op()
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of ``x`` along ``dim`` in the order of an index.

    Args:
        x: any shape.
        dim: the axis.
        index: ``(n,)``, int64 or int32, in ``[0, size)``; one out of range gives NaN (0 for
            integers), and an error at the next synchronisation.

    Returns:
        As ``x``, with ``n`` at ``dim``.

    Raises:
        ShapeError: if ``index`` has not one axis.
        DtypeError: if it does not hold indices.
        DataBoundsError: at the next synchronisation, if an index is out of range.
    """
    require_index("index_select", index)
    if index.ndim == 0:
        index = reshape(index, (1,))
    if index.ndim != 1 or (x.ndim == 0 and index.numel() != 1):
        law = "the index has one axis, and one element for an x without axes"
        raise ShapeError("index_select", law, x=x.shape, index=index.shape)
    if x.ndim == 0:
        return reshape(index_select(reshape(x, (1,)), dim, index), ())
    axis = normalize_dim("index_select", dim, x.ndim)
    check = of_index("index_select")
    return pick(x, axis, axis + 1, contiguous(index), wrap=False, check=check)


@op()
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As :func:`gather`, with shapes broadcast together but for ``dim``.

    Args:
        x: any shape.
        indices: as many axes, int64 or int32; along ``dim`` a negative one counts from the end.
        dim: the axis; None: as if both were flat.

    Returns:
        The broadcast shape, with the size of ``indices`` at ``dim``.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DtypeError: if ``indices`` does not hold indices.
    """
    require_index("take_along_dim", indices)
    if dim is None:
        return gather(reshape(x, (x.numel(),)), 0, reshape(indices, (indices.numel(),)))
    if indices.ndim != x.ndim:
        law = "the indices have as many axes as x"
        raise ShapeError("take_along_dim", law, x=x.shape, indices=indices.shape)
    axis = normalize_dim("take_along_dim", dim, x.ndim)

    def at(shape: Shape, size: int) -> Shape:
        return (*shape[:axis], size, *shape[axis + 1 :])

    common = broadcast_shapes("take_along_dim", at(x.shape, 1), at(indices.shape, 1))
    wide = expand(x, at(common, x.shape[axis]))
    size = x.shape[axis]
    inside = logical_and(ge(indices, -size), lt(indices, 0))
    places = expand(where(inside, indices + size, indices), at(common, indices.shape[axis]))
    return gather_within(wide, axis, places, of_index("take_along_dim", "indices", wrap=True))


@op()
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``y[i][j][k] = x[i][index[i][j][k]][k]`` for ``dim = 1``, and so for every axis.

    Args:
        x: any shape.
        dim: the axis.
        index: as many axes, sizes at most those of ``x`` but for ``dim``, or without elements;
            int64 or int32, in ``[0, size)``; one out of range gives NaN (0 for integers), and an
            error at the next synchronisation.

    Returns:
        The shape of ``index``.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices.
        DataBoundsError: at the next synchronisation, if an index is out of range.
    """
    require_index("gather", index)
    if x.ndim + index.ndim <= 1:  # what has no axes has one of one element
        places = reshape(index, (index.numel(),))
        return reshape(gather(reshape(x, (x.numel(),)), dim, places), index.shape)
    axis = normalize_dim("gather", dim, x.ndim)
    if not index.numel():
        return none_of(x, index.shape)
    others = [d for d in range(x.ndim) if d != axis]
    if index.ndim != x.ndim or any(index.shape[d] > x.shape[d] for d in others):
        raise ShapeError(
            "gather",
            "the index has as many axes as x, none longer but for dim",
            x=x.shape,
            index=index.shape,
            dim=dim,
        )
    return apply(Gather(axis, of_index("gather")), x, index)


def none_of(x: Tensor, shape: Shape) -> Tensor:
    """No element of ``x``, in a shape without elements; the gradient is zeros.

    Args:
        x: any shape.
        shape: what an index has that names nothing. As in PyTorch it fits every tensor.
    """
    return reshape(narrow(reshape(x, (x.numel(),)), 0, 0, 0), shape)


def gather_within(x: Tensor, dim: int, index: Tensor, check: Check | None = None) -> Tensor:
    """:func:`gather` for ops that know their indices, or say themselves what is wrong with them."""
    return apply(Gather(dim % x.ndim, check), x, index)


def select_within(x: Tensor, index: Tensor) -> Tensor:
    """:func:`index_select` along the first axis for ops that know their indices."""
    return pick(x, 0, 1, contiguous(index), wrap=False)


def pick(
    x: Tensor, first: int, last: int, index: Tensor, *, wrap: bool, check: Check | None = None
) -> Tensor:
    """Rows of axes ``first`` to ``last``, taken together, by a dense index of one axis."""
    outer, rows, inner = (
        prod(x.shape[:first]),
        prod(x.shape[first:last]),
        prod(x.shape[last:]),
    )
    flat = dense_rows(reshape(x, (outer, rows, inner)))
    picked = apply(GatherRows(wrap, check), flat, index)
    return reshape(picked, (*x.shape[:first], index.numel(), *x.shape[last:]))


def dense_rows(x: Tensor) -> Tensor:
    """``x`` itself if its last axis is dense, else a dense copy."""
    return x if x.shape[-1] == 1 or x.array.strides[-1] == 1 else contiguous(x)


def require_index(name: str, index: Tensor) -> None:
    """Check that a tensor holds indices.

    Raises:
        DtypeError: if it is neither int64 nor int32.
    """
    if index.dtype is bool_:
        raise DtypeError(name, "a mask is not an index", dtype=index.dtype, remedy="Use where")
    if index.dtype not in (int32, int64):
        raise DtypeError(name, "an index is int64 or int32", dtype=index.dtype)
