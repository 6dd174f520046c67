"""Gradient of filters between blocked arrays, by Winograd's transforms."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle
from ..kernel import Constraint, Kernel, by_name, joined
from .blocked_form import BlockedForm, vectors_of
from .conv_blocked_weight import CHANNELS
from .conv_blocked_winograd import ALGORITHMS, Matrix, matrices_of, misshapen

__all__ = ["cost", "weight_grad", "weight_obstacle"]


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
# Multiplications that take as long as one of these products, as a transformed number of x or gy,
# and as the sums of a filter's transformed number: where all of these are near, and where not.
PRODUCT_COST, TRANSFORM_COST = 1.25, 7
NEAR_SUM_COST, FAR_SUM_COST, NEAR_BYTES = 18, 65, 12 * 2**20


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why these transforms do not compute the gradient; None if they do."""
    if (found := misshapen(g, form)) is not None:
        return found
    split = _split(target, g, form)
    needed = 4 * (split.chunks * split.groups * split.scratch_floats + split.sums)
    return None if needed <= target.workspace_limit else ConvObstacle.WORKSPACE


def cost(g: ConvGeometry, form: BlockedForm) -> float:
    """How long the gradient takes, in multiplications of a direct one.

    Args:
        g: the sizes.
        form: these transforms, or none.
    """
    if form.algorithm not in ALGORITHMS:
        return g.flops / 2
    matrices = matrices_of(g, form)
    products = len(matrices.inputs) ** 2
    tiles, filters = _tiles_of(g, len(matrices.outputs)), g.ic * g.oc
    of_sum = NEAR_SUM_COST if 4 * products * filters <= NEAR_BYTES else FAR_SUM_COST
    of_tile = PRODUCT_COST * filters + TRANSFORM_COST * (g.ic + g.oc)
    return products * (tiles * of_tile + filters * of_sum)


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
    """A work-group for each unit: panels are shared out where one's sums, or its tiles, are few."""
    matrices = matrices_of(g, form)
    panels = g.oc // (vectors_of(g.oc, form.block) * form.block)
    units, sums = target.traits.compute_units, len(matrices.inputs) ** 2 * g.ic * g.oc
    groups = min(panels, units, ceil_div(4 * sums, SUM_BYTES))
    split = _of_groups(groups, units, panels, g, form)
    sharing = min(panels, units // split.chunks)
    return split if sharing <= groups else _of_groups(sharing, units, panels, g, form)


def _of_groups(groups: int, units: int, panels: int, g: ConvGeometry, form: BlockedForm) -> Split:
    matrices = matrices_of(g, form)
    products, tiles = len(matrices.inputs) ** 2, _tiles_of(g, len(matrices.outputs))
    outs = ceil_div(panels, groups) * (g.oc // panels)
    wanted = BLOCK_BYTES // (4 * products * (g.ic + outs))
    block_tiles = min(max(wanted, LEAST_TILES), MOST_TILES, tiles)
    chunks = min(max(1, units // groups), ceil_div(tiles, block_tiles))
    scratch_floats = products * (block_tiles * (g.ic + outs) + 2 * form.block)
    return Split(block_tiles, chunks, groups, scratch_floats, chunks * products * g.ic * g.oc)


def _tiles_of(g: ConvGeometry, out: int) -> int:
    """Tiles of so many rows and columns of y."""
    return g.n * ceil_div(g.oh, out) * ceil_div(g.ow, out)


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))
