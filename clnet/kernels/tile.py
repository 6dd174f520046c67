"""Tiles of matrix products in local memory: their shapes, how they are brought in, which to take.

Products (:mod:`.gemm_tiled`) and convolutions (:mod:`.conv_implicit`) share them, and the template
``lib/tile.mako``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil

from ..device import DeviceTraits
from ..values.record import NamedTuple
from ..values.shapes import ceil_div, round_up

# Neighbouring items form patches of this many, which run together on most GPUs.
PATCH = 32
# What a unit could have multiplied while a second kernel starts and its bytes pass, in operations
# and operations per byte: rough figures of GPUs of the last ten years.
_LAUNCH_FLOPS = 3_200_000
_FLOPS_PER_BYTE = 12
# Steps of k that beginning and ending a tile cost.
_FIXED_STEPS = 40
# A unit is busy with this many patches of items at work, and slower by this share for each less.
_BUSY_PATCHES = 6
_SHARE = 0.08
# Groups that a unit works on at a time; beyond so many it takes the next one when it is ready.
_RESIDENT = 4
_LAST_ROUND = 0.3
# What a unit could have multiplied until memory answers: each tile waits for that long, unless more
# stages or other groups of the unit cover it.
_LATENCY_FLOPS = 270_000
_MOST_SLICES = 512
# Registers of a unit, and those of an item beside its sums and two sets of fragments: what NVIDIA's
# compiler makes of the template.
_REGISTERS, _OTHER_REGISTERS, _MOST_REGISTERS = 65536, 72, 255
# A unit's parts that patches are spread over: fewer patches than parts leave some without work.
_PARTS = 4
# How much slower a unit is per group where it has but few of those it could work on at a time, and
# what a wave of groups costs however few they are, since units take as many as they have room for:
# measured on an H200 (docs/notes/products-gpu.md).
_ALONE = 0.2
_LEAST_WAVE = 0.45


class Loads(NamedTuple):
    """How a group's items bring ``tile_k`` steps of one operand into local memory.

    Attributes:
        extent: of the tile along the operand's other axis.
        tile_k: steps of k.
        items: work-items of the group.
        along: the axis that neighbouring items read along, ``"tile"`` (the other one) or ``"k"``.
        width: elements that lie together and are moved at once, 1 or 4.
    """

    extent: int
    tile_k: int
    items: int
    along: str
    width: int

    @property
    def lanes(self) -> int:
        """Items that read side by side."""
        return (self.extent if self.along == "tile" else self.tile_k) // self.width

    @property
    def jump(self) -> int:
        """Steps between an item's reads, along the axis that neighbours do not read along."""
        return self.items // self.lanes

    @property
    def count(self) -> int:
        """Reads of an item."""
        return self.extent * self.tile_k // (self.width * self.items)

    @property
    def pitch(self) -> int:
        """Elements of a step in local memory; padded where neighbours write across steps."""
        return self.extent + (4 if self.along == "k" else 0)

    @property
    def whole(self) -> bool:
        """Whether all items do the same number of reads, in a regular pattern."""
        return (
            self.items % self.lanes == 0
            and self.extent * self.tile_k % (self.width * self.items) == 0
        )


