"""The loader: order, resumption, prefetching, errors; nothing may hang."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

from clnet.data import ArrayDataset, Compose, DataLoader, Dataset, RandomCrop, RandomHorizontalFlip
from clnet.errors import ArgumentError, CheckpointError

PREFETCH = pytest.mark.parametrize("prefetch", [0, 1, 2, 7])


class Faulty(Dataset):
    """Raises at one example."""

    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index == 7:
            raise LookupError("example 7 is broken")
        return (np.full(2, index),)


def numbered(n: int = 10) -> ArrayDataset:
    return ArrayDataset(np.arange(n) * 10, np.arange(n))


def labels(loader: DataLoader) -> list[list[int]]:
    return [batch[1].tolist() for batch in loader]


def prefetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "clnet-prefetch"]


def wait_for_no_threads() -> None:
    deadline = time.monotonic() + 5
    while prefetch_threads():
        assert time.monotonic() < deadline, "a prefetching thread goes on"
        time.sleep(0.002)


@PREFETCH
@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_come_in_order_and_are_counted(prefetch, drop_last, sizes):
    loader = DataLoader(numbered(), 4, drop_last=drop_last, prefetch=prefetch)
    assert len(loader) == len(sizes)
    batches = list(loader)
    assert [len(x) for x, _ in batches] == sizes
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), range(sum(sizes)))
    for x, y in batches:
        np.testing.assert_array_equal(x, y * 10)


def test_shuffled_epochs_differ_and_repeat_with_the_seed():
    first = DataLoader(numbered(40), 7, shuffle=True, seed=4)
    epochs = [labels(first) for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    for epoch in epochs:
        assert sorted(label for batch in epoch for label in batch) == list(range(40))
    again = DataLoader(numbered(40), 7, shuffle=True, seed=4, prefetch=0)
    assert [labels(again) for _ in range(3)] == epochs
    assert labels(DataLoader(numbered(40), 7, shuffle=True, seed=5)) != epochs[0]


@PREFETCH
@pytest.mark.parametrize("stop", range(5))
def test_resumed_loader_continues_bit_for_bit(prefetch, stop):
    rng = np.random.default_rng(0)
    data = ArrayDataset(rng.integers(0, 256, (14, 3, 8, 8), np.uint8), np.arange(14))

    def make(depth):
        augment = Compose([RandomCrop(2), RandomHorizontalFlip()])
        return DataLoader(data, 4, shuffle=True, seed=9, prefetch=depth, transform=augment)

    whole = make(2)
    expected = [batch for _ in range(3) for batch in whole]
    interrupted = make(prefetch)
    list(interrupted)
    part = iter(interrupted)
    got = [next(part) for _ in range(stop)]
    state = interrupted.state_dict()
    assert (state["epoch"], state["position"]) == (1, stop)
    resumed = make(prefetch)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    got += [*resumed, *resumed]
    assert len(got) == 8
    for (x, y), (ex, ey) in zip(got, expected[4:], strict=True):
        np.testing.assert_array_equal(x, ex)
        np.testing.assert_array_equal(y, ey)


def test_position_counts_what_was_consumed_not_what_was_prefetched():
    loader = DataLoader(numbered(), 1, prefetch=8)
    batches = iter(loader)
    next(batches)
    time.sleep(0.05)  # lets the thread run ahead
    assert loader.state_dict()["position"] == 1


def test_pass_left_early_is_over():
    loader = DataLoader(numbered(), 4, shuffle=True)
    for _ in loader:
        break
    assert (loader.epoch, loader.state_dict()["position"]) == (0, 1)
    second = labels(loader)
    assert loader.epoch == 2
    reference = DataLoader(numbered(), 4, shuffle=True)
    labels(reference)
    assert second == labels(reference)


def test_older_pass_does_not_move_the_position():
    loader = DataLoader(numbered(), 4, prefetch=0)
    older, newer = iter(loader), iter(loader)
    next(newer)
    assert len(list(older)) == 3
    assert (loader.epoch, loader.state_dict()["position"]) == (0, 1)


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 5}, {"seed": 1}, {"shuffle": True}, {"drop_last": True}],
    ids=lambda change: next(iter(change)),
)
def test_state_of_another_loader_is_refused(change):
    state = DataLoader(numbered(), **{"batch_size": 4, **change}).state_dict()
    loader = DataLoader(numbered(), 4)
    before = loader.state_dict()
    with pytest.raises(CheckpointError, match="gives other batches"):
        loader.load_state_dict(state)
    assert loader.state_dict() == before


@pytest.mark.parametrize("change", [{"position": 4}, {"position": -1}, {"epoch": -1}, {"x": 1}])
def test_impossible_state_is_refused(change):
    loader = DataLoader(numbered(), 4)
    with pytest.raises(CheckpointError, match="DataLoader"):
        loader.load_state_dict({**loader.state_dict(), **change})


@PREFETCH
def test_error_in_the_data_set_arrives_with_its_traceback(prefetch):
    batches = iter(DataLoader(Faulty(), 2, prefetch=prefetch))
    assert [next(batches)[0][0, 0] for _ in range(3)] == [0, 2, 4]
    with pytest.raises(LookupError, match="example 7 is broken") as caught:
        next(batches)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "__getitem__"
    assert "test_error_in_the_data_set_arrives_with_its_traceback" in frames
    wait_for_no_threads()


def test_error_in_the_transform_arrives():
    def divide(x, _):
        raise ZeroDivisionError("in the transform")

    with pytest.raises(ZeroDivisionError, match="in the transform"):
        next(iter(DataLoader(numbered(), 4, transform=divide)))


def test_exit_in_the_thread_arrives_too():
    class Leaves(Faulty):
        def __getitem__(self, index):
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        list(DataLoader(Leaves(), 2))


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_leaving_early_stops_the_thread(taken):
    batches = iter(DataLoader(numbered(1000), 1, prefetch=2))
    for _ in range(taken):
        next(batches)
    assert len(prefetch_threads()) == (1 if taken else 0)
    batches.close()
    wait_for_no_threads()


def test_dropped_iterator_stops_the_thread():
    for _ in DataLoader(numbered(1000), 1):
        assert prefetch_threads()
        break
    wait_for_no_threads()


def test_thread_ends_with_the_epoch():
    assert len(list(DataLoader(numbered(), 3))) == 4
    wait_for_no_threads()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_thread_runs_ahead_by_no_more_than_asked(prefetch):
    made = []

    def count(x, _):
        made.append(1)
        return x

    batches = iter(DataLoader(numbered(100), 1, prefetch=prefetch, transform=count))
    next(batches)
    deadline = time.monotonic() + 5
    while len(made) < prefetch + 1 and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(0.05)
    assert len(made) == prefetch + 1
    batches.close()


def test_batches_are_made_while_the_consumer_works():
    release = threading.Event()

    def wait(x, draw):
        if draw.indices[0] == 1:
            release.set()
        return x

    batches = iter(DataLoader(numbered(), 1, prefetch=1, transform=wait))
    next(batches)
    assert release.wait(5), "batch 1 is not made before it is asked for"
    batches.close()


def test_process_ends_while_a_pass_is_open():
    code = (
        "import numpy as np\n"
        "from clnet.data import ArrayDataset, DataLoader\n"
        "batches = iter(DataLoader(ArrayDataset(np.arange(9)), 1))\n"
        "next(batches)\n"
        "print('done')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"done\n", b"")


def test_empty_data_set_gives_no_batch():
    loader = DataLoader(ArrayDataset(np.zeros((0, 2))), 4)
    assert len(loader) == 0
    assert list(loader) == []


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"batch_size": 4, "prefetch": -1}])
def test_arguments_are_checked(arguments):
    with pytest.raises(ArgumentError, match="DataLoader"):
        DataLoader(numbered(), **arguments)
