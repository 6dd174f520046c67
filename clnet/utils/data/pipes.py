"""``torch.utils.data.datapipes``: the classes that packages ask a data set about.

A program's own pipes are data sets; of PyTorch's own there is the shuffler, whose state trainers
keep. Pipes are not put together by methods (``pipe.map``), as PyTorch has deprecated them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ...random import randint
from .dataset import Dataset, IterableDataset
from .worker import get_worker_info

__all__ = ["IterDataPipe", "MapDataPipe", "ShufflerIterDataPipe"]


class IterDataPipe(IterableDataset):
    """A stream of examples, which heirs give by ``__iter__``."""


class MapDataPipe(Dataset):
    """Examples by index, which heirs give by ``__getitem__``."""


class ShufflerIterDataPipe(IterDataPipe):
    """A stream in a drawn order: each example is drawn from a buffer of those to come.

    Args:
        datapipe: the stream.
        default: whether it is shuffled, unless :meth:`set_shuffle` says otherwise.
        buffer_size: how many are waiting.
        unbatch_level: taken.
    """

    def __init__(
        self,
        datapipe: Any,
        *,
        default: bool = True,
        buffer_size: int = 10000,
        unbatch_level: int = 0,
    ) -> None:
        self.datapipe, self.buffer_size = datapipe, buffer_size
        self._enabled = default
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:  # noqa: FBT001, FBT002
        """Whether it is shuffled from the next pass on; gives itself."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """The order of the next pass; gives itself."""
        self._seed = seed
        return self

    def __len__(self) -> int:
        return len(self.datapipe)

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        drawn = random.Random(randint(2**31, ()).item() if self._seed is None else self._seed)
        self._seed = None
        waiting: list[Any] = []
        for example in self.datapipe:
            if len(waiting) < self.buffer_size:
                waiting.append(example)
                continue
            place = drawn.randrange(len(waiting))
            found, waiting[place] = waiting[place], example
            yield found
        drawn.shuffle(waiting)
        yield from waiting


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:  # noqa: FBT001
    """Tell a shuffler whether to shuffle; None: as it is. Gives what it was given."""
    if shuffle is not None and isinstance(datapipe, ShufflerIterDataPipe):
        datapipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Draw a shuffler's seed from a generator. Gives what it was given."""
    if isinstance(datapipe, ShufflerIterDataPipe):
        datapipe.set_seed(int(randint(2**31, (), generator=rng).item()))
    return datapipe


def apply_sharding(datapipe: Any, num_of_instances: int, instance_id: int) -> Any:
    """Tell a pipe that knows of shares which one is its own. Gives what it was given."""
    if hasattr(datapipe, "apply_sharding"):
        datapipe.apply_sharding(num_of_instances, instance_id)
    return datapipe


def sharded(begin: Any, world_size: int, rank_id: int, worker_id: int) -> None:
    """What a worker does first, of a pipe: take its share, and call ``worker_init_fn``."""
    info = get_worker_info()
    if info is not None:
        n = info.num_workers
        apply_sharding(info.dataset, n * world_size, n * rank_id + worker_id)
    if begin is not None:
        begin(worker_id)


def _as_it_is(datapipe: Any) -> Any:  # pickled as any other object
    return datapipe


def _module(name: str, **held: Any) -> ModuleType:
    made = ModuleType(f"torch.utils.data.{name}")
    made.__dict__.update(held)
    return made


datapipes = _module(
    "datapipes",
    iter=_module(
        "datapipes.iter",
        IterDataPipe=IterDataPipe,
        Shuffler=ShufflerIterDataPipe,
        combinatorics=_module(
            "datapipes.iter.combinatorics", ShufflerIterDataPipe=ShufflerIterDataPipe
        ),
    ),
    datapipe=_module(
        "datapipes.datapipe",
        IterDataPipe=IterDataPipe,
        MapDataPipe=MapDataPipe,
        _IterDataPipeSerializationWrapper=_as_it_is,
        _MapDataPipeSerializationWrapper=_as_it_is,
    ),
)
graph_settings = _module(
    "graph_settings",
    apply_random_seed=apply_random_seed,
    apply_sharding=apply_sharding,
    apply_shuffle_settings=apply_shuffle_settings,
)
