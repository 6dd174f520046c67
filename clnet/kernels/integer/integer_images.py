"""Floats to images of uint8 whose channels are dense, and back; sums of two images."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups, items
from ..kernel import Kernel, by_name, joined
from .integer_conv import Quantisation
from .integer_form import WORD

QUANTISE = Kernel("quantise_images", "integer/integer_images.mako")
DEQUANTISE = Kernel("dequantise_images", "integer/integer_images.mako")
ADD = Kernel("add_images", "integer/integer_images.mako")


def stored_channels(channels: int) -> int:
    """Channels of a pixel in memory: whole ints of four. What lies behind the last is anything."""
    return round_up(channels, WORD)


def quantise_images(
    target: Target, y: Array, x: Array, how: Quantisation | tuple[Array, Array]
) -> list[Launch]:
    """``y = round(x / scale) + zero``, kept within 0 and 255; NaN becomes 0.

    Args:
        target: what to choose groups for.
        y: ``(n, h, w, stored_channels(c))``, uint8, dense.
        x: ``(n, c, h, w)``, float32, of any strides.
        how: scale and zero point; or where they lie, one float32 and one uint8.
    """
    if y.size == 0:
        return []
    images, channels, height, columns = x.shape
    dense = "channels" if x.strides[1] == 1 else "columns" if x.strides[3] == 1 else None
    width = {"channels": WORD, "columns": _lanes(target), None: 1}[dense]
    if width == 1:
        dense = None
    runs = ceil_div(columns, width if dense == "columns" else 1)
    total = images * height * runs * y.shape[3] // WORD
    computed = not isinstance(how, Quantisation)
    if isinstance(how, Quantisation):
        numbers = by_name("scale zero", how.scale, float(how.zero))
    else:
        numbers = by_name("unit point", *how)
    return [
        QUANTISE.launch(
            by_name("width dense computed", width, dense, computed),
            joined(
                by_name("total y x", total, y, x),
                by_name("channels height width_of_x runs", channels, height, columns, runs),
                by_name("of_n of_c of_h of_w", *x.strides),
                numbers,
            ),
            **items(target, total),
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
    width = _lanes(target)
    count = y.size if width == 1 else y.size // y.shape[3]
    return [
        DEQUANTISE.launch(
            by_name("width", width),
            joined(
                by_name("total y x channels stored", count, y, x, y.shape[3], x.shape[3]),
                by_name("scale zero", how.scale, float(how.zero)),
            ),
            **items(target, count),
            flops=2 * y.size,
            bytes=x.nbytes + y.nbytes,
        )
    ]


def add_images(
    target: Target,
    y: Array,
    operands: tuple[Array, Array],
    given: tuple[Quantisation, Quantisation],
    bounds: tuple[float, float],
    *,
    how: Quantisation,
) -> list[Launch]:
    """What two images stand for, added, kept within bounds and quantised.

    Args:
        target: what to choose groups for.
        y: uint8, dense.
        operands: of ``y``'s shape, uint8, dense.
        given: what they stand for.
        bounds: the least and the largest sum.
        how: scale and zero point of ``y``.
    """
    if y.size == 0:
        return []
    width = _lanes(target)
    (x, other), (left, right) = operands, given
    count = ceil_div(y.size, width)
    return [
        ADD.launch(
            by_name("width", width),
            joined(
                by_name("total y x other", y.size, y, x, other),
                by_name("x_scale x_zero", left.scale, float(left.zero)),
                by_name("other_scale other_zero", right.scale, float(right.zero)),
                by_name("low high scale zero", *bounds, how.scale, float(how.zero)),
            ),
            **items(target, count),
            flops=8 * y.size,
            bytes=3 * y.nbytes,
        )
    ]


def _lanes(target: Target) -> int:
    """Of a vector; 1 on GPUs, whose items lie side by side instead."""
    return 1 if in_groups(target.traits) else target.traits.simd_width
