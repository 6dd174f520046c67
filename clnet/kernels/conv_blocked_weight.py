"""Gradient of the filters of a convolution between blocked arrays, in tiles of registers."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import Launch, Scratch, Target
from ..shapes import ceil_div
from .blocked_form import BlockedForm, vectors_of
from .conv_geometry import ConvGeometry
from .kernel import Constraint, Kernel

__all__ = ["fits", "weight_grad"]


class WeightParams(NamedTuple):
    """Parameters of ``conv_blocked_weight``; see its template."""

    width: int
    vectors: int
    channels: int
    together: int


class SumParams(NamedTuple):
    """Parameters of ``conv_blocked_weight_sum``; see its template."""

    width: int
    vectors: int


WEIGHT = Kernel(
    "conv_blocked_weight",
    "conv_blocked_weight.mako",
    constraints=(Constraint("width % channels == 0", "a block is a whole number of tiles"),),
)
SUM = Kernel("conv_blocked_weight_sum", "conv_blocked_weight.mako")

# Block -> input channels of a register tile of two vectors each.
CHANNELS = {16: 8, 8: 4, 4: 4}
# Pixels of a turn of the inner loop: its own instructions are a tenth of one pixel's.
TOGETHER = 4
# Pixels whose gy, of a panel, and x, of a block, stay in the first cache.
TURN_PIXELS = 128
# Pixels of a row, where an image may be taken for rows of any length.
ROW_PIXELS = 256
GROUP_FLOPS = 8_000_000
MOST_GROUPS_PER_UNIT = 4


def fits(target: Target, g: ConvGeometry) -> bool:
    """Whether there is scratch memory for the sums of one chunk."""
    return 4 * g.oc * g.ic * g.taps <= target.workspace_limit


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    if g.pointwise:
        row = _longest_row(g.h * g.w)
        g = g._replace(h=g.h * g.w // row, w=row, oh=g.h * g.w // row, ow=row)
    block = form.block
    vectors = vectors_of(g.oc, block)
    panels, in_blocks = g.oc // (vectors * block), g.ic // block
    chunks, groups = _split(target, g, panels, x.nbytes + gy.nbytes, gw.nbytes)
    partial = Array.scratch(
        Scratch.beside(gw.storage, gy.storage, x.storage),
        (chunks, panels, in_blocks, g.taps, block, vectors * block),
        gw.dtype,
    )
    first = WEIGHT.launch(
        WeightParams(block, vectors, CHANNELS[block], TOGETHER),
        (
            partial, gy, x, g.n, in_blocks, panels, g.h, g.w, g.oh, g.ow, g.kh, g.kw, g.sh, g.sw,
            g.ph, g.pw, g.dh, g.dw, max(1, TURN_PIXELS // g.ow),
        ),
        global_size=(chunks, groups),
        local_size=(1, 1),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )  # fmt: skip
    last = SUM.launch(
        SumParams(block, vectors),
        (gw, partial, g.taps, chunks),
        global_size=(in_blocks, panels),
        local_size=(1, 1),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]


def _longest_row(pixels: int) -> int:
    return next(row for row in range(min(pixels, ROW_PIXELS), 0, -1) if pixels % row == 0)


def _split(
    target: Target, g: ConvGeometry, panels: int, read_bytes: int, sum_bytes: int
) -> tuple[int, int]:
    """Chunks of the rows, whose sums are written apart, and groups of panels, which share reads."""
    units = target.traits.compute_units
    wanted = min(max(ceil_div(g.flops, GROUP_FLOPS), units), MOST_GROUPS_PER_UNIT * units)
    affordable = min(read_bytes // 2, target.workspace_limit) // max(sum_bytes, 1)
    chunks = max(1, min(wanted, affordable, g.n * g.oh))
    return chunks, min(panels, ceil_div(wanted, chunks))
