"""Order: the largest elements, distinct ones, boxes by score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ...values.dtypes import bool_, int32
from ..registry import Host, handler


@handler("TopK")
def top_k_old(x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The largest elements along an axis, and their places."""
    return top_k(x, np.array(k), axis=axis)


@handler("TopK", since=10)
def top_k(
    x: Tensor, k: Host, *, axis: int = -1, largest: int = 1, sorted_: int = 1
) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along an axis in order; of equal ones the first."""
    count = int(np.asarray(k).reshape(-1)[0])
    values, places = ops.sort(x, axis, bool(largest), stable=True)
    return ops.narrow(values, axis, 0, count), ops.narrow(places, axis, 0, count)


@handler("Unique")
def unique(
    x: Tensor, *, axis: int | None = None, sorted_: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Distinct elements or slices, where each is first, which each is, and how often."""
    rows = x.reshape((-1, 1)) if axis is None else ops.movedim(x, axis, 0)
    flat = rows.reshape((rows.shape[0], math.prod(rows.shape[1:])))
    n = flat.shape[0]
    order = ops.new_zeros(flat, (n,)).to(int32).long()
    order = ops.cumsum(ops.ones_like(order), 0) - 1
    for column in reversed(range(flat.shape[1])):  # stable sorts, the last column first
        _, moved = ops.sort(ops.index_select(ops.select(flat, 1, column), 0, order), 0, stable=True)
        order = ops.index_select(order, 0, moved)
    ordered = ops.index_select(flat, 0, order)
    differs = ops.any(ops.ne(ordered[1:], ordered[:-1]), 1)
    starts = ops.cat([ops.ones_like(order[:1]).to(bool_), differs], 0)
    group = ops.cumsum(starts.long(), 0) - 1
    first = ops.index_select(order, 0, ops.nonzero(starts).reshape(-1))
    inverse = ops.scatter(ops.zeros_like(order), 0, order, group)
    counts = ops.scatter_add(ops.zeros_like(first), 0, group, ops.ones_like(group))
    if not sorted_:
        by_place = ops.argsort(first)
        first, counts = first[by_place], counts[by_place]
        rank = ops.argsort(by_place)
        inverse = ops.index_select(rank, 0, inverse)
    y = ops.index_select(rows, 0, first)
    y = y.reshape(-1) if axis is None else ops.movedim(y, 0, axis)
    return y, first, inverse, counts


@handler("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor,
    scores: Host,
    limit: Host | None = None,
    iou_threshold: Host | None = None,
    score_threshold: Host | None = None,
    *,
    center_point_box: int = 0,
) -> Host:
    """Of overlapping boxes those with the best scores: batch, class and box.

    Overlaps of all pairs are computed on the device; who goes is decided one by one.
    """
    most = 0 if limit is None else int(np.asarray(limit).reshape(-1)[0])
    overlap_limit = (
        0.0 if iou_threshold is None else float(np.asarray(iou_threshold).reshape(-1)[0])
    )
    least = (
        -np.inf if score_threshold is None else float(np.asarray(score_threshold).reshape(-1)[0])
    )
    overlaps = _overlaps(boxes, center_point_box).numpy()
    found: list[tuple[int, int, int]] = []
    for batch, classes in enumerate(np.asarray(scores)):
        for label, row in enumerate(classes):
            kept: list[int] = []
            for box in np.argsort(-row, kind="stable"):
                if len(kept) >= most or row[box] <= least:
                    break
                if all(overlaps[batch, box, k] <= overlap_limit for k in kept):
                    kept.append(int(box))
            found += [(batch, label, box) for box in kept]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def _overlaps(boxes: Tensor, form: int) -> Any:
    """Intersection over union of all pairs of a batch."""
    a, b, c, d = ops.unbind(boxes, -1)
    if form:
        x1, y1, x2, y2 = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    else:
        y1, x1, y2, x2 = ops.minimum(a, c), ops.minimum(b, d), ops.maximum(a, c), ops.maximum(b, d)

    def shared(low: Tensor, high: Tensor) -> Tensor:
        top = ops.minimum(high.unsqueeze(-1), high.unsqueeze(-2))
        return ops.clamp(top - ops.maximum(low.unsqueeze(-1), low.unsqueeze(-2)), 0.0)

    area = (x2 - x1) * (y2 - y1)
    both = shared(x1, x2) * shared(y1, y2)
    union = area.unsqueeze(-1) + area.unsqueeze(-2) - both
    return ops.where(ops.gt(union, 0), both / union, ops.zeros_like(both))
