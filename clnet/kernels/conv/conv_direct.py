"""Direct convolution on padded planes: the CPU-shaped algorithm, without columns.

It owns the register tiles and the division into work-groups; which convolutions take it is chosen
in :mod:`.conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..grid import lanes_of
from ..kernel import Constraint, Kernel, Named, by_name, joined
from .conv_geometry import ConvGeometry, Direction
from .conv_parts import add_slices
from .conv_planes import Planes, pack

# Sums a work-group keeps before it writes rows: they stay in a first-level cache.
_STRIP_BYTES = 32 * 1024
# Planes packed at once: they stay in the second-level cache until the convolution reads them.
_CHUNK_BYTES = 4 * 2**20
_GROUPS_PER_UNIT = 4
# Partial weight gradients, at most; where they would be larger there are work-groups enough.
_SLICES_BYTES = 256 * 1024
_WIDEST_TILE = 128
# Register tiles (output channels, vectors of pixels) for 32 vector registers and for 16.
_TILES_WIDE = ((12, 2), (8, 3), (6, 4), (4, 6), (2, 8), (1, 8))
_TILES_NARROW = ((6, 2), (4, 3), (3, 4), (2, 6), (1, 8))
_SUMS_WIDE, _SUMS_NARROW = 28, 12
# Of so little work all sizes share the smallest tiles: compiling one for each takes as long as some
# ten thousand launches.
SMALL_FLOPS = 2**16
_SMALL_TILES = ((1, 2),)
_WIDE_SIMD = 16

Shift = tuple[int, int, int]
"""A row (or column) of the filter, the phase of planes it reads, and its offset there."""


class WeightParams(NamedTuple):
    """Parameters of ``conv_direct_weight``; the template's header explains them."""

    ctype: str
    simd: int
    vectors: int
    channels: int
    rows: int
    columns: int
    along: int


DIRECT = Kernel(
    "conv_direct",
    "conv/conv_direct.mako",
    constraints=(Constraint("strip % (simd * vectors) == 0", "whole tiles in a strip"),),
)
PACK_CHANNELS = Kernel("conv_pack_channels", "conv/conv_direct.mako")
WEIGHT = Kernel("conv_direct_weight", "conv/conv_direct.mako")


class Steps(NamedTuple):
    """Tap rows (or columns) of a part, which are as far apart as the first two.

    Attributes:
        count: how many there are.
        tap: the first one's number in the filter, and the numbers from one to the next.
        place: the first one's row (column) of a plane, and pixels from one to the next.
    """

    count: int
    tap: tuple[int, int]
    place: tuple[int, int]


class Part(NamedTuple):
    """A dense set of output pixels that the same taps contribute to.

    Attributes:
        rows, columns: shifts of the taps.
        height, width: output pixels.
        start, pitch, step: where they lie in an output plane.
    """

    rows: tuple[Shift, ...]
    columns: tuple[Shift, ...]
    height: int
    width: int
    start: int
    pitch: int
    step: int


class Layout(NamedTuple):
    """A convolution as planes, parts and filter strides.

    Attributes:
        outs, ins: channels of a group on the output's and on the input's side.
        groups: groups of channels.
        planes: layout of the input.
        parts: what to compute.
        y_plane: elements of an output plane.
        filter_strides: elements between groups, output channels and input channels.
        kernel_width: columns of the filter.
    """

    outs: int
    ins: int
    groups: int
    planes: Planes
    parts: tuple[Part, ...]
    y_plane: int
    filter_strides: tuple[int, int, int]
    kernel_width: int


class Tile(NamedTuple):
    """How a part is cut: register tile, strip of sums, and output rows of a work-group."""

    rows: int
    vectors: int
    strip: int
    height: int


