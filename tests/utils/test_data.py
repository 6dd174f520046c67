"""``clnet.utils.data``: what the loader gives, and what PyTorch's gives for the same arguments."""

from __future__ import annotations

import gc
import os
import pickle
import random
import threading
import time
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import clnet
from clnet.data import ArrayDataset
from clnet.errors import (
    ArgumentError,
    BoundsError,
    ClnetError,
    DtypeError,
    ShapeError,
    WorkerError,
)
from clnet.utils import data as ours

pytestmark = pytest.mark.device


class Point(NamedTuple):
    """An example with names."""

    x: Any
    y: Any


class Numbers:
    """A plain class: example ``i`` is ``(i, [i, i])``."""

    def __init__(self, n: int = 10) -> None:
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return index, np.full(2, index, np.float32)


class Faulty(Numbers):
    """Raises at two examples, in two ways."""

    def __getitem__(self, index):
        if index == 3:
            raise KeyError("example 3 is broken")
        if index == 5:
            raise ShapeError("example", "it is broken", index=index)
        return index


class Ending(Numbers):
    """Its process dies at an example."""

    def __getitem__(self, index):
        if index == 2:
            os._exit(7)
        return index


class Slow(Numbers):
    """Waits for long."""

    def __getitem__(self, index):
        time.sleep(60)


class Locked(Numbers):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Unreadable(Numbers):
    """Raises when it is unpickled."""

    def __setstate__(self, state):
        raise ValueError("not readable")


class Counting(ours.IterableDataset):
    """Numbers below ``n``, shared by the workers."""

    def __init__(self, n: int = 7) -> None:
        self.n = n

    def __iter__(self):
        info = ours.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.n, step))

    def __len__(self):
        return self.n


class Said(Numbers):
    """What a worker knows of itself."""

    def __getitem__(self, index):
        info = ours.get_worker_info()
        assert info is not None
        assert info.dataset is self
        drawn = (random.random(), np.random.rand(), clnet.rand(1).item())
        return info.id, info.num_workers, info.seed, *drawn, self.n


def grow(worker: int) -> None:
    info = ours.get_worker_info()
    assert info is not None
    info.dataset.n = 100 + worker


def summed(batch):
    return clnet.tensor([sum(index for index, _ in batch)])


def plain(value):
    """A batch with lists in the place of tensors, and their dtypes."""
    if hasattr(value, "tolist"):
        return str(value.dtype).rpartition(".")[2], value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else plain([*value])
    return value


def indices(loader) -> list[list[int]]:
    return [batch[0].tolist() for batch in loader]


BATCHES = [
    [1, 2],
    [1, 2.5],
    [2.5, 1],
    [True, False],
    ["a", "b"],
    [b"a", b"b"],
    [np.float32(1), np.float32(2)],
    [np.arange(2), np.arange(2) + 3],
    [(1, "a"), (2, "b")],
    [[1, 2.0], [3, 4.0]],
    [{"x": 1, "y": np.ones(2)}, {"x": 2, "y": np.zeros(2)}],
    [Point(1, 2.0), Point(3, 4.0)],
    [bytearray(b"ab"), bytearray(b"cd")],
    [{"deep": [({"x": np.int16(3)}, "t")]}, {"deep": [({"x": np.int16(4)}, "u")]}],
]


@pytest.fixture
def theirs():
    return pytest.importorskip("torch").utils.data


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_batches_are_what_pytorch_makes_of_the_examples(theirs, batch):
    got, expected = ours.default_collate(batch), theirs.default_collate(batch)
    assert plain(got) == plain(expected)
    assert type(got) is type(expected) or hasattr(got, "tolist")


@pytest.mark.parametrize("data", [*BATCHES, 3, np.float64(2), Point(np.ones(1), 2)], ids=str)
def test_single_examples_are_what_pytorch_makes_of_them(theirs, data):
    assert plain(ours.default_convert(data)) == plain(theirs.default_convert(data))


