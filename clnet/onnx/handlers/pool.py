"""Pooling: maxima, means and norms of windows, and of whole planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import Kind, float32, int64
from ..registry import Host, handler
from .conv import chosen_pads
from .layout import filled, padded
from .reduce import least

MAX = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
AVG = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def windows(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    *,
    ceil: bool,
) -> tuple[list[int], list[int]]:
    """Of each axis the number of windows, and the padding behind that they need."""
    half = len(kernel)
    counts: list[int] = []
    behind: list[int] = []
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        size = sizes[i]
        room = size + pads[i] + pads[half + i] - (d * (k - 1) + 1)
        count = (math.ceil(room / s) if ceil else room // s) + 1
        if ceil and (count - 1) * s >= size + pads[i]:  # a window begins in the picture
            count -= 1
        counts.append(count)
        behind.append((count - 1) * s + d * (k - 1) + 1 - size - pads[i])
    return counts, behind


def _surrounded(x: Tensor, pads: Sequence[int], behind: Sequence[int], value: Any) -> Tensor:
    half = len(behind)
    return padded(x, [0, 0, *pads[:half], 0, 0, *behind], "constant", value)


@handler("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    outputs: int = 1,
) -> Any:
    """The maximum of each window, and where in the whole input it lies."""
    axes = len(kernel_shape)
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    chosen = chosen_pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    counts, behind = windows(
        x.shape[2:], kernel_shape, strides, dilations, chosen, ceil=bool(ceil_mode)
    )
    # As much behind as before, of which the last windows need not reach all.
    both = [*chosen[:axes], *chosen[:axes]]
    alike, _ = windows(x.shape[2:], kernel_shape, strides, dilations, both, ceil=False)
    even = alike == counts and all(2 * p <= k for p, k in zip(both, kernel_shape, strict=False))
    integers = x.dtype.kind is Kind.INTEGER
    given = x.to(float32) if integers else x
    pad = chosen[:axes] if even else [0] * axes
    wide = given if even else _surrounded(given, chosen, behind, least(given))
    if outputs == 1:
        y = MAX[axes](wide, list(kernel_shape), strides, pad, dilations)
        return y.to(x.dtype) if integers else y
    y, places = MAX[axes](wide, list(kernel_shape), strides, pad, dilations, return_indices=True)
    before = [0] * axes if even else chosen[:axes]
    places = _in_whole(places.to(int64), x, wide, before, storage_order)
    return (y.to(x.dtype) if integers else y), places


def _in_whole(places: Tensor, x: Tensor, wide: Tensor, before: Sequence[int], order: int) -> Tensor:
    """Places in padded planes as places in the whole tensor."""
    coordinates: list[Tensor] = []
    modulo: Any = ops.remainder
    rest = places
    for size, pad in zip(reversed(wide.shape[2:]), reversed(before), strict=True):
        coordinates.insert(0, modulo(rest, size) - pad)
        rest = ops.div(rest, size, rounding_mode="floor")
    sizes = list(x.shape[2:])
    flat = ops.zeros_like(places)
    ordered = list(zip(coordinates, sizes, strict=True))
    for coordinate, size in reversed(ordered) if order else ordered:
        flat = flat * size + coordinate
    planes = x.shape[0] * x.shape[1]
    first = np.arange(planes, dtype=np.int64) * math.prod(sizes)
    starts = places.new_tensor(first).reshape(tuple(x.shape[:2]) + (1,) * len(sizes))
    return flat + starts


@handler("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The mean of each window, of what lies in the picture or of the padding, too."""
    axes = len(kernel_shape)
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    chosen = chosen_pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    _, behind = windows(x.shape[2:], kernel_shape, strides, dilations, chosen, ceil=bool(ceil_mode))
    if not any(chosen) and not any(n > 0 for n in behind) and set(dilations) == {1}:
        return AVG[axes](x, list(kernel_shape), strides)
    sums = _window_sums(_surrounded(x, chosen, behind, 0), kernel_shape, strides, dilations)
    ones = filled((1, 1, *x.shape[2:]), 1, x)
    if count_include_pad:
        # What ceil_mode adds behind the padding does not count.
        ones = padded(ones, [0, 0, *chosen[:axes], 0, 0, *chosen[axes:]], "constant", 1)
        past = [n - p for n, p in zip(behind, chosen[axes:], strict=True)]
        counted = _surrounded(ones, [0] * (2 * axes), past, 0)
    else:
        counted = _surrounded(ones, chosen, behind, 0)
    return sums / _window_sums(counted, kernel_shape, strides, dilations)


def _window_sums(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Tensor:
    """Sums of windows, an axis after the other."""
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        axis = 2 + i
        count = (x.shape[axis] - d * (k - 1) - 1) // s + 1
        parts = []
        for tap in range(k):
            part = ops.narrow(x, axis, tap * d, (count - 1) * s + 1)
            index: list[Any] = [slice(None)] * axis + [slice(None, None, s)]
            parts.append(part[tuple(index)] if s > 1 else part)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        x = total
    return x


@handler("LpPool")
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    p: float = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The norm of each window."""
    axes = len(kernel_shape)
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    chosen = chosen_pads(auto_pad, pads, x.shape[2:], kernel_shape, strides, dilations)
    _, behind = windows(x.shape[2:], kernel_shape, strides, dilations, chosen, ceil=bool(ceil_mode))
    powers = _surrounded(ops.pow(ops.abs(x), p), chosen, behind, 0)
    return ops.pow(_window_sums(powers, kernel_shape, strides, dilations), 1 / p)


@handler("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each plane."""
    return ops.mean(x, list(range(2, x.ndim)), keepdim=True)


@handler("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The maximum of each plane."""
    return ops.amax(x, list(range(2, x.ndim)), keepdim=True)


@handler("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """The norm of each plane."""
    total = ops.sum(ops.pow(ops.abs(x), p), list(range(2, x.ndim)), keepdim=True)
    return ops.pow(total, 1 / p)


@handler("MaxUnpool")
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: Host | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Maxima put back where they lay, zeros elsewhere."""
    axes = len(kernel_shape)
    strides, pads = list(strides or [1] * axes), list(pads or [0] * (2 * axes))
    sizes = [
        (n - 1) * s - pads[i] - pads[axes + i] + k
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    shape = [*x.shape[:2], *sizes]
    flat = filled((math.prod(shape),), 0, x)
    made = ops.scatter(flat, 0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    if output_shape is None:
        return made
    grown = [int(n) - m for n, m in zip(output_shape, shape, strict=True)]
    return padded(made, [0] * len(shape) + grown, "constant", 0)
