"""A step of a recurrent layer in one launch, of large products, by asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...device import DeviceTraits
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..kernel import Kernel

__all__ = ["Ring"]

KERNEL = Kernel("recurrence_ring", "recurrent/recurrence_ring.mako")

_FOUR = 4
# Sums of an item, and items: measured (docs/notes/recurrent.md).
_ITEMS, _DOWN, _ACROSS, _DEEP = 256, 16, 2, 4
_TILES, _CHUNKS, _STAGES, _COPY = ((64, 16), (64, 32), (128, 32)), (64, 32), 3, "async"
# What a unit multiplies at a time, in elements; and what a group waits for before and behind its
# products more than a group of `recurrence_step` does, in cycles.
_MULTIPLIES, _BESIDE = 84, 4000


class Ring(NamedTuple):
    """What a group makes of a product, and how its tiles come.

    Attributes:
        rows, columns: of the result, the latter of each of its parts.
        runs: parts.
        slices: items that share a sum.
        chunk: terms of a stage.
        stages: of the ring.
        deep: terms whose weights an item has in registers at a time.
        down, across: sums of an item, of each part.
        copy: how tiles come in, as ``Tile.copy``.
    """

    rows: int
    columns: int
    runs: int
    slices: int
    chunk: int
    stages: int
    deep: int
    down: int
    across: int
    copy: str

    @classmethod
    def of(cls, traits: DeviceTraits, layers: int, n: int, size: int, runs: int) -> Ring | None:
        """That which takes the least time; None if none fits.

        Args:
            traits: what the device is like.
            layers: products that know nothing of each other.
            n: rows of a product.
            size: columns of each of its parts, and terms of its sums.
            runs: parts of the result.
        """
        fitting = cls._fitting(traits, runs)
        return min(fitting, key=lambda r: r.cost(traits, layers, n, size), default=None)

    @classmethod
    def _fitting(cls, traits: DeviceTraits, runs: int) -> Iterator[Ring]:
        if _COPY == "async" and not traits.asynchronous_copies:
            return
        for rows, columns in _TILES:
            slices = _ITEMS // (rows // _DOWN * (columns // _ACROSS))
            rings = (
                cls(rows, columns, runs, slices, chunk, _STAGES, _DEEP, _DOWN, _ACROSS, _COPY)
                for chunk in _CHUNKS
            )
            room = traits.static_local_bytes // float32.itemsize
            fitting = (r for r in rings if r.room + r.read <= room)
            if traits.max_group_size >= _ITEMS:
                yield from islice(fitting, 1)

    def cost(self, traits: DeviceTraits, layers: int, n: int, size: int) -> float:
        """Time, in cycles of a unit; tiles come while others are multiplied."""
        groups = layers * ceil_div(n, self.rows) * ceil_div(size, self.columns)
        once = size * self.rows * self.runs * self.columns / _MULTIPLIES + _BESIDE
        return ceil_div(groups, traits.compute_units) * once

    @property
    def group(self) -> int:
        """Work-items."""
        return self.rows // self.down * (self.columns // self.across) * self.slices

    @property
    def pitch(self) -> int:
        """Elements from a row of a stage to the next: such lie in different banks."""
        return self.chunk + _FOUR

    @property
    def room(self) -> int:
        """Elements of local memory: the ring, or half of the sums."""
        wide = self.runs * self.columns
        ring = self.stages * (self.rows * self.pitch + self.chunk * wide)
        return max(ring, self.slices // 2 * self.rows * wide)

    @property
    def read(self) -> int:
        """Elements of local memory that the gates read beside the sums."""
        return self.rows * self.columns * (self.runs + 1)
