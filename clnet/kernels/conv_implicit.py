"""Convolution as a tiled product with gathered columns: the GPU-shaped algorithm."""

from __future__ import annotations

from typing import NamedTuple

from ..array import Array
from ..device import Launch, Scratch, Target
from ..shapes import ceil_div, round_up
from .conv_geometry import ConvGeometry
from .kernel import Constraint, Kernel

# Groups that keep a multiprocessor busy; a weight gradient with fewer tiles divides its sums.
_GROUPS_PER_UNIT = 4
# A slice shorter than this costs more in adding slices than it gains.
_SHORTEST_SLICE = 256
_SUM_GROUP_SIZE = 64


class ImplicitParams(NamedTuple):
    """Parameters of ``conv_implicit``; the template's header explains them."""

    ctype: str
    direction: str
    kh: int
    kw: int
    sh: int
    sw: int
    dh: int
    dw: int
    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int
    bias: bool
    activation: str | None


class SumParams(NamedTuple):
    """Parameters of ``conv_implicit_sum``; the template's header explains them."""

    ctype: str
    group_size: int


class Tile(NamedTuple):
    """A group's tile and a work-item's part of it."""

    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int

    @property
    def threads(self) -> int:
        """Work-items of a group."""
        return self.tile_m * self.tile_n // (self.thread_m * self.thread_n)

    @property
    def elements(self) -> int:
        """Elements of local memory."""
        return self.tile_k * (self.tile_m + 1 + self.tile_n)


# The first that the device can hold is taken; the last runs everywhere.
_TILES = (Tile(64, 64, 16, 4, 4), Tile(32, 32, 8, 4, 2), Tile(16, 16, 8, 2, 2))

IMPLICIT = Kernel(
    "conv_implicit",
    "conv_implicit.mako",
    constraints=(
        Constraint("tile_m % thread_m == 0 and tile_n % thread_n == 0", "whole work-items"),
        Constraint(
            "tile_m * tile_n // (thread_m * thread_n) % tile_n == 0", "a work-item loads one column"
        ),
        Constraint(
            "tile_k * tile_m * thread_m * thread_n % (tile_m * tile_n) == 0", "equal loads of a"
        ),
        Constraint(
            "tile_k * tile_n * thread_m * thread_n % (tile_m * tile_n) == 0", "equal loads of b"
        ),
    ),
)
SUM = Kernel("conv_implicit_sum", "conv_implicit.mako")


def forward(
    target: Target,
    y: Array,
    x: Array,
    weight: Array,
    bias: Array | None,
    g: ConvGeometry,
    *,
    activation: str | None,
) -> list[Launch]:
    """Launches of the convolution; the arguments are those of :func:`.conv.conv_forward`."""
    sizes = (g.ocg, g.n * g.oh * g.ow, g.icg * g.taps)
    return [_launch(target, "forward", y, weight, x, bias, g, sizes, activation=activation)]


def input_grad(
    target: Target, gx: Array, gy: Array, weight: Array, g: ConvGeometry
) -> list[Launch]:
    """Launches of the input gradient; the arguments are those of :func:`.conv.conv_input_grad`."""
    sizes = (g.icg, g.n * g.h * g.w, g.ocg * g.taps)
    return [_launch(target, "input", gx, weight, gy, None, g, sizes)]


def weight_grad(target: Target, gw: Array, gy: Array, x: Array, g: ConvGeometry) -> list[Launch]:
    """The weight gradient; the arguments are those of :func:`.conv.conv_weight_grad`."""
    sizes = (g.ocg, g.icg * g.taps, g.n * g.oh * g.ow)
    slices = _slices(target, g, gw, sizes)
    if slices == 1:
        return [_launch(target, "weight", gw, gy, x, None, g, sizes)]
    parts = Array.scratch(Scratch(gw.device), (slices, *gw.shape), gw.dtype)
    return [
        _launch(target, "weight", parts, gy, x, None, g, sizes, slices=slices),
        sum_slices(gw, parts),
    ]


def sum_slices(gw: Array, parts: Array) -> Launch:
    """The launch that adds ``parts``, ``(slices, *gw.shape)`` and dense, to ``gw``, in order."""
    return SUM.launch(
        SumParams(gw.dtype.ctype, _SUM_GROUP_SIZE),
        (gw, parts, gw.size, parts.shape[0]),
        global_size=(round_up(gw.size, _SUM_GROUP_SIZE),),
        local_size=(_SUM_GROUP_SIZE,),
        flops=parts.size,
        bytes=parts.nbytes + gw.nbytes,
    )


def tile_for(target: Target, itemsize: int) -> Tile:
    """The largest tile that the device's groups and local memory hold."""
    traits = target.traits
    return next(
        (
            tile
            for tile in _TILES
            if tile.threads <= traits.max_group_size
            and tile.elements * itemsize <= traits.local_memory_bytes
        ),
        _TILES[-1],
    )


def _slices(target: Target, g: ConvGeometry, gw: Array, sizes: tuple[int, int, int]) -> int:
    """Parts the weight gradient's sums are divided into; depends on sizes and traits alone."""
    m, n, k = sizes
    tile = tile_for(target, gw.dtype.itemsize)
    tiles = g.groups * ceil_div(m, tile.tile_m) * ceil_div(n, tile.tile_n)
    wanted = ceil_div(_GROUPS_PER_UNIT * target.traits.compute_units, max(tiles, 1))
    most = target.workspace_limit // max(gw.nbytes, 1)
    return max(1, min(wanted, most, ceil_div(k, _SHORTEST_SLICE)))


def _launch(
    target: Target,
    direction: str,
    out: Array,
    dense: Array,
    sparse: Array,
    bias: Array | None,
    g: ConvGeometry,
    sizes: tuple[int, int, int],
    *,
    slices: int = 1,
    activation: str | None = None,
) -> Launch:
    m, n, k = sizes
    tile = tile_for(target, out.dtype.itemsize)
    params = ImplicitParams(
        out.dtype.ctype, direction, g.kh, g.kw, g.sh, g.sw, g.dh, g.dw, *tile,
        bias is not None, activation,
    )  # fmt: skip
    return IMPLICIT.launch(
        params,
        (out, dense, sparse, dense if bias is None else bias, g.n, g.groups, g.icg, g.ocg,
         g.h, g.w, g.oh, g.ow, g.ph, g.pw, slices, round_up(ceil_div(k, slices), tile.tile_k)),
        global_size=(
            ceil_div(n, tile.tile_n) * tile.threads, ceil_div(m, tile.tile_m), g.groups * slices
        ),
        local_size=(tile.threads, 1, 1),
        flops=g.flops,
        bytes=out.nbytes + dense.nbytes + sparse.nbytes,
    )  # fmt: skip
