"""Values and slices that occur: sorted, or counted where they are whole numbers close together."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..errors import ShapeError
from ..values.dtypes import Kind, int64, uint8
from ..values.record import NamedTuple
from ..values.shapes import normalize_dim
from .arithmetic import ne
from .create import positions
from .index import select_within
from .join import cat
from .machinery.function import op
from .masked import positions_of
from .rearrange import movedim
from .reduce import any as some
from .reduce import max as largest
from .reduce import min as smallest
from .scan import cumsum
from .search import counted
from .shape import contiguous, narrow, reshape, to_dtype
from .sort import argsort, sort

if TYPE_CHECKING:
    from ..tensor import Tensor

_NARROW_BITS = 8
"""Of whole numbers of so many bits the range is counted without asking for it."""


class Unique(NamedTuple):
    """Values without repetition, and what else was asked for."""

    output: Any
    inverse_indices: Any
    counts: Any


@op()
def unique(
    x: Tensor,
    sorted: bool = True,  # noqa: A002, FBT001, FBT002 - PyTorch's
    return_inverse: bool = False,  # noqa: FBT001, FBT002
    return_counts: bool = False,  # noqa: FBT001, FBT002
    dim: int | None = None,
) -> Any:
    """The values or slices that occur, ascending; the host waits once for their number.

    Args:
        x: any shape and dtype.
        sorted: taken for PyTorch's sake: they always are.
        return_inverse: also give where in them each element is.
        return_counts: also give how often each occurs.
        dim: None: elements; else slices across this axis, in the order of their elements.

    Returns:
        A vector, or with ``dim`` the slices that occur, along that axis; or a tuple of it and what
        was asked for: the inverse in the shape of ``x`` (of slices a vector), a vector of counts.

    Raises:
        ShapeError: if ``dim`` is no axis, or slices are without elements.
        TraceError: inside a function that ``clnet.compile`` traces.
    """
    if dim is None:
        found = _distinct(reshape(x.detach(), (x.numel(),)), return_inverse, return_counts)
        inverse = reshape(found.inverse_indices, x.shape) if return_inverse else None
        return _asked(found._replace(inverse_indices=inverse), return_inverse, return_counts)
    rows = _slices("unique", x, dim)
    order = _row_order(rows)
    found = _runs(select_within(rows, order), return_inverse, return_counts)
    if return_inverse:
        found = found._replace(inverse_indices=_unsorted(found.inverse_indices, order))
    found = found._replace(output=_across(found.output, x, dim))
    return _asked(found, return_inverse, return_counts)


@op()
def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    return_counts: bool = False,  # noqa: FBT001, FBT002
    dim: int | None = None,
) -> Any:
    """The first of each run of equal elements or slices; arguments as :func:`unique`'s."""
    if dim is not None:
        rows = _slices("unique_consecutive", x, dim)
        found = _runs(rows, return_inverse, return_counts)
        found = found._replace(output=_across(found.output, x, dim))
        return _asked(found, return_inverse, return_counts)
    found = _runs(reshape(x.detach(), (x.numel(),)), return_inverse, return_counts)
    if return_inverse:
        found = found._replace(inverse_indices=reshape(found.inverse_indices, x.shape))
    return _asked(found, return_inverse, return_counts)


def _slices(name: str, x: Tensor, dim: int) -> Tensor:
    """What lies across an axis as rows, ``(n, elements)``.

    Raises:
        ShapeError: if there is no axis, or there are slices, but no elements in them.
    """
    if x.ndim == 0:
        raise ShapeError(name, "x has an axis", x=x.shape, dim=dim)
    axis = normalize_dim(name, dim, x.ndim)
    moved = movedim(x.detach(), axis, 0)
    width = prod(moved.shape[1:])
    if moved.shape[0] and not width:
        raise ShapeError(name, "slices that are compared have elements", x=x.shape, dim=dim)
    return contiguous(reshape(moved, (moved.shape[0], width)))


