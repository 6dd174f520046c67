"""Maxima over windows of images whose channels are dense, ``(n, h, w, c)``, and the gradient."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .window import Window

POOL = Kernel("last_max_pool", "pool/last_max_pool.mako")
GRADIENT = Kernel("last_max_pool_gradient", "pool/last_max_pool.mako")
_WIDTH = 4


def last_max_pool(
    target: Target, y: Array, x: Array, *, window: Window, index: Array | None = None
) -> list[Launch]:
    """What :func:`.max_pool` gives, between other arrays.

    Args:
        target: what to choose groups for.
        y: ``(n, oh, ow, c)``, dense, float32 or 16 bits.
        x: ``(n, h, w, c)``, dense, of whole fours of channels.
        window: how it lies.
        index: as ``y``, int32: where in its plane each maximum was; None to leave it out.
    """
    if y.size == 0:
        return []
    return [
        POOL.launch(
            joined(by_name("ctype with_index", y.dtype.stored, index is not None), window.params()),
            joined(_sizes(y, y, x), by_name("y x index", y, x, index)),
            **items(target, y.size // _WIDTH),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes + (0 if index is None else index.nbytes),
        )
    ]


def last_max_pool_gradient(
    target: Target, gx: Array, gy: Array, index: Array, *, window: Window
) -> list[Launch]:
    """To each element the sum of the gradients of the windows that chose it; shapes as there."""
    if gx.size == 0:
        return []
    return [
        GRADIENT.launch(
            joined(by_name("ctype", gx.dtype.stored), window.params()),
            joined(_sizes(gx, gy, gx), by_name("gx gy index", gx, gy, index)),
            **items(target, gx.size // _WIDTH),
            flops=gy.size,
            bytes=gx.nbytes + gy.nbytes + index.nbytes,
        )
    ]


def _sizes(made: Array, y: Array, x: Array) -> dict[str, int]:
    out_h, out_w, channels = y.shape[1:]
    height, width = x.shape[1:3]
    return {
        "total": made.size // _WIDTH,
        "out_h": out_h,
        "out_w": out_w,
        "height": height,
        "width": width,
        "channels": channels,
    }
