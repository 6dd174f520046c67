"""Batches of tensors from a set of examples, made here or by processes."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Generator as Generated
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from ...data.dataset import Dataset as HostDataset
from ...errors import ArgumentError
from ...ops.machinery.function import host_action
from ...tensor import tensor
from ...values import mode
from ...values.generator import Generator
from .collate import Make, OnHost, collated, converted, default_collate, default_convert
from .dataset import IterableDataset, TensorDataset, several
from .passes import Kind as _DatasetKind
from .passes import Pass as _BaseDataLoaderIter  # noqa: F401 - PyTorch's names
from .passes import PassWithoutWorkers as _SingleProcessDataLoaderIter  # noqa: F401
from .passes import PassWithWorkers as _MultiProcessingDataLoaderIter  # noqa: F401
from .pipes import sharded as _sharding_worker_init_fn  # noqa: F401
from .sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed
from .sampler import Endless as _InfiniteConstantSampler
from .worker import (
    Failed,
    Fetch,
    Task,
    UnsentError,
    Work,
    Workers,
    get_worker_info,  # noqa: F401
    in_order,
    obstacle,
)

T = TypeVar("T", covariant=True)
# Samplers and workers are made of these.
_SETTLED = "batch_size batch_sampler sampler drop_last dataset persistent_workers".split()
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
_Outcomes = Generated[Any, None, None]
_AHEAD = 2  # batches a worker makes ahead, unless prefetch_factor says so


class DataLoader(Generic[T]):
    """Batches of a set, each pass over it one epoch.

    Args:
        dataset: has ``__getitem__`` and ``__len__``, or is an :class:`IterableDataset`.
        batch_size: examples in a batch; None: each example by itself.
        shuffle: whether each pass has a random order of its own.
        sampler: gives indices, in the place of ``shuffle``.
        batch_sampler: gives lists of indices, in the place of ``batch_size``, ``shuffle``,
            ``sampler`` and ``drop_last``.
        num_workers: processes that make batches ahead; 0: batches are made when they are asked for,
            as they are, with a warning, where processes cannot be spawned: because the main file
            has no ``if __name__ == "__main__"``, or the set cannot be pickled.
        collate_fn: makes a batch of a list of examples; None: :func:`default_collate` (of single
            examples: :func:`default_convert`).
        pin_memory: taken as PyTorch does; uploads go through the device's staging memory anyway.
        drop_last: whether a last batch that is not full is left out.
        timeout: seconds to wait for a worker; 0: any time.
        worker_init_fn: called with the worker's number in each worker at its start.
        multiprocessing_context: how processes start; None: ``"spawn"`` where that goes. Forked ones
            (``"fork"``) can use NumPy's arrays and not clnet's tensors.
        generator: where orders and the workers' seeds come from; None: the default one.
        prefetch_factor: batches each worker makes ahead; None: 2.
        persistent_workers: whether workers stay for the next pass.
        pin_memory_device: taken as PyTorch does.
        in_order: batches come in the sampler's order, whatever it says.

    Raises:
        ArgumentError: if arguments exclude each other or are out of range.

    Example:
        >>> import clnet
        >>> data = TensorDataset(clnet.arange(5) * 10, clnet.arange(5))
        >>> for x, y in DataLoader(data, batch_size=2):
        ...     print(x.tolist(), y.tolist())
        [0, 10] [0, 1]
        [20, 30] [2, 3]
        [40] [4]
    """

    _IterableDataset_len_called: int | None = None  # for packages

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,  # noqa: FBT001 - PyTorch's
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        drop_last: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset = dataset
        stream = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        self.num_workers = num_workers
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = (
            _AHEAD if num_workers and prefetch_factor is None else prefetch_factor
        )
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self._check_workers()
        _check_batches(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            sampler = _sampler(dataset, bool(shuffle), generator)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        default = default_convert if batch_sampler is None else default_collate
        self.collate_fn: Callable[[Any], Any] = default if collate_fn is None else collate_fn
        self._workers: Workers | None = None

    def __len__(self) -> int:
        """Batches in a pass, if the set and the samplers know."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)  # pyrefly: ignore[bad-argument-type] - those that have a length
        n = len(self.dataset)  # pyrefly: ignore[bad-argument-type] - those that have a length
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[T]:
        if mode.current().tracer is not None and not self.num_workers:
            host_action(self._go_on)
            return _Pass(self._made_here())
        seed = drawn_seed(self.generator)
        if self.num_workers == 0 or self._is_alone():
            return _Pass(self._made_here())
        return _Pass(self._from_workers(seed))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTLED and "_workers" in self.__dict__:
            law = f"{name} is not set once the loader is made"
            raise ArgumentError("DataLoader", law, remedy="Make another loader")
        if name == "multiprocessing_context" and isinstance(value, str):
            value = multiprocessing.get_context(value)
        super().__setattr__(name, value)

    def _go_on(self) -> None:
        """What a pass changes, of a compiled function's later calls."""
        (self.generator or mode.current().generator).take(1)

    def _made_here(self) -> _Outcomes:
        return _batches(self._fetcher(tensor)(self.dataset), iter(self._index_sampler))

    def _is_alone(self) -> bool:
        """Whether workers cannot begin, which is said."""
        reason = obstacle() if self.multiprocessing_context is None else ""
        if reason:
            _say_alone(reason)
        return bool(reason)

    @property
    def _auto_collation(self) -> bool:  # for packages
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """What says which batches there are."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def check_worker_number_rationality(self) -> None:
        """PyTorch's warning of more workers than cores; nothing is said here."""

    def _fetcher(self, make: Make) -> Callable[[Any], Fetch]:
        """What begins a pass; the default collating makes tensors where they are wanted."""
        collate: Callable[[Any], Any] = self.collate_fn
        if collate is default_collate:
            collate = partial(collated, make=make)
        elif collate is default_convert:
            collate = partial(converted, make=make)
        batched = self.batch_sampler is not None
        if isinstance(self.dataset, IterableDataset):
            return partial(_stream, collate=collate, batched=batched, drop_last=self.drop_last)
        if batched and self.collate_fn is default_collate:
            if isinstance(self.dataset, TensorDataset):
                return _gathered
            if isinstance(self.dataset, HostDataset):
                return partial(_gathered_on_host, make=make)
        return partial(_examples, collate=collate, batched=batched)

    def _from_workers(self, seed: int) -> _Outcomes:
        workers, self._workers = self._workers, None
        if workers is None:
            work = Work(self.dataset, self._fetcher(OnHost), self.worker_init_fn)
            context, timeout = self.multiprocessing_context, self.timeout
            try:
                workers = Workers(
                    work, self.num_workers, seed=seed, context=context, timeout=timeout
                )
            except UnsentError as error:
                if context is not None:
                    raise
                _say_alone(str(error))
                yield from self._made_here()
                return
        else:
            for k in range(self.num_workers):
                workers.send(k, Task(None, None))
        healthy = False
        try:
            tasks = iter(self._index_sampler)
            yield from map(_opened, in_order(workers, tasks, self.prefetch_factor or _AHEAD))
            healthy = True
        except GeneratorExit:
            healthy = True
            raise
        finally:
            if healthy and self.persistent_workers and self._workers is None:
                self._workers = workers
            else:
                workers.close()

    def __del__(self) -> None:
        workers = self.__dict__.get("_workers")
        if workers is not None:
            workers.close()

    def _check_workers(self) -> None:
        name, n = "DataLoader", self.num_workers
        if n < 0 or self.timeout < 0:
            law = "num_workers and timeout are 0 or more"
            raise ArgumentError(name, law, num_workers=n, timeout=self.timeout)
        if n == 0 and (self.prefetch_factor is not None or self.persistent_workers or self.timeout):
            raise ArgumentError(
                name,
                "prefetch_factor, persistent_workers and timeout are about workers",
                num_workers=n,
                remedy="Set num_workers to 1 or more",
            )
        if self.prefetch_factor is not None and self.prefetch_factor < 1:
            law = "prefetch_factor is 1 or more"
            raise ArgumentError(name, law, prefetch_factor=self.prefetch_factor)


