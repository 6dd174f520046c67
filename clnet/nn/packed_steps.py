"""Packed sequences in steps that all of them have, for layers that take all steps in one op.

Rows of a packed sequence are moved to where they are in a padded one; what was moved is moved back.
Each sequence begins at the first step, also backwards: there with its own last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..ops import cat, reshape, select, stack
from ..ops.index import MovedRows
from ..ops.machinery.function import apply
from ..ops.recurrence import recurrence, side_by_side
from ..ops.rnn import Cell
from ..tensor import Tensor, tensor
from ..values.lazy import lazy

States = tuple[Tensor, ...]
# Of rows that are padded, as multiples of those that are there: a CPU computes them, where a GPU
# waits for launches, which are as many as the longest sequence has steps either way.
_MOST_ON_CPUS = 2
_MOST_ON_GPUS = 16


class PackedSteps:
    """The rows of a packed sequence and of the padded one.

    Args:
        sizes: how many sequences have a first, a second ... step.
        data: their rows.
    """

    def __init__(self, sizes: Sequence[int], data: Tensor) -> None:
        self.sizes = sizes
        self._device = data.device
        most = _MOST_ON_GPUS if side_by_side(data) else _MOST_ON_CPUS
        few = len(sizes) * sizes[0] <= most * sum(sizes)
        falling = all(a >= b for a, b in pairwise(sizes))  # a program may have written others
        self.together = few and falling and sum(sizes) == data.shape[0]
        """Whether they may be padded: else each step has the sequences that it has."""

    def direction(
        self,
        cell: Cell,
        x: Tensor,
        states: States,
        weight: Tensor,
        bias: Tensor | None,
        *,
        backwards: bool,
    ) -> tuple[Tensor, States]:
        """A layer's hidden states, packed, and the last states of each sequence.

        Args:
            cell: its kind.
            x: the gates' shares of the sequence, packed, ``(rows, gates * hidden)``.
            states: the first ones, ``(n, hidden)``.
            weight: as :func:`.recurrence` takes it.
            bias: the same.
            backwards: whether each sequence is read from its end.
        """
        padded = self._padded(x, backwards)
        made = recurrence(cell, padded, states, weight, bias, backwards=False)
        return self._packed(made[0], backwards), tuple(self._last(s) for s in made)

    def both_directions(
        self, cell: Cell, x: Tensor, states: States, weight: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, States]:
        """As :func:`.recurrence.both_directions`, of packed rows."""
        rows = x.shape[-1] // 2
        ways = [self._padded(x[:, way * rows : (way + 1) * rows], way) for way in range(2)]
        made = recurrence(cell, stack(ways, 1), states, weight, bias, backwards=False)
        found = [[select(y, 1, way) for way in range(2)] for y in made]
        hidden = cat([self._packed(y, way) for way, y in enumerate(found[0])], -1)
        return hidden, tuple(stack([self._last(y) for y in pair]) for pair in found)

    def _padded(self, x: Tensor, way: int) -> Tensor:
        to, back = self._moves[way]
        y = apply(MovedRows(), x.contiguous(), back, to)
        return reshape(y, (len(self.sizes), self.sizes[0], x.shape[1]))

    def _packed(self, y: Tensor, way: int) -> Tensor:
        to, back = self._moves[way]
        return apply(MovedRows(), _rows(y), to, back)

    def _last(self, y: Tensor) -> Tensor:
        return apply(MovedRows(), _rows(y), *self._ends)

    @lazy
    def _moves(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Forwards and backwards, each row's place in the padded sequence, and each place's row."""
        sizes = np.array(self.sizes)
        n, rows = self.sizes[0], int(sizes.sum())
        step = np.repeat(np.arange(len(sizes)), sizes)
        of = np.arange(rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        ways: list[tuple[Tensor, Tensor]] = []
        for at in (step, self._lengths[of] - 1 - step):
            places = at * n + of
            back = np.full(len(sizes) * n, rows)
            back[places] = np.arange(rows)
            ways.append((self._index(places), self._index(back)))
        return ways[0], ways[1]

    @lazy
    def _ends(self) -> tuple[Tensor, Tensor]:
        """The place of each sequence's last step in the padded one, and each place's sequence."""
        n = self.sizes[0]
        places = (self._lengths - 1) * n + np.arange(n)
        back = np.full(len(self.sizes) * n, n)
        back[places] = np.arange(n)
        return self._index(places), self._index(back)

    @lazy
    def _lengths(self) -> np.ndarray:
        return (np.arange(self.sizes[0])[:, None] < np.array(self.sizes)).sum(1)

    def _index(self, numbers: np.ndarray) -> Tensor:
        return tensor(numbers.astype(np.int32), device=self._device)


def _rows(y: Tensor) -> Tensor:
    return reshape(y, (-1, y.shape[-1])).contiguous()


def resized(states: States, n: int, first: States, ended: list[States]) -> States:
    """The states of ``n`` sequences: some end (and go to ``ended``), or begin with ``first``."""
    before = states[0].shape[0]
    if n < before:
        ended.append(tuple(s[n:] for s in states))
        return tuple(s[:n] for s in states)
    if n > before:
        return tuple(cat([s, f[before:n]]) for s, f in zip(states, first, strict=True))
    return states
