"""A step of a recurrent layer in one launch, of large products, by asynchronous copies."""

from __future__ import annotations

from collections.abc import Iterator

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
_COPY = "async"


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
    chunk: int = 64
    stages: int = 3
    deep: int = 4
    down: int = _DOWN
    across: int = _ACROSS
    copy: str = "async"

    @classmethod
    def of(cls, traits: DeviceTraits, layers: int, n: int, size: int, runs: int) -> Ring | None:
        """That which takes the least time; None if none fits, or another kernel is faster."""

        def cost(ring: Ring) -> float:
            groups = layers * ceil_div(n, ring.rows) * ceil_div(size, ring.columns)
            return ceil_div(groups, traits.compute_units) * ring.rows * (ring.columns * runs + 16)

        return min(cls.fitting(traits, runs), key=cost, default=None)

    @classmethod
    def fitting(cls, traits: DeviceTraits, runs: int) -> Iterator[Ring]:
        """Those that the device can take.

        Args:
            traits: what the device is like.
            runs: parts of the result.
        """
        if _COPY == "async" and not traits.asynchronous_copies:
            return
        for rows in _ROWS:
            for columns in _COLUMNS:
                slices = _ITEMS // (rows // _DOWN * (columns // _ACROSS))
                ring = cls(rows, columns, runs, slices, copy=_COPY)
                room = (ring.room + rows * (runs + 1) * columns) * float32.itemsize
                if ring.group <= traits.max_group_size and room <= traits.static_local_bytes:
                    yield ring

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
