"""Floats to images of uint8 whose channels are dense, and back."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import round_up
from ..grid import items
from ..kernel import Kernel, by_name, joined
from .integer_conv import Quantisation
from .integer_form import WORD

QUANTISE = Kernel("quantise_images", "integer/integer_images.mako")
DEQUANTISE = Kernel("dequantise_images", "integer/integer_images.mako")


def stored_channels(channels: int) -> int:
    """Channels of a pixel in memory: whole ints of four. What lies behind the last is anything."""
    return round_up(channels, WORD)


def quantise_images(target: Target, y: Array, x: Array, how: Quantisation) -> list[Launch]:
    """``y = round(x / scale) + zero``, kept within 0 and 255; NaN becomes 0.

    Args:
        target: what to choose groups for.
        y: ``(n, h, w, stored_channels(c))``, uint8, dense.
        x: ``(n, c, h, w)``, float32, of any strides.
        how: scale and zero point.
    """
    if y.size == 0:
        return []
    _, channels, height, width = x.shape
    return [
        QUANTISE.launch(
            {},
            joined(
                by_name("total y x", y.size // WORD, y, x),
                by_name("channels height width", channels, height, width),
                by_name("of_n of_c of_h of_w", *x.strides),
                by_name("scale zero", how.scale, float(how.zero)),
            ),
            **items(target, y.size // WORD),
            flops=2 * x.size,
            bytes=x.nbytes + y.nbytes,
        )
    ]


def dequantise_images(target: Target, y: Array, x: Array, how: Quantisation) -> list[Launch]:
    """``y = (x - zero) * scale``.

    Args:
        target: what to choose groups for.
        y: ``(n, h, w, c)``, float32, dense.
        x: ``(n, h, w, stored_channels(c))``, uint8, dense.
        how: scale and zero point.
    """
    if y.size == 0:
        return []
    return [
        DEQUANTISE.launch(
            {},
            joined(
                by_name("total y x channels stored", y.size, y, x, y.shape[3], x.shape[3]),
                by_name("scale zero", how.scale, float(how.zero)),
            ),
            **items(target, y.size),
            flops=2 * y.size,
            bytes=x.nbytes + y.nbytes,
        )
    ]
