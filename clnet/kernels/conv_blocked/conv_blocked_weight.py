"""Gradient of the filters of a convolution between blocked arrays, in tiles of registers.

1x1 filters on large maps read their operands where these lie; all others have them gathered, see
:mod:`.conv_blocked_gathered_weight`.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle
from ..kernel import Constraint, Kernel, by_name, joined
from . import conv_blocked_gathered_weight
from .blocked_form import BlockedForm, vectors_of

__all__ = ["weight_grad", "weight_obstacle"]


WEIGHT = Kernel(
    "conv_blocked_weight",
    "conv_blocked/conv_blocked_weight.mako",
    constraints=(Constraint("width % channels == 0", "a block is a whole number of tiles"),),
)
SUM = Kernel("conv_blocked_weight_sum", "conv_blocked/conv_blocked_weight.mako")

# Block -> input channels of a register tile of two vectors each.
CHANNELS = {16: 8, 8: 4, 4: 4}
# Pixels of a turn of the inner loop: its own instructions are a tenth of one pixel's.
TOGETHER = 4
# Pixels whose gy, of a panel, and x, of a block, stay in the first cache.
BLOCK_PIXELS = 128
# Pixels of a row, as which an image is taken.
ROW_PIXELS = 256
# Of so many pixels, to gather them would take longer than is saved by larger tiles of registers.
STRAIGHT_PIXELS = 512
GROUP_FLOPS = 8_000_000
MOST_GROUPS_PER_UNIT = 4


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why it is not computed so: there is scratch memory for the sums of one chunk."""
    if g.ic % form.block:
        return ConvObstacle.CHANNELS
    fits = 4 * g.oc * g.ic * g.taps <= target.workspace_limit
    return None if fits else ConvObstacle.WORKSPACE


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    if not _straight(g, form):
        return conv_blocked_gathered_weight.weight_grad(target, gw, gy, x, g, form)
    block = form.block
    row = _longest_row(g.h * g.w)
    vectors = vectors_of(g.oc, block)
    panels, in_blocks = g.oc // (vectors * block), g.ic // block
    affordable = min((x.nbytes + gy.nbytes) // 2, target.workspace_limit) // gw.nbytes
    chunks, groups = _split(target, g, panels, affordable)
    partial = Array.scratch(
        Scratch.beside(gw.storage, gy.storage, x.storage),
        (chunks, panels, in_blocks, block, vectors * block),
        gw.dtype,
    )
    first = WEIGHT.launch(
        by_name("width vectors channels together", block, vectors, CHANNELS[block], TOGETHER),
        joined(
            by_name("partial gy x", partial, gy, x),
            by_name("images in_blocks panels", g.n, in_blocks, panels),
            by_name("h w", g.h * g.w // row, row),
            by_name("block_rows", max(1, BLOCK_PIXELS // row)),
        ),
        global_size=(chunks, groups),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = SUM.launch(
        {"width": block, "vectors": vectors},
        by_name("gw partial chunks", gw, partial, chunks),
        global_size=(in_blocks, panels),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]


def _straight(g: ConvGeometry, form: BlockedForm) -> bool:
    """Whether the operands are read where they lie: each pixel has one tap, and there are many."""
    return g.pointwise and vectors_of(g.oc, form.block) > 1 and g.h * g.w >= STRAIGHT_PIXELS


def _longest_row(pixels: int) -> int:
    return next(row for row in range(min(pixels, ROW_PIXELS), 0, -1) if pixels % row == 0)


def _split(target: Target, g: ConvGeometry, panels: int, affordable: int) -> tuple[int, int]:
    """Chunks of the rows, whose sums are written apart, and groups of panels, which share reads.

    Args:
        target: what the device is like.
        g: the sizes.
        panels: of output channels.
        affordable: how many chunks' sums are no more than half of what is read, and have room.
    """
    units = target.traits.compute_units
    wanted = min(max(ceil_div(g.flops, GROUP_FLOPS), units), MOST_GROUPS_PER_UNIT * units)
    chunks = max(1, min(wanted, affordable, g.n * g.oh))
    return chunks, min(panels, ceil_div(wanted, chunks))
