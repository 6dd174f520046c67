"""Convolution of plain images of few channels to blocked ones, and the gradient of its filters.

Filters are packed as :mod:`.conv_blocked_direct` packs them.
"""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, ConvObstacle, Direction
from ..epilogue import Epilogue
from ..kernel import Kernel, Named, by_name, joined
from .blocked_form import BlockedForm, vectors_of

__all__ = ["forward", "obstacle", "weight_grad", "weight_obstacle"]


FEW = Kernel("conv_blocked_few_channels", "conv_blocked/conv_blocked_few_channels.mako")
FEW_WEIGHT = Kernel(
    "conv_blocked_few_channels_weight", "conv_blocked/conv_blocked_few_channels.mako"
)
FEW_SUM = Kernel("conv_blocked_few_channels_sum", "conv_blocked/conv_blocked_few_channels.mako")

# Channels of x that are too few for blocks of their own.
MOST_CHANNELS = 4
# Block -> pixels of a register tile of two vectors each, and taps of one, the
# number that wastes least is taken.
PIXELS = {16: 14, 8: 6, 4: 6}
TERMS = {16: (11, 9), 8: (5,), 4: (5,)}
# Floats of local memory: the rows that a strip reads, in a core's own cache.
MOST_FLOATS = 2**15
MOST_ROWS = 8
MOST_CHUNKS_PER_UNIT = 8


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why a convolution is not computed so; an input gradient never is."""
    if direction is Direction.INPUT_GRAD:
        return ConvObstacle.CHANNELS
    return weight_obstacle(target, g, form)


def weight_obstacle(target: Target, g: ConvGeometry, form: BlockedForm) -> ConvObstacle | None:
    """Why a gradient of filters is not: channels are few, rows of a strip fit local memory."""
    del form
    near = target.traits.local_memory_bytes >= 4 * MOST_FLOATS and _strip(g) >= 1
    sums = 4 * g.oc * (g.ic * g.taps + max(TERMS[16]))
    fits = g.ic <= MOST_CHANNELS and near and sums <= target.workspace_limit
    return None if fits else ConvObstacle.CHANNELS


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
    vectors = vectors_of(g.oc, form.block)
    strip = min(_strip(g), max(1, ceil_div(g.n * g.oh, 4 * target.traits.compute_units)))
    return FEW.launch(
        joined(
            by_name("width pixels vectors", form.block, PIXELS[form.block], vectors),
            by_name("local_floats stride", MOST_FLOATS, g.sw),
            epilogue.blocked_params(form.block),
        ),
        joined(
            by_name("y x packed offsets", y, x, packed, epilogue.bias),
            _sizes(g, vectors, form, strip),
        ),
        global_size=(ceil_div(g.oh, strip), g.n),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes,
    )


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry, form: BlockedForm
) -> list[Launch]:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_weight_grad`."""
    vectors, strip = vectors_of(g.oc, form.block), _strip(g)
    lanes, taps = vectors * form.block, g.ic * g.taps
    terms = min(TERMS[form.block], key=lambda terms: ceil_div(taps, terms) * terms)
    panels, tiles = g.oc // lanes, ceil_div(taps, terms)
    units = target.traits.compute_units
    affordable = target.workspace_limit // (4 * panels * tiles * terms * lanes)
    strips = g.n * ceil_div(g.oh, strip)
    chunks = max(1, min(MOST_CHUNKS_PER_UNIT * units, affordable, strips))
    partial = Array.scratch(
        Scratch.beside(gw.storage, gy.storage, x.storage),
        (chunks, panels, tiles, terms, lanes),
        gw.dtype,
    )
    first = FEW_WEIGHT.launch(
        by_name(
            "width vectors terms local_floats stride", form.block, vectors, terms, MOST_FLOATS, g.sw
        ),
        joined(by_name("partial gy x", partial, gy, x), _sizes(g, vectors, form, strip)),
        global_size=(chunks,),
        flops=g.flops,
        bytes=gy.nbytes + x.nbytes + partial.nbytes,
    )
    last = FEW_SUM.launch(
        by_name("width vectors terms", form.block, vectors, terms),
        by_name("gw partial taps chunks", gw, partial, taps, chunks),
        global_size=(panels,),
        flops=(chunks - 1) * gw.size,
        bytes=gw.nbytes + partial.nbytes,
    )
    return [first, last]


def _sizes(g: ConvGeometry, vectors: int, form: BlockedForm, strip: int) -> Named:
    panels = g.oc // (vectors * form.block)
    return joined(
        by_name("images panels strip pitch", g.n, panels, strip, _pitch(g)),
        g.sizes("ic h w oh ow kh kw sh ph pw dh dw"),
    )


def _pitch(g: ConvGeometry) -> int:
    """Columns that a row of y reads; a tile may begin where a shorter row has no pixels left."""
    columns = max(g.ow, max(PIXELS.values()))
    return (columns - 1) * g.sw + (g.kw - 1) * g.dw + 1


def _strip(g: ConvGeometry) -> int:
    """Output rows whose input rows fit local memory."""
    rows = MOST_FLOATS // (g.ic * _pitch(g))
    return min((rows - (g.kh - 1) * g.dh - 1) // g.sh + 1, MOST_ROWS)
