"""Which of several ways to compute the same is fastest, in spite of a machine that has its moods.

All are timed in turns, so that a slow moment strikes all of a round; a round counts by the ratios
in it to the first entrant, which never leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# What an entrant must save to be taken in the place of the first.
GAIN = 0.03
_FEWEST_ROUNDS, _MOST_ROUNDS = 5, 25
_ROUNDS_IN_LEAD = 3
# Entrants leave when even their best round is this much behind the leader's median.
_BEHIND = 1.01


class Race:
    """Entrants ``0 .. n - 1`` and their times so far; the first is the one to beat.

    Args:
        entrants: how many.

    Attributes:
        running: those that are still timed.
        rounds: how many there were.
    """

    def __init__(self, entrants: int) -> None:
        self.running = list(range(entrants))
        self.rounds = 0
        self._ratios: list[list[float]] = [[] for _ in range(entrants)]
        self._times: list[list[float]] = [[] for _ in range(entrants)]
        self._leader = 0
        self._in_lead = 0

    def add(self, times: Mapping[int, float]) -> None:
        """Take a round's times, of all that are running; who has no chance leaves.

        Args:
            times: by entrant.
        """
        for entrant in self.running:
            self._times[entrant].append(times[entrant])
            self._ratios[entrant].append(times[entrant] / times[0])
        self.rounds += 1
        leader = self.leader
        self._in_lead = self._in_lead + 1 if leader == self._leader else 1
        self._leader = leader
        if self.rounds >= _ROUNDS_IN_LEAD:
            bar = self.ratio(leader) * _BEHIND
            self.running = [e for e in self.running if e == 0 or min(self._ratios[e]) <= bar]

    def ratio(self, entrant: int) -> float:
        """An entrant's time over the first one's, by the median of its rounds."""
        return float(np.median(self._ratios[entrant]))

    def seconds(self, entrant: int) -> float:
        """An entrant's time, by the median of its rounds."""
        return float(np.median(self._times[entrant]))

    @property
    def leader(self) -> int:
        """The fastest of the running; the earlier of two that are equal."""
        return min(self.running, key=lambda entrant: (self.ratio(entrant), entrant))

    @property
    def settled(self) -> bool:
        """Whether more rounds would not change the winner."""
        if self.rounds < _FEWEST_ROUNDS:
            return False
        alone = len({0, *self.running}) == len({0, self._leader})
        return (alone and self._in_lead >= _ROUNDS_IN_LEAD) or self.rounds >= _MOST_ROUNDS

    @property
    def winner(self) -> int:
        """The leader if it is faster than the first beyond doubt, else the first."""
        return self.leader if self.ratio(self.leader) < 1 - GAIN else 0
