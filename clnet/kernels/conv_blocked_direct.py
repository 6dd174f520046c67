"""Direct convolution between blocked arrays, and its input gradient, in tiles of registers."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ..array import Array
from ..device import DeviceTraits, Launch, Target
from ..shapes import ceil_div
from .blocked_form import LEAST_BLOCK, BlockedAlgorithm, BlockedForm, block_size
from .conv_geometry import ConvGeometry, ConvProblem, Direction
from .conv_trial import ConvTrial, Operands
from .kernel import Constraint, Kernel
from .tunable import Tunable

__all__ = ["forward", "input_grad", "pack", "packed_size", "split"]


class DirectParams(NamedTuple):
    """Parameters of ``conv_blocked_direct``; see its template."""

    width: int
    pixels: int
    vectors: int
    unroll: int
    bias: bool
    activation: str | None


class PackParams(NamedTuple):
    """Parameters of ``conv_blocked_pack``; see its template."""

    width: int
    vectors: int


class Split(NamedTuple):
    """How the work is cut into groups.

    Attributes:
        tile_chunks, panel_chunks: parts of the tiles of pixels, and of the panels of channels.
        together: panels that a group takes in turns for each tile.
    """

    tile_chunks: int
    panel_chunks: int
    together: int


class Walk(NamedTuple):
    """How a side of the output, down or right, walks over the input; see the template.

    Attributes:
        step: input rows from pixel to pixel of a phase.
        phases: remainders that are computed apart.
        pad, gap: of the filter's taps.
        apart: from tap to tap of a phase.
    """

    step: int
    phases: int
    pad: int
    gap: int
    apart: int


DIRECT = Kernel(
    "conv_blocked_direct",
    "conv_blocked_direct.mako",
    constraints=(
        Constraint("width % unroll == 0", "blocks hold whole turns of the inner loop"),
        Constraint("pixels <= 16", "the template's tables hold 16 pixels"),
    ),
)
PACK = Kernel("conv_blocked_pack", "conv_blocked_direct.mako")

# Block -> pixels of a register tile of two vectors a pixel. 32 registers hold 24 sums, 16 hold 12;
# a pointer for each pixel has to stay in a register, too.
PIXELS = {16: 12, 8: 6, 4: 6}
UNROLL = 4

# A work-group has at least this many operations (about 100 us of one core).
GROUP_FLOPS = 8_000_000
MOST_GROUPS_PER_UNIT = 8
# Filters beyond these bytes are not read anew for fewer than these tiles.
LARGE_FILTERS = 2**19
LEAST_TILES = 16
# Panels of filters that fit in these bytes take a tile in turns; others take all tiles.
TOGETHER_BYTES = 2**18
PACK_BYTES = 2**17


def vectors_of(channels: int, block: int) -> int:
    """Blocks of channels in a register tile."""
    return 2 if channels % (2 * block) == 0 else 1


def packed_size(g: ConvGeometry, direction: Direction, form: BlockedForm) -> int:
    """Elements of the packed filters; a block of zeros goes before them."""
    del direction
    return form.block + g.oc * g.ic * g.taps


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
    outs, ins = (g.oc, g.ic) if direction is Direction.FORWARD else (g.ic, g.oc)
    steps = (g.ic * g.taps, g.taps)
    w_out, w_in = steps if direction is Direction.FORWARD else steps[::-1]
    vectors = vectors_of(outs, form.block)
    panels = outs // (vectors * form.block)
    chunks = min(ins, max(1, ceil_div(packed.nbytes // panels, PACK_BYTES)))
    return PACK.launch(
        PackParams(form.block, vectors),
        (packed, weight, outs, ins, g.taps, w_out, w_in),
        global_size=(panels, chunks),
        local_size=(1, 1),
        flops=0,
        bytes=packed.nbytes + weight.nbytes,
    )


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
    down = Walk(g.sh, 1, -g.ph, -g.dh, 1)
    right = Walk(g.sw, 1, -g.pw, -g.dw, 1)
    cut = SPLIT.choose(target, ConvProblem(Direction.FORWARD.value, False, *g))
    return _convolve(y, x, packed, bias, activation, g, form, down, right, cut)


def input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, g: ConvGeometry, form: BlockedForm
) -> Launch:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_input_grad`."""
    down = Walk(1, g.sh, g.ph, g.dh, g.sh // gcd(g.sh, g.dh))
    right = Walk(1, g.sw, g.pw, g.dw, g.sw // gcd(g.sw, g.dw))
    cut = SPLIT.choose(target, ConvProblem(Direction.INPUT_GRAD.value, False, *g))
    return _convolve(gx, gy, packed, None, None, g, form, down, right, cut)


def _convolve(
    y: Array,
    x: Array,
    packed: Array,
    bias: Array | None,
    activation: str | None,
    g: ConvGeometry,
    form: BlockedForm,
    down: Walk,
    right: Walk,
    cut: Split,
) -> Launch:
    block = form.block
    images, out_blocks, height, width, _ = y.shape
    vectors, pixels = vectors_of(out_blocks * block, block), PIXELS[block]
    return DIRECT.launch(
        DirectParams(block, pixels, vectors, UNROLL, bias is not None, activation),
        (
            y,
            x,
            packed,
            *(() if bias is None else (bias,)),
            images,
            *x.shape[1:4],
            out_blocks,
            height,
            width,
            g.kh,
            g.kw,
            *(side for pair in zip(down, right, strict=True) for side in pair),
            cut.together,
        ),
        global_size=(down.phases * right.phases, cut.tile_chunks, cut.panel_chunks),
        local_size=(1, 1, 1),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes,
    )


def split(
    traits: DeviceTraits, tiles: int, panels: int, filter_bytes: int, flops: int, others: int
) -> tuple[int, int]:
    """How many chunks the tiles and the panels are cut into, as work-groups.

    Args:
        traits: the device's numbers.
        tiles: of pixels.
        panels: of output channels.
        filter_bytes: of all panels, which every chunk of tiles reads.
        flops: of all tiles and panels.
        others: groups that run beside each.

    Returns:
        Chunks of tiles and of panels.
    """
    units = traits.compute_units
    most = max(1, MOST_GROUPS_PER_UNIT * units // others)
    wanted = min(max(ceil_div(flops, GROUP_FLOPS), ceil_div(units, others)), most)
    if wanted >= units:
        wanted -= wanted % units
    least = LEAST_TILES if filter_bytes > LARGE_FILTERS else 1
    tile_chunks = max(1, min(wanted, tiles // least))
    if tile_chunks >= units:
        tile_chunks -= tile_chunks % units
    return tile_chunks, min(panels, ceil_div(wanted, tile_chunks))


class _Sizes(NamedTuple):
    """What splits depend on: tiles and panels, groups beside each, bytes of all filters."""

    tiles: int
    panels: int
    phases: int
    filter_bytes: int


def _sizes(target: Target, problem: ConvProblem) -> _Sizes:
    g, form = problem.geometry, _form(target)
    sizes = (g.oc, g.oh, g.ow, 1, 1)
    if Direction(problem.direction) is Direction.INPUT_GRAD:
        sizes = (g.ic, g.h, g.w, g.sh, g.sw)
    channels, height, width, down, right = sizes
    tiles = ceil_div(g.n * ceil_div(height, down) * ceil_div(width, right), PIXELS[form.block])
    panels = channels // (vectors_of(channels, form.block) * form.block)
    return _Sizes(tiles, panels, down * right, 4 * packed_size(g, Direction.FORWARD, form))


def _form(target: Target) -> BlockedForm:
    return BlockedForm(BlockedAlgorithm.DIRECT, block_size(target.traits) or LEAST_BLOCK)


def _default(target: Target, problem: ConvProblem) -> Split:
    tiles, panels, phases, filter_bytes = _sizes(target, problem)
    flops = problem.geometry.flops // phases
    chunks = split(target.traits, tiles, panels, filter_bytes, flops, phases)
    return Split(*chunks, max(1, TOGETHER_BYTES * panels // filter_bytes))


def _candidates(target: Target, problem: ConvProblem) -> list[Split]:
    """The default, then powers of two of chunks, with work for every unit if there is enough."""
    sizes, units = _sizes(target, problem), target.traits.compute_units
    default = _default(target, problem)
    fewest = min(units, sizes.tiles * sizes.panels * sizes.phases)
    found = [
        Split(tile_chunks, panel_chunks, together)
        for together in sorted({1, default.together, sizes.panels})
        for tile_chunks in sorted({default.tile_chunks, *(units * c for c in (1, 2, 4, 8, 16)), 1})
        for panel_chunks in sorted({1, 2, units, sizes.panels})
        if tile_chunks <= sizes.tiles and panel_chunks <= sizes.panels
        if fewest <= tile_chunks * panel_chunks * sizes.phases
        if tile_chunks * panel_chunks <= 2 * MOST_GROUPS_PER_UNIT * units
    ]
    return list(dict.fromkeys((default, *found)))


def _lower(target: Target, operands: Operands, choice: Split) -> list[Launch]:
    g, form, direction = operands.geometry, _form(target), operands.direction
    target = SPLIT.forced(target, operands.problem, choice)
    packed = operands.packed(packed_size(g, direction, form))
    first = pack(target, packed, operands.weight, g, direction, form)
    if direction is Direction.INPUT_GRAD:
        return [first, input_grad(target, operands.x, operands.y, packed, g, form)]
    last = forward(target, operands.y, operands.x, packed, None, g, form, activation=None)
    return [first, last]


SPLIT = Tunable(
    "conv_blocked_direct",
    version=1,
    problem=ConvProblem,
    choice=Split,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(where, problem, _form(where.target), _lower),
)
