"""Convolutions and their gradients by 128 items at once, between images whose channels are dense.

A tile's pixels are a box of an image, or of several: so one copy of boxes brings what all of them
meet at one tap of the filters, and zeros where that lies beyond the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ...array import Array
from ...device import WARPGROUP_UNITS, Launch, Scratch, Target, map_form
from ...values.dtypes import DType, float32, int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..epilogue import NO_EPILOGUE, Epilogue
from ..gemm import (
    MAP_WORDS,
    Problem,
    WarpgroupChoice,
    WarpgroupSums,
    WarpgroupTile,
    emulates_warpgroups,
    has_warpgroups,
    summed,
)
from ..kernel import Kernel, Named, by_name, joined
from ..moving import fill
from .conv_geometry import Phase

CONV = Kernel("conv_warpgroup", "conv/conv_warpgroup.mako")

LINE_BYTES, RUN_BYTES = 128, 16
RANK = 4
# Fewer channels waste most of a line of 128 bytes, and little work is not worth the maps.
LEAST_CHANNELS, LEAST_WORK = 32, 2**22
# Boxes are not longer along an axis, nor their lines further apart.
MOST_BOX, MOST_SKIP = 256, 8
MOST_SLICES = 256


class Grid(NamedTuple):
    """Results and the source, as the kernel sees them.

    Attributes:
        images, h, w: of the source.
        down, right: results along the two axes, and their taps; the first phase has most results.
        out: elements of the result from image to image, line to line, and pixel to pixel.
        strides: pixels of the result from one of a phase to the next.
    """

    images: int
    h: int
    w: int
    down: tuple[Phase, ...]
    right: tuple[Phase, ...]
    out: tuple[int, int, int]
    strides: tuple[int, int]

    @property
    def phases(self) -> int:
        """Pairs of a phase down and one to the right."""
        return len(self.down) * len(self.right)

    @property
    def dense(self) -> bool:
        """Whether results' pixels lie as an array of their own would."""
        image, line, pixel = self.out
        down, right = self.down[0].grid, self.right[0].grid
        whole = line == right * pixel and (image == down * line or self.images == 1)
        return self.phases == 1 and self.strides == (1, 1) and whole

    @property
    def longest(self) -> int:
        """The largest step of the source, or number of phases."""
        return max(self.down[0].step, self.right[0].step, len(self.down), len(self.right))

    def flat(self) -> Grid:
        """The same as one line, where every result meets the one pixel in its own place."""
        plain = self.dense and all(
            (p.taps, p.step, p.source, p.grid) == (1, 1, 0, size)
            for (p,), size in ((self.down, self.h), (self.right, self.w))
        )
        if not plain:
            return self
        pixels = self.images * self.h * self.w
        down, right = self.down[0]._replace(grid=1), self.right[0]._replace(grid=pixels)
        return self._replace(
            images=1, h=1, w=pixels, down=(down,), right=(right,), out=(0, 0, self.out[2])
        )

    def box(self, lines: int) -> tuple[int, int, int]:
        """A tile's box of at most so many pixels: as few boxes as can be."""
        down, right = self.down[0], self.right[0]
        sizes, steps = (right.grid, down.grid), (right.step, down.step)
        return box_of(sizes, self.images, lines, steps, exact=False) or (1, 1, 1)

    def boxes(self, lines: int) -> int:
        """How many there are, of all phases."""
        across, down, images = self.box(lines)
        return (
            ceil_div(self.right[0].grid, across)
            * ceil_div(self.down[0].grid, down)
            * ceil_div(self.images, images)
            * self.phases
        )

    @property
    def taps(self) -> int:
        """Met by a result of each phase, in all."""
        return sum(p.taps for p in self.down) * sum(p.taps for p in self.right)

    @property
    def products(self) -> int:
        """Of a pixel and a tap, for all results."""
        met = (sum(p.taps * p.grid for p in axis) for axis in (self.down, self.right))
        return self.images * prod(met)


def convolved(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    kw: int,
    phases: tuple[Sequence[Phase], Sequence[Phase]],
    strides: tuple[int, int],
    epilogue: Epilogue = NO_EPILOGUE,
) -> list[Launch] | None:
    """The launches of a convolution, or of an input gradient.

    Args:
        target: what the device is like.
        memory: for sums and maps.
        out: ``(n, channels, height, width)``.
        x: ``(n, h, w, channels)``, dense.
        filters: ``(out's channels, taps, channels)`` of one group, dense but for its axes' order:
            out's channels may be the last one, if elements have 16 bits.
        kw: taps of a line of a filter.
        phases: results, and what they meet, down and right: of every phase.
        strides: pixels of ``out`` from one result of a phase to the next.
        epilogue: what is made of the sums.

    Returns:
        The launches; None where there are no such units, or another kernel is faster.
    """
    n, channels = out.shape[1], x.shape[3]
    image, of_n, of_y, of_x = out.strides
    grid = grid_of(x.shape[:3], phases, (image, of_y, of_x), strides)
    if grid is None:
        return None
    work = grid.products * n * channels
    if not fits(target, x.dtype, work, min(n, channels)) or of_n != 1 or n == 1:
        return None
    if grid.longest > MOST_SKIP or work == 0:
        return None
    alone = grid.phases < len(phases[0]) * len(phases[1])
    return multiplied(target, memory, out, x, filters, kw, grid, epilogue, alone=alone)


