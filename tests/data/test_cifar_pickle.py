"""CIFAR-10 in the folder that torchvision keeps."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from clnet.data import CIFAR10
from clnet.errors import DataError

NAMES = [f"data_batch_{i}" for i in range(1, 6)]


def written(root, **changes):
    """Small batches as torchvision keeps them; changes are of the last one."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    rng = np.random.default_rng(0)
    batches = []
    for name in NAMES:
        images = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
        batch = {b"data": images, b"labels": [int(n) for n in rng.integers(0, 10, 2)]}
        batches.append(batch)
        if name == NAMES[-1]:
            batch = {**batch, **{key.encode(): value for key, value in changes.items()}}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return batches


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_images_and_labels_are_those_written(tmp_path, below):
    batches = written(tmp_path)
    data = CIFAR10(tmp_path / below)
    images, labels = data.arrays
    expected = np.concatenate([b[b"data"] for b in batches]).reshape(-1, 3, 32, 32)
    np.testing.assert_array_equal(images, expected)
    assert labels.tolist() == [n for b in batches for n in b[b"labels"]]
    assert labels.dtype == np.int64


class Harmful:
    def __reduce__(self):
        return os.getcwd, ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"data": np.zeros((2, 3071), np.uint8)}, "rows of 3072 bytes"),
        ({"data": np.zeros((2, 3072), np.float32)}, "rows of 3072 bytes"),
        ({"labels": [0, 300]}, "labels are whole numbers"),
        ({"labels": [0, 11]}, "label"),
        ({"other": Harmful()}, "it names posix.getcwd|it names nt.getcwd"),
    ],
)
def test_what_is_no_batch_is_refused(tmp_path, changes, text):
    written(tmp_path, **changes)
    with pytest.raises(DataError, match=text):
        CIFAR10(tmp_path)


def test_damaged_file_is_refused(tmp_path):
    written(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / NAMES[2]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=NAMES[2]):
        CIFAR10(tmp_path)
