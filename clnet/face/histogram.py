"""How many elements, or points, lie in each interval, or cell of a grid."""

# ruff: noqa: A002 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, prod
from typing import Any

from .. import ops
from ..creation import empty, linspace
from ..errors import ArgumentError
from ..tensor import Tensor
from ..values.plain import shown
from ..values.record import NamedTuple
from ..values.returned import returned

__all__ = ["Histogram", "HistogramOfPoints", "histogram", "histogramdd"]


class Histogram(NamedTuple):
    """What :func:`histogram` gives."""

    hist: Tensor
    bin_edges: Tensor


class HistogramOfPoints(NamedTuple):
    """What :func:`histogramdd` gives."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How many elements (or what weight) lie in each interval, and the intervals' ends.

    Args:
        input: any shape.
        bins: how many intervals of one width, or their ends, ascending.
        range: the lowest and highest end; None: the least and largest element.
        weight: of each element, else 1.
        density: divide by the sum and the intervals' widths.

    Raises:
        ArgumentError: if there is no interval, or the range is not finite or descends.
    """
    edges = bins if isinstance(bins, Tensor) else _edges(input, bins, range)
    count, flat = edges.numel() - 1, input.reshape(-1)
    places = ops.bucketize(flat, edges, right=True) - 1
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    weights = ops.ones_like(flat) if weight is None else weight.reshape(-1)
    weights = ops.where(inside, weights, 0.0)
    found = empty(count, dtype=weights.dtype, device=input.device).zero_()
    found = found.index_add(0, places.clamp(0, count - 1), weights)
    return returned("histogram", Histogram)(
        found / (found.sum() * edges.diff()) if density else found, edges
    )


def _edges(input: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    """The ends of intervals of one width."""
    if bins < 1:
        raise ArgumentError("histogram", "there is one interval or more", bins=bins)
    if range is not None:
        low, high = range
    else:
        low, high = (0.0, 1.0) if not input.numel() else (input.min().item(), input.max().item())
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise ArgumentError("histogram", "a range is finite and ascends", low=low, high=high)
    low, high = (low, high) if low != high else (low - 0.5, high + 0.5)
    return linspace(low, high, bins + 1, dtype=input.dtype, device=input.device)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[Any],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramOfPoints:
    """How many points lie in each cell of a grid, and the ends of its intervals.

    Args:
        input: points ``(..., axes)``.
        bins: how many intervals each axis has, one number for all, or their ends for each axis.
        range: the lowest and highest end of each axis, one after another; None: the least and
            largest coordinates.
        weight: of each point, else 1.
        density: divide by the sum and the cells' volumes.

    Returns:
        ``(bins of the first axis, ...)``, and the ends for each axis.

    Raises:
        ArgumentError: if there are not bins and ranges for each axis, or no axis of points.
    """
    if input.ndim < 2:
        law = "points have an axis of coordinates, and one before it"
        raise ArgumentError("histogramdd", law, shape=input.shape)
    axes = input.shape[-1]
    points = input.reshape(-1, axes)
    every = [bins] * axes if isinstance(bins, int) else list(bins)
    if len(every) != axes or (range is not None and len(range) != 2 * axes):
        law = "there are bins for each axis, and two ends of a range"
        raise ArgumentError("histogramdd", law, bins=shown(bins), range=range, axes=axes)
    if any(isinstance(n, int) and n < 1 for n in every):
        raise ArgumentError("histogramdd", "an axis has one interval or more", bins=shown(bins))
    edges: list[Tensor] = []
    place: Any = None
    inside: Any = None
    for axis, wanted in enumerate(every):
        ends = None if range is None else range[2 * axis : 2 * axis + 2]
        column = points[:, axis].contiguous()
        found = histogram(column, wanted, range=ends).bin_edges
        last = found.numel() - 1
        at = (ops.bucketize(column, found, right=True) - 1).clamp(0, last - 1)
        fits = (column >= found[0]) & (column <= found[-1])
        place = at if place is None else place * last + at
        inside = fits if inside is None else inside & fits
        edges.append(found)
    shape = [e.numel() - 1 for e in edges]
    weights = ops.ones_like(points[:, 0]) if weight is None else weight.reshape(-1)
    counted = empty(prod(shape), dtype=weights.dtype, device=input.device).zero_()
    counted = counted.index_add(
        0, ops.where(inside, place, 0), ops.where(inside, weights, 0.0)
    ).reshape(shape)
    if density:
        counted = counted / counted.sum()
        for axis, found in enumerate(edges):
            counted = counted / found.diff().reshape(
                [-1 if k == axis else 1 for k, _ in enumerate(shape)]
            )
    return returned("histogramdd", HistogramOfPoints)(counted, tuple(edges))
