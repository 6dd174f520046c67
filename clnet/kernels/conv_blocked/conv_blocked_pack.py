"""Filters in the order that direct convolutions between blocked arrays read them."""

from __future__ import annotations

from ...array import Array
from ...device import Launch
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, Direction
from ..kernel import Kernel, by_name, joined

__all__ = ["pack"]


PACK = Kernel("conv_blocked_pack", "conv_blocked/conv_blocked_pack.mako")

PACK_BYTES = 2**17
# Rows so many bytes apart fall on each other in the first cache.
ALIKE_BYTES = 2**12


def pack(
    packed: Array, weight: Array, g: ConvGeometry, direction: Direction, block: int, vectors: int
) -> Launch:
    """The launch that packs.

    Args:
        packed: a block of zeros, then the filters; dense.
        weight: ``(oc, ic, kh, kw)``, dense.
        g: the sizes.
        direction: forward or input gradient.
        block: channels of a block.
        vectors: blocks of channels of a panel; they leave no rest.
    """
    forward = direction is Direction.FORWARD
    outs, ins = (g.oc, g.ic) if forward else (g.ic, g.oc)
    steps = (g.ic * g.taps, g.taps)
    w_out, w_in = steps if forward else steps[::-1]
    panels = outs // (vectors * block)
    # Of several taps, squares store all over the panel: it takes 1.3 times as long with 3x3.
    along = forward and (g.taps == 1 or weight.dtype.itemsize * w_out % ALIKE_BYTES == 0)
    chunks = min(ins, max(1, ceil_div(packed.nbytes // panels, PACK_BYTES)))
    return PACK.launch(
        by_name("width vectors along", block, vectors, along),
        joined(
            by_name("packed weight outs ins", packed, weight, outs, ins),
            by_name("taps w_out w_in", g.taps, w_out, w_in),
        ),
        global_size=(panels, chunks),
        flops=0,
        bytes=packed.nbytes + weight.nbytes,
    )
