"""Depthwise convolution on GPUs: tiles of planes in local memory."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

from ...array import Array
from ...device import DeviceTraits, Launch, Scratch, Target
from ...errors import ArgumentError
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..grid import in_groups
from ..kernel import Constraint, Kernel, Named, by_name, joined, nbytes_of
from ..reduce import Reduction, reduce
from .conv_geometry import ConvGeometry, Direction

_ENOUGH = Constraint("group_size >= columns * strips * planes", "an item has one strip")
_WHOLE = Constraint(
    "row % lanes == row % vec == pad % lanes == pad % vec == 0", "vectors lie where vectors may"
)
_POWER = Constraint("group_size & (group_size - 1) == 0", "sums are halved")
_TEMPLATE = "conv/conv_depthwise_tile.mako"
TILE = Kernel("conv_depthwise_tile", _TEMPLATE, (_ENOUGH, _WHOLE))
WEIGHT = Kernel("conv_depthwise_tile_weight", _TEMPLATE, (_ENOUGH, _WHOLE, _POWER))

# What an item has in registers: results, taps of a filter (of larger ones a row), and sums of its
# gradient. These and those below by measurements on an H200: docs/notes/convolutions-plain.md.
_RESULTS = 28
_TAPS = 64
_TALLEST = 15
_SUMS = 56
# Columns of a tile, and items of a group.
_WIDEST = 64
_GROUP_SIZE = 128
_WARP = 32
_BANK_BYTES = 128
_VECTOR_BYTES = 16
# Several groups share a unit's local memory.
_LOCAL_BYTES = 24576
_GROUPS_PER_UNIT = 4
_WEIGHT_GROUPS_PER_UNIT = 8


class Reads(NamedTuple):
    """What neighbouring places read along an axis: each has a result, or several that read alike.

    Attributes:
        count: places.
        taps, stride, dilation: of the filter.
        lag: of a gradient: result i reads with tap t what is (lag + i - t * dilation) / stride
            behind what the first place reads first, if that is a whole number. None of a
            convolution.
    """

    count: int
    taps: int
    stride: int
    dilation: int
    lag: int | None

    @property
    def along(self) -> int:
        """Results of a place."""
        return 1 if self.lag is None else self.stride

    @property
    def step(self) -> int:
        """From what a place reads to what the next one does."""
        return self.stride if self.lag is None else 1

    @property
    def span(self) -> int:
        """Elements that are read, with what lies between."""
        return self.pairs()[-1][0] + 1

    def pairs(self) -> list[tuple[int, list[tuple[int, int]]]]:
        """(result, tap) by what both have to do with, counted from what is read first."""
        found: dict[int, list[tuple[int, int]]] = {}
        for result, tap in product(range(self.count * self.along), range(self.taps)):
            if self.lag is None:
                at = result * self.stride + tap * self.dilation
            else:
                at, rest = divmod(self.lag + result - tap * self.dilation, self.stride)
                if rest:
                    continue
            found.setdefault(at, []).append((result, tap))
        return sorted(found.items())


class Cut(NamedTuple):
    """How planes are cut up.

    Attributes:
        strip, beside: rows and columns of an item's results, or of places of x where several
            results read the same.
        strips, columns: items of a tile below and beside each other.
        planes: of which a group has a tile each.
        rows, row: of a tile with its borders, and the length of one.
        pad: elements between the tiles of planes.
        lanes: elements of a vector that comes at once.
        vec: elements of one that an item reads.
        shift: elements of a row before the first that is read.
        group_size: items of a group.
    """

    strip: int
    beside: int
    strips: int
    columns: int
    planes: int
    rows: int
    row: int
    pad: int
    lanes: int
    vec: int
    shift: int
    group_size: int


class _Axis(NamedTuple):
    """An axis of what is computed.

    Attributes:
        places: of all results.
        first: where the first one's begins.
        reads: what one of them reads.
    """

    places: int
    first: int
    reads: Reads

    @classmethod
    def forward(cls, results: int, taps: int, stride: int, pad: int, dilation: int) -> _Axis:
        """Of a convolution."""
        return cls(results, -pad, Reads(1, taps, stride, dilation, None))

    @classmethod
    def backward(cls, results: int, taps: int, stride: int, pad: int, dilation: int) -> _Axis:
        """Of the gradient to what it read: place m has results m * stride and those behind it."""
        first, rest = divmod(pad, stride)
        reads = Reads(1, taps, stride, dilation, rest)
        least = reads.pairs()[0][0]
        reads = reads._replace(lag=rest - least * stride)
        return cls(ceil_div(results, stride), first + least, reads)

    def read_by(self, count: int) -> Reads:
        """What so many places read."""
        return self.reads._replace(count=count)


class _Problem(NamedTuple):
    """What is cut up: planes of results and what lies around them.

    Attributes:
        count: planes, of which any may share a group.
        rows, columns: places below and beside each other.
        strip, beside: places of an item, at most.
        lanes: of vectors that x has, at most.
        taps: of a filter that is kept beside a plane, or 0.
        least: groups that are wanted.
    """

    count: int
    rows: _Axis
    columns: _Axis
    strip: int
    beside: int
    lanes: int
    taps: int
    least: int

    @property
    def together(self) -> int:
        """Planes of a group that leave as many groups as are wanted."""
        return min(max(1, self.count // self.least), self.count)


def suits(target: Target, g: ConvGeometry, direction: Direction, itemsize: int) -> bool:
    """Whether tiles are for the device and the convolution.

    Args:
        target: the device's traits.
        g: the sizes.
        direction: what is computed.
        itemsize: bytes of an element.
    """
    if not in_groups(target.traits) or (g.icg, g.ocg) != (1, 1):
        return False
    if g.taps == 1 or max(g.kh, g.kw) > _TALLEST:
        return False
    if direction is Direction.WEIGHT_GRAD and g.taps > _SUMS:
        return False
    if direction is Direction.INPUT_GRAD and g.taps > _TAPS and g.sh > 1:
        return False
    problem = _problem(target.traits, g, direction, 0, itemsize)
    return _cut(target.traits, problem, itemsize) is not None


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    operands = (y, x, weight, weight if epilogue.bias is None else epilogue.bias)
    return [_launch(target, operands, g, Direction.FORWARD, epilogue.params)]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    operands = (gx, gy, weight, weight)
    return [_launch(target, operands, g, Direction.INPUT_GRAD, NO_EPILOGUE.params)]


def _launch(
    target: Target,
    operands: tuple[Array, ...],
    g: ConvGeometry,
    direction: Direction,
    epilogue: Named,
) -> Launch:
    y, x = operands[:2]
    problem = _problem(target.traits, g, direction, x.offset, y.dtype.itemsize)
    cut = _needed_cut(target, problem, g, y)
    gradient = direction is Direction.INPUT_GRAD
    down, across = _tiles(problem, cut)
    groups = ceil_div(g.n * g.oc, cut.planes) * down * across
    # Of a large filter one row after the other is in registers.
    turn = 0 if g.taps <= _TAPS else -g.dh if gradient else g.dh
    made = by_name("turn whole", turn, _whole(cut.beside * problem.columns.reads.along, y))
    return TILE.launch(
        joined(_params(y, problem, cut, rolled=turn != 0), made, epilogue),
        joined(
            by_name("y x weight offsets", *operands),
            by_name("h w oh ow", *x.shape[-2:], *y.shape[-2:]),
            by_name("all channels", g.n * g.oc, g.oc),
            _places(problem, cut),
        ),
        global_size=(groups * cut.group_size,),
        local_size=(cut.group_size,),
        flops=g.flops,
        bytes=nbytes_of(operands[:3]),
    )


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    problem = _problem(target.traits, g, Direction.WEIGHT_GRAD, x.offset, x.dtype.itemsize)
    cut = _needed_cut(target, problem, g, x)
    down, across = _tiles(problem, cut)
    tiles = ceil_div(g.n, cut.planes) * down * across
    wanted = target.traits.compute_units * _WEIGHT_GROUPS_PER_UNIT // g.oc
    parts = max(1, min(wanted, tiles, target.workspace_limit // gw.nbytes))
    memory = Scratch(gw.device)
    out = gw if parts == 1 else Array.scratch(memory, (parts, *gw.shape), gw.dtype)
    launch = WEIGHT.launch(
        joined(_params(gw, problem, cut), by_name("whole", _whole(cut.beside, gy))),
        joined(
            by_name("gw gy x n channels tiles", out, gy, x, g.n, g.oc, tiles),
            g.sizes("h w oh ow"),
            _places(problem, cut),
        ),
        global_size=(parts * cut.group_size, g.oc),
        local_size=(cut.group_size, 1),
        flops=g.flops,
        bytes=nbytes_of((out, gy, x)),
    )
    if parts == 1:
        return [launch]
    return [launch, *reduce(target, gw, out, dims=(0,), kind=Reduction.SUM, memory=memory)]


def _whole(width: int, array: Array) -> int:
    """Elements of an array that lie beside each other, which can be stored or read at once."""
    common = math.gcd(width, array.shape[-1], array.offset)
    return _vector(common, _VECTOR_BYTES // array.dtype.itemsize)


def _tiles(problem: _Problem, cut: Cut) -> tuple[int, int]:
    """Tiles of a plane below and beside each other."""
    down = ceil_div(problem.rows.places, cut.strip * cut.strips)
    return down, ceil_div(problem.columns.places, cut.columns * cut.beside)


def _places(problem: _Problem, cut: Cut) -> Named:
    """Where the first tile begins, and how many there are."""
    first = (problem.rows.first, problem.columns.first - cut.shift)
    return by_name("above before down across", *first, *_tiles(problem, cut))


def _params(like: Array, problem: _Problem, cut: Cut, *, rolled: bool = False) -> Named:
    below, aside = problem.rows.read_by(cut.strip), problem.columns.read_by(cut.beside)
    return joined(
        by_name("ctype kh kw", like.dtype.ctype, below.taps, aside.taps),
        by_name("reads_h reads_w", below._replace(taps=1) if rolled else below, aside),
        cut._asdict(),
    )


def _problem(
    traits: DeviceTraits, g: ConvGeometry, direction: Direction, offset: int, itemsize: int
) -> _Problem:
    """What a direction cuts up; offset is x's, or of the input's gradient gy's."""
    gradient, weight = direction is Direction.INPUT_GRAD, direction is Direction.WEIGHT_GRAD
    along = _Axis.backward if gradient else _Axis.forward
    wide = _VECTOR_BYTES // itemsize
    lanes = _vector(math.gcd(g.ow if gradient else g.w, offset), wide)
    # Places beside each other are stored at once, or what they read lies beside each other.
    beside = max(1, _vector(g.w if gradient else g.ow, wide) // g.sw)
    return _Problem(
        g.n if weight else g.n * g.oc,
        along(g.h if gradient else g.oh, g.kh, g.sh, g.ph, g.dh),
        along(g.w if gradient else g.ow, g.kw, g.sw, g.pw, g.dw),
        ceil_div(_RESULTS, beside * g.sh * g.sw),
        beside,
        lanes,
        0 if weight else g.taps,
        ceil_div(traits.compute_units * _GROUPS_PER_UNIT, g.oc if weight else 1),
    )


@lru_cache(maxsize=512)
def _cut(traits: DeviceTraits, problem: _Problem, itemsize: int) -> Cut | None:
    """How to cut up planes; None if not even one tile of a strip fits local memory."""
    most = min(_GROUP_SIZE, 1 << traits.max_group_size.bit_length() - 1)
    room = min(traits.static_local_bytes, _LOCAL_BYTES) // itemsize
    line = _line(problem, most, itemsize)
    wanted = ceil_div(problem.rows.places, problem.strip)
    for strips in range(min(wanted, most // line.items), 0, -1):
        tile = _tile(problem, line, strips, _BANK_BYTES // itemsize)
        fitting = room // (tile.elements + round_up(problem.taps, line.vec))
        if fitting > 0:
            planes = min(most // (line.items * strips), fitting, problem.together)
            filled = max(min(_WARP, most), line.items * strips * planes)
            return Cut(
                strip=tile.strip,
                beside=problem.beside,
                strips=strips,
                columns=line.items,
                planes=planes,
                rows=tile.rows,
                row=tile.row,
                pad=tile.pad,
                lanes=problem.lanes,
                vec=line.vec,
                shift=line.shift,
                group_size=1 << (filled - 1).bit_length(),
            )
    return None


class _Line(NamedTuple):
    """Items of a tile beside each other, and what a row holds for them.

    Attributes:
        items: how many.
        step: elements from the first that an item reads to the next item's.
        vec: elements of the vectors in which they read.
        shift: elements before the first that is read.
        shortest: the least length of a row.
        whole: elements that rows and what lies between tiles are multiples of.
    """

    items: int
    step: int
    vec: int
    shift: int
    shortest: int
    whole: int


class _Tile(NamedTuple):
    """A tile with its borders.

    Attributes:
        strip: rows of an item's results.
        rows, row: how many, and the length of one.
        pad: elements behind it, before another plane's.
    """

    strip: int
    rows: int
    row: int
    pad: int

    @property
    def elements(self) -> int:
        """Of local memory that it takes."""
        return self.rows * self.row + self.pad


def _line(problem: _Problem, most: int, itemsize: int) -> _Line:
    """Items beside each other, so many that tiles are alike; most is what a group has."""
    columns, lanes, beside = problem.columns, problem.lanes, problem.beside
    step = beside * columns.reads.step
    items = ceil_div(columns.places, beside)
    items = min(most, ceil_div(items, ceil_div(items * beside, _WIDEST)))
    if items * beside < columns.places and step % lanes:
        items = round_up(items, lanes)  # each tile begins where a vector does
    vec = _vector(step, _VECTOR_BYTES // itemsize)
    shift = columns.first % lanes
    skipped = shift % vec
    reads = round_up(skipped + columns.read_by(beside).span, vec)
    whole = max(lanes, vec)
    shortest = round_up(shift - skipped + (items - 1) * step + reads, whole)
    return _Line(items, step, vec, shift, shortest, whole)


def _tile(problem: _Problem, line: _Line, strips: int, banks: int) -> _Tile:
    """A tile of so many strips; neighbours read banks beside each other.

    That holds from an item's strip to the next one's, too, and from a plane to the next, where
    rows need not be an eighth longer for it, nor tiles.
    """
    rows = problem.rows
    # Tiles of one size; a strip may be a tenth longer where that spares a tile.
    down = ceil_div(10 * rows.places, 11 * strips * problem.strip)
    strip = ceil_div(rows.places, down * strips)
    apart = line.items * line.step
    longest = line.shortest + line.shortest // 8
    tried = range(line.shortest, longest + 1, line.whole) if strips > 1 else ()
    lowered = strip * rows.reads.step  # rows from a strip to the next one
    row = next((r for r in tried if (lowered * r - apart) % banks == 0), line.shortest)
    tall = rows.read_by(strip * strips).span
    pad = round_up((strips * apart - tall * row) % banks, line.whole)
    return _Tile(strip, tall, row, pad if 8 * pad <= tall * row else 0)


def _vector(step: int, most: int) -> int:
    """Elements of the longest vector that divides a step, of a power of two up to most."""
    return math.gcd(step, most)


def _needed_cut(target: Target, problem: _Problem, g: ConvGeometry, like: Array) -> Cut:
    cut = _cut(target.traits, problem, like.dtype.itemsize)
    if cut is None:
        raise ArgumentError("conv_depthwise_tile", "a tile fits local memory", geometry=g)
    return cut
