"""A step of a recurrent layer in one launch, of large products, by asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...device import DeviceTraits
from ...values.dtypes import float32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..kernel import Kernel

__all__ = ["Ring"]

KERNEL = Kernel("recurrence_ring", "recurrent/recurrence_ring.mako")

_FOUR = 4
_ITEMS, _DOWN, _ACROSS = 512, 8, 2
_ROWS, _COLUMNS = (64, 128), (16, 32)
_CHUNK, _STAGES, _DEEP, _COPY = 64, 3, 4, "async"
# What a unit multiplies and reads from the caches at a time, in elements; and what a group waits
# for before and behind its products.
_MULTIPLIES, _READS, _BESIDE = 100, 6, 4000


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
        for rows, columns in product(_ROWS, _COLUMNS):
            slices = _ITEMS // (rows // _DOWN * (columns // _ACROSS))
            ring = cls(
                rows, columns, runs, slices, _CHUNK, _STAGES, _DEEP, _DOWN, _ACROSS, _COPY
            )
            room = (ring.room + rows * (runs + 1) * columns) * float32.itemsize
            if ring.group <= traits.max_group_size and room <= traits.static_local_bytes:
                yield ring

    def cost(self, traits: DeviceTraits, layers: int, n: int, size: int) -> float:
        """Time, in cycles of a unit; copies come while others are multiplied."""
        wide = self.runs * self.columns
        groups = layers * ceil_div(n, self.rows) * ceil_div(size, self.columns)
        term = max(self.rows * wide / _MULTIPLIES, (self.rows + wide) / _READS)
        return ceil_div(groups, traits.compute_units) * (size * term + _BESIDE)

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
