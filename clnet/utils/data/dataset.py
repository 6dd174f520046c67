"""Examples by index or in a stream, and sets made of other sets; no batches, no order."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

from ...errors import ArgumentError, BoundsError, ShapeError
from ...tensor import Tensor, tensor
from ...values.arguments import require_tensors, shown
from ...values.generator import Generator
from .sampler import permutation

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Examples by index: a subclass writes ``__getitem__`` and, for most samplers, ``__len__``.

    A loader takes any object with these two methods; the class only brings ``a + b``. A set that
    can fetch several examples at once may define ``__getitems__(indices)``, which gives a list.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__}.__getitem__")

    def __add__(self, other: Dataset[T]) -> ConcatDataset[T]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Examples in a stream: a subclass writes ``__iter__``.

    Each worker of a loader goes through a copy of its own;
    :func:`~clnet.utils.data.get_worker_info` tells it which share to give.
    """

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__}.__iter__")

    def __add__(self, other: Dataset[T]) -> ChainDataset[T]:
        return ChainDataset([self, other])


class TensorDataset(Dataset["tuple[Tensor, ...]"]):
    """Tensors of one length: example ``i`` is ``(tensors[0][i], tensors[1][i], ...)``.

    Args:
        *tensors: ``(n, ...)`` each.

    Raises:
        DtypeError: if one is no tensor.
        ShapeError: if there is none, or their lengths differ.

    Example:
        >>> import clnet
        >>> data = TensorDataset(clnet.arange(6).reshape(3, 2), clnet.arange(3))
        >>> [part.tolist() for part in data[2]], len(data)
        ([[4, 5], 2], 3)
    """

    def __init__(self, *tensors: Tensor) -> None:
        require_tensors("TensorDataset", **{f"tensors[{k}]": t for k, t in enumerate(tensors)})
        shapes = [t.shape for t in tensors]
        if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
            raise ShapeError("TensorDataset", "needs tensors of one length", shapes=shapes)
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def fetch(self, indices: Sequence[int]) -> list[Tensor]:
        """The batch of these examples: one gather for each tensor."""
        host, n = np.asarray(indices, np.int64).reshape(-1), len(self)
        wrong = host[(host < -n) | (host >= n)]
        if wrong.size:
            law = "an index is outside the data set"
            raise BoundsError("TensorDataset", law, index=wrong[0], length=n)
        at = tensor(host, device=self.tensors[0].device)
        return [t[at if t.device is at.device else at.to(t.device)] for t in self.tensors]


class StackDataset(Dataset[Any]):
    """Sets of one length side by side: an example is the tuple (or dict) of theirs.

    Args:
        *args: sets whose examples become a tuple.
        **kwargs: sets whose examples become a dict; one of the two.

    Raises:
        ArgumentError: if there is none, both kinds are given, or the lengths differ.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError(
                "StackDataset",
                "sets are given by position or by name",
                positional=len(args),
                named=sorted(kwargs),
            )
        self.datasets: Any = args or kwargs
        lengths = [len(d) for d in (args or kwargs.values())]
        if len(set(lengths)) != 1:
            raise ArgumentError("StackDataset", "sets have one length", lengths=lengths)
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            named = {name: several(d, indices) for name, d in self.datasets.items()}
            return [{name: part[k] for name, part in named.items()} for k in range(len(indices))]
        return list(zip(*[several(d, indices) for d in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """Sets one behind the other.

    Args:
        datasets: one or more with ``__len__`` and ``__getitem__``.

    Attributes:
        cumulative_sizes: where each ends.

    Raises:
        ArgumentError: if there is none, or one is an :class:`IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError("ConcatDataset", "it gets one set or more")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise ArgumentError(
                "ConcatDataset", "sets have indices", remedy="Chain streams with ChainDataset"
            )
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        n = len(self)
        if not -n <= index < n:
            law = "the index is outside the data set"
            raise BoundsError("ConcatDataset", law, index=index, length=n)
        index = int(index) % n
        part = bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]


class ChainDataset(IterableDataset[T]):
    """Streams one after the other.

    Args:
        datasets: of :class:`IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[T]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                kind = type(dataset).__name__
                raise ArgumentError("ChainDataset", "it chains IterableDatasets", type=kind)
            yield from dataset

    def __len__(self) -> int:
        return sum(len(d) for d in self.datasets)


class Subset(Dataset[T]):
    """Some examples of another set.

    Args:
        dataset: the other one.
        indices: which of its examples, in which order.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T]:
        return several(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Split a set at random into parts that do not overlap.

    Args:
        dataset: what to split.
        lengths: the parts' lengths, or fractions that sum to 1 (examples left over by rounding down
            go to the first parts, one each).
        generator: chooses the split; None: the default one.

    Returns:
        One subset for each length.

    Raises:
        ArgumentError: if the lengths do not sum to the whole, or one is negative.

    Example:
        >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
        [8, 2]
    """
    n, parts = len(dataset), list(lengths)
    if min(parts, default=0) < 0:
        raise ArgumentError("random_split", "lengths are 0 or more", lengths=shown(parts))
    if math.isclose(math.fsum(parts), 1.0) and math.fsum(parts) <= 1.0 + 1e-9:
        counts = [math.floor(n * part) for part in parts]
        for k in range(n - sum(counts)):
            counts[k % len(counts)] += 1
        if 0 in counts:
            warnings.warn(f"random_split: part {counts.index(0)} is empty", stacklevel=2)
    else:
        counts = [int(part) for part in parts]
    if sum(counts) != n or any(c != p for c, p in zip(counts, parts, strict=True) if p > 1):
        law = "lengths sum to the data set's, or fractions to 1"
        raise ArgumentError("random_split", law, lengths=shown(parts), length=n)
    order = permutation(n, generator)
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - c : end]) for c, end in zip(counts, ends, strict=True)]


def several(dataset: Any, indices: Sequence[int]) -> list[Any]:
    """Several examples, all at once where the set can."""
    at_once = getattr(dataset, "__getitems__", None)
    found = [dataset[i] for i in indices] if at_once is None else list(at_once(indices))
    if len(found) != len(indices):
        raise ArgumentError(
            f"{type(dataset).__name__}.__getitems__",
            "it gives one example for each index",
            indices=len(indices),
            examples=len(found),
        )
    return found
