"""Convolution of groups of several channels between blocked arrays, and its input gradient.

A lane is a channel of the result. Channels of its group alone are multiplied, never zeros in place
of others: an infinity of one group stays there.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div, round_up
from ..conv import ConvGeometry, ConvObstacle, Direction
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Kernel, by_name, joined
from . import blocked_strips
from .blocked_form import BlockedForm
from .blocked_groups import channels_of
from .blocked_strips import near_or_far, pitch_of, source_rows
from .conv_blocked_direct import walks

__all__ = [
    "forward",
    "input_grad",
    "obstacle",
    "pack",
    "packed_size",
]

_TEMPLATE = "conv_blocked/conv_blocked_grouped.mako"
GROUPED = Kernel("conv_blocked_grouped", _TEMPLATE)
PACK = Kernel("conv_blocked_grouped_pack", _TEMPLATE)

# Block -> pixels of a register tile, by blocks of channels: twelve sums hide how long each takes,
# and 16 registers hold them.
PIXELS = {16: {1: 12, 2: 12}, 8: {1: 12, 2: 6}, 4: {1: 12, 2: 6}}
# Pixels of a segment: a few where they leave little of a row over, else two.
MANY_TOGETHER, FEW_TOGETHER, LEFT_OVER = 4, 2, 1 / 10
# Channels that are written out: of more, compilers make each sum's one chain.
SOME = 4
FEWEST_GROUPS_PER_UNIT = 4


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why a convolution is not computed so: rows that one output row reads fit local memory."""
    down, right = walks(g, direction)
    width = g.w if direction is Direction.INPUT_GRAD else g.ow
    blocks = channels_of(g, direction, form.block).blocks
    row = blocks * pitch_of(right, g.kw, width, MANY_TOGETHER) * form.block
    near = target.traits.local_memory_bytes >= 4 * blocked_strips.MOST_FLOATS
    fits = near and source_rows(down, g.kh, 1) * row <= blocked_strips.MOST_FLOATS
    return None if fits else ConvObstacle.WORKSPACE


def packed_size(g: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the packed filters."""
    del direction, form
    return g.oc * g.icg * g.taps


def pack(
    target: Target,
    packed: Array,
    weight: Array,
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> Launch:
    """The launch that packs; the arguments are those of :func:`.conv_blocked.pack_filters`."""
    del target
    channels = channels_of(g, direction, form.block)
    turned = direction is Direction.INPUT_GRAD
    return PACK.launch(
        by_name("width vectors turned", form.block, channels.vectors, turned),
        joined(
            by_name("packed weight taps", packed, weight, g.taps),
            by_name("made read", channels.made, channels.read),
        ),
        global_size=((g.ic if turned else g.oc) // (form.block * channels.vectors),),
        flops=0,
        bytes=packed.nbytes + weight.nbytes,
    )


def forward(
    target: Target,
    y: Array,
    x: Array,
    packed: Array,
    g: ConvGeometry,
    form: BlockedForm,
    epilogue: Epilogue,
) -> Launch:
    """The convolution; the arguments are those of :func:`.conv_blocked.blocked_forward`."""
    return _convolve(target, (y, x, packed), epilogue, g, Direction.FORWARD, form)


def input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, g: ConvGeometry, form: BlockedForm
) -> Launch:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_input_grad`."""
    return _convolve(target, (gx, gy, packed), NO_EPILOGUE, g, Direction.INPUT_GRAD, form)


def _convolve(
    target: Target,
    arrays: tuple[Array, Array, Array],
    epilogue: Epilogue,
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> Launch:
    y, x, packed = arrays
    down, right = walks(g, direction)
    images, blocks, height, width, block = y.shape
    channels = channels_of(g, direction, block)
    together = _together(ceil_div(width, right.phases), PIXELS[block][channels.vectors])
    pitch = pitch_of(right, g.kw, width, together)
    row, vectors = channels.blocks * pitch * block, channels.vectors
    least = ceil_div(
        FEWEST_GROUPS_PER_UNIT * target.traits.compute_units, images * blocks // vectors
    )
    strip = near_or_far(down, g.kh, height, row, least)
    return GROUPED.launch(
        joined(
            by_name("width vectors", block, vectors),
            by_name("segments together", PIXELS[block][vectors] // together, together),
            by_name("some step own", min(SOME, block), right.step, channels.lanes(block)),
            by_name("local_floats", blocked_strips.MOST_FLOATS),
            by_name("added", epilogue.added is not None),
            epilogue.blocked_params(block),
        ),
        joined(
            by_name("y x packed offsets added blocks", y, x, packed, *epilogue[:2], blocks),
            by_name("in_blocks made read", x.shape[1], channels.made, channels.read),
            by_name("x_height x_width y_height y_width", *x.shape[2:4], height, width),
            by_name("kh kw strip pitch", g.kh, g.kw, strip, pitch),
            by_name("room", source_rows(down, g.kh, strip) * pitch * block),
            by_name("down phases_down pad_down gap_down rows_apart", *down),
            by_name("phases_right pad_right gap_right columns_apart", *right[1:]),
        ),
        global_size=(ceil_div(height, strip), images * blocks // vectors),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes + epilogue.more_bytes,
    )


def _together(width: int, pixels: int) -> int:
    """Pixels of a segment, of a tile of so many, in a row of ``width``."""
    many = round_up(width, MANY_TOGETHER)
    few = many > round_up(width, FEW_TOGETHER) and many > (1 + LEFT_OVER) * width
    return FEW_TOGETHER if few or pixels % MANY_TOGETHER else MANY_TOGETHER
