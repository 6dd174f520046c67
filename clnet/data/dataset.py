"""Data sets: examples by index, singly or in batches; it reads no file."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ArgumentError, BoundsError, ShapeError
from .counter import permutation

Arrays: TypeAlias = "tuple[NDArray[Any], ...]"


class Dataset(ABC):
    """Examples by index. An example is a tuple of arrays or numbers, ``(image, label)``.

    Attributes:
        classes: names of the labels, or empty.
    """

    classes: tuple[str, ...] = ()

    @abstractmethod
    def __len__(self) -> int:
        """How many examples there are."""

    @abstractmethod
    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """The example at ``index``; raises :class:`~clnet.errors.BoundsError` past the end."""

    def fetch(self, indices: NDArray[Any]) -> Arrays:
        """The examples at ``indices`` as one batch; a data set that can do better overrides it.

        Args:
            indices: ``(n,)``, integer.

        Returns:
            One array for each part of an example, ``(n, ...)``.
        """
        examples = [self[int(i)] for i in indices]
        return tuple(
            np.stack([np.asarray(part) for part in parts]) for parts in zip(*examples, strict=True)
        )

    def _position(self, index: int) -> int:
        """``index`` counted from the start, checked."""
        n = len(self)
        if not -n <= index < n:
            raise BoundsError(
                type(self).__name__, "the index is outside the data set", index=index, length=n
            )
        return index % n


class ArrayDataset(Dataset):
    """Arrays of the same length: example ``i`` is ``(arrays[0][i], arrays[1][i], ...)``.

    Args:
        *arrays: ``(n, ...)`` each.
        classes: names of the labels.

    Attributes:
        arrays: the arrays, as given.

    Raises:
        ShapeError: if there is no array, or their lengths differ.

    Example:
        >>> data = ArrayDataset(np.zeros((5, 1, 8, 8)), np.arange(5))
        >>> images, labels = data.fetch(np.array([4, 0]))
        >>> images.shape, labels.tolist()
        ((2, 1, 8, 8), [4, 0])
    """

    def __init__(self, *arrays: ArrayLike, classes: Sequence[str] = ()) -> None:
        self.arrays: Arrays = tuple(np.asarray(array) for array in arrays)
        self.classes = tuple(classes)
        shapes = [array.shape for array in self.arrays]
        if len({shape[:1] for shape in shapes}) != 1 or () in shapes:
            raise ShapeError("ArrayDataset", "needs arrays of one length", shapes=shapes)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        at = self._position(index)
        return tuple(array[at] for array in self.arrays)

    def fetch(self, indices: NDArray[Any]) -> Arrays:
        """One gather for each array."""
        return tuple(array.take(indices, axis=0) for array in self.arrays)


class Subset(Dataset):
    """Some examples of another data set.

    Args:
        dataset: the other one.
        indices: which of its examples, in which order.

    Raises:
        BoundsError: if an index is outside ``dataset``.
    """

    def __init__(self, dataset: Dataset, indices: ArrayLike) -> None:
        self.dataset = dataset
        self.indices = np.asarray(indices, dtype=np.intp).reshape(-1)
        self.classes = dataset.classes
        wrong = self.indices[(self.indices < 0) | (self.indices >= len(dataset))]
        if wrong.size:
            raise BoundsError(
                "Subset", "an index is outside the data set", index=wrong[0], length=len(dataset)
            )

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.dataset[int(self.indices[self._position(index)])]

    def fetch(self, indices: NDArray[Any]) -> Arrays:
        """The other data set's batch, at these examples' places in it."""
        return self.dataset.fetch(self.indices[indices])


def random_split(
    dataset: Dataset, lengths: Sequence[float], *, seed: int = 0
) -> tuple[Subset, ...]:
    """Split a data set at random into parts that do not overlap.

    Args:
        dataset: what to split.
        lengths: the parts' lengths, or fractions of the whole that sum to 1 (examples left over by
            rounding down go to the first parts, one each).
        seed: the same seed gives the same parts.

    Returns:
        One subset for each length.

    Raises:
        ArgumentError: if the lengths do not sum to the whole, or one is negative.

    Example:
        >>> data = ArrayDataset(np.arange(10))
        >>> [len(part) for part in random_split(data, [0.8, 0.2])]
        [8, 2]
    """
    n = len(dataset)
    if all(isinstance(length, Integral) for length in lengths):  # NumPy's, too
        counts = [int(length) for length in lengths]
    else:
        if not math.isclose(math.fsum(lengths), 1.0, abs_tol=1e-9):
            raise ArgumentError("random_split", "fractions sum to 1", lengths=list(lengths))
        counts = [math.floor(n * fraction + 1e-9) for fraction in lengths]
        for i in range(n - sum(counts)):
            counts[i % len(counts)] += 1
    if sum(counts) != n or min(counts, default=0) < 0:
        raise ArgumentError(
            "random_split",
            "lengths are 0 or more and sum to the data set's",
            lengths=list(lengths),
            length=n,
        )
    order = permutation(n, seed)
    ends = np.cumsum(counts)
    return tuple(Subset(dataset, order[end - c : end]) for c, end in zip(counts, ends, strict=True))
