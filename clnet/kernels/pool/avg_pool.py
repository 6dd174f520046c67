"""Means over windows of planes, over nearly equal parts and over all; gradients of the last two."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups, items, jobs_per_item, lanes_of
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..moving import repeat, repeats
from .pool_vectors import avg_pool_vectors, lanes_inside
from .window import (
    Window,
    by_rows,
    in_pieces,
    plane_items,
    plane_sizes,
    planes_of,
    real_type,
    unchecked,
)

_GPU_GROUP = 256
# What windows of means keep.
LAWS = (
    Constraint("min(kh, kw, sh, sw) >= 1", "windows are not empty and move on"),
    Constraint("2 * ph <= kh and 2 * pw <= kw", "every window holds an element"),
)
_POWER_OF_2 = Constraint("group & (group - 1) == 0", "the tree halves it")


_AVG_POOL = Kernel("avg_pool", "pool/avg_pool.mako", constraints=LAWS)
_ADAPTIVE = Kernel("adaptive_avg_pool", "pool/avg_pool.mako")
_ADAPTIVE_GRADIENT = Kernel("adaptive_avg_pool_gradient", "pool/avg_pool.mako")
_ADAPTIVE_GRADIENT_PLANES = Kernel("adaptive_avg_pool_gradient_planes", "pool/avg_pool.mako")
_PLANE_MEAN = Kernel("plane_mean", "pool/avg_pool.mako")
_PLANE_MEAN_LOCAL = Kernel("plane_mean_local", "pool/avg_pool.mako", constraints=(_POWER_OF_2,))


def avg_pool(
    target: Target, y: Array, x: Array, *, window: Window, include_pad: bool, divisor: int = 0
) -> list[Launch]:
    """Means over windows.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense.
        window: how it lies.
        include_pad: padding counts, as zeros.
        divisor: what the sums are divided by, 0 for the number of elements.
    """
    if y.size == 0:
        return []
    means = partial(avg_pool, target, window=window, include_pad=include_pad, divisor=divisor)
    pieces = in_pieces("avg_pool", means, y, x)
    if pieces:
        return pieces
    lanes = lanes_inside(target, window, y, x)
    if lanes:
        how: dict[str, Any] = {"include_pad": include_pad, "divisor": divisor}
        return [avg_pool_vectors(target, y, x, window, lanes, **how)]
    params = joined(
        _types(y),
        by_name(
            "by_rows unchecked include_pad divisor",
            *(by_rows(target), unchecked(target, window, y, x), include_pad, divisor),
        ),
        window.params(dilated=False),
    )
    return [
        _AVG_POOL.launch(
            params,
            joined(plane_sizes(y, y, x), by_name("y x", y, x)),
            **plane_items(target, y),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes,
        )
    ]


def adaptive_avg_pool(target: Target, y: Array, x: Array) -> list[Launch]:
    """Means over ``oh x ow`` nearly equal parts: ``floor(i h / oh)`` to ``ceil((i + 1) h / oh)``.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense, not empty.
    """
    if y.size == 0:
        return []
    pieces = in_pieces("adaptive_avg_pool", partial(adaptive_avg_pool, target), y, x)
    if pieces:
        return pieces
    cost: dict[str, Any] = {"flops": x.size, "bytes": x.nbytes + y.nbytes}
    if y.shape[-2:] == (1, 1):
        return [_plane_mean(target, y, x, cost)]
    params = joined(_types(y), by_name("by_rows", by_rows(target)), _planes(x, y))
    args = {"rows": y.size // y.shape[-1], "y": y, "x": x}
    return [_ADAPTIVE.launch(params, args, **plane_items(target, y), **cost)]


def adaptive_avg_pool_gradient(target: Target, gx: Array, gy: Array) -> list[Launch]:
    """To each element its share of the gradients of the parts it lies in.

    Args:
        target: what to choose the kernel for.
        gx: ``(..., h, w)``, dense; written whole.
        gy: ``(..., oh, ow)``, dense.
    """
    if gx.size == 0:
        return []
    gradient = partial(adaptive_avg_pool_gradient, target)
    pieces = in_pieces("adaptive_avg_pool_backward", gradient, gx, gy)
    if pieces:
        return pieces
    cost: dict[str, Any] = {"flops": gx.size, "bytes": gx.nbytes + gy.nbytes}
    n = prod(gx.shape[-2:])
    if gy.size * n == gx.size and gy.contiguous and repeats(target, gx, n):
        return [repeat(target, gx, gy, (gy.size,), (1,), divisor=n)]
    sizes, arrays = _planes(gx, gy), {"gx": gx, "gy": gy}
    if by_rows(target):
        shape: dict[str, Any] = {"global_size": (planes_of(gx),), "local_size": (1,)}
        planes = joined(by_name("ctype", gx.dtype.ctype), sizes)
        return [_ADAPTIVE_GRADIENT_PLANES.launch(planes, arrays, **shape, **cost)]
    args = {"rows": gx.size // gx.shape[-1], **arrays}
    return [
        _ADAPTIVE_GRADIENT.launch(joined(_types(gx), sizes), args, **items(target, gx.size), **cost)
    ]


def _types(array: Array) -> dict[str, str]:
    return {"ctype": array.dtype.ctype, "real": real_type(array)}


def _planes(x: Array, y: Array) -> Named:
    return by_name("h w oh ow", *x.shape[-2:], *y.shape[-2:])


def _plane_mean(target: Target, y: Array, x: Array, cost: dict[str, Any]) -> Launch:
    traits = target.traits
    args = {"n": prod(x.shape[-2:]), "y": y, "x": x}
    if in_groups(traits):
        group = min(_GPU_GROUP, traits.max_group_size)
        sizes: dict[str, Any] = {"global_size": (y.size * group,), "local_size": (group,)}
        return _PLANE_MEAN_LOCAL.launch({**_types(y), "group": group}, args, **sizes, **cost)
    each = jobs_per_item(target, y.size, x.size, per_unit=32)
    sizes = {"global_size": (ceil_div(y.size, each),), "local_size": (1,)}
    params = {**_types(y), "vector": lanes_of(target, 4)}
    args |= {"planes": y.size, "planes_each": each}
    return _PLANE_MEAN.launch(params, args, **sizes, **cost)
