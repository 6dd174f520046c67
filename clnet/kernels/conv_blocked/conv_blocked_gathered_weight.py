"""Gradient of the filters of a convolution between blocked arrays, as a product over the pixels."""

from __future__ import annotations

from math import gcd

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry
from ..grid import items
from ..kernel import Constraint, Kernel, by_name, joined
from .blocked_form import BlockedForm

__all__ = ["Split", "split_of", "weight_grad"]


WEIGHT = Kernel(
    "conv_blocked_gathered_weight",
    "conv_blocked/conv_blocked_gathered_weight.mako",
    constraints=(Constraint("width % channels == 0", "a block is a whole number of tiles"),),
)
SUM = Kernel("conv_blocked_gathered_weight_sum", "conv_blocked/conv_blocked_gathered_weight.mako")

# Members of a register tile (blocks of input channels at a tap), and by the block its output
# channels: 32 registers hold 24 sums, 16 hold 12.
VECTORS = 3
CHANNELS = {16: 8, 8: 4, 4: 4}
# Pixels of a turn of the inner loop.
TOGETHER = 4
# Pixels that are gathered together: what a tile reads of them stays in the first cache.
BLOCK_PIXELS = 256
# Output channels for which x is gathered once: a vector takes as long as three products, and saves
# half a product for each channel. What is gathered, and the sums, stay in the second cache.
MOST_OUTS, LOCAL_BYTES = 256, 2**19
# Tiles of members for which gy is gathered once, at least, where there are so many.
LEAST_TILES = 5
GROUP_FLOPS = 8_000_000
MOST_GROUPS_PER_UNIT = 4


class Split(NamedTuple):
    """How the work is cut into groups, and a group's into parts.

    Attributes:
        chunks: of the rows, whose sums are written apart.
        out_groups, tile_groups: of blocks of output channels, and of tiles of members.
        rows, columns: of the pixels that are gathered together.
    """

    chunks: int
    out_groups: int
    tile_groups: int
    rows: int
    columns: int


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    block, traits = form.block, target.traits
    floats = min(LOCAL_BYTES, traits.local_memory_bytes // 2) // 4
    affordable = min((x.nbytes + gy.nbytes) // 2, target.workspace_limit) // gw.nbytes
    split = split_of(traits.compute_units, floats, g, block, max(1, affordable))
    partial, last = gw, []
    if split.chunks > 1:
        memory = Scratch.beside(gw.storage, gy.storage, x.storage)
        partial = Array.scratch(memory, (split.chunks, *gw.shape), gw.dtype)
        last = [_sum(target, gw, partial, block)]
    first = WEIGHT.launch(
        joined(
            by_name("width vectors channels", block, VECTORS, CHANNELS[block]),
            by_name("together local_floats", TOGETHER, floats),
        ),
        joined(
            by_name("partial gy x", partial, gy, x),
            by_name("images in_blocks out_blocks", g.n, g.ic // block, g.oc // block),
            g.sizes("h w oh ow kh kw sh sw ph pw dh dw"),
            by_name("block_rows block_columns", split.rows, split.columns),
            by_name("most_pixels", round_up(split.rows * split.columns, TOGETHER)),
        ),
        global_size=(split.chunks, split.out_groups, split.tile_groups),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    return [first, *last]


def _sum(target: Target, gw: Array, partial: Array, block: int) -> Launch:
    return SUM.launch(
        {"width": block},
        by_name("gw partial n chunks", gw, partial, gw.size, partial.shape[0]),
        **items(target, gw.size // block),
        flops=partial.size - gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )


def split_of(units: int, floats: int, g: ConvGeometry, block: int, affordable: int) -> Split:
    """How the work is cut.

    Args:
        units: that compute.
        floats: of local memory.
        g: the sizes.
        block: channels of a block.
        affordable: how many chunks' sums are no more than half of what is read, and have room.

    Returns:
        As many groups as keep the units busy and share what they gather: rows are cut into chunks,
        whose sums must be added, where there are too few tiles and channels.
    """
    all_rows = g.n * g.oh
    pixels = _pixels_of(floats, block)
    columns = ceil_div(g.ow, ceil_div(g.ow, pixels))
    rows = min(max(1, pixels // columns), all_rows)
    pixels = round_up(rows * columns, TOGETHER)
    room, sums = floats - pixels * VECTORS * block, VECTORS * block * block
    out_blocks, tiles = g.oc // block, ceil_div(g.ic // block * g.taps, VECTORS)
    fitting = room // (pixels * block + min(tiles, LEAST_TILES) * sums)
    out_groups = ceil_div(out_blocks, max(1, min(MOST_OUTS // block, fitting)))
    outs = ceil_div(out_blocks, out_groups)
    most_tiles = (room - outs * pixels * block) // (outs * sums)

    wanted = min(max(ceil_div(g.flops, GROUP_FLOPS), units), MOST_GROUPS_PER_UNIT * units)
    sharing = min(ceil_div(wanted, out_groups), tiles // LEAST_TILES)
    tile_groups = max(1, ceil_div(tiles, most_tiles), sharing)
    most_chunks = min(affordable, ceil_div(all_rows, rows))
    chunks = min(ceil_div(wanted, out_groups * tile_groups), most_chunks)
    if chunks > 1:
        chunks = min(round_up(chunks, units // gcd(units, out_groups * tile_groups)), most_chunks)
    else:
        tile_groups = min(round_up(tile_groups, units // gcd(units, out_groups)), tiles)
    of_chunk = ceil_div(all_rows, chunks)
    return Split(
        chunks, out_groups, tile_groups, ceil_div(of_chunk, ceil_div(of_chunk, rows)), columns
    )


def _pixels_of(floats: int, block: int) -> int:
    """Pixels that leave half of the local memory to a block of output channels and its sums."""
    pixels = BLOCK_PIXELS
    while pixels > TOGETHER and 2 * pixels * (VECTORS + 1) * block > floats:
        pixels //= 2
    return pixels
