"""CIFAR-10 in its layouts, and folders of images."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from clnet.data import CIFAR10, DataLoader, ImageFolder, cifar10, image
from clnet.data.cifar10 import CLASSES
from clnet.errors import DataError

RECORD = 3073


def batch(n: int, first: int) -> bytes:
    """``n`` records: image i is filled with ``first + i``, its label is that modulo 10."""
    values = np.arange(first, first + n, dtype=np.uint8)
    pixels = np.repeat(values[:, None], RECORD - 1, axis=1)
    return np.column_stack([values % 10, pixels]).tobytes()


def write_batches(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(1, 6):
        (folder / f"data_batch_{i}.bin").write_bytes(batch(3, 3 * (i - 1)))
    (folder / "test_batch.bin").write_bytes(batch(4, 50))
    return folder


def check_batches(train, test) -> None:
    np.testing.assert_array_equal(train.arrays[0][:, 0, 0, 0], range(15))
    np.testing.assert_array_equal(train.arrays[1], np.arange(15) % 10)
    np.testing.assert_array_equal(test.arrays[0][:, 2, 31, 31], range(50, 54))
    assert train.arrays[0].shape == (15, 3, 32, 32)
    assert (train.arrays[0].dtype, train.arrays[1].dtype) == (np.uint8, np.int64)
    assert train.classes == CLASSES


def test_binary_version_is_read(tmp_path, cache):
    folder = write_batches(tmp_path / "a")
    check_batches(CIFAR10(folder), CIFAR10(folder, train=False))


def test_binary_planes_are_red_green_blue_by_rows(tmp_path, cache):
    pixels = (np.arange(RECORD - 1) % 251).astype(np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(b"\x09" + pixels.tobytes())
    ((image_,), (label,)) = CIFAR10(tmp_path, train=False).arrays
    assert label == 9
    assert image_[2, 5, 7] == (2 * 1024 + 5 * 32 + 7) % 251


def test_archive_is_read_in_any_order_of_its_members(tmp_path, cache):
    folder = write_batches(tmp_path / "a")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for path in sorted(folder.iterdir(), reverse=True):
            archive.add(path, f"cifar-10-batches-bin/{path.name}")
    check_batches(CIFAR10(tmp_path), CIFAR10(tmp_path, train=False))


@pytest.mark.parametrize("folder", ["cifar-10-batches-bin", "cifar10-jpeg", "cifar10"])
def test_data_folder_is_searched(tmp_path, set_data_dir, folder):
    write_batches(tmp_path / "data" / folder)
    set_data_dir(tmp_path / "data")
    assert len(CIFAR10()) == 15


@pytest.mark.parametrize(
    ("content", "law"),
    [
        (b"", "whole records of 3073 bytes; got bytes=0"),
        (batch(3, 0)[:-1], "whole records of 3073 bytes; got bytes=9218"),
        (b"\x0a" + batch(3, 0)[1:], "labels are 0 to 9; got label=10, at=0, wrong=1 of 3"),
    ],
    ids=["empty", "truncated", "label"],
)
def test_damaged_batch_is_named(tmp_path, cache, content, law):
    (write_batches(tmp_path) / "data_batch_4.bin").write_bytes(content)
    with pytest.raises(DataError, match=law) as caught:
        CIFAR10(tmp_path)
    assert str(tmp_path / "data_batch_4.bin") in str(caught.value)


def test_missing_batch_is_named(tmp_path, cache):
    (write_batches(tmp_path) / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3\.bin: the file cannot be read"):
        CIFAR10(tmp_path)


def test_damaged_archive_is_refused(tmp_path, cache):
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(write_batches(tmp_path / "a") / "test_batch.bin", "b/test_batch.bin")
    with pytest.raises(DataError, match=r"lacks files; got absent=\['data_batch_1\.bin'"):
        CIFAR10(tmp_path)
    whole = path.read_bytes()
    for length in (0, 5, len(whole) // 2, len(whole) - 12, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=str(path)):
            CIFAR10(tmp_path, train=False)


def test_absent_data_set_lists_the_places_and_layouts(tmp_path, cache):
    with pytest.raises(DataError) as caught:
        CIFAR10()
    for text in ("cifar10-jpeg", str(cache), "data_batch_1.bin", "train_1.zip", "download=True"):
        assert text in str(caught.value)


def encoded(value: int, size: tuple[int, int] = (32, 32), form: str = "PNG") -> bytes:
    """An image filled with ``value``, ``value + 1``, ``value + 2`` in red, green and blue."""
    pil = pytest.importorskip("PIL.Image", reason="images need Pillow, of the extra 'data'")
    out = io.BytesIO()
    pil.new("RGB", size, (value, value + 1, value + 2)).save(out, form)
    return out.getvalue()


def write_zips(folder: Path) -> Path:
    """Zips of two images each, with values from 10; the classes count up."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(f"train_{i}.zip" for i in range(1, 6)), "test.zip"]
    for i, name in enumerate(names):
        with zipfile.ZipFile(folder / name, "w") as archive:
            for k in (2 * i, 2 * i + 1):
                archive.writestr(f"{CLASSES[k % 10]}/{k:04d}.jpg", encoded(10 + k))
            archive.writestr("README.txt", "not an image")
    return folder


