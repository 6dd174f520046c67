"""Depthwise convolution between blocked arrays, and its gradients, by vectors of channels."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle, Direction
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Kernel, by_name, joined
from . import blocked_strips
from .blocked_form import BlockedForm
from .blocked_strips import near_or_far, pitch_of, source_rows, strip_of
from .conv_blocked_direct import Walk, walks

__all__ = [
    "forward",
    "input_grad",
    "obstacle",
    "pack",
    "packed_size",
    "weight_grad",
    "weight_obstacle",
]

_TEMPLATE = "conv_blocked/conv_blocked_depthwise.mako"
DEPTHWISE = Kernel("conv_blocked_depthwise", _TEMPLATE)
PACK = Kernel("conv_blocked_depthwise_pack", _TEMPLATE)
WEIGHT = Kernel("conv_blocked_depthwise_weight", _TEMPLATE)
SUM = Kernel("conv_blocked_depthwise_sum", _TEMPLATE)

# Block -> pixels of a register tile: rows of 7, 14, 28, 56 and 112 leave no rest.
PIXELS = {16: 14, 8: 7, 4: 7}
# Sums of a filter's row that registers hold beside each other.
MOST_SUMS = 12
# Taps of the filters whose loops are written out, in which a pixel is read once for all its sums.
MOST_UNROLLED = 25
FEWEST_GROUPS_PER_UNIT, MOST_GROUPS_PER_UNIT = 4, 8


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why a convolution is not computed so: rows that one output row reads fit local memory."""
    down, right = walks(g, direction)
    width = g.w if direction is Direction.INPUT_GRAD else g.ow
    row = pitch_of(right, g.kw, width, PIXELS[form.block]) * form.block
    near = target.traits.local_memory_bytes >= 4 * blocked_strips.MOST_FLOATS
    fits = near and source_rows(down, g.kh, 1) * row <= blocked_strips.MOST_FLOATS
    return None if fits else ConvObstacle.WORKSPACE


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why a gradient of filters is not: sums of a filter's row fit registers, too."""
    if g.kw > MOST_SUMS or 4 * g.oc * g.taps > target.workspace_limit:
        return ConvObstacle.WORKSPACE
    return obstacle(target, g, Direction.FORWARD, form)


def packed_size(g: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the packed filters."""
    del direction, form
    return g.oc * g.taps


def pack(
    target: Target,
    packed: Array,
    weight: Array,
    g: ConvGeometry,
    direction: Direction,
    form: BlockedForm,
) -> Launch:
    """The launch that packs; the arguments are those of :func:`.conv_blocked.pack_filters`."""
    del target, direction
    return PACK.launch(
        {"width": form.block},
        by_name("packed weight taps", packed, weight, g.taps),
        global_size=(g.oc // form.block,),
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
    return _convolve(target, (y, x, packed), epilogue, g, walks(g, Direction.FORWARD), form)


def input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, g: ConvGeometry, form: BlockedForm
) -> Launch:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_input_grad`."""
    sides = walks(g, Direction.INPUT_GRAD)
    return _convolve(target, (gx, gy, packed), NO_EPILOGUE, g, sides, form)


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    block, blocks = form.block, g.oc // form.block
    down, right = walks(g, Direction.FORWARD)
    pitch = pitch_of(right, g.kw, g.ow, 1)
    strip = strip_of(down, g.kh, g.oh, pitch * block, blocked_strips.STRIP_FLOATS)
    affordable = target.workspace_limit // gw.nbytes
    wanted = ceil_div(MOST_GROUPS_PER_UNIT * target.traits.compute_units, blocks)
    chunks = max(1, min(wanted, affordable, g.n * ceil_div(g.oh, strip)))
    memory = Scratch.beside(gw.storage, gy.storage, x.storage)
    partial = Array.scratch(memory, (chunks, blocks, g.taps, block), gw.dtype)
    together = min(max(MOST_SUMS // g.kw, 1), g.ow)
    first = WEIGHT.launch(
        by_name(
            "width columns together local_floats", block, g.kw, together, blocked_strips.MOST_FLOATS
        ),
        joined(
            by_name("partial gy x images blocks", partial, gy, x, g.n, blocks),
            by_name("x_height x_width y_height y_width", g.h, g.w, g.oh, g.ow),
            by_name("kh strip pitch", g.kh, strip, pitch),
            by_name("down pad_down gap_down", down.step, down.pad, down.gap),
            by_name("right pad_right gap_right", right.step, right.pad, right.gap),
        ),
        global_size=(chunks, blocks),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = SUM.launch(
        {"width": block},
        by_name("gw partial taps chunks", gw, partial, g.taps, chunks),
        global_size=(blocks,),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]


def _convolve(
    target: Target,
    arrays: tuple[Array, Array, Array],
    epilogue: Epilogue,
    g: ConvGeometry,
    sides: tuple[Walk, Walk],
    form: BlockedForm,
) -> Launch:
    y, x, packed = arrays
    down, right = sides
    images, blocks, height, width, block = y.shape
    pixels = PIXELS[block]
    pitch = pitch_of(right, g.kw, width, pixels)
    least = ceil_div(FEWEST_GROUPS_PER_UNIT * target.traits.compute_units, images * blocks)
    strip = near_or_far(down, g.kh, height, pitch * block, least)
    return DEPTHWISE.launch(
        joined(
            by_name(
                "width pixels step local_floats",
                block,
                pixels,
                right.step,
                blocked_strips.MOST_FLOATS,
            ),
            by_name("unrolled", _unrolled(g, sides)),
            by_name("added", epilogue.added is not None),
            epilogue.blocked_params(block),
        ),
        joined(
            by_name("y x packed offsets added blocks", y, x, packed, *epilogue[:2], blocks),
            by_name("x_height x_width y_height y_width", *x.shape[2:4], height, width),
            by_name("kh kw strip pitch", g.kh, g.kw, strip, pitch),
            by_name("down phases_down pad_down gap_down rows_apart", *down),
            by_name("phases_right pad_right gap_right columns_apart", *right[1:]),
        ),
        global_size=(ceil_div(height, strip), images * blocks),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes + epilogue.more_bytes,
    )


def _unrolled(g: ConvGeometry, sides: tuple[Walk, Walk]) -> tuple[int, int] | None:
    """Rows and columns of a filter whose taps follow one another in what is read."""
    follow = all((side.phases, side.gap) == (1, -1) for side in sides)
    return (g.kh, g.kw) if follow and g.taps <= MOST_UNROLLED else None
