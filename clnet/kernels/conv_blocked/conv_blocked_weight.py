"""Gradient of the filters of a convolution between blocked arrays, in tiles of registers."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle
from ..kernel import Constraint, Kernel, by_name, joined
from ..moving import copy
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
# Pixels of a row, where an image may be taken for rows of any length.
ROW_PIXELS = 256
# Output channels from which on it pays to bring the pixels that a stride reads together before.
GATHER_OUTS = 768
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
    memory = Scratch.beside(gw.storage, gy.storage, x.storage)
    gathering: list[Launch] = []
    if _gathers(target, g):
        x, gathering = _gathered(target, memory, x, g)
        g = g._replace(h=g.oh, w=g.ow, sh=1, sw=1)
    if g.pointwise:
        row = _longest_row(g.h * g.w)
        g = g._replace(h=g.h * g.w // row, w=row, oh=g.h * g.w // row, ow=row)
    block = form.block
    vectors = vectors_of(g.oc, block)
    panels, in_blocks = g.oc // (vectors * block), g.ic // block
    room = target.workspace_limit - (x.nbytes if gathering else 0)
    affordable = min((x.nbytes + gy.nbytes) // 2, room) // max(gw.nbytes, 1)
    chunks, groups = _split(target, g, panels, affordable)
    partial = Array.scratch(
        memory,
        (chunks, panels, in_blocks, g.taps, block, vectors * block),
        gw.dtype,
    )
    first = WEIGHT.launch(
        by_name("width vectors channels together", block, vectors, CHANNELS[block], TOGETHER),
        joined(
            by_name("partial gy x", partial, gy, x),
            by_name("images in_blocks panels", g.n, in_blocks, panels),
            g.sizes("h w oh ow kh kw sh sw ph pw dh dw"),
            by_name("block_rows", max(1, BLOCK_PIXELS // g.ow)),
        ),
        global_size=(chunks, groups),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = SUM.launch(
        {"width": block, "vectors": vectors},
        by_name("gw partial taps chunks", gw, partial, g.taps, chunks),
        global_size=(in_blocks, panels),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [*gathering, first, last]


def _longest_row(pixels: int) -> int:
    return next(row for row in range(min(pixels, ROW_PIXELS), 0, -1) if pixels % row == 0)


def _gathers(target: Target, g: ConvGeometry) -> bool:
    """Whether the pixels that are read are brought together before: rows are short, and strided."""
    strided = g.taps == 1 and max(g.sh, g.sw) > 1 and not g.ph and not g.pw
    inside = (g.oh - 1) * g.sh < g.h and (g.ow - 1) * g.sw < g.w
    together = 4 * g.ic * (g.n * g.oh * g.ow + g.oc)
    return strided and inside and g.oc >= GATHER_OUTS and together <= target.workspace_limit


def _gathered(
    target: Target, memory: Scratch, x: Array, g: ConvGeometry
) -> tuple[Array, list[Launch]]:
    """The pixels of ``x`` that are read, side by side, and the launches that bring them there."""
    n, blocks, _, _, block = x.shape
    image, group, row, pixel, _ = x.strides
    strides = (image, group, g.sh * row, g.sw * pixel, 1)
    dense = Array.scratch(memory, (n, blocks, g.oh, g.ow, block), x.dtype)
    return dense, copy(target, dense, x.view(dense.shape, strides))


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
