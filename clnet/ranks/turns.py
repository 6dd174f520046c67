"""What ranks of one machine give each other through shared memory, in turns.

Each rank has two slots, which it alone writes. In a turn it writes one, all meet, and each takes
what it wants of the others': who comes to a meeting has read what was given at the one before, so
that slot is free again. MPI reads devices' memory, whose pages are small, at a lower rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .meetings import Meetings, Wait

__all__ = ["SLOT_BYTES", "Turns"]

SLOT_BYTES = 2**20


class Turns:
    """All ranks call the same, with arrays of one axis, of as many elements of one dtype.

    Args:
        here: the communicator of the machine's ranks.
        memory: of each rank: two slots, and behind them a line of its own.
        until: waits until something is so.
    """

    def __init__(self, here: Any, memory: Sequence[memoryview], until: Wait) -> None:
        self._mine, self._ranks, self._until = here.rank, here.size, until
        self._others = [i for i in range(here.size) if i != here.rank]
        self._pairs = [np.frombuffer(m, np.uint8, 2 * SLOT_BYTES).reshape(2, -1) for m in memory]
        self._meetings = Meetings(here, [m[2 * SLOT_BYTES :] for m in memory])
        self._turn = 0

    def broadcast(self, elements: np.ndarray, root: int) -> None:
        """Overwrite elements with those of a rank."""
        for piece, slots in self._pieces(elements):
            if self._mine == root:
                slots[root][: piece.size] = piece
            self._meet()
            if self._mine != root:
                piece[:] = slots[root][: piece.size]

    def gather(self, given: np.ndarray, rows: Sequence[np.ndarray] | None) -> None:
        """Overwrite rows with what all ranks give; None: with nothing, on this one."""
        for place, slots in self._places(given.size, given.dtype, 1):
            mine = given[place]
            slots[self._mine][: mine.size] = mine
            met = self._meetings.come()
            if rows is not None:
                rows[self._mine][place] = mine  # while others are on their way
            self._meet(met)
            if rows is not None:
                for i in self._others:
                    rows[i][place] = slots[i][: mine.size]

    def reduce(self, elements: np.ndarray, root: int) -> None:
        """Overwrite elements of a rank with the sum over all, in their order."""
        for piece, slots in self._pieces(elements):
            slots[self._mine][: piece.size] = piece
            self._meet()
            if self._mine == root:
                _add([slot[: piece.size] for slot in slots], piece)

    def reduce_scatter(self, parts: Sequence[np.ndarray], total: np.ndarray) -> None:
        """Overwrite ``total`` with the sum of what all ranks have in this one's place of parts."""
        for place, slots in self._places(total.size, total.dtype, self._ranks):
            size = total[place].size
            for i in self._others:
                slots[self._mine][i * size : (i + 1) * size] = parts[i][place]
            self._meet()
            mine = slice(self._mine * size, (self._mine + 1) * size)
            terms = [slot[mine] for slot in slots]
            terms[self._mine] = parts[self._mine][place]
            _add(terms, total[place])

    def scatter(self, parts: Sequence[np.ndarray] | None, mine: np.ndarray, root: int) -> None:
        """Overwrite elements with this rank's place of the parts of one, which alone has some."""
        place_here = self._mine - (self._mine > root)
        for place, slots in self._places(mine.size, mine.dtype, max(self._ranks - 1, 1)):
            size, slot = mine[place].size, slots[root]
            if parts is not None:
                for k, i in enumerate(self._others):
                    slot[k * size : (k + 1) * size] = parts[i][place]
            met = self._meetings.come()
            if parts is not None:
                mine[place] = parts[root][place]  # while others are on their way
            self._meet(met)
            if parts is None:
                mine[place] = slot[place_here * size : (place_here + 1) * size]

    def all_to_all(
        self, parts: Sequence[np.ndarray], rows: Sequence[np.ndarray], largest: int
    ) -> None:
        """Overwrite rows with what each rank has in this one's place of parts, of any sizes.

        Args:
            parts: this rank's, for each.
            rows: is overwritten with each one's.
            largest: elements of the largest part of all ranks.
        """
        for place, slots in self._places(largest, rows[0].dtype, self._ranks):
            step = place.stop - place.start
            for i in self._others:
                part = parts[i][place]
                slots[self._mine][i * step :][: part.size] = part
            met = self._meetings.come()
            rows[self._mine][place] = parts[self._mine][place]  # while others are on their way
            self._meet(met)
            for i in self._others:
                row = rows[i][place]
                row[:] = slots[i][self._mine * step :][: row.size]

    def _places(
        self, size: int, dtype: np.dtype[Any], count: int
    ) -> Iterator[tuple[slice, list[np.ndarray]]]:
        """Parts of an array of which so many fit into a slot, each with this turn's slots."""
        step = SLOT_BYTES // dtype.itemsize // count
        for start in range(0, size, step):
            slots = [pair[self._turn].view(dtype) for pair in self._pairs]
            yield slice(start, min(start + step, size)), slots

    def _pieces(self, elements: np.ndarray) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        for place, slots in self._places(elements.size, elements.dtype, 1):
            yield elements[place], slots

    def _meet(self, met: Callable[[], bool] | None = None) -> None:
        self._until(self._meetings.come() if met is None else met)
        self._turn = 1 - self._turn


def _add(terms: Sequence[np.ndarray], total: np.ndarray) -> None:
    """The sum of terms in their order; NumPy says nothing of infinities in it."""
    with np.errstate(all="ignore"):
        if len(terms) == 2:
            np.add(*terms, out=total)
            return
        found = terms[0] + terms[1]  # not in the total: it may be a term
        for term in terms[2:]:
            found += term
        total[:] = found
