"""CIFAR-10, from its binary version or from images; decoding belongs to ``image``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from . import source
from .cifar_pickle import records
from .dataset import ArrayDataset
from .idx import check_labels
from .image import SUFFIXES, Encoded, decode, read
from .image_folder import ImageFolder
from .source import Remote, Root
from .unpack import from_tar, from_zip

REMOTE = Remote(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"
)
CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py", "cifar10-jpeg", "cifar10")
_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32  # bytes: a label, then the red, green and blue planes
_MOST_ENCODED = 2**16  # bytes of an image file: plain it has 3 KiB, and some for its head
_MOST_UNPACKED = 2**28  # bytes of an archive: the binary version's are 184 million


def CIFAR10(  # noqa: N802 - torchvision's name
    root: Root = None, *, train: bool = True, download: bool = False
) -> ArrayDataset:
    """The 32x32 photographs of ten classes of Krizhevsky (2009).

    A folder may hold any of: the binary version (``data_batch_1.bin`` ...), its archive
    ``cifar-10-binary.tar.gz``, the python version as torchvision keeps it (``data_batch_1`` ...,
    of which nothing but arrays is read), zips of images (``train_1.zip`` ... ``train_5.zip``,
    ``test.zip`` with entries ``CLASS/NAME.jpg``), or such images in ``train/CLASS`` and
    ``test/CLASS``. Images are decoded once; what they give is kept in the cache.

    Args:
        root: the folder, or torchvision's root above it; by default ``cifar-10-batches-bin``,
            ``cifar-10-batches-py``, ``cifar10-jpeg`` or ``cifar10`` in ``CLNET_DATA``, then in the
            cache.
        train: the 50,000 training images, or the 10,000 test images.
        download: whether to download the binary version where none is found.

    Returns:
        Images ``(n, 3, 32, 32)`` uint8 and labels ``(n,)`` int64.

    Raises:
        DataError: if the files are absent (with every place looked at), truncated or damaged.
    """
    spots = source.places(root, _FOLDERS)
    data = next((found for spot in spots if (found := _load(spot, train=train))), None)
    if data is not None:
        return data
    if not download:
        half = "train" if train else "test"
        wanted = [_batch_names(train=train)[0], REMOTE.name, _zip_names(train=train)[0], half]
        raise source.missing("CIFAR10", spots, [" or ".join(wanted)])
    target = spots[0] if root is not None else source.cache_folder() / "cifar10"
    archive = source.download("CIFAR10", REMOTE, target)
    return _from_archive(archive, _batch_names(train=train))


def _batch_names(*, train: bool) -> list[str]:
    return [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]


def _zip_names(*, train: bool) -> list[str]:
    return [f"train_{i}.zip" for i in range(1, 6)] if train else ["test.zip"]


def _load(folder: Path, *, train: bool) -> ArrayDataset | None:
    """What ``folder`` holds in any of the layouts, or None if it holds none of them."""
    names = _batch_names(train=train)
    if (folder / names[0]).is_file():
        return _from_batches([read(folder / name) for name in names])
    pickles = [folder / name.removesuffix(".bin") for name in names]
    if pickles[0].is_file():
        return _from_batches([records(path, _RECORD - 1) for path in pickles])
    if (folder / REMOTE.name).is_file():
        return _from_archive(folder / REMOTE.name, names)
    zips = [folder / name for name in _zip_names(train=train)]
    if zips[0].is_file():
        return _from_images(zips, _zipped)
    images = folder / ("train" if train else "test")
    if images.is_dir():
        return _from_images(ImageFolder(images).paths, lambda path: [read(path)])
    return None


def _from_batches(batches: Sequence[Encoded]) -> ArrayDataset:
    """The data set of the binary version's files."""
    parts: list[NDArray[np.uint8]] = []
    for name, content in batches:
        if not content or len(content) % _RECORD:
            raise DataError(
                name, f"a batch is whole records of {_RECORD} bytes", bytes=len(content)
            )
        rows = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
        check_labels(name, rows[:, 0], len(CLASSES))
        parts.append(rows)
    whole = np.concatenate(parts)
    images = np.ascontiguousarray(whole[:, 1:]).reshape(-1, *_SHAPE)
    return ArrayDataset(images, whole[:, 0].astype(np.int64), classes=CLASSES)


def _from_archive(path: Path, names: Sequence[str]) -> ArrayDataset:
    """The data set of the binary version's archive, read without unpacking it to the disk."""
    contents = from_tar(path, names, most=_MOST_UNPACKED)
    absent = [name for name in names if name not in contents]
    if absent:
        raise DataError(str(path), "the archive lacks files", absent=absent)
    return _from_batches([Encoded(f"{path}/{name}", contents[name]) for name in names])


def _from_images(
    files: Sequence[Path], contents: Callable[[Path], Iterable[Encoded]]
) -> ArrayDataset:
    """The data set of image files: decoded, or from the cache if they were decoded before.

    Args:
        files: what the images lie in.
        contents: gives the images in one of them; each is named ``.../CLASS/NAME``.
    """
    key = f"records of {_state(files)}"
    kept = source.kept("cifar10").read(key)
    if kept is not None:
        return _from_batches([Encoded(str(files[0]), kept)])
    encoded = [image for file in files for image in contents(file)]
    if not encoded:
        raise DataError(str(files[0]), "it holds no images")
    labels = _labels(encoded)
    images = decode(encoded)
    if images.shape[1:] != _SHAPE:
        raise DataError(str(files[0]), f"images are {_SHAPE}", image=images.shape[1:])
    rows = np.column_stack([labels.astype(np.uint8), images.reshape(len(images), -1)])
    source.kept("cifar10").write(key, rows.tobytes())
    return ArrayDataset(images, labels, classes=CLASSES)


def _state(files: Sequence[Path]) -> str:
    """Names the state of ``files``, so that arrays decoded from others are not taken for theirs."""
    try:
        stats = [(str(file.resolve()), file.stat()) for file in files]
    except OSError as error:
        raise DataError("CIFAR10", "a file cannot be read", error=error) from error
    return repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])


def _labels(images: Sequence[Encoded]) -> NDArray[np.int64]:
    """The classes of images named ``.../CLASS/NAME``."""
    number = {name: i for i, name in enumerate(CLASSES)}
    labels = np.empty(len(images), np.int64)
    for i, image in enumerate(images):
        folder = PurePath(image.name).parent.name
        if folder not in number:
            raise DataError(
                image.name, "its folder is none of the classes", folder=folder, classes=CLASSES
            )
        labels[i] = number[folder]
    return labels


def _zipped(path: Path) -> Iterator[Encoded]:
    def wanted(name: str) -> bool:
        return name.lower().endswith(SUFFIXES)

    return from_zip(path, wanted, each=_MOST_ENCODED, most=_MOST_UNPACKED)
