"""Parts of a tensor replaced, and elements combined where an index says, in a fixed order."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from ..errors import ArgumentError, ShapeError
from ..values.shapes import axis_of, broadcast_shapes, normalize_dim
from .arithmetic import eq, logical_and, where
from .create import positions
from .index import require_index
from .machinery.function import Face, apply, op
from .masked import positions_of, require_mask
from .rearrange import diagonal
from .shape import (
    PutSlice,
    contiguous,
    expand,
    narrow,
    overwrite,
    reshape,
    settled,
    to_dtype,
    unsqueeze,
)
from .subscript import index_put

if TYPE_CHECKING:
    from ..tensor import Tensor


@op()
def slice_scatter(
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """``x`` with ``src`` at every ``step``-th position from ``start`` to ``end`` of an axis.

    Args:
        x: one axis or more.
        src: of the shape of that part.
        dim: the axis.
        start: the first position; as in Python's slices.
        end: behind the last.
        step: positive.

    Returns:
        The shape of ``x``.

    Raises:
        ArgumentError: if the step is not positive.
        ShapeError: if ``src`` has another shape.
    """
    axis = axis_of("slice_scatter", dim, x.shape)
    if step < 1:
        raise ArgumentError("slice_scatter", "the step is positive", step=step)
    taken = range(*slice(start, end, step).indices(x.shape[axis]))
    shape = (*x.shape[:axis], len(taken), *x.shape[axis + 1 :])
    if src.shape != shape:
        law = "the source has the shape of what it replaces"
        raise ShapeError("slice_scatter", law, src=src.shape, part=shape)
    starts = tuple(taken.start if d == axis and taken else 0 for d in range(x.ndim))
    steps = tuple(step if d == axis else 1 for d in range(x.ndim))
    return apply(PutSlice(starts, steps), x, src)


@op()
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """``x`` with ``src`` at one position of an axis.

    Args:
        x: one axis or more.
        src: its shape without the axis.
        dim: the axis.
        index: the position; counts from the end below 0.

    Returns:
        The shape of ``x``.

    Raises:
        ArgumentError: if there is no such position.
        ShapeError: if ``src`` has another shape.
    """
    axis = normalize_dim("select_scatter", dim, x.ndim)
    if not x.ndim:
        raise ShapeError("select_scatter", "the tensor has an axis", shape=x.shape)
    size = x.shape[axis]
    if not -size <= index < size:
        raise ArgumentError("select_scatter", "it lies inside its axis", index=index, size=size)
    at = index % size
    return slice_scatter(x, unsqueeze(src, axis), axis, at, at + 1)


@op()
def diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """``x`` with ``src`` on the diagonal of two axes.

    Args:
        x: two axes or more.
        src: of the shape of :func:`diagonal`.
        offset: how far above the main diagonal.
        dim1: the axis of the rows.
        dim2: the axis of the columns.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if ``src`` has another shape.
    """
    numbers = reshape(positions(type(x.detach()), x.numel(), x.device), x.shape)
    places = diagonal(numbers, offset, dim1, dim2)
    if src.shape != places.shape:
        law = "the source has the shape of the diagonal"
        raise ShapeError("diagonal_scatter", law, src=src.shape, diagonal=places.shape)
    return put(x, contiguous(places), to_dtype(src, x.dtype))


@op()
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """``x`` with the first elements of ``source``, in order, where a mask is true.

    Args:
        x: any shape.
        mask: bool, broadcast together with ``x``; the host waits for the number of its true
            elements.
        source: of the dtype of ``x``, with as many elements at least.

    Returns:
        The broadcast shape.

    Raises:
        DtypeError: if the mask is not bool, or the dtypes differ.
        ShapeError: if there are too few elements.
    """
    mask = require_mask("masked_scatter", mask)
    shape = broadcast_shapes("masked_scatter", x.shape, mask.shape)
    x, places = expand(x, shape), positions_of(expand(mask, shape))
    count = places.numel()
    if source.numel() < count:
        law = "the source has an element for each true one"
        raise ShapeError("masked_scatter", law, source=source.shape, true=count)
    return put(x, places, narrow(reshape(source, (source.numel(),)), 0, 0, count))


@op(Face.METHOD)
def masked_scatter_(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """:func:`masked_scatter` in place; returns the tensor."""
    return settled(x, masked_scatter(x, mask, source), inplace=True)


@op(Face.METHOD)
def fill_diagonal_(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:  # noqa: FBT001, FBT002
    """Overwrite the main diagonal with a number; returns the tensor.

    Args:
        x: ``(m, n)``, or of more axes of one size.
        fill_value: the number.
        wrap: below the square at the top goes on with another diagonal, a row after the last.

    Raises:
        ShapeError: if it is neither.
    """
    if x.ndim < 2 or (x.ndim > 2 and len({*x.shape}) > 1):
        law = "x is a matrix, or has axes of one size"
        raise ShapeError("fill_diagonal_", law, x=x.shape)
    first, *others = (
        reshape(positions(type(x.detach()), n, x.device), (-1, *[1] * (x.ndim - 1 - axis)))
        for axis, n in enumerate(x.shape)
    )
    first = first % (x.shape[1] + 1) if wrap and x.ndim == 2 else first
    here = reduce(logical_and, (eq(first, place) for place in others))
    value = to_dtype(x.new_full((), fill_value), x.dtype)
    return overwrite(x, where(here, value, x), "fill_diagonal_")


@op()
def take(x: Tensor, index: Tensor) -> Tensor:
    """The elements at positions of the flattened tensor.

    Args:
        x: any shape.
        index: int64 or int32, any shape; counts from the end below 0.

    Returns:
        The shape of ``index``.

    Raises:
        DtypeError: if ``index`` does not hold indices.
    """
    require_index("take", index)
    return reshape(x, (x.numel(),))[index]


@op(Face.METHOD)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:  # noqa: FBT001, FBT002 - PyTorch's
    """``x`` with ``source`` at positions of the flattened tensor; of equal ones the last stays.

    Args:
        x: any shape.
        index: int64 or int32; counts from the end below 0.
        source: as many elements, of the dtype of ``x``.
        accumulate: add them.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if the numbers of elements differ, or ``x`` has none.
        DtypeError: if ``index`` does not hold indices, or the dtypes differ.
    """
    require_index("put", index)
    if index.numel() != source.numel():
        law = "there is a position for each element"
        raise ShapeError("put", law, index=index.shape, source=source.shape)
    if index.numel() and not x.numel():
        law = "what has no elements has no positions"
        raise ShapeError("put", law, x=x.shape, index=index.shape)
    flat, places, given = (reshape(y, (y.numel(),)) for y in (x, index, source))
    return reshape(index_put(flat, (places,), given, accumulate), x.shape)
