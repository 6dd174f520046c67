"""Positions of the maxima of windows and of nearly equal parts, in one to three axes."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.dtypes import from_name
from ...values.record import NamedTuple
from ..grid import items
from ..kernel import Arguments, Kernel, by_name, joined

_WINDOW = Kernel("window_max", "pool/window_max.mako")
_PART = Kernel("part_max", "pool/window_max.mako")

Triple = tuple[int, int, int]


class Window3(NamedTuple):
    """A window over volumes; each triple is of depth, height and width.

    Attributes:
        size: the window.
        stride: steps from window to window.
        padding: before the volume, at most half the window.
        dilation: steps within a window.
    """

    size: Triple
    stride: Triple
    padding: Triple
    dilation: Triple


def window_max(target: Target, index: Array, x: Array, window: Window3 | None) -> list[Launch]:
    """Where in its volume the maximum of each window is; of equal ones the first, NaN above all.

    -1 where a window has no element.

    Args:
        target: what to choose the sizes for.
        index: ``(..., od, oh, ow)``, dense, int64.
        x: ``(..., d, h, w)``, dense, of real numbers, not empty.
        window: how it lies; None: parts, from ``floor(i d / od)`` to ``ceil((i + 1) d / od)``.
    """
    if index.size == 0:
        return []
    params = by_name(
        "ctype stored real", x.dtype.ctype, x.dtype.stored, from_name(x.dtype.compute).ctype
    )
    sizes = by_name("count od oh ow d h w", index.size, *index.shape[-3:], *x.shape[-3:])
    settings: Arguments = {}
    if window is not None:
        lengths = [length for triple in window for length in triple]
        settings = by_name("kd kh kw sd sh sw pd ph pw gd gh gw", *lengths)
    return [
        (_PART if window is None else _WINDOW).launch(
            params,
            joined(sizes, settings, by_name("index x", index, x)),
            **items(target, index.size),
            flops=index.size * prod(window.size) if window else x.size,
            bytes=index.nbytes + x.nbytes,
        )
    ]
