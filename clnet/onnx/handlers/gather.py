"""Ops that read and write by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import ops
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import bool_, int64, uint8
from ..registry import Host, handler


def counted_from_end(indices: Tensor, size: int) -> Tensor:
    """Indices of which negative ones count from the end, as those from the start."""
    indices = indices.to(int64)
    return ops.where(ops.lt(indices, 0), indices + size, indices)


@handler("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Slices of an axis by index."""
    axis %= x.ndim
    flat = counted_from_end(indices, x.shape[axis]).reshape(-1)
    found = ops.index_select(x, axis, flat)
    return found.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@handler("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Elements by their place along an axis."""
    return ops.gather(x, axis, counted_from_end(indices, x.shape[axis]))


def _flat_index(shape: tuple[int, ...], indices: Tensor) -> Tensor:
    """Rows of coordinates as places in the axes they speak of, taken as one."""
    flat = None
    for i in range(indices.shape[-1]):
        place = counted_from_end(ops.select(indices, -1, i), shape[i])
        flat = place if flat is None else flat * shape[i] + place
    return ops.zeros_like(indices).sum(-1) if flat is None else flat


@handler("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Slices by coordinates."""
    b, deep = batch_dims, indices.shape[-1]
    batches = math.prod(x.shape[:b])
    inner, rest = tuple(x.shape[b : b + deep]), tuple(x.shape[b + deep :])
    flat = _flat_index(inner, indices).reshape((batches, -1))
    rows = x.reshape((batches, math.prod(inner), math.prod(rest)))
    index = ops.broadcast_to(flat.unsqueeze(-1), (*flat.shape, rows.shape[2]))
    return ops.gather(rows, 1, index).reshape((*indices.shape[:-1], *rest))


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@handler("Scatter", "ScatterElements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """With elements written, or joined, at their places along an axis."""
    index = counted_from_end(indices, x.shape[axis])
    if reduction == "none":
        return ops.scatter(x, axis, index, updates)
    return ops.scatter_reduce(x, axis, index, updates, REDUCTIONS[reduction])


@handler("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """With slices written, or joined, at coordinates."""
    deep = indices.shape[-1]
    inner, rest = tuple(x.shape[:deep]), tuple(x.shape[deep:])
    rows = x.reshape((math.prod(inner), math.prod(rest)))
    flat = _flat_index(inner, indices).reshape(-1)
    given = updates.reshape((flat.shape[0], rows.shape[1]))
    index = ops.broadcast_to(flat.unsqueeze(-1), given.shape)
    return scatter_elements(rows, index, given, reduction=reduction).reshape(x.shape)


@handler("Compress")
def compress(x: Tensor, condition: Host, *, axis: int | None = None) -> Tensor:
    """The slices for which a condition holds."""
    x = x.reshape(-1) if axis is None else x
    kept = np.flatnonzero(condition)
    return ops.index_select(x, axis or 0, x.new_tensor(kept, dtype=int64))


@handler("NonZero")
def nonzero(x: Tensor) -> Tensor:
    """The coordinates of elements that are not 0, an axis a row."""
    return ops.transpose(ops.nonzero(x), 0, 1)


@handler("OneHot")
def one_hot(indices: Tensor, depth: Host, values: Tensor, *, axis: int = -1) -> Tensor:
    """One value where an index says, another beside it."""
    n = int(np.asarray(depth).reshape(()))
    places = counted_from_end(indices, n)
    inside = ops.logical_and(ops.ge(places, 0), ops.lt(places, n))
    encoded: Any = functional.one_hot
    hot = encoded(ops.where(inside, places, ops.zeros_like(places)), n)
    hot = ops.logical_and(hot.to(bool_), inside.unsqueeze(-1))
    y = ops.where(hot, ops.select(values, 0, 1), ops.select(values, 0, 0))
    return ops.movedim(y, -1, axis)


@handler("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    """Columns of a matrix."""
    return ops.index_select(x, x.ndim - 1, indices.reshape(-1).to(int64))


@handler("Binarizer", domain="ai.onnx.ml")
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where elements are more than a threshold, else 0."""
    return ops.gt(x, threshold).to(uint8).to(x.dtype)
