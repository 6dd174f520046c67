"""Gradient of filters between blocked arrays, by Winograd's transforms."""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle
from ..kernel import Constraint, Kernel, by_name, joined
from .blocked_form import BlockedAlgorithm, BlockedForm, vectors_of
from .conv_blocked_weight import CHANNELS
from .conv_blocked_winograd import Matrix, matrices_of, misshapen

__all__ = ["pays", "weight_grad", "weight_obstacle"]


class Split(NamedTuple):
    """How the work is cut up.

    Attributes:
        block_tiles: tiles of a block.
        chunks: of the blocks of tiles, whose sums are written apart.
        groups: of the panels.
        scratch_floats: floats of scratch memory for each work-group.
        sums: floats that all groups sum.
    """

    block_tiles: int
    chunks: int
    groups: int
    scratch_floats: int
    sums: int


WEIGHT = Kernel(
    "conv_blocked_winograd_weight",
    "conv_blocked/conv_blocked_winograd_weight.mako",
    constraints=(Constraint("width % channels == 0", "a block is a whole number of tiles"),),
)
SUM = Kernel("conv_blocked_winograd_weight_sum", "conv_blocked/conv_blocked_winograd_weight.mako")

# Transformed x and gy of a block of tiles, and its most and fewest tiles.
BLOCK_BYTES = 2**19
MOST_TILES = 96
LEAST_TILES = 32
# Sums of a work-group that stay in a core's own cache beside them.
SUM_BYTES = 2**20
# Pixels of y from which transforming the sums pays.
LEAST_PIXELS = {BlockedAlgorithm.WINOGRAD2: 150, BlockedAlgorithm.WINOGRAD4: 300}


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why these transforms do not compute the gradient; None if they do."""
    if (found := misshapen(g, form)) is not None:
        return found
    split = _split(target, g, form)
    needed = 4 * (split.chunks * split.groups * split.scratch_floats + split.sums)
    return None if needed <= target.workspace_limit else ConvObstacle.WORKSPACE


def pays(g: ConvGeometry, form: BlockedForm) -> bool:
    """Whether a gradient that they compute is faster for it."""
    return g.n * g.oh * g.ow >= LEAST_PIXELS[form.algorithm]


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    matrices, block = matrices_of(g, form), form.block
    vectors, products = vectors_of(g.oc, block), len(matrices.inputs) ** 2
    panels, in_blocks = g.oc // (vectors * block), g.ic // block
    split = _split(target, g, form)
    memory = Scratch.beside(gw.storage, gy.storage, x.storage)
    shape = (split.chunks, panels, in_blocks, products, block, vectors * block)
    partial = Array.scratch(memory, shape, gw.dtype)
    scratch = Array.scratch(memory, (split.chunks * split.groups, split.scratch_floats), gw.dtype)
    first = WEIGHT.launch(
        joined(
            by_name("width vectors channels", block, vectors, CHANNELS[block]),
            by_name("inputs grads", matrices.inputs, _transposed(matrices.outputs)),
        ),
        joined(
            by_name("partial gy x scratch", partial, gy, x, scratch),
            by_name("images in_blocks panels", g.n, in_blocks, panels),
            g.sizes("h w oh ow ph pw"),
            by_name("block_tiles scratch_floats", split.block_tiles, split.scratch_floats),
        ),
        global_size=(split.chunks, split.groups),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = SUM.launch(
        by_name("width vectors filters", block, vectors, _transposed(matrices.filters)),
        by_name("gw partial chunks", gw, partial, split.chunks),
        global_size=(in_blocks, panels),
        flops=partial.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]


def _split(target: Target, g: ConvGeometry, form: BlockedForm) -> Split:
    """A work-group for each unit: panels are shared out where one's sums would be too large."""
    matrices = matrices_of(g, form)
    products, out = len(matrices.inputs) ** 2, len(matrices.outputs)
    tiles = g.n * ceil_div(g.oh, out) * ceil_div(g.ow, out)
    panels = g.oc // (vectors_of(g.oc, form.block) * form.block)
    units, sums = target.traits.compute_units, products * g.ic * g.oc
    groups = min(panels, units, ceil_div(4 * sums, SUM_BYTES))
    outs = ceil_div(panels, groups) * (g.oc // panels)
    wanted = BLOCK_BYTES // (4 * products * (g.ic + outs))
    block_tiles = min(max(wanted, LEAST_TILES), MOST_TILES, tiles)
    chunks = min(max(1, units // groups), ceil_div(tiles, block_tiles))
    scratch_floats = products * (block_tiles * (g.ic + outs) + 2 * form.block)
    return Split(block_tiles, chunks, groups, scratch_floats, chunks * sums)


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))
