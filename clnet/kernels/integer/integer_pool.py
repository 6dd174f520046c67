"""Maxima over windows of images of uint8: what quantising the maxima of floats gives."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ..grid import items
from ..kernel import Kernel, by_name, joined
from ..pool import Window

POOL = Kernel("integer_max_pool", "integer/integer_pool.mako")
_WIDE, _NARROW = 16, 4


def integer_max_pool(target: Target, y: Array, x: Array, *, window: Window) -> list[Launch]:
    """Maxima of windows, each of which has a pixel of ``x``.

    Args:
        target: what to choose groups for.
        y: ``(n, oh, ow, c)``, uint8, dense.
        x: ``(n, h, w, c)``, uint8, dense, of whole fours of channels.
        window: how it lies.
    """
    if y.size == 0:
        return []
    _, out_h, out_w, channels = y.shape
    width = _NARROW if channels % _WIDE else _WIDE
    return [
        POOL.launch(
            by_name("width", width),
            joined(
                by_name("total y x out_h out_w", y.size // width, y, x, out_h, out_w),
                by_name("height width_of_x channels", x.shape[1], x.shape[2], channels),
                window.params(),
            ),
            **items(target, y.size // width),
            flops=y.size * window.kh * window.kw,
            bytes=x.nbytes + y.nbytes,
        )
    ]
