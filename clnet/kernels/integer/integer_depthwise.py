"""Convolutions of integers of 8 bits in which each channel has a filter of its own."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry
from ..grid import in_groups, items
from ..kernel import Kernel, by_name, joined
from .integer_conv import IntegerEpilogue, Quantisation, added_of, numbers_of

DEPTHWISE = Kernel("integer_depthwise", "integer/integer_depthwise.mako")

# Lanes of the widest vector: what the table is padded to.
_LANES = 16
_PIXELS = 7
_MOST_COLUMNS = 9  # of a filter: they are unrolled
_MOST_TAPS = 2**24 // (255 * 128)  # whose sums are exact in float32
_ITEMS_PER_UNIT = 8
_LOCAL_FLOATS = 2**15  # of rows at most; 128 KiB of a second-level cache


def takes_filters(kh: int, kw: int) -> bool:
    """Whether :func:`integer_depthwise` takes filters of a size."""
    return kw <= _MOST_COLUMNS and kh * kw <= _MOST_TAPS


def takes_depthwise(g: ConvGeometry) -> bool:
    """Whether :func:`integer_depthwise` computes a convolution."""
    return 1 < g.groups == g.ic == g.oc and takes_filters(g.kh, g.kw)


def depthwise_entries(channels: int) -> int:
    """Channels of a table of filters."""
    return round_up(channels, _LANES)


def integer_depthwise(
    target: Target,
    y: Array,
    operands: tuple[Array, ...],
    g: ConvGeometry,
    epilogue: IntegerEpilogue,
    *,
    given: Quantisation,
    point: Array | None = None,
) -> list[Launch]:
    """What :func:`.integer_conv` computes, where :func:`takes_depthwise` says so.

    Args:
        target: what to choose vectors for.
        y: as of :func:`.integer_conv`.
        operands: ``x``; filters, ``(taps, entries)`` float32; a table, ``(3, entries)`` int32, of
            biases, of filters' sums and of their scales' bits; perhaps what is added. All dense.
        g: the sizes.
        epilogue: what is made of the sums.
        given: of ``x``.
        point: the zero point of ``x``, one uint8, in place of ``given``'s.
    """
    if y.size == 0:
        return []
    x, filters, table, *more = operands
    width = 1 if in_groups(target.traits) else min(target.traits.simd_width, _LANES)
    rows, blocks, pixels = g.n * g.oh, ceil_div(g.oc, width), min(_PIXELS, g.ow)
    pitch = (round_up(g.ow, pixels) - 1) * g.sw + (g.kw - 1) * g.dw + 1
    least = (g.kh - 1) * g.dh + 1
    share, some, held = 1, 1, 0
    sizes = items(target, rows * g.oc)
    if width > 1:
        wanted = target.traits.compute_units * _ITEMS_PER_UNIT
        parts = max(1, min(rows, ceil_div(wanted, blocks)))
        share = ceil_div(rows, parts)
        sizes = {"global_size": (ceil_div(rows, share), blocks)}
        room = min(_LOCAL_FLOATS, target.traits.local_memory_bytes // 4 // _LANES * _LANES)
        if pitch * width * least <= room:
            held = room
            some = (room // (pitch * width) - least) // g.sh + 1
    return [
        DEPTHWISE.launch(
            by_name(
                "width pixels kw sw dw local_floats computed ytype added",
                *(width, pixels, g.kw, g.sw, g.dw, held, point is not None),
                y.dtype.ctype, more[0].dtype.ctype if more else None,
            ),
            joined(
                by_name("y x filters table", y, x, filters, table),
                added_of(more, epilogue),
                by_name("rows share some pitch", rows, share, some, pitch),
                by_name("entries ocg", table.shape[1], g.oc),
                by_name("y_channels y_height y_width", y.shape[3], g.oh, g.ow),
                by_name("x_channels x_height x_width", x.shape[3], g.h, g.w),
                g.sizes("kh sh ph pw dh"),
                numbers_of(epilogue, given, point),
            ),
            **sizes,
            flops=g.flops,
            bytes=sum(a.nbytes for a in (y, *operands)),
        )
    ]  # fmt: skip
