"""What is most frequent along an axis, slopes of sampled functions, and whether a number is 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, DtypeError, ShapeError
from ..values.arguments import is_tensor, shown
from ..values.dtypes import int64, promote, uint8
from ..values.returned import returned
from ..values.shapes import normalize_dim, normalize_dims
from .arithmetic import ne, where
from .create import positions
from .index import gather_within
from .join import cat
from .machinery.function import Face, op
from .reduce import argmax
from .scan import cummax
from .shape import clone, expand, narrow, reshape, to_dtype
from .sort import Ordered, sort

if TYPE_CHECKING:
    from ..tensor import Tensor


@op()
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> Ordered:  # noqa: FBT001, FBT002
    """The most frequent element along an axis, of several the smallest, and where it was last.

    Args:
        x: one axis or more (or a number), any dtype.
        dim: the axis.
        keepdim: leave the axis with size 1.

    Returns:
        Values and int64 indices.

    Raises:
        ShapeError: if the axis is empty.
    """
    given = returned("mode", Ordered)
    if x.ndim == 0:
        return given(clone(x), x.detach().new_zeros((), dtype=int64))
    axis = normalize_dim("mode", dim, x.ndim)
    size = x.shape[axis]
    if size == 0:
        raise ShapeError("mode", "the axis has an element", x=x.shape, dim=dim)
    values, places = sort(x, axis)
    plain = values.detach()
    shape = tuple(size if d == axis else 1 for d in range(x.ndim))
    at = expand(reshape(positions(type(plain), size, x.device), shape), x.shape)
    if size > 1:
        begins = ne(narrow(plain, axis, 1, size - 1), narrow(plain, axis, 0, size - 1))
        first = narrow(at, axis, 0, 1)
        starts = cat([first, where(begins, narrow(at, axis, 1, size - 1), 0)], axis)
        length = at - cummax(starts, axis).values
    else:
        length = at
    end = argmax(length, axis, keepdim=True)
    found = (gather_within(y, axis, end) for y in (values, places))
    if keepdim:
        return given(*found)
    return given(*(reshape(y, (*x.shape[:axis], *x.shape[axis + 1 :])) for y in found))


@op(Face.FUNCTION)
def gradient(
    x: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Slopes along axes by differences: of second order inside, one-sided at the ends.

    Args:
        x: any shape with an axis, floating or whole numbers.
        spacing: the step, or one for each axis; or the places of the elements along each, vectors.
        dim: an axis or several, in any order; None: all.
        edge_order: 1 or 2, of the differences at the ends.

    Returns:
        A tensor of the shape of ``x`` for each axis, in the order of ``dim``.

    Raises:
        ArgumentError: if ``edge_order`` or the number of steps is wrong, or there are steps beside
            places.
        ShapeError: if an axis has not ``edge_order + 1`` elements, or a number none.
        DtypeError: if ``x`` is of uint8.
    """
    if edge_order not in (1, 2):
        raise ArgumentError("gradient", "edge_order is 1 or 2", edge_order=edge_order)
    if dim is None:
        dims = tuple(range(x.ndim))
    else:
        named = (dim,) if isinstance(dim, int) else tuple(dim)
        if named and not x.ndim:
            raise ShapeError("gradient", "x has the axes that dim names", x=x.shape, dim=named)
        normalize_dims("gradient", named, x.ndim)  # each is named once
        dims = tuple(normalize_dim("gradient", d, x.ndim) for d in named)
    if x.dtype is uint8:
        raise DtypeError("gradient", "differences are below 0, too", dtype=x.dtype)
    spacing = 1 if spacing is None else spacing
    several = isinstance(spacing, list | tuple)
    steps = list(spacing) if several else [spacing] * len(dims)
    axes = {h.ndim if is_tensor(h) else None for h in steps}
    if len(axes) > 1 or axes - ({None, 1} if several else {None, 0}):
        law = "spacing is a number, a number for each axis, or a vector for each"
        raise ArgumentError("gradient", law, spacing=shown(spacing))
    if len(steps) != len(dims):
        law = "there is a spacing for each axis"
        raise ArgumentError("gradient", law, spacing=len(steps), dims=dims)
    return tuple(_slopes(x, d, h, edge_order) for d, h in zip(dims, steps, strict=True))


def _slopes(x: Any, dim: int, step: Any, order: int) -> Any:
    size = x.shape[dim]
    if size < order + 1:
        raise ShapeError("gradient", "an axis has edge_order + 1 elements", x=x.shape, dim=dim)
    shape = tuple(-1 if d == dim else 1 for d in range(x.ndim))
    places = hasattr(step, "ndim") and step.ndim > 0
    if places and step.shape[0] != size:
        raise ShapeError("gradient", "places are as many as elements", x=x.shape, step=step.shape)
    # Of equal steps the slopes are divided by one at the end: it may be infinite, or 0.
    gaps: Any = reshape(step[1:] - step[:-1], shape) if places else 1
    if places:  # differences, too, are of the places' dtype: slopes beside may nearly cancel
        x = to_dtype(x, promote(x.dtype, gaps.dtype))

    def gap(first: int, count: int) -> Any:
        return narrow(gaps, dim, first, count) if places else gaps

    rises = narrow(x, dim, 1, size - 1) - narrow(x, dim, 0, size - 1)
    slopes = rises / gaps
    first, last = narrow(slopes, dim, 0, 1), narrow(slopes, dim, size - 2, 1)
    inside = size - 2
    if order == 2:
        near, far = gap(0, 1), gap(1, 1)
        second = narrow(slopes, dim, 1, 1)
        first = first + (first - second) * near / (near + far)
        near, far = gap(size - 2, 1), gap(size - 3, 1)
        second = narrow(slopes, dim, size - 3, 1)
        last = last + (last - second) * near / (near + far)
    found = [first, last]
    if inside:
        left, right = gap(0, inside), gap(1, inside)
        before, after = narrow(slopes, dim, 0, inside), narrow(slopes, dim, 1, inside)
        around = (narrow(x, dim, 2, inside) - narrow(x, dim, 0, inside)) / 2
        found.insert(1, (before * right + after * left) / (left + right) if places else around)
    return cat(found, dim) if places else cat(found, dim) / step


@op()
def is_nonzero(x: Tensor) -> bool:
    """Whether a tensor's one element is not 0; the host waits for it.

    Raises:
        ShapeError: if there are more, or none.
    """
    if x.numel() != 1:
        raise ShapeError("is_nonzero", "x has one element", x=x.shape)
    return bool(x.item())
