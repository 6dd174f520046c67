"""Maxima over windows of planes with their positions, and the gradient, without atomics."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ..grid import items, lanes_of
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import streams_rows
from .pool_vectors import lanes_inside, max_pool_vectors
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

# Local memory for a plane of a gradient: it stays in the second-level cache.
ROOM_BYTES = 2**16
_LAWS = (
    Constraint("min(kh, kw, sh, sw) >= 1", "windows are not empty and move on"),
    Constraint("2 * ph <= dh * (kh - 1) + 1", "every window holds an element"),
    Constraint("2 * pw <= dw * (kw - 1) + 1", "every window holds an element"),
)


_MAX_POOL = Kernel("max_pool", "pool/max_pool.mako", constraints=_LAWS)
_GRADIENT = Kernel("max_pool_gradient", "pool/max_pool.mako", constraints=_LAWS)
_GRADIENT_PLANES = Kernel("max_pool_gradient_planes", "pool/max_pool.mako")


def max_pool(
    target: Target, y: Array, x: Array, *, window: Window, index: Array | None = None
) -> list[Launch]:
    """Maxima over windows; of equal ones the first, NaN above all.

    Args:
        target: what to choose the kernel for.
        y: ``(..., oh, ow)``, dense.
        x: ``(..., h, w)``, dense.
        window: how it lies.
        index: as ``y``, int32 or int64: where in its plane each maximum was; None to leave it out.
    """
    if y.size == 0:
        return []
    pieces = in_pieces(
        "max_pool",
        lambda y, x, index: max_pool(target, y, x, window=window, index=index),
        y,
        x,
        index,
    )
    if pieces:
        return pieces
    index_type = "int" if index is None else index.dtype.ctype
    lanes = lanes_inside(target, window, y, x)
    if lanes and index_type == "int":
        return [max_pool_vectors(target, y, x, index, window, lanes)]
    how = (index is not None, by_rows(target), unchecked(target, window, y, x))
    names = "ctype real index_type with_index by_rows unchecked"
    types = (y.dtype.stored, real_type(y), index_type)
    params = joined(by_name(names, *types, *how), window.params())
    return [
        _MAX_POOL.launch(
            params,
            joined(plane_sizes(y, y, x), by_name("y x index", y, x, index)),
            **plane_items(target, y),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes + (0 if index is None else index.nbytes),
        )
    ]


def max_pool_gradient(
    target: Target, gx: Array, gy: Array, index: Array, *, window: Window
) -> list[Launch]:
    """To each element the sum of the gradients of the windows that chose it, in their order.

    ``gx`` is written whole; ``index`` is what :func:`max_pool` stored, and all is shaped as there.
    """
    if gx.size == 0:
        return []
    gradient = partial(max_pool_gradient, target, window=window)
    pieces = in_pieces("max_pool_backward", gradient, gx, gy, index)
    if pieces:
        return pieces
    cost: dict[str, Any] = {"flops": gy.size, "bytes": gx.nbytes + gy.nbytes + index.nbytes}
    types = {"ctype": gx.dtype.ctype, "index_type": index.dtype.ctype}
    arrays = {"gx": gx, "gy": gy, "index": index}
    if by_rows(target):
        planes = planes_of(gx)
        args = {"in_size": gx.size // planes, "out_size": gy.size // planes, **arrays}
        shape: dict[str, Any] = {"global_size": (planes,), "local_size": (1,)}
        params = {**types, **_past_caches(target, gx, gx.size // planes)}
        return [_GRADIENT_PLANES.launch(params, args, **shape, **cost)]
    types = {**types, "ctype": gx.dtype.stored}
    params = joined(types, by_name("real", real_type(gx)), window.params())
    args = joined(plane_sizes(gx, gy, gx), arrays)
    return [_GRADIENT.launch(params, args, **items(target, gx.size), **cost)]


def _past_caches(target: Target, gx: Array, size: int) -> dict[str, int]:
    """Elements of a vector and of local memory, if a plane is added up there; else zeros."""
    lanes = lanes_of(target, gx.dtype.itemsize)
    room = ROOM_BYTES // gx.dtype.itemsize
    fits = size <= room and target.traits.local_memory_bytes >= ROOM_BYTES
    streamed = fits and streams_rows(gx, size, lanes)
    return {"lanes": lanes, "room": room} if streamed else {"lanes": 0, "room": 0}
