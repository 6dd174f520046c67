"""Depthwise convolution with large filters on GPUs: tiles of planes in local memory."""

from __future__ import annotations

from functools import lru_cache

from ...array import Array
from ...device import DeviceTraits, Launch, Target
from ...errors import ArgumentError
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..epilogue import NO_EPILOGUE, Epilogue
from ..grid import in_groups
from ..kernel import Constraint, Kernel, Named, by_name, joined, nbytes_of
from .conv_geometry import ConvGeometry

_ENOUGH = Constraint("group_size >= columns * strips * planes", "an item has one strip")
TILE = Kernel("conv_depthwise_tile", "conv/conv_depthwise_tile.mako", (_ENOUGH,))

# Smaller filters read a value so few times that strips without local memory do as well.
_LEAST_TAPS = 16
# Rows of a filter that an item has in registers, and results of an item at most; with 28 of these
# an H200 was faster than with 14 or 7 (docs/notes/convolutions-plain.md).
_TALLEST = 15
_LONGEST = 28
_WIDEST = 64
_GROUP_SIZE = 256
_WARP = 32
# Several groups share a unit's local memory.
_LOCAL_BYTES = 32768
_GROUPS_PER_UNIT = 4


class Cut(NamedTuple):
    """How planes are cut up.

    Attributes:
        strip: results of an item.
        strips: strips of a tile, below each other.
        columns: columns of a tile.
        planes: of which a group has a tile each.
        pad: elements between their tiles.
    """

    strip: int
    strips: int
    columns: int
    planes: int
    pad: int

    @property
    def items(self) -> int:
        """Of a group, that have a strip."""
        return self.strips * self.columns * self.planes


class _Planes(NamedTuple):
    """What is computed: the sizes of its results and of what lies around them.

    Attributes:
        count: planes, of which any may share a group.
        oh, ow: sizes of a plane of results.
        kh, kw: columns and rows of the filter.
        dh, dw: their distances.
        least: groups that are wanted.
    """

    count: int
    oh: int
    ow: int
    kh: int
    kw: int
    dh: int
    dw: int
    least: int


def suits(target: Target, g: ConvGeometry, itemsize: int) -> bool:
    """Whether tiles are for the device and the convolution, forward and to the input.

    Gradients to filters are no faster by tiles: all of 5x5 and 7x7 were slower on an H200.

    Args:
        target: the device's traits.
        g: the sizes.
        itemsize: bytes of an element.
    """
    single = (g.sh, g.sw, g.icg, g.ocg) == (1, 1, 1, 1)
    if not in_groups(target.traits) or not single:
        return False
    if g.taps < _LEAST_TAPS or g.kh > _TALLEST:
        return False
    traits = target.traits
    problems = (_results(traits, g, g.oh, g.ow), _results(traits, g, g.h, g.w))
    return all(_cut(traits, problem, itemsize) is not None for problem in problems)


def forward(
    target: Target, y: Array, x: Array, weight: Array, g: ConvGeometry, epilogue: Epilogue
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    operands = (y, x, weight, weight if epilogue.bias is None else epilogue.bias)
    sizes = (g.h, g.w, g.oh, g.ow, g.ph, g.pw)
    made = joined(by_name("flip", False), epilogue.params)
    return [_launch(target, operands, sizes, made, g)]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    pads = ((g.kh - 1) * g.dh - g.ph, (g.kw - 1) * g.dw - g.pw)
    made = joined(by_name("flip", True), NO_EPILOGUE.params)
    return [_launch(target, (gx, gy, weight, weight), (g.oh, g.ow, g.h, g.w, *pads), made, g)]


def _launch(
    target: Target,
    operands: tuple[Array, ...],
    sizes: tuple[int, ...],
    params: Named,
    g: ConvGeometry,
) -> Launch:
    y, (_, _, oh, ow, *_) = operands[0], sizes
    cut = _cut(target.traits, _results(target.traits, g, oh, ow), y.dtype.itemsize)
    if cut is None:
        raise _unfit(g)
    across, down = ceil_div(ow, cut.columns), ceil_div(oh, cut.strip * cut.strips)
    group = min(round_up(cut.items, _WARP), target.traits.max_group_size)
    groups = ceil_div(g.n * g.oc, cut.planes) * across * down
    return TILE.launch(
        joined(_params(y, g, cut), by_name("group_size", group), params),
        joined(
            by_name("y x weight offsets", *operands),
            by_name("h w oh ow ph pw", *sizes),
            by_name("all channels down across", g.n * g.oc, g.oc, down, across),
        ),
        global_size=(groups * group,),
        local_size=(group,),
        flops=g.flops,
        bytes=nbytes_of(operands[:3]),
    )


def _params(like: Array, g: ConvGeometry, cut: Cut) -> Named:
    return joined(by_name("ctype", like.dtype.ctype), g.sizes("kh kw dh dw"), cut._asdict())


def _results(traits: DeviceTraits, g: ConvGeometry, oh: int, ow: int) -> _Planes:
    """Forward, and the input's gradient."""
    least = traits.compute_units * _GROUPS_PER_UNIT
    return _Planes(g.n * g.oc, oh, ow, g.kh, g.kw, g.dh, g.dw, least)


@lru_cache(maxsize=512)
def _cut(traits: DeviceTraits, planes: _Planes, itemsize: int) -> Cut | None:
    """How to cut up planes; None if not even one tile of a strip fits local memory."""
    most = min(_GROUP_SIZE, traits.max_group_size)
    room = min(traits.static_local_bytes, _LOCAL_BYTES) // itemsize
    columns = min(most, ceil_div(planes.ow, ceil_div(planes.ow, _WIDEST)))
    below = ceil_div(planes.oh, _LONGEST)
    strip = ceil_div(planes.oh, below)
    row = columns + (planes.kw - 1) * planes.dw
    for strips in range(min(below, most // columns), 0, -1):
        size = (strip * strips + (planes.kh - 1) * planes.dh) * row
        # Where a tile is one strip, the next plane's follows in the banks that come next.
        pad = (columns - size) % _WARP if strips == 1 else 0
        fitting = room // (size + pad + planes.kh * planes.kw)
        if fitting > 0:
            wanted = max(1, planes.count // planes.least)
            together = min(most // (columns * strips), fitting, wanted, planes.count)
            return Cut(strip, strips, columns, together, pad)
    return None


def _unfit(g: ConvGeometry) -> ArgumentError:
    return ArgumentError("conv_depthwise_tile", "a tile fits local memory", geometry=g)