def _say_alone(reason: str) -> None:
    warnings.warn(f"DataLoader: batches are made in this process: {reason}", stacklevel=4)


def _check_batches(
    dataset: Any,
    batch_size: int | None,
    shuffle: bool | None,  # noqa: FBT001
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,  # noqa: FBT001
) -> None:
    """Refuse arguments that say the same thing twice."""
    name = "DataLoader"
    ordered = shuffle or sampler is not None or batch_sampler is not None
    if isinstance(dataset, IterableDataset) and ordered:
        law = "a stream has its own order: shuffle, sampler and batch_sampler are for indices"
        raise ArgumentError(name, law, shuffle=shuffle)
    if sampler is not None and shuffle:
        raise ArgumentError(name, "sampler and shuffle exclude each other")
    alone = batch_size == 1 and not shuffle and sampler is None and not drop_last
    if batch_sampler is not None and not alone:
        law = "batch_sampler excludes batch_size, shuffle, sampler and drop_last"
        raise ArgumentError(name, law, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last)
    if batch_size is None and drop_last:
        raise ArgumentError(name, "drop_last is about batches", batch_size=batch_size)


def _sampler(dataset: Any, shuffle: bool, generator: Generator | None) -> Iterable[Any]:  # noqa: FBT001
    if isinstance(dataset, IterableDataset):
        return _InfiniteConstantSampler()
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


