"""Which examples come when: sequences of indices, computed on the host; they read no example."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np

from ...data.counter import Draw
from ...data.counter import permutation as order_of
from ...errors import ArgumentError, KindError, TraceError
from ...ranks.membership import get_rank, get_world_size, is_initialized
from ...values import mode
from ...values.generator import Generator

T = TypeVar("T", covariant=True)
_PIECE = 2**16  # draws with replacement made at once: endless samplers ask for 10**10
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: neighbouring blocks lie far apart


def drawn_seed(generator: Generator | None) -> int:
    """A seed in ``[0, 2**63)`` from a generator, which goes on by one block; no device is used.

    Args:
        generator: None: the default one.

    Raises:
        TraceError: inside a function that is compiled: later calls would have the same.
    """
    if mode.current().tracer is not None:
        law = "an order is drawn on the host, inside a function that clnet.compile traces"
        raise TraceError("DataLoader", law, remedy="Iterate outside, and compile what is done")
    seed, block = (mode.current().generator if generator is None else generator).take(1)
    start = np.array([block])
    return int(Draw(seed ^ _GOLDEN, 0, start).bits()[0] >> np.uint64(1))


def permutation(n: int, generator: Generator | None) -> list[int]:
    """The numbers below ``n`` in random order.

    Args:
        n: how many.
        generator: None: the default one.
    """
    order: Any = order_of(n, drawn_seed(generator))
    return order.tolist()


class Sampler(Generic[T]):
    """Indices in some order: a subclass writes ``__iter__`` and, if it is known, ``__len__``."""

    def __init__(self, data_source: Sized | None = None) -> None:
        del data_source  # PyTorch's older subclasses hand it up

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__}.__iter__")


class SequentialSampler(Sampler[int]):
    """All indices from 0 on.

    Args:
        data_source: what has the length.
    """

    def __init__(self, data_source: Sized) -> None:
        super().__init__()
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, another one for each pass.

    Args:
        data_source: what has the length.
        replacement: whether an index may come again.
        num_samples: how many are drawn; None: the length. Without replacement every index comes
            once before one comes again.
        generator: where the order comes from; None: the default one.

    Raises:
        ArgumentError: if ``replacement`` is no bool or ``num_samples`` below 1.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(replacement, bool):
            raise KindError("RandomSampler", "replacement is a bool", replacement=replacement)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            law = "num_samples is a whole number, 1 or more"
            raise ArgumentError("RandomSampler", law, num_samples=self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many are drawn; the length may change between passes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        seed = drawn_seed(self.generator)
        if self.replacement:
            for begin in range(0, count, _PIECE):
                some = np.arange(begin, min(begin + _PIECE, count))
                places: Any = (Draw(seed, 0, some).uniform() * n).astype(np.int64)
                yield from places.tolist()
            return
        for turn in range(-(-count // n)):
            order: Any = order_of(n, seed, epoch=turn)
            yield from order.tolist()[: count - turn * n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    Args:
        indices: which.
        generator: where the order comes from; None: the default one.
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__()
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights.

    Args:
        weights: one for each index, 0 or more, not all 0; they need not sum to 1.
        num_samples: how many are drawn.
        replacement: whether an index may come again.
        generator: where they come from; None: the default one.

    Raises:
        ArgumentError: if weights, number or ``replacement`` are none such, or there are fewer
            weights above 0 than are drawn without replacement.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        name = "WeightedRandomSampler"
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            law = "num_samples is a whole number, 1 or more"
            raise ArgumentError(name, law, num_samples=num_samples)
        if not isinstance(replacement, bool):
            raise ArgumentError(name, "replacement is a bool", replacement=replacement)
        found = np.asarray(weights, np.float64)
        if found.ndim != 1 or not np.isfinite(found).all() or (found < 0).any() or not found.any():
            law = "weights are a list of numbers, 0 or more and not all 0"
            raise ArgumentError(name, law, shape=found.shape)
        if not replacement and num_samples > np.count_nonzero(found):
            law = "without replacement there are as many weights above 0 as are drawn"
            positive = int(np.count_nonzero(found))
            raise ArgumentError(name, law, num_samples=num_samples, positive=positive)
        self.weights = found
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        seed = drawn_seed(self.generator)
        if self.replacement:
            sums = np.cumsum(self.weights)
            at = np.searchsorted(sums, _uniform(self.num_samples, seed) * sums[-1], side="right")
            # Rounding may lead to the end of the sums: the last weight above 0 is meant.
            last = np.flatnonzero(self.weights)[-1]
            yield from np.minimum(at, last).tolist()
            return
        # The first of exponential clocks with these rates is drawn first (Efraimidis, Spirakis).
        with np.errstate(divide="ignore"):
            clocks = -np.log1p(-_uniform(len(self.weights), seed)) / self.weights
        clocks[self.weights == 0] = np.inf
        first: Any = np.argsort(clocks, kind="stable")[: self.num_samples]
        yield from first.tolist()

    def __len__(self) -> int:
        return self.num_samples


class Endless(Sampler[None]):
    """None for ever: what stands in a sampler's place where a stream has its own order."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class BatchSampler(Sampler["list[int]"]):
    """Another sampler's indices, several at a time.

    Args:
        sampler: indices.
        batch_size: how many at a time.
        drop_last: whether a last batch that is not full is left out.

    Raises:
        ArgumentError: if ``batch_size`` is below 1 or ``drop_last`` no bool.

    Example:
        >>> list(BatchSampler(range(5), 2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:  # noqa: FBT001 - PyTorch's
        super().__init__()
        whole = isinstance(batch_size, int) and not isinstance(batch_size, bool)
        if not whole or batch_size <= 0:
            law = "batch_size is a whole number, 1 or more"
            raise ArgumentError("BatchSampler", law, batch_size=batch_size)
        if not isinstance(drop_last, bool):
            raise ArgumentError("BatchSampler", "drop_last is a bool", drop_last=drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # pyrefly: ignore[bad-argument-type] - those that have a length
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The share of one process of several: each takes every ``num_replicas``-th index.

    Args:
        dataset: what has the length.
        num_replicas: how many processes share it; None: as many as are joined.
        rank: which of them this is, from 0; None: what it is among these.
        shuffle: whether the order is random: that of ``seed`` and :meth:`set_epoch`.
        seed: the same in all processes.
        drop_last: whether indices left over are dropped; else the first come once more.

    Raises:
        ArgumentError: if the number of processes or the rank are not given, or do not fit.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
        seed: int = 0,
        drop_last: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    ) -> None:
        super().__init__()
        if is_initialized():
            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if num_replicas is None or rank is None or not 0 <= rank < num_replicas:
            raise ArgumentError(
                "DistributedSampler",
                "rank is given, and lies in [0, num_replicas)",
                num_replicas=num_replicas,
                rank=rank,
            )
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = order_of(n, self.seed, epoch=self.epoch) if self.shuffle else np.arange(n)
        own: Any = np.resize(order, self.total_size)[self.rank :: self.num_replicas]
        return iter(own.tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; without it every epoch has the same."""
        self.epoch = epoch


def _uniform(count: int, seed: int) -> np.ndarray:
    """Numbers in ``[0, 1)``."""
    return Draw(seed, 0, np.arange(count)).uniform()
