"""Distances of all rows of two matrices, and what their gradients are made of."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups, items, lanes_of
from ..kernel import Kernel

_TEMPLATE = "reduce/distances.mako"
_DISTANCES = Kernel("distances", _TEMPLATE)
_DIFFERENCES = Kernel("differences", _TEMPLATE)
# Rows of the result for which an item reads a neighbour once: as many sums as sixteen registers
# hold, of differences' sums beside as many rows.
_TILES = {"distances": 8, "differences": 6}


def distances(target: Target, y: Array, a: Array, b: Array, *, absolute: bool) -> list[Launch]:
    """``y[i, j] = sqrt(sum_k (a[i, k] - b[k, j]) ** 2)``, of matrices behind equal axes.

    Args:
        target: what to choose the kernel for.
        y: dense ``(..., m, n)``.
        a: dense ``(..., m, d)``, of ``y``'s dtype: float32 or float64.
        b: dense ``(..., d, n)``.
        absolute: add absolute values instead, and take no root.

    Returns:
        One launch; none for no elements.
    """
    (m, d), n = a.shape[-2:], b.shape[-1]
    sizes = {"m": m, "n": n, "d": d}
    return _launch(target, _DISTANCES, sizes, {"y": y, "a": a, "b": b}, absolute=absolute)


def differences(
    target: Target, s: Array, a: Array, b: Array, w: Array, *, absolute: bool
) -> list[Launch]:
    """``s[k, i] = sum_j w[j, i] (a[k, i] - b[j, k])``, of matrices behind equal axes.

    Args:
        target: what to choose the kernel for.
        s: dense ``(..., d, m)``.
        a: dense, its shape and dtype: float32 or float64.
        b: dense ``(..., n, d)``.
        w: dense ``(..., n, m)``.
        absolute: add the differences' signs.

    Returns:
        One launch; none for no elements.
    """
    n, m = w.shape[-2:]
    sizes = {"m": m, "n": n, "d": a.shape[-2]}
    arrays = {"s": s, "a": a, "b": b, "w": w}
    return _launch(target, _DIFFERENCES, sizes, arrays, absolute=absolute)


def _launch(
    target: Target,
    kernel: Kernel,
    sizes: dict[str, int],
    arrays: dict[str, Array],
    *,
    absolute: bool,
) -> list[Launch]:
    out = next(iter(arrays.values()))
    if out.size == 0:
        return []
    *batch, rows, neighbours = out.shape
    lanes = 1 if in_groups(target.traits) else lanes_of(target, out.dtype.itemsize)
    tile = _TILES[kernel.name]
    strips, blocks = ceil_div(rows, tile), ceil_div(neighbours, lanes)
    jobs = prod(batch) * strips * blocks
    params = {"ctype": out.dtype.ctype, "lanes": lanes, "tile": tile, "absolute": absolute}
    args = {"jobs": jobs, "strips": strips, "blocks": blocks, **sizes, **arrays}
    return [
        kernel.launch(
            params,
            args,
            **items(target, jobs),
            flops=3 * prod(batch) * prod(sizes.values()),
            bytes=sum(x.nbytes for x in arrays.values()),
        )
    ]