def test_tensors_are_stacked_also_pytorchs():
    torch = pytest.importorskip("torch")
    got = ours.default_collate([(clnet.ones(2), torch.ones(1)), (clnet.zeros(2), torch.zeros(1))])
    assert [part.tolist() for part in got] == [[[1, 1], [0, 0]], [[1], [0]]]
    assert all(isinstance(part, clnet.Tensor) for part in got)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        ([None, None], DtypeError, "type=NoneType"),
        ([[1], [1, 2]], ShapeError, r"lengths=\[1, 2\]"),
        ([np.ones(1), np.ones(2)], ShapeError, "one shape"),
        ([np.array("a"), np.array("b")], DtypeError, "<U1"),
    ],
)
def test_what_makes_no_batch_is_an_error(batch, error, text):
    with pytest.raises(error, match=text):
        ours.default_collate(batch)


SETTINGS = [
    {},
    {"batch_size": 4},
    {"batch_size": 4, "drop_last": True},
    {"batch_size": None},
    {"batch_size": 3, "sampler": [7, 1, 5, 5]},
    {"batch_sampler": [[1, 2], [9], [3, 3, 4]]},
    {"batch_size": None, "sampler": [2, 8]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_batches_and_their_number_are_pytorchs(theirs, settings):
    got, expected = ours.DataLoader(Numbers(), **settings), theirs.DataLoader(Numbers(), **settings)
    assert len(got) == len(expected)
    assert [plain(b) for b in got] == [plain(b) for b in expected]


@pytest.mark.parametrize(
    "settings", [{"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}]
)
def test_streams_are_batched_as_pytorchs_are(theirs, settings):
    class Stream(theirs.IterableDataset):
        def __iter__(self):
            return iter(range(7))

    got = ours.DataLoader(Counting(), **settings)
    expected = theirs.DataLoader(Stream(), **settings)
    assert [plain(b) for b in got] == [plain(b) for b in expected]
    assert len(got) == len(list(expected))


def test_workers_give_the_same_batches_in_the_same_order():
    loader = ours.DataLoader(Numbers(), 3, num_workers=2, persistent_workers=True)
    alone = [plain(b) for b in ours.DataLoader(Numbers(), 3)]
    assert [plain(b) for b in loader] == alone
    begun = iter(loader)
    assert plain(next(begun)) == alone[0]
    begun.close()
    assert [plain(b) for b in loader] == alone  # not what was made ahead for the pass left early
    processes = loader._workers.processes
    assert all(p.is_alive() for p in processes)
    pids = [p.pid for p in processes]
    del loader, processes
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_workers_share_a_stream_and_end_one_after_the_other():
    loader = ours.DataLoader(Counting(), 2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[0, 2], [1, 3], [4, 6], [5]]


def test_workers_know_who_they_are_and_draw_numbers_of_their_own():
    clnet.manual_seed(5)
    loader = ours.DataLoader(Said(4), 2, num_workers=2, worker_init_fn=grow)
    first, second = ([part.tolist() for part in batch] for batch in loader)
    assert (first[0], second[0]) == ([0, 0], [1, 1])
    assert first[1] == [2, 2]
    assert second[2][0] == first[2][0] + 1
    drawn = [
        set(part)
        for part in zip(*(a + b for a, b in zip(first[3:6], second[3:6], strict=True)), strict=True)
    ]
    assert len(set.union(*drawn)) == 12
    assert (first[6], second[6]) == ([100, 100], [101, 101])


def test_what_a_worker_raises_arrives_with_its_traceback():
    batches = iter(
        ours.DataLoader(Faulty(), num_workers=1, collate_fn=list, persistent_workers=True)
    )
    assert [next(batches) for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 0") as caught:
        next(batches)
    assert "__getitem__" in str(caught.value)
    assert next(batches) == [4]  # behind it the pass goes on
    with pytest.raises(ShapeError, match="it is broken; got index=5") as caught:
        list(ours.DataLoader(Faulty(), num_workers=1, sampler=[5]))
    assert "__getitem__" in str(caught.value.__cause__)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_pass_that_failed_is_over_with_its_last_name(workers):
    """Not with the collector: the error, whose traceback has the pass, is not kept by it."""
    gc.disable()
    try:
        begun = iter(ours.DataLoader(Faulty(), num_workers=workers, sampler=[3], collate_fn=list))
        with pytest.raises(KeyError) as caught:
            next(begun)
        left = weakref.ref(begun)
        del begun, caught
        assert left() is None
    finally:
        gc.enable()


def test_a_pass_goes_on_behind_an_example_that_fails():
    batches = iter(ours.DataLoader(Faulty(), 2, collate_fn=list))
    assert next(batches) == [0, 1]
    with pytest.raises(KeyError):
        next(batches)
    with pytest.raises(ShapeError):
        next(batches)
    assert list(batches) == [[6, 7], [8, 9]]


def test_a_collate_function_may_make_tensors_in_a_worker():
    loader = ours.DataLoader(Numbers(), 5, num_workers=1, collate_fn=summed)
    assert [b.tolist() for b in loader] == [[10], [35]]


def test_a_worker_that_dies_is_told():
    with pytest.raises(WorkerError, match=r"exited unexpectedly; got worker=0, exitcode=7"):
        list(ours.DataLoader(Ending(), num_workers=1))


def test_a_worker_that_is_slow_is_told(monkeypatch):
    monkeypatch.setattr("clnet.utils.data.worker._PATIENCE", 0.1)  # it will not end by itself
    with pytest.raises(WorkerError, match=r"timed out after 0\.01 seconds"):
        list(ours.DataLoader(Slow(), num_workers=1, timeout=0.01))


def test_what_cannot_be_pickled_is_told():
    with pytest.raises(ArgumentError, match=r"cannot pickle .*num_workers=0"):
        list(ours.DataLoader(Locked(), num_workers=1, multiprocessing_context="spawn"))
    with pytest.warns(UserWarning, match=r"made in this process: .*cannot pickle"):
        batches = list(ours.DataLoader(Locked(), 5, num_workers=1))
    assert [x.tolist() for x, _ in batches] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    with pytest.raises(ValueError, match=r"(?s)Caught ValueError.*not readable"):
        list(ours.DataLoader(Unreadable(), num_workers=1))


def test_shuffling_goes_by_the_generator():
    def order(seed):
        loader = ours.DataLoader(Numbers(), 4, shuffle=True, generator=clnet.Generator(seed))
        return [[i for batch in indices(loader) for i in batch] for _ in range(2)]

    first, second = order(3)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert order(3) == [first, second]
    assert order(4) != [first, second]
    clnet.manual_seed(1)
    once = indices(ours.DataLoader(Numbers(), 4, shuffle=True))
    clnet.manual_seed(1)
    assert indices(ours.DataLoader(Numbers(), 4, shuffle=True)) == once


def test_tensors_are_gathered_as_examples_are_stacked(device):
    x, y = clnet.arange(12).reshape(6, 2).float(), clnet.arange(6)
    data = ours.TensorDataset(x, y)
    sampler = [5, 0, -1, 3]
    got = [plain(b) for b in ours.DataLoader(data, 3, sampler=sampler)]
    stacked = ours.DataLoader(
        data, 3, sampler=sampler, collate_fn=lambda b: ours.default_collate(b)
    )
    assert got == [plain(b) for b in stacked]
    with pytest.raises(BoundsError, match="index=6, length=6"):
        list(ours.DataLoader(data, sampler=[6]))


def test_sets_of_clnet_data_are_fetched_at_once():
    data = ArrayDataset(np.arange(6.0).reshape(3, 2), np.arange(3))
    x, y = next(iter(ours.DataLoader(data, 2)))
    assert (x.tolist(), y.tolist()) == ([[0, 1], [2, 3]], [0, 1])


def test_sets_of_sets():
    both = ours.ConcatDataset([range(3), range(10, 12)])
    assert ([both[i] for i in range(-5, 5)], len(both)) == ([0, 1, 2, 10, 11] * 2, 5)
    with pytest.raises(BoundsError, match="index=5, length=5"):
        both[5]
    part = ours.Subset(both, [4, 0])
    assert (part[0], len(part), part.__getitems__([1, 0])) == (11, 2, [0, 11])
    side = ours.StackDataset(both, ours.Subset(both, [4, 3, 2, 1, 0]))
    assert (side[0], side.__getitems__([1, 2])) == ((0, 11), [(1, 10), (2, 2)])
    named = ours.StackDataset(a=range(3), b=range(3, 6))
    assert (named[1], named.__getitems__([2])) == ({"a": 1, "b": 4}, [{"a": 2, "b": 5}])
    chain = Counting(2) + Counting(3)
    assert (list(chain), len(chain)) == ([0, 1, 0, 1, 2], 5)
    numbers = ours.TensorDataset(clnet.arange(2))
    assert [x.item() for (x,) in numbers + numbers] == [0, 1, 0, 1]  # BoundsError ends it


def test_random_splits_are_parts():
    parts = ours.random_split(range(11), [0.5, 0.3, 0.2], generator=clnet.Generator(1))
    assert [len(p) for p in parts] == [6, 3, 2]
    assert sorted(x for p in parts for x in p) == list(range(11))
    again = ours.random_split(range(11), [6, 3, 2], generator=clnet.Generator(1))
    assert [list(p) for p in again] == [list(p) for p in parts]
    with pytest.warns(UserWarning, match="part 1 is empty"):
        ours.random_split(range(1), [0.6, 0.4])


def test_random_samplers_draw_what_they_say(theirs):
    draws = ours.RandomSampler(range(5), replacement=True, num_samples=2000)
    counts = np.bincount(list(draws), minlength=5)
    assert (len(draws), counts.sum()) == (2000, 2000)
    assert (abs(counts - 400) < 100).all()
    endless = iter(ours.RandomSampler(range(5), replacement=True, num_samples=10**12))
    assert {next(endless) for _ in range(100)} == set(range(5))
    twice = list(ours.RandomSampler(range(3), num_samples=7))
    assert sorted(twice[:3]) == sorted(twice[3:6]) == [0, 1, 2]
    assert sorted(ours.SubsetRandomSampler([7, 3, 9])) == [3, 7, 9]
    weights = [0.0, 1.0, 3.0, 0.0]
    drawn = np.bincount(list(ours.WeightedRandomSampler(weights, 2000)), minlength=4)
    assert drawn[0] == drawn[3] == 0
    assert 1400 < drawn[2] < 1600
    once = ours.WeightedRandomSampler(weights, 2, replacement=False)
    assert sorted(once) == [1, 2]
    first = [next(iter(once)) for _ in range(400)]
    assert 260 < first.count(2) < 340
    for rank in range(3):
        got = ours.DistributedSampler(range(10), 3, rank, shuffle=False)
        expected = theirs.DistributedSampler(range(10), 3, rank, shuffle=False)
        assert list(got) == list(expected)
    shares = [ours.DistributedSampler(range(9), 3, rank) for rank in range(3)]
    assert sorted(i for share in shares for i in share) == list(range(9))
    before = list(shares[0])
    shares[0].set_epoch(1)
    assert list(shares[0]) != before


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ours.DataLoader(Numbers(), sampler=[1], shuffle=True), "exclude each other"),
        (lambda: ours.DataLoader(Numbers(), 2, batch_sampler=[[1]]), "batch_sampler excludes"),
        (lambda: ours.DataLoader(Numbers(), None, drop_last=True), "drop_last is about batches"),
        (lambda: ours.DataLoader(Numbers(), 0), "batch_size is a whole number"),
        (lambda: ours.DataLoader(Counting(), shuffle=True), "a stream has its own order"),
        (lambda: ours.DataLoader(Counting(), batch_sampler=[]), "a stream has its own order"),
        (lambda: ours.DataLoader(Numbers(), num_workers=-1), "num_workers and timeout"),
        (lambda: ours.DataLoader(Numbers(), prefetch_factor=2), "are about workers"),
        (lambda: ours.DataLoader(Numbers(), persistent_workers=True), "are about workers"),
        (lambda: ours.DataLoader(Numbers(), num_workers=1, prefetch_factor=0), "1 or more"),
        (lambda: ours.DataLoader(Numbers(0), shuffle=True), "num_samples=0"),
        (lambda: setattr(ours.DataLoader(Numbers()), "batch_size", 2), "batch_size is not set"),
        (lambda: ours.RandomSampler([1], replacement=1), "replacement is a bool"),
        (lambda: ours.BatchSampler([1], 1, 1), "drop_last is a bool"),
        (lambda: ours.WeightedRandomSampler([1, -1], 1), "weights are"),
        (lambda: ours.WeightedRandomSampler([1, 0], 2, replacement=False), "positive=1"),
        (lambda: ours.WeightedRandomSampler([1], 0), "num_samples=0"),
        (lambda: ours.WeightedRandomSampler([1], 1, replacement=2), "replacement=2"),
        (lambda: ours.DistributedSampler([1]), "num_replicas=None"),
        (lambda: ours.random_split([1, 2], [1, 2]), "length=2"),
        (lambda: ours.random_split([1, 2], [-1, 3]), "0 or more"),
        (lambda: ours.ConcatDataset([]), "one set or more"),
        (lambda: ours.ConcatDataset([Counting()]), "Chain streams"),
        (lambda: list(ours.ChainDataset([[1]])), "type=list"),
        (lambda: ours.StackDataset(), "by position or by name"),
        (lambda: ours.StackDataset([1], [1, 2]), r"lengths=\[1, 2\]"),
        (lambda: ours.TensorDataset(clnet.ones(2), clnet.ones(3)), "tensors of one length"),
        (lambda: ours.TensorDataset(np.ones(2)), r"tensors\[0\] is a tensor"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make, text):
    with pytest.raises(ClnetError, match=text):
        make()


def test_abstract_sets_say_what_to_write():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        ours.Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(ours.IterableDataset())
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(ours.Sampler())


def test_sets_that_fetch_too_few_examples_are_told():
    class Short(Numbers):
        def __getitems__(self, indices):
            return [self[indices[0]]]

    with pytest.raises(ArgumentError, match="indices=2, examples=1"):
        list(ours.DataLoader(Short(), 2))


def test_tensors_of_a_set_are_pickled_for_workers():
    data = ours.TensorDataset(clnet.arange(4))
    assert [t.tolist() for t in pickle.loads(pickle.dumps(data)).tensors] == [[0, 1, 2, 3]]
    batches = [b[0].tolist() for b in ours.DataLoader(data, 2, num_workers=1)]
    assert batches == [[0, 1], [2, 3]]


def test_a_replacement_that_is_no_bool_is_an_error_of_kind():
    with pytest.raises(TypeError, match=r"^RandomSampler: replacement is a bool; got replacement"):
        ours.RandomSampler([1], replacement=0)


@pytest.mark.parametrize(
    "sampler",
    [
        ours.RandomSampler(range(9)),
        ours.SubsetRandomSampler(range(9)),
        ours.WeightedRandomSampler([1.0] * 9, 9),
        ours.WeightedRandomSampler([1.0] * 9, 9, replacement=False),
    ],
)
def test_samplers_draw_as_the_first_index_is_taken(sampler):
    passes = iter(sampler), iter(sampler)
    found = []
    for one in passes:
        clnet.manual_seed(3)
        found.append(list(one))
    assert found[0] == found[1]