def check_zips(folder: Path) -> None:
    train, test = CIFAR10(folder), CIFAR10(folder, train=False)
    np.testing.assert_array_equal(train.arrays[1], range(10))
    np.testing.assert_array_equal(test.arrays[1], [0, 1])
    for data, first in ((train, 10), (test, 20)):
        assert data.arrays[0].shape == (len(data), 3, 32, 32)
        for i, picture in enumerate(data.arrays[0]):
            np.testing.assert_array_equal(picture[:, 9, 3], first + i + np.arange(3))


def decoded_files(cache: Path) -> list[Path]:
    return sorted((cache / "data" / "cifar10").iterdir())


def test_zips_are_decoded_once(tmp_path, cache, monkeypatch):
    folder = write_zips(tmp_path / "zips")
    check_zips(folder)
    assert len(decoded_files(cache)) == 2
    monkeypatch.setitem(sys.modules, "PIL", None)  # from now on nothing can be decoded
    check_zips(folder)


def test_changed_zip_is_decoded_again(tmp_path, cache):
    folder = write_zips(tmp_path / "zips")
    check_zips(folder)
    with zipfile.ZipFile(folder / "test.zip", "w") as archive:
        archive.writestr("truck/0000.jpg", encoded(99))
    data = CIFAR10(folder, train=False)
    assert (data.arrays[1].tolist(), int(data.arrays[0][0, 0, 0, 0])) == ([9], 99)


@pytest.mark.parametrize("keep", [0, 0.5, 0.99], ids=["empty", "half", "tail"])
def test_damaged_cache_entry_is_made_again(tmp_path, cache, keep):
    folder = write_zips(tmp_path / "zips")
    check_zips(folder)
    for path in decoded_files(cache):
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * keep)])
    check_zips(folder)


def test_unwritable_cache_is_told_once_and_changes_nothing(tmp_path, cache):
    folder = write_zips(tmp_path / "zips")
    cache.write_text("a regular file where the folder should be")
    with pytest.warns(RuntimeWarning, match=r"^cache: cannot write .*CLNET_CACHE_DIR") as told:
        check_zips(folder)
    assert len(told) == 1


def test_decoded_images_of_others_are_not_taken_for_these(tmp_path, cache):
    folder = write_zips(tmp_path / "zips")
    check_zips(folder)
    first, second = decoded_files(cache)
    kept = first.read_bytes()
    second.replace(first)
    second.write_bytes(kept)
    check_zips(folder)


def flagged(path: Path, at: int, value: int) -> None:
    """Change two bytes of a zip's heads, of each file and of the directory."""
    content = bytearray(path.read_bytes())
    for mark, shift in ((b"PK\x03\x04", at), (b"PK\x01\x02", at + 2)):
        start = content.find(mark)
        while start >= 0:
            content[start + shift : start + shift + 2] = value.to_bytes(2, "little")
            start = content.find(mark, start + 1)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("at", "value", "law"),
    [(6, 1, "it is encrypted"), (8, 14, "it is stored, or packed by deflate; got method=14")],
    ids=["encrypted", "LZMA"],
)
def test_unusual_zips_are_named(tmp_path, cache, at, value, law):
    folder = write_zips(tmp_path / "zips")
    flagged(folder / "test.zip", at, value)
    with pytest.raises(DataError, match=rf"test\.zip/.*\.jpg: {law}.*pack it plainly"):
        CIFAR10(folder, train=False)


