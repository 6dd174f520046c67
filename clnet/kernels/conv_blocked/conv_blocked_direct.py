"""Direct convolution between blocked arrays, and its input gradient, in tiles of registers."""

from __future__ import annotations

from math import gcd

from ...array import Array
from ...device import DeviceTraits, Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import Shape, ceil_div
from ..conv import ConvGeometry, ConvObstacle, ConvProblem, ConvTrial, Direction, Operands
from ..epilogue import NO_EPILOGUE, Epilogue
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import streams
from ..tuning import Tunable
from . import conv_blocked_pack
from .blocked_form import LEAST_BLOCK, BlockedAlgorithm, BlockedForm, block_size

__all__ = ["forward", "input_grad", "obstacle", "pack", "packed_size", "walks"]


class Split(NamedTuple):
    """How the work is cut into groups.

    Attributes:
        tile_chunks, panel_chunks: parts of the tiles of pixels, and of the panels of channels.
        gathered_tiles: tiles that a group gathers together, and multiplies with each of its panels.
    """

    tile_chunks: int
    panel_chunks: int
    gathered_tiles: int


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


def walks(g: ConvGeometry, direction: Direction) -> tuple[Walk, Walk]:
    """How the output of a direction walks over what it reads, down and right.

    Args:
        g: the sizes.
        direction: forward or input gradient.
    """
    if direction is Direction.FORWARD:
        return Walk(g.sh, 1, -g.ph, -g.dh, 1), Walk(g.sw, 1, -g.pw, -g.dw, 1)
    return (
        Walk(1, g.sh, g.ph, g.dh, g.sh // gcd(g.sh, g.dh)),
        Walk(1, g.sw, g.pw, g.dw, g.sw // gcd(g.sw, g.dw)),
    )


DIRECT = Kernel(
    "conv_blocked_direct",
    "conv_blocked/conv_blocked_direct.mako",
    constraints=(
        Constraint("local_floats >= pixels * width", "a tile's pixels of one tap and block fit"),
    ),
)

# Block -> vectors of a register tile -> its pixels. 32 registers hold up to 28 sums, 16 hold 12.
PIXELS = {16: {2: 14, 1: 28}, 8: {2: 6, 1: 12}, 4: {2: 6, 1: 12}}

# What tiles read stays in the second-level cache, a panel's filters in the first, where all tiles
# that are gathered together find them.
LOCAL_BYTES = 2**19
PANEL_BYTES = 2**16
# Pixels whose tiles a group gathers together at most, and pixels of a group, if there are units'
# groups of them.
GATHERED_PIXELS, GROUP_PIXELS = 224, 192
# A work-group has at least this many operations (about 100 us of one core).
GROUP_FLOPS = 8_000_000
MOST_GROUPS_PER_UNIT = 8
# What gathering a tile takes, of the time that multiplying it with a panel does.
GATHERING = 0.4
# Panels' filters of more bytes come in parts, which straight tiles do not.
STRAIGHT_BYTES = 3 * 2**15
# Blocks of so many channels: few panels alone are worth reading straight; others lose up to 5%.
STRAIGHT_PANELS = {16: 2}
# Taps of filters whose rows are gathered once for all of them.
SHARED_TAPS = 64
# Panels of more bytes are fetched ahead from beyond the second-level cache.
NEAR_BYTES = 2**20


class Tile(NamedTuple):
    """A register tile.

    Attributes:
        vectors: blocks of channels.
        pixels: of each.
    """

    vectors: int
    pixels: int

    @property
    def most_tiles(self) -> int:
        """Tiles that a group gathers together at most."""
        return max(1, GATHERED_PIXELS // self.pixels)


def tile_of(channels: int, block: int) -> Tile:
    """The register tile with the most blocks of channels that leave no rest."""
    return next(
        Tile(vectors, pixels)
        for vectors, pixels in PIXELS[block].items()
        if channels % (vectors * block) == 0
    )


def obstacle(
    target: Target, g: ConvGeometry, direction: Direction, form: BlockedForm
) -> ConvObstacle | None:
    """Why these sums do not compute a convolution; None if they do."""
    del target, direction
    return ConvObstacle.CHANNELS if g.ic % form.block else None


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
    outs = g.oc if direction is Direction.FORWARD else g.ic
    tile = tile_of(outs, form.block)
    return conv_blocked_pack.pack(packed, weight, g, direction, form.block, tile.vectors)


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
    split = SPLIT.choose(target, ConvProblem(Direction.FORWARD.value, False, *g))
    sums = _Sums(y, x, packed, epilogue)
    return _convolve(target, sums, g, form, walks(g, Direction.FORWARD), split)


def input_grad(
    target: Target, gx: Array, gy: Array, packed: Array, g: ConvGeometry, form: BlockedForm
) -> Launch:
    """The gradient; the arguments are those of :func:`.conv_blocked.blocked_input_grad`."""
    split = SPLIT.choose(target, ConvProblem(Direction.INPUT_GRAD.value, False, *g))
    sides = walks(g, Direction.INPUT_GRAD)
    return _convolve(target, _Sums(gx, gy, packed), g, form, sides, split)


class _Sums(NamedTuple):
    """What a direct convolution of either direction adds up, and what becomes of its sums.

    Attributes:
        y: the result, ``(n, c / block, h, w, block)``.
        x: what is read, likewise.
        packed: the filters.
        epilogue: what is made of the sums.
    """

    y: Array
    x: Array
    packed: Array
    epilogue: Epilogue = NO_EPILOGUE


def _convolve(
    target: Target,
    sums: _Sums,
    g: ConvGeometry,
    form: BlockedForm,
    sides: tuple[Walk, Walk],
    split: Split,
) -> Launch:
    y, x, packed, epilogue = sums
    block = form.block
    images, out_blocks, height, width, _ = y.shape
    tile = tile_of(out_blocks * block, block)
    local_floats = local_floats_of(target.traits, tile, block)
    down, right = sides
    taps = ceil_div(g.kh, down.apart) * ceil_div(g.kw, right.apart)
    gathered_tiles = min(split.gathered_tiles, tile.most_tiles)
    part = part_of(blocks_of(local_floats, tile, block, gathered_tiles), taps, x.shape[1])
    shared = tiles_sharing_rows(g, tile, x.shape, y.shape, sides, gathered_tiles, local_floats)
    if shared:
        gathered_tiles, part = shared, (taps, x.shape[1])
    far = packed.nbytes > NEAR_BYTES
    straight = is_straight(g, tile, x.shape, y.shape, sides)
    if straight:
        part = (1, x.shape[1])
    return DIRECT.launch(
        joined(
            by_name("width pixels vectors", block, tile.pixels, tile.vectors),
            by_name("local_floats most_tiles", local_floats, tile.most_tiles),
            by_name("added", epilogue.added is not None),
            epilogue.blocked_params(block),
            by_name("stream", streams(y, block) and part == (taps, x.shape[1])),
            by_name("straight shared", straight, SHARED_TAPS if shared else 0),
        ),
        joined(
            by_name("y x packed offsets added images", y, x, packed, *epilogue[:2], images),
            by_name("in_blocks x_height x_width", *x.shape[1:4]),
            by_name("out_blocks y_height y_width", out_blocks, height, width),
            g.sizes("kh kw"),
            by_name("down phases_down pad_down gap_down rows_apart", *down),
            by_name("right phases_right pad_right gap_right columns_apart", *right),
            by_name("gathered_tiles some_taps some_blocks", gathered_tiles, *part),
            by_name("lines", ceil_div(block * tile.vectors, gathered_tiles) if far else 0),
        ),
        global_size=(down.phases * right.phases, split.tile_chunks, split.panel_chunks),
        flops=g.flops,
        bytes=x.nbytes + y.nbytes + packed.nbytes + epilogue.more_bytes,
    )


def is_straight(
    g: ConvGeometry, tile: Tile, x_shape: Shape, y_shape: Shape, sides: tuple[Walk, Walk]
) -> bool:
    """Whether tiles read their pixels where they lie, without gathering them.

    Args:
        g: the sizes.
        tile: of registers.
        x_shape: of what is read.
        y_shape: of what is written.
        sides: how the output walks over what is read, down and right.

    Returns:
        Not if tiles that begin anew with each image are so many more that gathering takes less.
    """
    images, out_blocks, height, width, block = y_shape
    panels, pixels = out_blocks // tile.vectors, height * width
    if g.taps > 1 or any((side.step, side.phases, side.pad) != (1, 1, 0) for side in sides):
        return False
    if panels > STRAIGHT_PANELS.get(block, panels) or pixels < tile.pixels:
        return False
    if 4 * x_shape[1] * block * block * tile.vectors > STRAIGHT_BYTES:
        return False
    gathered = ceil_div(images * pixels, tile.pixels) * (panels + GATHERING)
    return images * ceil_div(pixels, tile.pixels) * panels <= gathered


def tiles_sharing_rows(
    g: ConvGeometry,
    tile: Tile,
    x_shape: Shape,
    y_shape: Shape,
    sides: tuple[Walk, Walk],
    gathered_tiles: int,
    local_floats: int,
) -> int:
    """Tiles at a time whose rows are gathered once for all taps, or 0.

    Args:
        g: the sizes.
        tile: of registers.
        x_shape: of what is read.
        y_shape: of what is written.
        sides: how the output walks over what is read, down and right.
        gathered_tiles: tiles at a time at most.
        local_floats: floats of local memory.

    Returns:
        0 unless tiles end with rows, the taps lie side by side and all channels fit; phases of an
        input gradient have too few taps to gain.
    """
    down, right = sides
    _, _, height, width, block = y_shape
    if down.phases * right.phases > 1 or width % tile.pixels or (g.dh, g.dw) != (1, 1):
        return 0
    if not 1 < g.taps <= SHARED_TAPS or g.kh < down.step or g.kw < right.step:
        return 0
    row = right.step * (width + (g.kw - 1) // right.step) * x_shape[1] * block
    for tiles in (gathered_tiles, ceil_div(gathered_tiles, 2)):
        rows = ceil_div(tiles * tile.pixels, width) + 1
        images = min(ceil_div(rows - 1, height) + 1, rows)
        if (images * g.kh + (rows - images) * down.step) * row <= local_floats:
            return tiles
    return 0


def local_floats_of(traits: DeviceTraits, tile: Tile, block: int) -> int:
    """Floats of local memory for what tiles read."""
    least = tile.most_tiles * tile.pixels * block
    return max(least, min(LOCAL_BYTES, traits.local_memory_bytes // 2) // 4)


def blocks_of(local_floats: int, tile: Tile, block: int, gathered_tiles: int) -> int:
    """Blocks of channels, of any tap, that gathered tiles read at a time, and a panel's filters."""
    filters = PANEL_BYTES // (4 * block * block * tile.vectors)
    return min(local_floats // (gathered_tiles * tile.pixels * block), filters)


def part_of(fitting: int, taps: int, blocks: int) -> tuple[int, int]:
    """Taps and blocks of channels that a tile reads at a time, of those that it reads in all.

    Args:
        fitting: how many blocks, of any tap, there is memory for.
        taps: of a filter, or of a phase of it.
        blocks: of channels.
    """
    if fitting >= blocks:
        return max(1, min(taps, fitting // blocks)), blocks
    return 1, ceil_div(blocks, ceil_div(blocks, max(1, fitting)))


class _Sizes(NamedTuple):
    """What splits depend on.

    Attributes:
        tile: of registers.
        tiles, panels: of a phase.
        phases: which are groups of their own.
        flops: of a phase.
    """

    tile: Tile
    tiles: int
    panels: int
    phases: int
    flops: int


def _sizes(target: Target, problem: ConvProblem) -> _Sizes:
    g, block = problem.geometry, _form(target).block
    outs, height, width, down, right = g.oc, g.oh, g.ow, 1, 1
    if Direction(problem.direction) is Direction.INPUT_GRAD:
        outs, height, width, down, right = g.ic, g.h, g.w, g.sh, g.sw
    tile = tile_of(outs, block)
    tiles = ceil_div(g.n * ceil_div(height, down) * ceil_div(width, right), tile.pixels)
    panels, phases = outs // (tile.vectors * block), down * right
    return _Sizes(tile, tiles, panels, phases, g.flops // phases)


def split_of(traits: DeviceTraits, sizes: _Sizes) -> Split:
    """How the tiles and the panels are cut into work-groups.

    Args:
        traits: the device's numbers.
        sizes: what there is to do.

    Returns:
        Chunks of a few tiles or more; of panels, too, where that leaves units without work.
    """
    units, tiles, phases = traits.compute_units, sizes.tiles, sizes.phases
    wanted = min(max(ceil_div(sizes.flops, GROUP_FLOPS), units), MOST_GROUPS_PER_UNIT * units)
    least = ceil_div(units, sizes.panels * phases)
    enough = tiles * sizes.tile.pixels // GROUP_PIXELS
    tile_chunks = min(max(min(wanted, enough), least), tiles)
    if tile_chunks >= units:
        tile_chunks -= tile_chunks % units
    else:
        chunks = range(tile_chunks, min(units, tiles) + 1)
        tile_chunks = min(chunks, key=lambda chunks: _longest(units, sizes, chunks))
    return Split(
        tile_chunks,
        _panel_chunks(units, sizes, tile_chunks),
        min(sizes.tile.most_tiles, ceil_div(tiles, tile_chunks)),
    )


def _panel_chunks(units: int, sizes: _Sizes, tile_chunks: int) -> int:
    return min(sizes.panels, ceil_div(units, tile_chunks * sizes.phases))


def _longest(units: int, sizes: _Sizes, tile_chunks: int) -> float:
    """How long the unit with the most work takes, in tiles times panels.

    Each group brings its tiles once, and each of its panels, as long as a tile takes. So panels
    are rather cut than tiles, if there is a multiple of the units of them.
    """
    panel_chunks = _panel_chunks(units, sizes, tile_chunks)
    panels, tiles = ceil_div(sizes.panels, panel_chunks), ceil_div(sizes.tiles, tile_chunks)
    rounds = ceil_div(tile_chunks * panel_chunks * sizes.phases, units)
    return rounds * (tiles * (panels + GATHERING) + panels)


def _form(target: Target) -> BlockedForm:
    return BlockedForm(BlockedAlgorithm.DIRECT, block_size(target.traits) or LEAST_BLOCK)


def _default(target: Target, problem: ConvProblem) -> Split:
    return split_of(target.traits, _sizes(target, problem))


def _candidates(target: Target, problem: ConvProblem) -> list[Split]:
    """The default, then powers of two of chunks, with work for every unit if there is enough."""
    sizes, units = _sizes(target, problem), target.traits.compute_units
    default = _default(target, problem)
    fewest = min(units, sizes.tiles * sizes.panels * sizes.phases)
    found = [
        Split(tile_chunks, panel_chunks, gathered_tiles)
        for gathered_tiles in sorted(
            {
                default.gathered_tiles,
                max(1, default.gathered_tiles // 2),
                min(2 * default.gathered_tiles, sizes.tile.most_tiles),
            }
        )
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
    last = forward(target, operands.y, operands.x, packed, g, form, NO_EPILOGUE)
    return [first, last]


SPLIT = Tunable(
    "conv_blocked_direct",
    version=4,
    problem=ConvProblem,
    choice=Split,
    default=_default,
    candidates=_candidates,
    trial=lambda where, problem: ConvTrial(where, problem, _form(where.target), _lower),
)