def grid_of(
    source: Sequence[int],
    phases: tuple[Sequence[Phase], Sequence[Phase]],
    out: tuple[int, int, int],
    strides: tuple[int, int],
) -> Grid | None:
    """Results and their source: those phases that meet a tap, None if there is none.

    Args:
        source: images, and their height and width.
        phases: as for :func:`convolved`.
        out: as a :class:`Grid` has it.
        strides: as for :func:`convolved`.
    """
    down, right = (tuple(phase for phase in axis if phase.taps) for axis in phases)
    images, h, w = source
    return Grid(images, h, w, down, right, out, strides).flat() if down and right else None


def grid_choice(
    target: Target, grid: Grid, dtype: DType, n: int, channels: int, *, reserved: int, parts: int
) -> WarpgroupChoice:
    """The tile and slices of a grid's results.

    Args:
        target: what the device is like.
        grid: results, and their source.
        dtype: of all.
        n: channels of a result.
        channels: of the source.
        reserved: bytes of scratch memory that are taken.
        parts: of the filters; items split the source.
    """
    chunks = ceil_div(channels, LINE_BYTES // dtype.itemsize)
    rows = grid.images * sum(p.grid for p in grid.down) * sum(p.grid for p in grid.right)
    sums = WarpgroupSums(
        dtype,
        rows_of=lambda tile: grid.boxes(tile.m),
        columns=n,
        stages=ceil_div(grid.taps * chunks, grid.phases),
        results=rows * n,
        boxed=True,
        split=parts > 1,
        whole=parts > 1,
        most_slices=MOST_SLICES if grid.dense else 1,
    )
    return sums.choice(target, reserved)


def multiplied(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    kw: int,
    grid: Grid,
    epilogue: Epilogue,
    *,
    alone: bool,
    parts: int = 1,
) -> list[Launch]:
    """The launches of :func:`convolved`, wherever there are such units.

    Args:
        target: as there.
        memory: as there.
        out: as there, its channels dense.
        x: as there.
        filters: as there; two parts lie beside each other along its channels, each of whole lines.
        kw: as there.
        grid: results, and their source.
        epilogue: as there.
        alone: whether results meet no tap, as of strides beyond the window; of gradients.
        parts: of the filters; items split ``x``.
    """
    n, channels = out.shape[1], x.shape[3]
    choice = grid_choice(target, grid, x.dtype, n, channels, reserved=memory.nbytes, parts=parts)
    if choice.slices == 1:
        chunks = ceil_div(channels, LINE_BYTES // x.dtype.itemsize)
        most = max(p.taps for p in grid.down) * max(p.taps for p in grid.right)
        choice = choice._replace(steps=most * chunks)
        zeros = fill(target, out, 0) if alone else []
        return [*zeros, _convolve(target, memory, out, x, filters, kw, grid, choice, epilogue)]
    rows = grid.images * grid.down[0].grid * grid.right[0].grid
    sums = Array.scratch(memory, (choice.slices, 1, 1, rows, n), float32)
    line = grid.right[0].grid * n
    bare = grid._replace(out=(grid.down[0].grid * line, line, n))
    launch = _convolve(target, memory, sums, x, filters, kw, bare, choice, NO_EPILOGUE)
    whole = out.view((1, 1, rows, n), (0, 0, grid.out[2], 1))
    finished = Problem(whole, whole, whole, epilogue=epilogue)  # its operands are not read
    return [launch, summed(finished, sums, by_ptx=not emulates_warpgroups(target))]


def _convolve(
    target: Target,
    memory: Scratch,
    out: Array,
    x: Array,
    filters: Array,
    kw: int,
    grid: Grid,
    choice: WarpgroupChoice,
    epilogue: Epilogue,
) -> Launch:
    tile, ctype = choice.tile, x.dtype.stored
    n, taps, row = filters.shape
    channels = x.shape[3]
    a_form = raw_form() if tile.whole else map_form(WARPGROUP_UNITS[ctype], RANK)
    down, right = grid.down, grid.right
    (image, of_y, of_x), (stride_y, stride_x) = grid.out, grid.strides
    run = RUN_BYTES // out.dtype.itemsize
    begins = all(at % run == 0 for at in (out.offset, *grid.out))
    boxed = begins and choice.slices == 1
    tiles = grid.boxes(tile.m) * ceil_div(n, tile.n) * choice.slices
    turned = filters.strides[2] != 1
    of_tap, of_row = filters.strides[1], filters.strides[2 if turned else 0]
    return CONV.launch(
        joined(
            unit_params(target, ctype, tile),
            by_name("a_form", a_form),
            by_name("b_along", "tile" if turned else "k"),
            by_name("out_form", raw_form()),
            by_name("sum_ctype out_dense", out.dtype.stored, begins and n % run == 0),
            by_name("boxed", boxed),
            by_name("phases_y phases_x", len(down), len(right)),
            by_name("bias activation", epilogue.bias is not None, epilogue.activation),
        ),
        joined(
            by_name("maps n", maps_of(target, memory, tiles, 2 + boxed * grid.phases), n),
            by_name("out x weight bias", out, x, filters, epilogue.bias),
            by_name("images h w channels taps", grid.images, grid.h, grid.w, channels, taps),
            by_name("weight_tap weight_row", of_tap, of_row),
            by_name("part", row // tile.parts),
            by_name("box_x box_y box_n", *grid.box(tile.m)),
            by_name("step_y step_x", down[0].step, right[0].step),
            by_name("move_y move_x", down[0].move, right[0].move),
            by_name("w_y w_x", down[0].w_step * kw, right[0].w_step),
            by_name("out_image out_y out_x", image, stride_y * of_y, stride_x * of_x),
            _by_phase("y", down, of_y, kw),
            _by_phase("x", right, of_x, 1),
            by_name("slices slice_steps", choice.slices, choice.steps),
            by_name("out_slice", out.strides[0] if choice.slices > 1 else 0),
        ),
        **sizes_of(target, tile, tiles),
        flops=2 * grid.products * n * channels * (3 if tile.parts > 1 else 1),
        bytes=x.nbytes + filters.nbytes + out.nbytes,
    )


def _by_phase(axis: str, phases: tuple[Phase, ...], step: int, line: int) -> Named:
    """What phases along an axis differ in; a step along it in the result, and taps of a line."""
    rows = [(p.grid, p.source, p.taps, p.w_first * line, p.first * step) for p in phases]
    names = " ".join(f"{name}_{axis}_{{p}}" for name in "grid first taps w out".split())
    return by_name(names, *zip(*rows, strict=True))


def fits(target: Target, dtype: DType, work: int, channels: int) -> bool:
    """Whether there are units, and enough for them to do.

    Args:
        target: what the device is like.
        dtype: of all.
        work: multiplications.
        channels: of the image that has fewer.
    """
    if not has_warpgroups(target, dtype):
        return False
    return emulates_warpgroups(target) or (channels >= LEAST_CHANNELS and work >= LEAST_WORK)


def unit_params(target: Target, ctype: str, tile: WarpgroupTile) -> dict[str, object]:
    """Parameters of kernels in which 128 items multiply."""
    unit = WARPGROUP_UNITS[ctype]
    emulated, form = emulates_warpgroups(target), map_form(unit, RANK)
    return {"ctype": ctype, "unit": unit, "tile": tile, "emulated": emulated, "form": form}


def raw_form() -> int:
    """The word of a tensor map of floats that are copied as they are: two numbers of 16 bits."""
    return map_form(WARPGROUP_UNITS["half"], RANK)


def maps_of(target: Target, memory: Scratch, tiles: int, count: int = 2) -> Array:
    """Memory for so many tensor maps of each group."""
    groups = min(tiles, target.traits.compute_units)
    return Array.scratch(memory, (groups * count * MAP_WORDS,), int32)


def sizes_of(target: Target, tile: WarpgroupTile, tiles: int) -> dict[str, tuple[int, ...]]:
    """As many groups as there are units, at most."""
    items = tile.items(emulated=emulates_warpgroups(target))
    groups = min(tiles, target.traits.compute_units)
    return {"global_size": (groups * items,), "local_size": (items,)}


@lru_cache(maxsize=1024)
def box_of(
    sizes: tuple[int, int], images: int, lines: int, steps: tuple[int, int], *, exact: bool
) -> tuple[int, int, int] | None:
    """The box of pixels, across, down and of images, that makes the fewest; wide ones first.

    Args:
        sizes: of a grid, across and down.
        images: each has a grid.
        lines: pixels of a box, at most.
        steps: how far pixels lie apart.
        exact: a box has so many pixels, and crosses the edge of no image.

    Returns:
        The box; None: there is none.
    """
    (wide, high), (step_x, step_y) = sizes, steps
    found: list[tuple[int, int, tuple[int, int, int]]] = []
    for across in range(1, min(wide, lines, (MOST_BOX - 1) // step_x + 1) + 1):
        if exact and (wide % across or lines % across):
            continue
        rest = lines // across
        for down in range(1, min(high, rest, (MOST_BOX - 1) // step_y + 1) + 1):
            if exact and (high % down or rest % down):
                continue
            several = rest // down if exact else min(rest // down, images)
            count = ceil_div(wide, across) * ceil_div(high, down) * ceil_div(images, several)
            found.append((count, -across * down, (across, down, several)))
    return min(found)[2] if found else None
