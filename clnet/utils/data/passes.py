"""A pass over what acts as PyTorch's loader, for packages that make one of its private class.

Packages inherit these and reach into them (torchdata's loader keeps its place in a pass), so the
attributes have PyTorch's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ...ranks.membership import get_rank, get_world_size, is_initialized
from .dataset import several
from .sampler import drawn_seed

__all__ = ["Kind", "Pass", "PassWithWorkers", "PassWithoutWorkers"]


class Fetcher:
    """Makes batches of the examples that a sampler names.

    Args:
        dataset: gives examples by index.
        auto_collation: whether a sampler gives lists of indices.
        collate_fn: makes a batch of examples.
        drop_last: whether a stream's last batch that is not full is left out.
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,  # noqa: FBT001 - PyTorch's
        collate_fn: Callable[[Any], Any],
        drop_last: bool,  # noqa: FBT001
    ) -> None:
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last = collate_fn, drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch of these indices, or of this one."""
        together, index = self.auto_collation, possibly_batched_index
        return self.collate_fn(several(self.dataset, index) if together else self.dataset[index])


class StreamFetcher(Fetcher):
    """The same of a stream, whose examples come as they come.

    Args:
        dataset: gives examples one after another.
        given: as a :class:`Fetcher` takes them.
    """

    def __init__(self, dataset: Any, *given: Any) -> None:
        super().__init__(dataset, *given)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The next batch, of as many examples as there are indices, or the next example."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        n = len(possibly_batched_index)
        found = list(islice(self.dataset_iter, n))
        self.ended = len(found) < n
        if not found or (self.drop_last and self.ended):
            raise StopIteration
        return self.collate_fn(found)


class Kind:
    """How a data set is read: by index, or as a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,  # noqa: FBT001 - PyTorch's
        collate_fn: Callable[[Any], Any],
        drop_last: bool,  # noqa: FBT001
    ) -> Fetcher:
        """What makes batches of a data set of a kind."""
        made = StreamFetcher if kind == Kind.Iterable else Fetcher
        return made(dataset, auto_collation, collate_fn, drop_last)


class Pass:
    """What packages ask whether a pass is one of; clnet's own are of another class.

    Args:
        loader: has ``dataset``, ``collate_fn``, ``drop_last`` and PyTorch's ``_dataset_kind``,
            ``_auto_collation`` and ``_index_sampler``.
    """

    def __init__(self, loader: Any) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._auto_collation, self._drop_last = loader._auto_collation, loader.drop_last
        self._index_sampler, self._collate_fn = loader._index_sampler, loader.collate_fn
        self._num_workers = getattr(loader, "num_workers", 0)
        self._timeout = getattr(loader, "timeout", 0)
        self._persistent_workers = getattr(loader, "persistent_workers", False)
        self._IterableDataset_len_called = getattr(loader, "_IterableDataset_len_called", None)
        self._pin_memory, self._pin_memory_device = False, None
        ranks = is_initialized()
        self._world_size, self._rank = (get_world_size(), get_rank()) if ranks else (1, 0)
        self._shared_seed = None
        self._base_seed = drawn_seed(getattr(loader, "generator", None))
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002
        """Begin the sampler's next pass."""
        del loader, first_iter
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} says by _next_data how a batch is made")

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """The next batch."""
        found = self._next_data()
        self._num_yielded += 1
        return found

    def __len__(self) -> int:
        return len(self._index_sampler)


class PassWithoutWorkers(Pass):
    """What such packages make where no workers are wanted.

    Args:
        loader: as that of :class:`Pass`.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._dataset_fetcher = Kind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())


class PassWithWorkers(PassWithoutWorkers):
    """And where some are: their batches are made here, too, one after the other."""