def _across(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """Rows as slices across the axis again."""
    axis = normalize_dim("unique", dim, x.ndim)
    rest = [n for k, n in enumerate(x.shape) if k != axis]
    return contiguous(movedim(reshape(rows, (rows.shape[0], *rest)), 0, axis))


def _row_order(rows: Tensor) -> Tensor:
    """Where rows ``(n, width)`` are in ascending order: sorted by their last elements first."""
    order = positions(type(rows), rows.shape[0], rows.device)
    for column in reversed(range(rows.shape[1] if rows.shape[0] else 0)):
        keys = select_within(reshape(narrow(rows, 1, column, 1), (rows.shape[0],)), order)
        order = select_within(order, argsort(keys))
    return order


def _distinct(flat: Tensor, inverse: bool, counts: bool) -> Unique:  # noqa: FBT001
    """Of a vector: whole numbers in a range no longer than it are counted, others sorted."""
    if flat.dtype.kind in (Kind.BOOL, Kind.INTEGER) and flat.numel():
        low, high = _range(flat)
        if high - low < max(flat.numel(), 2**_NARROW_BITS):
            return _counted_in(flat, low, high - low + 1, inverse, counts)
    ordered = sort(flat)
    found = _runs(ordered.values, inverse, counts)
    if inverse:
        back = _unsorted(found.inverse_indices, ordered.indices)
        found = found._replace(inverse_indices=back)
    return found


def _range(flat: Tensor) -> tuple[int, int]:
    """The least and the largest number that occur, or that the dtype holds."""
    if flat.dtype.kind is Kind.BOOL:
        return 0, 1
    if flat.dtype.itemsize * 8 <= _NARROW_BITS:
        return (0, 255) if flat.dtype is uint8 else (-128, 127)
    ends: Any = cat([reshape(found, (1,)) for found in (smallest(flat), largest(flat))])
    low, high = ends.tolist()
    return low, high


def _counted_in(flat: Tensor, low: int, size: int, inverse: bool, counts: bool) -> Unique:  # noqa: FBT001
    """Of whole numbers from ``low`` on, by how often each of ``size`` occurs."""
    keys: Any = to_dtype(flat, int64)
    keys = keys - low if low else keys
    often = counted(keys, size)
    there = ne(often, 0)
    places = positions_of(there)
    output = to_dtype(to_dtype(places, int64) + low, flat.dtype)
    ranks: Any = cumsum(there, 0) - 1 if inverse else None
    return Unique(
        output,
        select_within(ranks, keys) if inverse else None,
        select_within(often, places) if counts else None,
    )


def _unsorted(ranks: Tensor, order: Tensor) -> Tensor:
    """What was found of elements in order, where they lay before."""
    return ranks.scatter(0, order, ranks)


def _runs(flat: Tensor, inverse: bool, counts: bool) -> Unique:  # noqa: FBT001
    """The first row of each run; if asked for the number of the run of each row, and lengths."""
    size = flat.shape[0]
    if not size:
        none = flat.new_zeros(0, dtype=int64)
        return Unique(flat, none, none)
    begins = ne(narrow(flat, 0, 1, size - 1), narrow(flat, 0, 0, size - 1))
    begins = begins if flat.ndim == 1 else some(begins, 1)
    none = flat.new_zeros(1, dtype=int64)
    starts = cat([none, to_dtype(positions_of(begins), int64) + 1])
    output, ranks, lengths = select_within(flat, starts), None, None
    if inverse:
        ranks = cat([none, cumsum(begins, 0)])
    if counts:
        ends = cat([narrow(starts, 0, 1, starts.shape[0] - 1), starts.new_full((1,), size)])
        lengths = ends - starts
    return Unique(output, ranks, lengths)


def _asked(found: Unique, inverse: bool, counts: bool) -> Any:  # noqa: FBT001
    kept = [found.output]
    kept += [found.inverse_indices] if inverse else []
    kept += [found.counts] if counts else []
    return kept[0] if len(kept) == 1 else tuple(kept)
