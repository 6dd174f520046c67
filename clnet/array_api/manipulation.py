"""Shapes, indices, order and sets, by the standard's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import ops
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.dtypes import int64
from .elementwise import promoted

__all__ = [
    "argsort",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "nonzero",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "searchsorted",
    "sort",
    "squeeze",
    "stack",
    "take",
    "tile",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "where",
]

Axes = int | Sequence[int] | None


def listed(axis: Axes, ndim: int) -> list[int]:
    """Axes as a list; None: all."""
    if axis is None:
        return list(range(ndim))
    return [axis] if isinstance(axis, int) else list(axis)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Arrays of one shape."""
    return list(ops.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: Sequence[int]) -> Tensor:
    """Of another shape, without a copy."""
    return ops.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after another along an axis; None: their elements in a row."""
    parts = promoted("concat", *arrays)
    if axis is None:
        return ops.cat([p.reshape(-1) for p in parts], 0)
    return ops.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays along a new axis."""
    return ops.stack(promoted("stack", *arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return tuple(ops.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """With a new axis of size 1."""
    return ops.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | Sequence[int]) -> Tensor:
    """Without axes of size 1.

    Raises:
        ArgumentError: if one has another size.
    """
    axes = listed(axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ArgumentError("squeeze", "the axes have size 1", shape=x.shape, axis=axis)
    return ops.squeeze(x, tuple(axes)) if axes else x


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    """Backwards along axes; None: all."""
    axes = listed(axis, x.ndim)
    return ops.flip(x, axes) if axes else x.clone()


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes at other places."""
    return ops.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """Axes in another order."""
    return ops.permute(x, tuple(axes))


def reshape(x: Tensor, /, shape: Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape.

    Raises:
        ArgumentError: if ``copy`` is False and elements have to be moved.
    """
    y = ops.reshape(x, tuple(shape))
    if copy is False and y.array.storage is not x.array.storage:
        raise ArgumentError("reshape", "elements stay where they are", shape=x.shape, to=shape)
    return y.clone() if copy and y.array.storage is x.array.storage else y


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Every slice several times; None: every element."""
    if isinstance(repeats, Tensor) and repeats.ndim == 0:
        repeats = int(repeats)
    elif isinstance(repeats, Tensor) and axis is not None and x.shape[axis] != repeats.shape[0]:
        repeats = repeats.expand(x.shape[axis])
    repeats = repeats.to(int64) if isinstance(repeats, Tensor) else repeats
    return ops.repeat_interleave(x, repeats, axis)


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """Elements shifted along axes; what leaves comes in at the other end."""
    if axis is None:
        return ops.roll(x, shift)
    shifts = (shift,) * len(axis) if isinstance(shift, int) and not isinstance(axis, int) else shift
    return ops.roll(x, shifts, axis)


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """The whole array several times along axes."""
    return ops.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices that indices name."""
    if axis is None:
        if x.ndim != 1:
            raise ArgumentError("take", "an axis is named", shape=x.shape)
        axis = 0
    wrapped = ops.where(indices < 0, indices + x.shape[axis], indices)
    return ops.index_select(x, axis, wrapped.to(int64))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of one array where a condition holds, else of another."""
    first, second = promoted("where", x1, x2)
    return ops.where(condition, first, second)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Places of elements that are not 0, an array for each axis."""
    if x.ndim == 0:
        raise ArgumentError("nonzero", "the array has an axis", shape=x.shape)
    return tuple(ops.unbind(ops.nonzero(x), 1))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements would stand in a sorted vector."""
    line = x1 if sorter is None else ops.index_select(x1, 0, sorter.to(int64))
    line, values = promoted("searchsorted", line, x2)
    return ops.searchsorted(line, values, right=side == "right")


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sorted along an axis."""
    return ops.sort(x, axis, descending)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Where sorted elements came from; equal ones stay in order."""
    return ops.sort(x, axis, descending)[1]


class UniqueAll(NamedTuple):
    """What :func:`unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What :func:`unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What :func:`unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Values that occur, where first, which of them each element is, and how often."""
    values, inverse, counts = ops.unique(x, return_inverse=True, return_counts=True)
    order = ops.sort(inverse.reshape(-1))[1]
    first = order[counts.cumsum(0) - counts] if counts.shape[0] else counts
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Values that occur, and how often."""
    return UniqueCounts(*ops.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Values that occur, and which of them each element is."""
    return UniqueInverse(*ops.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """Values that occur."""
    return ops.unique(x)
