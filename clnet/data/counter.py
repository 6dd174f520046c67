"""Random bits as a pure function of seed, epoch and example; it keeps no state.

Nothing depends on the order in which threads ask. NumPy's generators are not used because their
streams may change between NumPy's versions, and a resumed training must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment: 2**64 divided by the golden ratio, odd


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection that mixes all 64 bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Draw:
    """The examples of one batch, as far as randomness is concerned.

    Attributes:
        seed: the loader's seed, taken modulo 2**64.
        epoch: the epoch, from 0.
        indices: the examples' indices in the data set, ``(n,)``.
        stream: tells apart the uses within one batch (each transform has its own).
    """

    seed: int
    epoch: int
    indices: NDArray[Any]
    stream: int = 0

    def bits(self, lane: int = 0) -> NDArray[np.uint64]:
        """64 random bits for each example.

        Args:
            lane: numbers the draws one user makes for the same example.

        Returns:
            ``(n,)``, uint64.
        """
        state = np.zeros(1, np.uint64)  # an array, because NumPy warns when a scalar wraps round
        for word in (self.seed, self.epoch, self.stream, lane):
            state = _mix(state + np.uint64((word + 1) * _GOLDEN & _MASK))
        return _mix(state + self.indices.astype(np.uint64) * np.uint64(_GOLDEN))

    def integers(self, high: int, *, lane: int = 0) -> NDArray[np.int64]:
        """A uniform integer in ``[0, high)`` for each example.

        Args:
            high: the exclusive bound, at most ``2**32``.
            lane: as for :meth:`bits`.

        Returns:
            ``(n,)``, int64.
        """
        scaled = (self.bits(lane) >> np.uint64(32)) * np.uint64(high) >> np.uint64(32)
        return scaled.astype(np.int64)

    def uniform(self, low: float = 0.0, high: float = 1.0, *, lane: int = 0) -> NDArray[np.float64]:
        """A uniform number in ``[low, high)`` for each example.

        Args:
            low: the least.
            high: the exclusive bound.
            lane: as for :meth:`bits`.

        Returns:
            ``(n,)``, float64, in steps of ``(high - low) / 2**53``.
        """
        unit = (self.bits(lane) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return low + (high - low) * unit


def permutation(n: int, seed: int, *, epoch: int = 0) -> NDArray[np.intp]:
    """A random order of ``n`` examples.

    Args:
        n: how many.
        seed: chooses the family of orders.
        epoch: chooses one of the family.

    Returns:
        ``(n,)``: each of ``0 ... n - 1`` once.
    """
    # Streams count up from 0; the shuffle's lies where no transform's can.
    draw = Draw(seed, epoch, np.arange(n), stream=-1)
    return np.argsort(draw.bits(), kind="stable")
