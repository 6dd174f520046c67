"""A pass over what acts as PyTorch's loader, for packages that make one of its private class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["Kind", "Pass", "PassWithWorkers", "PassWithoutWorkers"]


class Kind:
    """How a data set is read: by index, or as a stream."""

    Map = 0
    Iterable = 1


class Pass:
    """What packages ask whether a pass is one of; clnet's own are of another class.

    Args:
        loader: has ``dataset``, ``collate_fn``, ``drop_last`` and PyTorch's ``_dataset_kind``,
            ``_auto_collation`` and ``_index_sampler``.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        stream = loader._dataset_kind == Kind.Iterable
        self._examples = iter(loader.dataset) if stream else None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next batch, made here."""
        index = next(self._indices)
        loader, together = self._loader, self._loader._auto_collation
        if self._examples is None:
            found = [loader.dataset[i] for i in index] if together else loader.dataset[index]
        elif together:
            found = list(islice(self._examples, len(index)))
            if not found or (loader.drop_last and len(found) < len(index)):
                raise StopIteration
        else:
            found = next(self._examples)
        return loader.collate_fn(found)

    def __len__(self) -> int:
        return len(self._loader._index_sampler)


class PassWithoutWorkers(Pass):
    """What such packages make where no workers are wanted."""


class PassWithWorkers(Pass):
    """And where some are: their batches are made here, too, one after the other."""
