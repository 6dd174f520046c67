"""Data sets over arrays, their parts, and the counter-based random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.data import ArrayDataset, Dataset, Subset, random_split
from clnet.data.counter import Draw, permutation
from clnet.errors import ArgumentError, BoundsError, ShapeError


class Squares(Dataset):
    """A data set with the default ``fetch``."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return np.full((2,), self._position(index)), self._position(index) ** 2


def numbered(n: int = 10) -> ArrayDataset:
    return ArrayDataset(np.arange(n * 4).reshape(n, 2, 2), np.arange(n), classes=["a", "b"])


def test_examples_and_batches_agree():
    data = numbered()
    images, labels = data.fetch(np.array([7, 0, 7]))
    assert images.shape == (3, 2, 2)
    for i, index in enumerate([7, 0, 7]):
        image, label = data[index]
        np.testing.assert_array_equal(images[i], image)
        assert labels[i] == label == index
    assert data.classes == ("a", "b")


def test_fetched_batch_is_a_copy():
    data = numbered()
    data.fetch(np.array([0]))[0][:] = -1
    assert data[0][0].min() == 0


def test_default_fetch_stacks_examples():
    images, squares = Squares().fetch(np.array([5, 2]))
    np.testing.assert_array_equal(images, [[5, 5], [2, 2]])
    np.testing.assert_array_equal(squares, [25, 4])


@pytest.mark.parametrize("data", [numbered(6), Squares(), Subset(numbered(9), range(6))])
def test_index_counts_from_the_end_and_stops_at_the_end(data):
    assert data[-1][1] == data[5][1]
    for index in (6, -7):
        with pytest.raises(BoundsError, match=rf"index={index}, length=6"):
            data[index]
    assert len(list(data)) == 6


@pytest.mark.parametrize(
    "arrays",
    [(), (np.zeros(3), np.zeros(4)), (np.float32(1),), (np.zeros(3), np.float32(1))],
    ids=["none", "lengths", "scalar", "array and scalar"],
)
def test_arrays_of_other_lengths_are_refused(arrays):
    with pytest.raises(ShapeError, match="one length"):
        ArrayDataset(*arrays)


def test_subset_of_subset_selects_and_keeps_classes():
    part = Subset(Subset(numbered(), [8, 6, 4, 2]), [3, 0])
    np.testing.assert_array_equal(part.fetch(np.array([0, 1]))[1], [2, 8])
    assert [label for _, label in part] == [2, 8]
    assert part.classes == ("a", "b")


@pytest.mark.parametrize("index", [10, -1])
def test_subset_outside_is_refused(index):
    with pytest.raises(BoundsError, match=rf"index={index}, length=10"):
        Subset(numbered(), [0, index])


@pytest.mark.parametrize(
    ("lengths", "counts"),
    [([7, 3], [7, 3]), ([0.5, 0.3, 0.2], [5, 3, 2]), ([0.55, 0.45], [6, 4]), ([10, 0], [10, 0])],
)
def test_split_covers_everything_once(lengths, counts):
    parts = random_split(numbered(), lengths, seed=3)
    if all(isinstance(length, int) for length in lengths):
        lengths = [np.int64(length) for length in lengths]
        assert [len(p) for p in random_split(numbered(), lengths)] == [len(p) for p in parts]
    assert [len(part) for part in parts] == counts
    assert sorted(label for part in parts for _, label in part) == list(range(10))


def test_split_follows_the_seed():
    def labels(seed):
        return [int(label) for _, label in random_split(numbered(), [5, 5], seed=seed)[0]]

    assert labels(0) == labels(0)
    assert labels(0) != labels(1)


@pytest.mark.parametrize("lengths", [[5, 4], [11, -1], [0.5, 0.4], [1.5, -0.5], []])
def test_split_that_does_not_fit_is_refused(lengths):
    with pytest.raises(ArgumentError, match="random_split"):
        random_split(numbered(), lengths)


def test_permutations_differ_by_seed_and_epoch():
    orders = {
        tuple(permutation(50, seed, epoch=epoch)) for seed in (-1, 0, 1, 2**63) for epoch in (0, 1)
    }
    assert len(orders) == 8
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_permutation_never_changes():
    # A resumed training relies on it, also across versions of NumPy and of this package.
    assert permutation(10, 0).tolist() == [3, 8, 9, 4, 7, 6, 0, 2, 1, 5]
    assert permutation(10, 1, epoch=2).tolist() == [9, 1, 5, 0, 3, 7, 8, 2, 6, 4]


def test_permutations_have_no_preferred_place():
    first = np.array([permutation(8, 0, epoch=epoch)[0] for epoch in range(4000)])
    counts = np.bincount(first, minlength=8)
    # Chi-squared with 7 degrees of freedom exceeds 24.3 once in a thousand.
    assert ((counts - 500) ** 2 / 500).sum() < 24.3


def test_draws_depend_on_the_example_alone():
    whole = Draw(5, 2, np.arange(100)).bits()
    np.testing.assert_array_equal(Draw(5, 2, np.array([40, 3])).bits(), whole[[40, 3]])
    others = [
        Draw(6, 2, np.arange(100)).bits(),
        Draw(5, 3, np.arange(100)).bits(),
        Draw(5, 2, np.arange(100), stream=1).bits(),
        Draw(5, 2, np.arange(100)).bits(1),
    ]
    assert len({int(v) for bits in (whole, *others) for v in bits}) == 500


def test_integers_are_uniform():
    drawn = Draw(0, 0, np.arange(9000)).integers(9)
    counts = np.bincount(drawn, minlength=9)
    assert counts.size == 9
    # Chi-squared with 8 degrees of freedom exceeds 26.1 once in a thousand.
    assert ((counts - 1000) ** 2 / 1000).sum() < 26.1
