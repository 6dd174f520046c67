"""Convolution of plain images of few channels to blocked ones, and the gradient of its filters."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..conv import ConvGeometry, Direction
from ..kernel import Kernel, Named, by_name, joined
from . import conv_blocked_pack
from .blocked_form import BlockedForm, vectors_of

__all__ = ["fits", "forward", "pack", "weight_grad"]


FEW = Kernel("conv_blocked_few", "conv_blocked/conv_blocked_few_channels.mako")
FEW_WEIGHT = Kernel("conv_blocked_few_weight", "conv_blocked/conv_blocked_few_channels.mako")
FEW_SUM = Kernel("conv_blocked_few_sum", "conv_blocked/conv_blocked_few_channels.mako")

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


def fits(target: Target, g: ConvGeometry, direction: Direction) -> bool:
    """Whether the rows that one row of y reads fit local memory; no input gradient is computed."""
    if direction is Direction.INPUT_GRAD or g.ic > MOST_CHANNELS:
        return False
    if target.traits.local_memory_bytes < 4 * MOST_FLOATS or _strip(g) < 1:
        return False
    return 4 * g.oc * (g.ic * g.taps + max(TERMS[16])) <= target.workspace_limit


def pack(packed: Array, weight: Array, g: ConvGeometry, form: BlockedForm) -> Launch:
    """The launch that packs; the arguments are those of :func:`.conv_blocked.pack_filters`."""
    vectors = vectors_of(g.oc, form.block)
    return conv_blocked_pack.pack(packed, weight, g, Direction.FORWARD, form.block, vectors)


def forward(
    target: Target,
    y: Array,
    x: Array,
    packed: Array,
    bias: Array | None,
    g: ConvGeometry,
    form: BlockedForm,
    *,
    activation: str | None,
) -> Launch:
    """The convolution; the arguments are those of :func:`.conv_blocked.blocked_forward`."""
    vectors = vectors_of(g.oc, form.block)
    strip = min(_strip(g), max(1, ceil_div(g.n * g.oh, 4 * target.traits.compute_units)))
    return FEW.launch(
        joined(
            by_name("width pixels vectors", form.block, PIXELS[form.block], vectors),
            by_name("most stride", MOST_FLOATS, g.sw),
            by_name("bias activation", bias is not None, activation),
        ),
        joined(by_name("y x packed offsets", y, x, packed, bias), _sizes(g, vectors, form, strip)),
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
        by_name("width vectors terms most stride", form.block, vectors, terms, MOST_FLOATS, g.sw),
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