def test_a_damaged_name_hides_no_image(tmp_path, cache):
    path = write_zips(tmp_path / "zips") / "test.zip"
    content = path.read_bytes()
    at = content.rindex(b".jpg")  # in the directory, at the end
    path.write_bytes(content[:at] + b".jpf" + content[at + 4 :])
    with pytest.raises(DataError, match="a whole zip archive is needed"):
        CIFAR10(tmp_path / "zips", train=False)


def peak_bytes(function) -> int:
    """The most memory that Python and NumPy took while it ran."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(folder: Path, law: str) -> None:
    with pytest.raises(DataError, match=law):
        CIFAR10(folder, train=False)


def test_a_zip_that_unpacks_to_too_much_is_refused_at_once(tmp_path, cache):
    path = tmp_path / "test.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/0.png", bytes(2**28))
    assert path.stat().st_size < 2**19
    assert peak_bytes(lambda: refused(tmp_path, "a file has at most 65,536 bytes")) < 2**22
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(4097):
            archive.writestr(f"cat/{i}.png", bytes(2**16))
    assert peak_bytes(lambda: refused(tmp_path, "its files have at most 268,435,456")) < 2**24


def test_a_tar_that_unpacks_to_too_much_is_refused(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(cifar10, "_MOST_UNPACKED", 2**22)
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("b/test_batch.bin")
        member.size = 2**26
        archive.addfile(member, io.BytesIO(bytes(2**26)))
    law = r"unpacks to more than 4,194,304 bytes"
    assert peak_bytes(lambda: refused(tmp_path, law)) < 2**24


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path):
    (tmp_path / "cat").mkdir()
    pil = pytest.importorskip("PIL.Image", reason="images need Pillow, of the extra 'data'")
    pil.new("1", (9000, 9000)).save(tmp_path / "cat" / "0.png")
    data = ImageFolder(tmp_path)

    def fetch() -> None:
        with pytest.raises(DataError, match="an image has at most 67,108,864 pixels"):
            data.fetch(np.array([0]))

    assert peak_bytes(fetch) < 2**22


def test_damaged_zips_are_named(tmp_path, cache):
    folder = write_zips(tmp_path / "zips")
    path = folder / "train_2.zip"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train_2\.zip: a whole zip archive is needed"):
        CIFAR10(folder)
    at = whole.index(b"IDAT") + 6
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    with pytest.raises(DataError, match=r"train_2\.zip: a whole zip archive is needed.*CRC"):
        CIFAR10(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"cannot be read.*train_2\.zip"):
        CIFAR10(folder)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "content", "law"),
    [
        ("cat/0.jpg", b"not an image", "not a whole image; got bytes=12"),
        ("lion/0.jpg", None, "its folder is none of the classes; got folder=lion"),
        ("0.jpg", None, "its folder is none of the classes"),
        ("cat/0.txt", None, "it holds no images"),
    ],
    ids=["damaged", "unknown class", "no class", "no image"],
)
def test_wrong_entry_is_named(tmp_path, cache, name, content, law):
    pytest.importorskip("PIL", reason="images need Pillow, of the extra 'data'")
    with zipfile.ZipFile(tmp_path / "test.zip", "w") as archive:
        archive.writestr(name, encoded(1) if content is None else content)
    with pytest.raises(DataError, match=law) as caught:
        CIFAR10(tmp_path, train=False)
    assert str(tmp_path / "test.zip") in str(caught.value)


def test_images_of_another_size_are_refused(tmp_path, cache):
    with zipfile.ZipFile(tmp_path / "test.zip", "w") as archive:
        archive.writestr("cat/0.png", encoded(1, (16, 16)))
    with pytest.raises(DataError, match=r"images are \(3, 32, 32\); got image=\(3, 16, 16\)"):
        CIFAR10(tmp_path, train=False)


def write_folder(root: Path, size: tuple[int, int] = (32, 32)) -> Path:
    """Five images of two classes; in the sorted order their values are 0, 10, ... 40."""
    for i, name in enumerate(["cat/a", "cat/b", "dog/a", "dog/deep/b", "dog/z"]):
        path = root / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(10 * i, size))
    (root / "dog" / "notes.txt").write_text("not an image")
    return root


def test_cifar10_reads_a_folder_for_each_class(tmp_path, cache):
    folder = write_folder(tmp_path / "test")
    (folder / "dog" / "deep" / "b.png").rename(folder / "dog" / "b.png")
    data = CIFAR10(tmp_path, train=False)
    assert data.arrays[1].tolist() == [3, 3, 5, 5, 5]
    assert data.arrays[0][:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]
    assert len(decoded_files(cache)) == 1


def test_image_folder_gives_images_and_labels(tmp_path):
    data = ImageFolder(write_folder(tmp_path, (6, 4)))
    assert (len(data), data.classes) == (5, ("cat", "dog"))
    picture, label = data[-2]
    assert (picture.shape, picture.dtype, label) == ((3, 4, 6), np.uint8, 1)
    np.testing.assert_array_equal(picture[:, 0, 0], [30, 31, 32])
    ((images, labels),) = DataLoader(data, 5, shuffle=True)
    np.testing.assert_array_equal(np.sort(images[:, 0, 0, 0]), range(0, 50, 10))
    np.testing.assert_array_equal(labels, images[:, 0, 0, 0] >= 20)


def test_image_folder_resizes(tmp_path):
    write_folder(tmp_path, (6, 4))
    (tmp_path / "cat" / "c.png").write_bytes(encoded(50, (9, 9)))
    indices = np.arange(6)
    with pytest.raises(DataError, match=r"c\.png: images of one size.*\(9, 9\), first=\(4, 6\)"):
        ImageFolder(tmp_path).fetch(indices)
    images, _ = ImageFolder(tmp_path, size=(5, 8)).fetch(indices)
    assert images.shape == (6, 3, 5, 8)
    assert images[2, 1].tolist() == np.full((5, 8), 51).tolist()


def test_decoding_spans_threads_in_order(monkeypatch):
    monkeypatch.setattr(image, "_CHUNK", 3)
    files = [image.Encoded(str(i), encoded(i, (2, 2))) for i in range(20)]
    assert image.decode(files)[:, 0, 1, 1].tolist() == list(range(20))


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_truncated_image_is_named(tmp_path, form):
    write_folder(tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    out = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(noise).save(out, form)
    (tmp_path / "cat" / "b.png").write_bytes(out.getvalue()[: len(out.getvalue()) // 2])
    with pytest.raises(DataError, match=r"b\.png: not a whole image"):
        ImageFolder(tmp_path).fetch(np.array([0, 1]))


def test_file_that_vanished_is_named(tmp_path):
    data = ImageFolder(write_folder(tmp_path))
    os.unlink(tmp_path / "cat" / "b.png")
    with pytest.raises(DataError, match=r"b\.png: the file cannot be read"):
        data[1]


def test_folder_without_images_is_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"a folder for each class.*folders=\('cat',\)"):
        ImageFolder(tmp_path)
    with pytest.raises(DataError, match="absent: the folder cannot be read"):
        ImageFolder(tmp_path / "absent")


def test_missing_pillow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"pip install 'clnet\[data\]'"):
        image.decode([image.Encoded("a.png", b"")])


def test_real_cifar10_test_images(real_data):
    pytest.importorskip("PIL", reason="images need Pillow, of the extra 'data'")
    real_data("cifar10-jpeg")
    data = CIFAR10(train=False)
    assert data.arrays[0].shape == (10000, 3, 32, 32)
    assert np.bincount(data.arrays[1]).tolist() == [1000] * 10
    assert len(np.unique(data.arrays[0].reshape(10000, -1)[:, ::97], axis=0)) > 9900