class Tile(NamedTuple):
    """A group's tile of the result, an item's part of it, and how operands come in.

    Attributes:
        tile_m, tile_n: elements of the result that a group computes.
        tile_k: steps of k in local memory at a time.
        item_m, item_n: elements of an item, multiples of four.
        lanes_m: rows of items in a patch of 32, 4 or 8.
        stages: tiles of the operands that local memory holds at a time.
        copy: ``"registers"`` (read early, stored when the last tile is used up), ``"direct"`` (read
            and stored at once) or ``"async"`` (copies that run beside the products).
        ahead: operands of the next step are read from local memory before this one's products;
            steps are then written out, of which clang for AMD's GPUs makes spills.
        teams: parts of the group that compute the same tile, each of its own steps of ``tile_k``,
            and add what they found at the end: more items at work where the result is small.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    item_m: int
    item_n: int
    lanes_m: int = 8
    stages: int = 2
    copy: str = "registers"
    ahead: bool = False
    teams: int = 1

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.team_items * self.teams

    @property
    def team_items(self) -> int:
        """Work-items of a team."""
        return self.tile_m // self.item_m * (self.tile_n // self.item_n)

    @property
    def steps(self) -> int:
        """Steps of k of a tile in local memory that a team multiplies."""
        return self.tile_k // self.teams

    @property
    def lanes_n(self) -> int:
        """Columns of items in a patch."""
        return PATCH // self.lanes_m

    @property
    def patches_n(self) -> int:
        """Patches side by side in a group."""
        return self.tile_n // (self.item_n * self.lanes_n)

    @property
    def ring(self) -> bool:
        """Whether copies go to local memory without passing variables of the kernel's."""
        return self.copy != "registers"

    @property
    def registers(self) -> int:
        """Those of an item of 32 bits: its sums, what it multiplies, and all else."""
        fragments = (1 + self.ahead) * (self.item_m + self.item_n)
        return self.item_m * self.item_n + fragments + _OTHER_REGISTERS

    @property
    def resident(self) -> int:
        """Groups that a unit of 65,536 registers works on at a time, as far as these decide."""
        return max(_REGISTERS // (min(self.registers, _MOST_REGISTERS) * self.items), 1)

    @property
    def regular(self) -> bool:
        """Whether patches cover the tile, and stages suit the way of copying."""
        covered = (
            self.tile_m % (self.item_m * self.lanes_m) == 0
            and self.tile_n % (self.item_n * self.lanes_n) == 0
            and self.item_m % 4 == 0
            and self.item_n % 4 == 0
        )
        # Sums pass through local memory where tiles of a were.
        gathered = self.teams == 1 or self.tile_n <= self.stages * self.tile_k
        if not gathered or self.tile_k % self.teams:
            return False
        return covered and (self.stages >= 3 and self.ahead if self.ring else self.stages == 2)

    @property
    def even(self) -> bool:
        """Whether all items read equally often, however operands lie."""
        return all(
            self.loads(extent, along, dense=dense).whole
            for extent in (self.tile_m, self.tile_n)
            for along in ("tile", "k")
            for dense in (False, True)
        )

    def width(self, along: str, *, dense: bool) -> int:
        """Elements a read moves: four where they are dense and the copy can place them."""
        return 4 if dense and not (self.ring and along == "k") else 1

    def loads(self, extent: int, along: str, *, dense: bool) -> Loads:
        """How an operand comes in; ``dense``: its runs of four are one aligned load."""
        return Loads(extent, self.tile_k, self.items, along, self.width(along, dense=dense))

    def local_bytes(self, item_bytes: int) -> int:
        """Local memory of a group, at most."""
        return self.stages * self.tile_k * (self.tile_m + self.tile_n + 8) * item_bytes

    def fits(self, traits: DeviceTraits, item_bytes: int) -> bool:
        """Whether a device can run it.

        Args:
            traits: the device's numbers.
            item_bytes: size of an element.
        """
        return (
            self.items <= traits.max_group_size
            and self.registers <= traits.item_registers
            and self.local_bytes(item_bytes) <= traits.static_local_bytes
            and (self.copy != "async" or (traits.asynchronous_copies and item_bytes == 4))
        )


class Choice(NamedTuple):
    """A tile, and into how many parts the sums are cut.

    Attributes:
        tile: the tile.
        slices: parts, computed by groups of their own and added afterwards.
        slice_k: steps of a part, a multiple of the tile's.
    """

    tile: Tile
    slices: int
    slice_k: int


class Tiling(NamedTuple):
    """A tile and a number of slices, flat: what choices of tiles are kept as; see :class:`Tile`."""

    tile_m: int
    tile_n: int
    tile_k: int
    item_m: int
    item_n: int
    lanes_m: int
    stages: int
    copy: str
    ahead: bool
    teams: int
    slices: int

    @property
    def tile(self) -> Tile:
        """The tile."""
        return Tile(*self[:-1])


class Work(NamedTuple):
    """What tiles are chosen for: products ``(m, k) @ (k, n)`` of equal size.

    Attributes:
        m, n, k: the sizes of one.
        batch: how many.
        item_bytes: size of an element.
        most_slices: parts that the sums may be cut into, for memory's sake.
    """

    m: int
    n: int
    k: int
    batch: int
    item_bytes: int
    most_slices: int


def _time(tile: Tile, speed: float, steps: int, each: float) -> float:
    """Operations' worth of time of a unit that has ``each`` groups with so many steps of tiles."""
    rounds = ceil(each) if each <= _RESIDENT else each + _LAST_ROUND
    together = max(min(rounds, _RESIDENT), 1)
    idle = max(_BUSY_PATCHES - rounds * tile.items / PATCH, 0)
    step = 2 * tile.tile_m * tile.tile_n * tile.tile_k / (speed * (1 - _SHARE * idle))
    step = max(together * step, _LATENCY_FLOPS / (tile.stages - 1))
    return rounds / together * (steps + _FIXED_STEPS / tile.tile_k) * step


def time_in_waves(tile: Tile, speed: float, steps: int, each: float) -> float:
    """The same as :func:`_time`, of groups that a unit works on in waves.

    A unit takes as many groups as it has registers for, and new ones where old ones end. What is
    left for a last wave is not spread evenly: units that are ready first take all they have room
    for, so that it takes longer than its share, the less the more waves were before it; a whole
    wave for tiles of which a unit works on one at a time.

    Args:
        tile: the tile.
        speed: of full waves, 1 for the fastest tile.
        steps: tiles of k that a group multiplies.
        each: groups for each unit, on average.
    """
    resident, patches = tile.resident, tile.items // PATCH
    one = 2 * tile.tile_m * tile.tile_n * (steps * tile.tile_k + _FIXED_STEPS) / speed

    def wave(groups: int) -> float:
        alone = 1 + _ALONE * max(1 - groups / resident, 0)
        return round_up(groups * patches, _PARTS) / patches * one * alone

    full, left = int(each // resident), each % resident
    if left == 0:
        return full * wave(resident)
    last = wave(ceil(left))
    if full and resident > 1:
        spread = _LEAST_WAVE / full  # groups come apart from wave to wave
        uneven = wave(resident) * (left / resident + (1 - left / resident) * spread)
        last = max(last, uneven) if full == 1 else uneven
    return full * wave(resident) + last


def choose(
    traits: DeviceTraits,
    tiles: Iterable[tuple[Tile, float]],
    work: Work,
    *,
    shortest: int,
    time: Callable[[Tile, float, int, float], float] = _time,
) -> Choice | None:
    """The tile and the slices that should take the least time; a function of sizes and traits.

    Time is counted in operations of one unit: the groups of the busiest unit, tiles as large as
    they are even where the product ends inside them, over the tile's speed, or waiting for memory;
    a second kernel where sums are cut.

    Args:
        traits: the device's numbers.
        tiles: each with its speed, 1 for the fastest on products that fill the device.
        work: the products.
        shortest: steps of k that a slice has at least.
        time: of a unit, of a tile, its speed, its steps and groups for each unit.

    Returns:
        The choice, or None if the device can run none of the tiles.
    """
    # Of equals the first: min keeps it.
    timed = timed_choices(traits, tiles, work, shortest=shortest, time=time)
    return min(timed, key=lambda pair: pair[0], default=(0.0, None))[1]


def timed_choices(
    traits: DeviceTraits,
    tiles: Iterable[tuple[Tile, float]],
    work: Work,
    *,
    shortest: int,
    time: Callable[[Tile, float, int, float], float] = _time,
) -> Iterator[tuple[float, Choice]]:
    """What :func:`choose` chooses from: every tile a device can run, in every number of slices.

    Args:
        traits: the device's numbers.
        tiles: each with its speed.
        work: the products.
        shortest: steps of k that a slice has at least.
        time: as there.

    Yields:
        The estimated time and the choice.
    """
    for tile, speed in tiles:
        if not tile.fits(traits, work.item_bytes):
            continue
        groups = ceil_div(work.m, tile.tile_m) * ceil_div(work.n, tile.tile_n) * work.batch
        most = max(1, min(work.most_slices, _MOST_SLICES, work.k // shortest))
        full = ceil_div(4 * traits.compute_units, max(groups, 1))
        tried = [1, 2, 3, 4, 6, 8, full // 2, full]
        if time is time_in_waves:
            tried += [n * traits.compute_units // max(groups, 1) for n in range(1, 5)]
        for slices in sorted({min(most, s) for s in tried if s > 0}):
            choice = sliced(tile, work.k, slices)
            length = choice.slice_k // tile.tile_k
            parts = choice.slices
            taken = time(tile, speed, length, groups * parts / traits.compute_units)
            if parts > 1:
                moved = (parts + 1) * work.m * work.n * work.batch * work.item_bytes
                taken += _LAUNCH_FLOPS + _FLOPS_PER_BYTE * moved / traits.compute_units
            yield taken, choice


def sliced(tile: Tile, k: int, slices: int) -> Choice:
    """A tile with sums of ``k`` steps cut into at most so many parts of equal length."""
    steps = ceil_div(k, tile.tile_k)
    length = ceil_div(steps, slices)
    parts = ceil_div(steps, length) if length else 1
    return Choice(tile, parts, round_up(length * tile.tile_k, tile.tile_k))
