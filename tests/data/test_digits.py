"""The digits inside the package."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.data import Digits


def test_split_is_stratified_and_complete():
    train, test = Digits(), Digits(train=False)
    assert (len(train), len(test)) == (1438, 359)
    assert train.arrays[0].shape[1:] == (1, 8, 8)
    assert (train.arrays[0].dtype, train.arrays[1].dtype) == (np.uint8, np.int64)
    assert max(train.arrays[0].max(), test.arrays[0].max()) == 16
    counts = np.bincount(test.arrays[1]) / (
        np.bincount(test.arrays[1]) + np.bincount(train.arrays[1])
    )
    assert (np.abs(counts - 0.2) < 0.003).all()
    assert train.classes == tuple("0123456789")


def test_split_follows_the_seed():
    np.testing.assert_array_equal(Digits().arrays[0], Digits(seed=0).arrays[0])
    assert not np.array_equal(Digits(seed=1).arrays[0], Digits().arrays[0])


def test_images_are_scikit_learns():
    datasets = pytest.importorskip("sklearn.datasets", reason="compares with scikit-learn's copy")
    theirs = datasets.load_digits()
    halves = [Digits(seed=5), Digits(train=False, seed=5)]
    images = np.concatenate([half.arrays[0] for half in halves]).reshape(-1, 64)
    labels = np.concatenate([half.arrays[1] for half in halves])
    assert sorted(map(tuple, np.column_stack([images, labels]).tolist())) == sorted(
        map(tuple, np.column_stack([theirs.data, theirs.target]).astype(int).tolist())
    )
