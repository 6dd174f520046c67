"""Gradients of means over windows of planes."""

from __future__ import annotations

from functools import partial
from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import items, jobs_per_item, lanes_of
from ..kernel import Kernel, by_name, joined
from ..streaming import streams
from .avg_pool import LAWS
from .window import Window, by_rows, in_pieces, plane_sizes, planes_of, real_type

_GRADIENT = Kernel("avg_pool_gradient", "pool/avg_pool_grad.mako", constraints=LAWS)
_STRIPS = Kernel("avg_pool_gradient_strips", "pool/avg_pool_grad.mako", constraints=LAWS)

# What stays in the nearest cache beside what is read.
ROOM_BYTES = 2**15
# Windows over an element that are written out one by one.
_MOST_UNROLLED = 64


def avg_pool_gradient(
    target: Target, gx: Array, gy: Array, *, window: Window, include_pad: bool, divisor: int = 0
) -> list[Launch]:
    """To each element its share of the gradients of the windows that cover it.

    ``gx`` is written whole; shapes and settings are those of :func:`.avg_pool.avg_pool`.
    """
    if gx.size == 0:
        return []
    gradient = partial(
        avg_pool_gradient, target, window=window, include_pad=include_pad, divisor=divisor
    )
    pieces = in_pieces("avg_pool_backward", gradient, gx, gy)
    if pieces:
        return pieces
    cost: dict[str, Any] = {
        "flops": gy.size * (window.kh * window.kw + 1),
        "bytes": gx.nbytes + gy.nbytes,
    }
    params = joined(by_name("ctype", gx.dtype.ctype), window.params(dilated=False))
    arrays = by_name("gx gy", gx, gy)
    strip, room = _strip(target, gx, window)
    if strip:
        planes = planes_of(gx)
        each = jobs_per_item(target, planes, planes, per_unit=32, least=1)
        lanes = lanes_of(target, gx.dtype.itemsize)
        return [
            _STRIPS.launch(
                joined(params, by_name("lanes room stream", lanes, room, streams(gx, lanes))),
                joined(
                    by_name("planes planes_each strip", planes, each, strip),
                    by_name("out_h out_w height width", *gy.shape[-2:], *gx.shape[-2:]),
                    by_name("include_pad divisor", int(include_pad), divisor),
                    arrays,
                ),
                global_size=(ceil_div(planes, each),),
                **cost,
            )
        ]
    how = by_name("real include_pad divisor", real_type(gx), include_pad, divisor)
    return [
        _GRADIENT.launch(
            joined(params, how),
            joined(plane_sizes(gx, gy, gx), arrays),
            **items(target, gx.size),
            **cost,
        )
    ]


def _strip(target: Target, gx: Array, window: Window) -> tuple[int, int]:
    """Steps of a strip, and elements of local memory; zeros where they do not fit, and on GPUs."""
    height, width = gx.shape[-2:]
    down, across = (window.kh - 1) // window.sh + 1, (window.kw - 1) // window.sw + 1
    if not by_rows(target) or down * across > _MOST_UNROLLED:
        return 0, 0
    lanes, size = lanes_of(target, gx.dtype.itemsize), gx.dtype.itemsize
    room = min(ROOM_BYTES, target.traits.local_memory_bytes) // size
    wide = (width - 1 + window.pw) // window.sw + 1 + across + lanes
    beside = wide * down + window.pw + (lanes + 1) * window.sw
    steps = (room - beside) // (wide + window.sh * width)
    return max(0, min(steps, (height - 1 + window.ph) // window.sh + 1)), room
