"""Gradient of the filters of a convolution of groups between blocked arrays."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle, Direction
from ..kernel import Constraint, Kernel, by_name, joined
from . import blocked_strips, conv_blocked_grouped
from .blocked_form import BlockedForm
from .blocked_groups import channels_of
from .blocked_strips import pitch_of, source_rows, strip_of
from .conv_blocked_direct import walks

__all__ = ["weight_grad", "weight_obstacle"]

_TEMPLATE = "conv_blocked/conv_blocked_grouped_weight.mako"
WEIGHT = Kernel(
    "conv_blocked_grouped_weight",
    _TEMPLATE,
    constraints=(Constraint("width % some == 0", "channels that are summed lie in one block"),),
)
SUM = Kernel("conv_blocked_grouped_sum", _TEMPLATE)

# Block -> sums of filters that registers hold beside each other.
MOST_SUMS = {16: 24, 8: 12, 4: 12}
MOST_GROUPS_PER_UNIT = 8


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why a gradient of filters is not: sums of a filter's row fit registers, too."""
    if g.kw > MOST_SUMS[form.block] or 4 * g.oc * g.icg * g.taps > target.workspace_limit:
        return ConvObstacle.WORKSPACE
    return conv_blocked_grouped.obstacle(target, g, Direction.FORWARD, form)


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    block, blocks = form.block, g.oc // form.block
    channels = channels_of(g, Direction.FORWARD, block)
    down, right = walks(g, Direction.FORWARD)
    pitch = pitch_of(right, g.kw, g.ow, 1)
    row = channels.blocks * pitch * block
    strip = strip_of(down, g.kh, g.oh, row, blocked_strips.FAR_FLOATS)
    affordable = target.workspace_limit // gw.nbytes
    wanted = ceil_div(MOST_GROUPS_PER_UNIT * target.traits.compute_units, blocks)
    chunks = max(1, min(wanted, affordable, g.n * ceil_div(g.oh, strip)))
    memory = Scratch.beside(gw.storage, gy.storage, x.storage)
    partial = Array.scratch(memory, (chunks, *gw.shape), gw.dtype)
    some = channels.some(block, max(MOST_SUMS[block] // g.kw, 1))
    together = min(max(MOST_SUMS[block] // (g.kw * some), 1), g.ow)
    first = WEIGHT.launch(
        joined(
            by_name("width columns together", block, g.kw, together),
            by_name("own some", channels.lanes(block), some),
            by_name("local_floats", blocked_strips.MOST_FLOATS),
        ),
        joined(
            by_name("partial gy x images blocks", partial, gy, x, g.n, blocks),
            by_name("in_blocks made read", g.ic // block, channels.made, channels.read),
            by_name("x_height x_width y_height y_width", g.h, g.w, g.oh, g.ow),
            by_name("kh strip pitch", g.kh, strip, pitch),
            by_name("room", source_rows(down, g.kh, strip) * pitch * block),
            by_name("down pad_down gap_down", down.step, down.pad, down.gap),
            by_name("right pad_right gap_right", right.step, right.pad, right.gap),
        ),
        global_size=(chunks, blocks),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = SUM.launch(
        {"width": block},
        joined(
            by_name("gw partial taps read", gw, partial, g.taps, channels.read),
            by_name("columns chunks", g.kw, chunks),
        ),
        global_size=(blocks,),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]
