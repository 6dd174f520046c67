"""What exchanges between workers cost, by the algorithms that MPI and NCCL choose among.

Time is ``a`` for each message, ``b`` for each byte of one link in one direction (both at once), and
``c`` for each byte that is summed: the model of Thakur, Rabenseifner and Gropp, "Optimization of
Collective Communication Operations in MPICH", Int. J. High Performance Computing Applications
19(1), 2005. With ``p`` workers, ``n`` bytes and ``lg`` rounded up to whole rounds:

==================  ====================================================
ring                ``2(p-1)a + 2n(p-1)/p b + n(p-1)/p c``
tree                ``2 lg p (a + nb) + lg p nc``: summed to one, and sent out again
recursive doubling  ``lg p (a + nb + nc)``
recursive halving   ``2 lg p a + 2n(p-1)/p b + n(p-1)/p c`` (Rabenseifner's)
==================  ====================================================

The last two are for powers of two; with others, those that are too many give their bytes to a
neighbour first and get the sum afterwards: ``2(a + nb) + nc`` more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, log2

from ..errors import ArgumentError

__all__ = ["Link"]


@dataclass(frozen=True)
class Link:
    """How workers reach one another: every one by a link of its own to all.

    Args:
        gbytes: 10^9 bytes a second, each way.
        latency_us: microseconds from the call to the first byte.
        sum_gbytes: 10^9 bytes a second at which arrays are summed; 0: beside the sending, for
            nothing.

    Raises:
        ArgumentError: if a rate is not above 0, or latency is infinite or not a number.
    """

    gbytes: float
    latency_us: float = 0.0
    sum_gbytes: float = 0.0

    def __post_init__(self) -> None:
        if not (self.gbytes > 0 and 0 <= self.latency_us < inf and self.sum_gbytes >= 0):
            raise ArgumentError(
                "Link",
                "a link has a rate, and latency and sums are 0 or more",
                gbytes=self.gbytes,
                latency_us=self.latency_us,
                sum_gbytes=self.sum_gbytes,
            )

    @classmethod
    def of_sums(cls, workers: int, small: tuple[float, float], large: tuple[float, float]) -> Link:
        """The link by which two measured sums over all workers take as long as they did.

        A line goes through both: one rate alone would be that of bytes and of beginnings together.

        Args:
            workers: how many, 2 or more.
            small: bytes and seconds of one.
            large: of another, of more bytes.
        """
        each = max((large[1] - small[1]) / (large[0] - small[0]), 1e-18)
        begun = max(small[1] - each * small[0], 0.0)
        sent = 2 * (workers - 1) / workers
        messages = 1 if workers == 2 else 2 * ceil(log2(workers))
        return cls(sent / each / 1e9, begun / messages * 1e6)

    def send(self, nbytes: float) -> float:
        """Seconds of one message."""
        return self.latency_us * 1e-6 + nbytes / (self.gbytes * 1e9)

    def all_reduces(self, workers: int, nbytes: float) -> Mapping[str, float]:
        """Seconds until all workers have the sum of all, by algorithm."""
        if workers < 2:
            return {"ring": 0.0}
        a, sent, summed = self._parts(nbytes)
        rounds, share = ceil(log2(workers)), (workers - 1) / workers
        whole = int(log2(workers))
        extra = 0.0 if whole == rounds else 2 * (a + sent) + summed
        return {
            "ring": 2 * (workers - 1) * a + share * (2 * sent + summed),
            "tree": rounds * (2 * (a + sent) + summed),
            "recursive doubling": whole * (a + sent + summed) + extra,
            "recursive halving": 2 * whole * a
            + (2**whole - 1) / 2**whole * (2 * sent + summed)
            + extra,
        }

    def all_reduce(self, workers: int, nbytes: float) -> float:
        """Seconds of the fastest algorithm."""
        return min(self.all_reduces(workers, nbytes).values())

    def fastest(self, workers: int, nbytes: float) -> str:
        """The algorithm that all-reduces so many bytes first."""
        found = self.all_reduces(workers, nbytes)
        return min(found, key=lambda name: found[name])

    def broadcast(self, workers: int, nbytes: float) -> float:
        """Seconds until all workers have what one had: a binomial tree."""
        return ceil(log2(workers)) * self.send(nbytes) if workers > 1 and nbytes else 0.0

    def all_gather(self, workers: int, nbytes: float) -> float:
        """Seconds until all workers have what all had a part of.

        Args:
            workers: how many.
            nbytes: of all parts together.
        """
        if workers < 2:
            return 0.0
        a, sent, _ = self._parts(nbytes)
        whole = log2(workers)
        messages = whole if whole == int(whole) else workers - 1  # a ring, if no power of two
        return messages * a + (workers - 1) / workers * sent

    def reduce_scatter(self, workers: int, nbytes: float) -> float:
        """Seconds until each worker has its part of the sum of all."""
        if workers < 2:
            return 0.0
        *_, summed = self._parts(nbytes)
        return self.all_gather(workers, nbytes) + (workers - 1) / workers * summed

    def _parts(self, nbytes: float) -> tuple[float, float, float]:
        """Seconds of a message's beginning, of the bytes on a link, and of their sum."""
        summed = nbytes / (self.sum_gbytes * 1e9) if self.sum_gbytes else 0.0
        return self.latency_us * 1e-6, nbytes / (self.gbytes * 1e9), summed
