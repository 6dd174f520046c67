"""IDX files and the data sets made of them: MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from clnet.data import MNIST, FashionMNIST
from clnet.data.idx import read_idx
from clnet.errors import DataError

HALVES = {True: "train", False: "t10k"}


def idx(array: np.ndarray, code: int = 8) -> bytes:
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_half(folder: Path, *, train: bool, n: int = 5, labels: int | None = None) -> np.ndarray:
    """A small data set: image i is filled with i, and its label is i modulo 10."""
    folder.mkdir(parents=True, exist_ok=True)
    count = n if labels is None else labels
    images = np.arange(n, dtype=np.uint8)[:, None, None] + np.zeros((1, 28, 28), np.uint8)
    half = HALVES[train]
    (folder / f"{half}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
    content = idx((np.arange(count) % 10).astype(np.uint8))
    (folder / f"{half}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    return images


@pytest.mark.parametrize("compress", [gzip.compress, bytes], ids=["gz", "plain"])
@pytest.mark.parametrize(
    ("code", "dtype"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")],
)
def test_every_type_is_read(tmp_path, compress, code, dtype):
    array = (np.arange(24).reshape(2, 3, 4) - 12).astype(dtype)
    (tmp_path / "a").write_bytes(compress(idx(array, code)))
    read = read_idx(tmp_path / "a", ndim=3)
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(read, array)


WHOLE = idx(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_every_truncation_is_refused(tmp_path, length):
    for content in (WHOLE[:length], gzip.compress(WHOLE[:length])):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(DataError, match=r"a: (an IDX file starts|its header)") as caught:
            read_idx(tmp_path / "a", ndim=3)
        assert str(tmp_path / "a") in str(caught.value)


def test_every_truncated_gzip_is_refused(tmp_path):
    whole = gzip.compress(WHOLE)
    for length in range(2, len(whole)):
        (tmp_path / "a").write_bytes(whole[:length])
        with pytest.raises(DataError, match=rf"whole gzip file is needed; got bytes={length}"):
            read_idx(tmp_path / "a", ndim=3)


def test_damaged_gzip_is_refused(tmp_path):
    whole = bytearray(gzip.compress(WHOLE))
    whole[len(whole) // 2] ^= 0xFF
    (tmp_path / "a").write_bytes(whole)
    with pytest.raises(DataError, match="whole gzip file is needed"):
        read_idx(tmp_path / "a", ndim=3)


def test_a_gzip_that_unpacks_to_more_than_its_head_says_stops_there(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(WHOLE + bytes(2**25)))
    tracemalloc.start()
    with pytest.raises(DataError, match="makes 40 bytes, the file is too long"):
        read_idx(tmp_path / "a", ndim=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_head_that_asks_for_more_than_gzip_can_pack_is_refused_at_once(tmp_path):
    head = struct.pack(">HBB3I", 0, 8, 3, 2**31, 2**10, 2**10)
    (tmp_path / "a").write_bytes(gzip.compress(head + bytes(10)))
    with pytest.raises(DataError, match="the file is truncated"):
        read_idx(tmp_path / "a", ndim=3)


@pytest.mark.parametrize(
    ("content", "law", "found"),
    [
        (b"\x89PNG\r\n\x1a\n", "starts with 00 00", "start=89 50 4e 47"),
        (b"\0\0\x07\x03" + WHOLE[4:], "starts with 00 00", "start=00 00 07 03"),
        (b"", "starts with 00 00", "start=nothing"),
        (idx(np.zeros(4, np.uint8)), "of 3 dimensions is needed", "ndim=1"),
        (WHOLE + b"\0", "makes 40 bytes, the file is too long", "bytes=41"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 9), "the file is truncated", "=16"),
    ],
    ids=["png", "type code", "empty", "dimensions", "too long", "absurd header"],
)
def test_wrong_content_is_named(tmp_path, content, law, found):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=law) as caught:
        read_idx(tmp_path / "a", ndim=3)
    assert found in str(caught.value)
    assert str(tmp_path / "a") in str(caught.value)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="absent: the file cannot be read"):
        read_idx(tmp_path / "absent", ndim=3)


@pytest.mark.parametrize("function", [MNIST, FashionMNIST])
@pytest.mark.parametrize("train", [True, False])
def test_data_set_is_read_from_a_given_folder(tmp_path, cache, function, train):
    images = write_half(tmp_path / "here", train=train)
    data = function(tmp_path / "here", train=train)
    assert (len(data), len(data.classes)) == (5, 10)
    np.testing.assert_array_equal(data.arrays[0], images[:, None])
    np.testing.assert_array_equal(data.arrays[1], range(5))
    assert [array.dtype for array in data.arrays] == [np.uint8, np.int64]


@pytest.mark.parametrize(
    ("function", "folder"),
    [(MNIST, "mnist"), (MNIST, "MNIST/raw"), (FashionMNIST, "fashion-mnist")],
)
def test_data_folder_goes_before_the_cache(tmp_path, cache, set_data_dir, function, folder):
    write_half(cache / "data" / folder, train=True, n=7)
    assert len(function()) == 7
    set_data_dir(tmp_path / "data")
    assert len(function()) == 7  # the folder is absent: the cache serves
    write_half(tmp_path / "data" / folder, train=True, n=6)
    assert len(function()) == 6


def test_plain_files_are_found(tmp_path, cache):
    write_half(tmp_path, train=True)
    for path in tmp_path.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert len(MNIST(tmp_path)) == 5


def test_absent_data_set_lists_every_place_and_the_remedies(tmp_path, cache, set_data_dir):
    set_data_dir(tmp_path / "data")
    write_half(tmp_path / "data" / "mnist", train=False)
    with pytest.raises(DataError) as caught:
        MNIST()
    text = str(caught.value)
    for place in (tmp_path / "data", cache / "data"):
        assert str(place / "mnist") in text
        assert str(place / "MNIST" / "raw") in text
    for word in ("train-images-idx3-ubyte[.gz]", "download=True", "root", "CLNET_DATA"):
        assert word in text


def test_given_folder_is_never_replaced_by_another(tmp_path, cache):
    write_half(cache / "data" / "mnist", train=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no folder has") as caught:
        MNIST(tmp_path / "empty")
    assert str(cache) not in str(caught.value)


def test_half_a_pair_is_absent(tmp_path, cache):
    write_half(tmp_path, train=True)
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="no folder has"):
        MNIST(tmp_path)


def test_counts_that_differ_are_refused(tmp_path, cache):
    write_half(tmp_path, train=True, n=5, labels=4)
    with pytest.raises(DataError, match="as many labels as images") as caught:
        MNIST(tmp_path)
    assert f"images=5 in {tmp_path}/train-images" in str(caught.value)
    assert f"labels=4 in {tmp_path}/train-labels" in str(caught.value)


def test_labels_outside_the_classes_are_refused(tmp_path, cache):
    write_half(tmp_path, train=True)
    path = tmp_path / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.array([0, 1, 99, 3, 10], np.uint8))))
    with pytest.raises(DataError, match=r"labels are 0 to 9; got label=99, at=2, wrong=2 of 5"):
        MNIST(tmp_path)


def test_images_that_are_not_bytes_are_refused(tmp_path, cache):
    write_half(tmp_path, train=True)
    images = idx(np.zeros((5, 28, 28), np.float32), 0x0D)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(images)
    with pytest.raises(DataError, match="images are unsigned bytes; got dtype=float32"):
        MNIST(tmp_path)


@pytest.mark.parametrize("train", [True, False])
def test_real_fashion_mnist(real_data, train):
    real_data("fashion-mnist")
    data = FashionMNIST(train=train)
    assert data.arrays[0].shape == (60000 if train else 10000, 1, 28, 28)
    assert np.bincount(data.arrays[1]).tolist() == [6000 if train else 1000] * 10
    if train:
        assert abs(data.arrays[0].mean() - 72.9404) < 1e-4  # the published mean


def test_real_mnist(real_data):
    real_data("mnist")
    data = MNIST(train=False)
    assert data.arrays[0].shape == (10000, 1, 28, 28)
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(data.arrays[1]).tolist() == counts
    assert data.arrays[1][:5].tolist() == [7, 2, 1, 0, 4]