class _Pass(Iterator[T]):
    """A pass, which goes on behind a batch that could not be made, as PyTorch's does.

    Args:
        outcomes: batches, or what went wrong: a generator that raises it would be over.
    """

    def __init__(self, outcomes: _Outcomes) -> None:
        self._outcomes = outcomes

    def close(self) -> None:
        """The pass is over: its workers end, or wait for the next one."""
        self._outcomes.close()

    def __next__(self) -> T:
        found = next(self._outcomes)
        if not isinstance(found, Failed):
            return found
        try:
            raise found.error
        finally:
            del found  # else the traceback would hold itself


def _opened(content: bytes | Failed) -> Any:
    return content if isinstance(content, Failed) else pickle.loads(content)


def _batches(fetch: Fetch, tasks: Iterator[Any]) -> _Outcomes:
    for indices in tasks:
        try:
            outcome = [fetch(indices)]
        except StopIteration:  # of a stream
            return
        except Exception as error:  # whatever it is, it is raised for whoever asks
            outcome = [Failed(error)]
        yield outcome.pop()  # the caller's alone; see in_order


# What begins a pass: a function of the data set that gives a Fetch. At the top, so that it pickles.


def _examples(dataset: Any, *, collate: Callable[[Any], Any], batched: bool) -> Fetch:
    if batched:
        return lambda indices: collate(several(dataset, indices))
    return lambda index: collate(dataset[index])


def _gathered(dataset: TensorDataset) -> Fetch:
    return dataset.fetch


def _gathered_on_host(dataset: HostDataset, *, make: Make) -> Fetch:
    return lambda indices: [make(array) for array in dataset.fetch(indices)]


def _stream(
    dataset: Iterable[Any], *, collate: Callable[[Any], Any], batched: bool, drop_last: bool
) -> Fetch:
    examples = iter(dataset)

    def fetch(places: Any) -> Any:
        if not batched:
            return collate(next(examples))
        batch = list(islice(examples, len(places)))
        if not batch or (drop_last and len(batch) < len(places)):
            raise StopIteration
        return collate(batch)

    return fetch