@lru_cache(maxsize=1024)  # asked for at every eager call
def forward_layout(g: ConvGeometry) -> Layout:
    """The convolution itself, on the planes of ``x``."""
    rows = tuple((r, r * g.dh % g.sh, r * g.dh // g.sh) for r in range(g.kh))
    columns = tuple((s, s * g.dw % g.sw, s * g.dw // g.sw) for s in range(g.kw))
    pitch = g.ow + columns[-1][2]
    height = g.oh + rows[-1][2]
    phases = (max(p for _, p, _ in rows) + 1, max(p for _, p, _ in columns) + 1)
    planes = Planes((g.h, g.w), height, pitch, height * pitch, (g.ph, g.pw), (g.sh, g.sw), phases)
    part = Part(rows, columns, g.oh, g.ow, 0, g.ow, 1)
    strides = (g.ocg * g.icg * g.taps, g.icg * g.taps, g.taps)
    return Layout(g.ocg, g.icg, g.groups, planes, (part,), g.oh * g.ow, strides, g.kw)


@lru_cache(maxsize=1024)
def input_layout(g: ConvGeometry) -> Layout:
    """The input gradient, on planes of ``gy``: a dense part for each remainder of the stride.

    Pixels of ``x`` whose rows have the same remainder by the stride are reached by the same taps.
    With a stride of 2, padding of 1 and three taps, even rows are reached by tap 1 from the row of
    ``gy`` with half their number, odd rows by tap 2 from there and by tap 0 from the next::

        part of rows 0, 2, 4 ...: taps (1, shift 0)
        part of rows 1, 3, 5 ...: taps (0, shift 1), (2, shift 0)

    Shifts that are negative begin in zeros: ``top`` rows of padding, ``left`` columns.
    """
    rows = [_reaching(a, g.kh, g.sh, g.ph, g.dh) for a in range(min(g.sh, g.h))]
    columns = [_reaching(b, g.kw, g.sw, g.pw, g.dw) for b in range(min(g.sw, g.w))]
    top = max(0, -min((dy for shifts in rows for _, _, dy in shifts), default=0))
    left = max(0, -min((dx for shifts in columns for _, _, dx in shifts), default=0))
    rows = [tuple((r, 0, dy + top) for r, _, dy in shifts) for shifts in rows]
    columns = [tuple((s, 0, dx + left) for s, _, dx in shifts) for shifts in columns]
    parts = tuple(
        Part(r, c, ceil_div(g.h - a, g.sh), ceil_div(g.w - b, g.sw), a * g.w + b, g.sh * g.w, g.sw)
        for a, r in enumerate(rows)
        for b, c in enumerate(columns)
    )
    height = max(p.height + max((dy for _, _, dy in p.rows), default=0) for p in parts)
    pitch = max(p.width + max((dx for _, _, dx in p.columns), default=0) for p in parts)
    planes = Planes((g.oh, g.ow), height, pitch, height * pitch, (top, left), (1, 1), (1, 1))
    strides = (g.ocg * g.icg * g.taps, g.taps, g.icg * g.taps)
    return Layout(g.icg, g.ocg, g.groups, planes, parts, g.h * g.w, strides, g.kw)


def _convolve(
    target: Target,
    layout: Layout,
    y: Array,
    x: Array,
    weight: Array,
    epilogue: Epilogue,
) -> list[Launch]:
    """Launches of a convolution in a layout: forward, or the input gradient.

    Args:
        target: what it runs on.
        layout: of :func:`forward_layout` or :func:`input_layout`.
        y: output, dense, four axes.
        x: input, dense, four axes.
        weight: filters, dense.
        epilogue: what is made of the sums.
    """
    images, planes = x.shape[0], layout.planes
    item = x.dtype.itemsize
    per_image = layout.groups * layout.ins * planes.channel
    step = chunk_of(target, planes, images, per_image * item, item)
    memory = Scratch(x.device)
    packed = Array.scratch(memory, (step * per_image + slack_of(planes),), x.dtype)
    launches: list[Launch] = []
    for first in range(0, images, step):
        part_x, part_y = (images_of(a, first, min(step, images - first)) for a in (x, y))
        launches.append(pack(packed, part_x, planes, slack=slack_of(planes)))
        launches += [
            _launch_part(target, layout, part, part_y, packed, weight, epilogue)
            for part in layout.parts
            if part.height and part.width
        ]
    return launches


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    return _convolve(target, forward_layout(g), y, x, weight, epilogue)


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, geometry: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    return _convolve(target, input_layout(geometry), gx, gy, weight, NO_EPILOGUE)


def weight_grad(
    target: Target, gw: Array, gy: Array, x: Array, geometry: ConvGeometry
) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    g, item = geometry, x.dtype.itemsize
    layout = forward_layout(g)
    planes = layout.planes
    small = g.flops <= SMALL_FLOPS
    params = weight_params(target, x.dtype.ctype, item, layout, small=small)
    width = params.simd * params.vectors
    blocks = ceil_div(g.ocg, width)
    image_x, image_gy = g.ic * planes.channel, g.groups * blocks * width * g.oh * g.ow
    step = chunk_of(target, planes, g.n, 2 * (image_x + image_gy) * item, item)
    memory = Scratch(x.device)
    packed_x = Array.scratch(memory, (step * image_x,), x.dtype)
    packed_gy = Array.scratch(memory, (step * image_gy,), x.dtype)
    tiles = (blocks * ceil_div(g.icg, params.channels), ceil_div(g.kh, params.rows), g.groups)
    slices = slices_of(target, prod(tiles), step, gw.nbytes)
    parts = gw if slices == 1 else Array.scratch(memory, (slices, *gw.shape), gw.dtype)
    launches: list[Launch] = []
    for first in range(0, g.n, step):
        images = min(step, g.n - first)
        launches.append(pack(packed_x, images_of(x, first, images), planes))
        launches.append(pack_channels(packed_gy, images_of(gy, first, images), g.groups, params))
        launches.append(
            WEIGHT.launch(
                params,
                joined(
                    by_name("gw planes packed", parts, packed_x, packed_gy),
                    by_name("images groups outs ins", images, g.groups, g.ocg, g.icg),
                    by_name("pitch plane ins_step", planes.pitch, planes.plane, planes.channel),
                    g.sizes("oh ow kh sh dh sw dw"),
                    by_name("wide", planes.phases[1]),
                    by_name("slices accumulate", slices, int(first > 0)),
                ),
                global_size=(*tiles[:2], g.groups * slices),
                flops=g.flops * images // g.n,
                bytes=((image_x + image_gy) * images + gw.size) * item,
            )
        )
    return launches if slices == 1 else [*launches, add_slices(target, gw, parts, shared=False)]


def fits(target: Target, geometry: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether one image's planes fit the workspace, and one row of sums the local memory.

    Args:
        target: what it runs on.
        geometry: the sizes.
        direction: what is computed.
        itemsize: bytes of an element.
    """
    g, simd = geometry, lanes_of(target, itemsize)
    layout = input_layout(g) if direction is Direction.INPUT_GRAD else forward_layout(g)
    planes = layout.planes
    elements = layout.groups * layout.ins * planes.channel
    if direction is Direction.WEIGHT_GRAD:
        width = _weight_vectors(layout, simd) * simd
        elements += g.groups * round_up(g.ocg, width) * g.oh * g.ow
        return room_for(target, planes, itemsize) >= elements * itemsize
    row_bytes = round_up(planes.pitch, _WIDEST_TILE) * itemsize
    return (
        room_for(target, planes, itemsize) >= elements * itemsize
        and row_bytes <= target.traits.local_memory_bytes
    )


def _reaching(
    remainder: int, size: int, stride: int, padding: int, dilation: int
) -> tuple[Shift, ...]:
    """Taps through which pixels ``i * stride + remainder`` reach output ``i + shift``."""
    positions = ((tap, remainder + padding - tap * dilation) for tap in range(size))
    return tuple((tap, 0, at // stride) for tap, at in positions if at % stride == 0)


def _steps(shifts: Sequence[Shift], stride: int) -> Steps:
    """How tap rows (columns) are apart; the first is of phase 0."""
    if not shifts:
        return Steps(0, (0, 1), (0, 1))
    (tap, _, begin), (next_tap, phase, shift) = shifts[0], shifts[min(1, len(shifts) - 1)]
    step = (shift - begin) * stride + phase
    return Steps(len(shifts), (tap, next_tap - tap), (begin, step))


def chunk_of(target: Target, planes: Planes, images: int, image_bytes: int, itemsize: int) -> int:
    """Images whose planes are packed at once.

    Args:
        target: what it runs on.
        planes: of a channel.
        images: of the batch.
        image_bytes: of an image's planes.
        itemsize: bytes of an element.
    """
    room = min(_CHUNK_BYTES, room_for(target, planes, itemsize))
    return max(1, min(images, room // image_bytes))


def room_for(target: Target, planes: Planes, itemsize: int) -> int:
    """Bytes of the workspace for planes, without slack, slices and alignment.

    Args:
        target: what it runs on.
        planes: of a channel.
        itemsize: bytes of an element.
    """
    return (
        target.workspace_limit
        - slack_of(planes) * itemsize
        - _slices_bytes(target)
        - 3 * Scratch.ALIGNMENT
    )


def slack_of(planes: Planes) -> int:
    """Elements that the last register tile may read beyond the planes.

    Args:
        planes: of a channel.
    """
    return _WIDEST_TILE + planes.pitch


def images_of(array: Array, first: int, count: int) -> Array:
    """Some of the batch.

    Args:
        array: dense.
        first: of them.
        count: how many.
    """
    offset = array.offset + first * prod(array.shape[1:])
    return array.view((count, *array.shape[1:]), array.strides, offset)


class PartLaunch(NamedTuple):
    """What a kernel that computes a part of a layout is launched with.

    Attributes:
        params: of its text, without an activation.
        args: by name.
        global_size: in groups of one.
    """

    params: Named
    args: Named
    global_size: tuple[int, int, int]


def part_launch(
    target: Target,
    layout: Layout,
    part: Part,
    operands: tuple[Array, Array, Array, Array | None],
    images: int,
    *,
    depths: int = 1,
) -> PartLaunch:
    """Results that meet the same taps: a filter's products with planes, vectors along pixels.

    Args:
        target: what it runs on.
        layout: of the whole.
        part: of its results.
        operands: the result, planes, filters, and a bias or None.
        images: of the result.
        depths: that each channel of the planes has.
    """
    y, packed, weight, bias = operands
    planes, item = layout.planes, y.dtype.itemsize
    simd = lanes_of(target, item)
    tile = _tile(target, layout, part, images, item)
    down, right = _steps(part.rows, planes.stride[0]), _steps(part.columns, planes.stride[1])
    taps, kw = down.count * right.count, layout.kernel_width
    # Neighbouring groups share what is larger: an image's planes, or a block's filters.
    images_first = layout.outs * taps > planes.channel
    blocks = layout.groups * ceil_div(layout.outs, tile.rows)
    strips = ceil_div(part.height, tile.height)
    # Which taps count is a matter of arguments. Known are only their numbers, and the usual steps:
    # all taps of a filter, and pixels side by side, also with a stride of 2. With arguments for
    # these, too, filters of 4x4 and 7x7 and that stride took 1.1 times as long.
    dense = (down.count < 2 or down.tap[1] * kw == right.count) and right.tap[1] <= 1
    usual = {(1, 1): 1, (-1, 1): -1, (1, 2): 2}
    reach = usual.get((right.place[1], planes.stride[1]), 0) if right.count > 1 else 1
    return PartLaunch(
        joined(
            by_name("ctype simd", y.dtype.ctype, simd),
            by_name("rows vectors strip", tile.rows, tile.vectors, tile.strip),
            by_name("taps", (down.count, right.count) if taps else (0, 0)),
            by_name("reach dense spread", reach, dense, part.step != 1),
        ),
        joined(
            by_name("y planes weight", y, packed, weight),
            by_name("offsets biased", weight if bias is None else bias, int(bias is not None)),
            by_name("first", down.place[0] * planes.pitch + right.place[0]),
            by_name("down right", down.place[1], right.place[1]),
            by_name("tall thin wide", *planes.stride, planes.phases[1]),
            by_name("groups outs ins", layout.groups, layout.outs, layout.ins),
            by_name("images_first", int(images_first)),
            by_name("pitch plane ins_step", planes.pitch, planes.plane, depths * planes.channel),
            by_name("strip_height y_height y_width", tile.height, part.height, part.width),
            by_name("y_start y_step y_pitch", part.start, part.step, part.pitch),
            by_name("y_plane", layout.y_plane),
            by_name("w_group w_out w_in", *layout.filter_strides),
            by_name("w_first w_down", down.tap[0] * kw + right.tap[0], down.tap[1] * kw),
            by_name("w_right", right.tap[1]),
        ),
        (images, strips, blocks) if images_first else (blocks, strips, images),
    )


def _launch_part(
    target: Target,
    layout: Layout,
    part: Part,
    y: Array,
    packed: Array,
    weight: Array,
    epilogue: Epilogue,
) -> Launch:
    images, item = y.shape[0], y.dtype.itemsize
    made = part_launch(target, layout, part, (y, packed, weight, epilogue.bias), images)
    return DIRECT.launch(
        joined(made.params, by_name("activation", epilogue.activation)),
        made.args,
        global_size=made.global_size,
        flops=flops_of(layout, part, images),
        bytes=item * (images * layout.groups * layout.ins * layout.planes.channel + weight.size)
        + item * images * layout.groups * layout.outs * part.height * part.width,
    )


def flops_of(layout: Layout, part: Part, images: int) -> int:
    """Operations of a part.

    Args:
        layout: of the whole.
        part: of its results.
        images: of the result.
    """
    taps = len(part.rows) * len(part.columns)
    return 2 * images * layout.groups * layout.outs * part.height * part.width * layout.ins * taps


def _tile(target: Target, layout: Layout, part: Part, images: int, itemsize: int) -> Tile:
    """The register tile that costs least per tap, counting what the edges waste."""
    simd, pitch = lanes_of(target, itemsize), layout.planes.pitch
    tiles = _TILES_WIDE if simd * itemsize >= _WIDE_SIMD * 4 else _TILES_NARROW
    if flops_of(layout, part, images) <= SMALL_FLOPS:
        tiles = _SMALL_TILES

    def cut(most_rows: int, vectors: int) -> tuple[int, Tile]:
        rows = ceil_div(layout.outs, ceil_div(layout.outs, most_rows))
        tile = simd * vectors
        room = _STRIP_BYTES // (rows * itemsize) // tile * tile
        strip = max(room, round_up(pitch, tile))
        blocks = layout.groups * ceil_div(layout.outs, rows)
        wanted = ceil_div(_GROUPS_PER_UNIT * target.traits.compute_units, blocks * images)
        strips = max(ceil_div(part.height, strip // pitch), min(wanted, part.height))
        height = ceil_div(part.height, strips)
        # Measured: 8 x 3 vectors is fastest where nothing is wasted. Beside the products count the
        # vectors' loads, most of which cross a cache line, and the rows' filters and addresses.
        cost = 2 * rows * vectors + 8 * vectors + 3 * rows
        steps = blocks * ceil_div(part.height, height) * ceil_div(height * pitch, tile)
        return cost * steps, Tile(rows, vectors, strip, height)

    cuts = (cut(*shape) for shape in tiles)
    local = target.traits.local_memory_bytes
    return min((cost, t) for cost, t in cuts if t.rows * t.strip * itemsize <= local)[1]


def _weight_vectors(layout: Layout, simd: int) -> int:
    """Vectors of output channels that a weight-gradient tile holds."""
    return 1 if layout.outs <= simd else 2


def weight_params(
    target: Target, ctype: str, itemsize: int, layout: Layout, *, small: bool
) -> WeightParams:
    """The weight gradient's tile: as many sums as registers hold, few of them in vain.

    Args:
        target: what it runs on.
        ctype: of the elements.
        itemsize: bytes of an element.
        layout: of the forward convolution.
        small: whether it is so little work that the smallest tile does.
    """
    simd, part = lanes_of(target, itemsize), layout.parts[0]
    vectors, kw, kh = _weight_vectors(layout, simd), len(part.columns), len(part.rows)
    sums = _SUMS_WIDE if simd * itemsize >= _WIDE_SIMD * 4 else _SUMS_NARROW
    most = 1 if small else max(sums // (vectors * kw), 1)

    def cost(tile: tuple[int, int]) -> tuple[int, int]:
        channels, rows = tile
        blocks = ceil_div(layout.ins, channels) * ceil_div(kh, rows)
        # Short of sums, a tile waits for its own results.
        return blocks * max(channels * rows * kw * vectors, sums // 3), blocks

    tiles = [(c, r) for c in range(1, most + 1) for r in range(1, most // c + 1)]
    channels, rows = min((t for t in tiles if t[0] <= layout.ins and t[1] <= kh), key=cost)
    side_by_side = all(at == (s, 0, s) for s, at in enumerate(part.columns))
    return WeightParams(ctype, simd, vectors, channels, rows, kw, int(side_by_side))


def slices_of(target: Target, groups: int, images: int, nbytes: int) -> int:
    """Parts of a chunk's images that few work-groups are multiplied by.

    Args:
        target: what it runs on.
        groups: work-groups without parts.
        images: of the chunk.
        nbytes: of the filters' gradient.
    """
    wanted = ceil_div(_GROUPS_PER_UNIT * target.traits.compute_units, groups)
    return max(1, min(wanted, images, _slices_bytes(target) // nbytes))


def _slices_bytes(target: Target) -> int:
    return min(_SLICES_BYTES, target.workspace_limit // 8)


def pack_channels(packed: Array, gy: Array, groups: int, params: WeightParams) -> Launch:
    """The launch that lays channels of a gradient beside each other, as lanes.

    Args:
        packed: as ``conv_pack_channels`` writes it.
        gy: ``(n, channels, ...)``, dense.
        groups: of channels.
        params: of the kernel that reads it.
    """
    width = params.simd * params.vectors
    outs, pixels = gy.shape[1] // groups, prod(gy.shape[2:])
    blocks = gy.shape[0] * groups * ceil_div(outs, width)
    return PACK_CHANNELS.launch(
        by_name("ctype simd vectors", gy.dtype.ctype, params.simd, params.vectors),
        by_name("packed gy outs pixels", packed, gy, outs, pixels),
        global_size=(blocks,),
        flops=0,
        bytes=gy.nbytes + blocks * width * pixels * gy.dtype.itemsize,
    )
