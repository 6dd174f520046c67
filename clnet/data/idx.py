"""The IDX format of MNIST and its kin, and the data sets made of two such files."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .dataset import ArrayDataset
from .source import Remote, Root, download, missing, places
from .unpack import unpacked

_CHUNK = 2**20
_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class _Header(NamedTuple):
    """What an IDX file says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def start(self) -> int:
        """Where the elements begin."""
        return 4 + 4 * len(self.shape)

    @property
    def end(self) -> int:
        """Where they end."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def read_idx(path: Path, *, ndim: int) -> NDArray[Any]:
    """Read an IDX file, plain or gzipped (its first bytes tell, not its name).

    Args:
        path: the file.
        ndim: dimensions it must have.

    Returns:
        Its array, in the machine's byte order.

    Raises:
        DataError: if the file is missing, truncated, too long, or not IDX of ``ndim`` dimensions.
    """
    with unpacked(path) as (file, most):
        header = _header(path, file, ndim)
        if most < header.end:  # before memory is taken for what cannot be there
            raise _sized(path, header, "truncated", most)
        try:
            array = np.empty(header.shape, header.dtype)
        except (ValueError, MemoryError) as error:
            raise DataError(
                str(path), "there is no room for its elements", shape=header.shape, error=error
            ) from error
        content, found = array.reshape(-1).view(np.uint8).data, 0
        while found < len(content):
            count = file.readinto(content[found : found + _CHUNK])  # pyrefly: ignore[missing-attribute] - both kinds have it
            if not count:
                raise _sized(path, header, "truncated", header.start + found)
            found += count
        if file.read(1):  # at the end a gzip file's checksum is compared
            raise _sized(path, header, "too long", None)
    return array.astype(header.dtype.newbyteorder("="), copy=False)


def _header(path: Path, file: BinaryIO, ndim: int) -> _Header:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _DTYPES:
        raise DataError(
            str(path),
            "an IDX file starts with 00 00, a type code and the number of dimensions",
            start=start.hex(" ") or "nothing",
        )
    if start[3] != ndim:
        raise DataError(str(path), f"an IDX file of {ndim} dimensions is needed", ndim=start[3])
    sizes = file.read(4 * ndim)
    if len(sizes) < 4 * ndim:
        raise DataError(
            str(path),
            f"its header is {4 + 4 * ndim} bytes, the file is truncated",
            bytes=4 + len(sizes),
        )
    return _Header(struct.unpack(f">{ndim}I", sizes), np.dtype(_DTYPES[start[2]]))


def _sized(path: Path, header: _Header, what: str, found: int | None) -> DataError:
    return DataError(
        str(path),
        f"its header {header.shape} makes {header.end} bytes, the file is {what}",
        bytes=f"{header.end + 1} or more" if found is None else found,
    )


def _shape(path: Path, ndim: int) -> _Header:
    """The header alone."""
    with unpacked(path) as (file, _):
        return _header(path, file, ndim)


def load_idx(
    name: str,
    root: Root,
    *,
    train: bool,
    fetch: bool,
    folders: Sequence[str],
    remotes: Mapping[str, Remote],
    classes: Sequence[str],
) -> ArrayDataset:
    """One half of a data set laid out as MNIST is.

    Args:
        name: the data set, for the errors.
        root: the user's folder, or None.
        train: the training half, or the test half.
        fetch: whether to download what is absent.
        folders: the sub-folder's usual names.
        remotes: stems of the files to where they can be had.
        classes: names of the labels.

    Returns:
        Images ``(n, 1, h, w)`` uint8 and labels ``(n,)`` int64.

    Raises:
        DataError: if files are absent or damaged, or do not belong together.
    """
    half = "train" if train else "t10k"
    stems = (f"{half}-images-idx3-ubyte", f"{half}-labels-idx1-ubyte")
    spots = places(root, folders)
    files = next((found for spot in spots if (found := _find(spot, stems))), None)
    if files is None:
        if not fetch:
            raise missing(name, spots, [f"{stem}[.gz]" for stem in stems])
        target = spots[0] if root is not None else spots[-len(folders)]
        files = [download(name, remotes[stem], target) for stem in stems]
    of_images, of_labels = _shape(files[0], 3), _shape(files[1], 1)
    if of_images.shape[0] != of_labels.shape[0]:
        raise DataError(
            name,
            "as many labels as images are needed",
            images=f"{of_images.shape[0]} in {files[0]}",
            labels=f"{of_labels.shape[0]} in {files[1]}",
        )
    if of_images.dtype != np.uint8:
        raise DataError(str(files[0]), "images are unsigned bytes", dtype=of_images.dtype.name)
    if of_labels.dtype.kind == "f":
        raise DataError(str(files[1]), "labels are whole numbers", dtype=of_labels.dtype.name)
    images, labels = read_idx(files[0], ndim=3), read_idx(files[1], ndim=1)
    check_labels(str(files[1]), labels, len(classes))
    return ArrayDataset(images[:, np.newaxis], labels.astype(np.int64), classes=classes)


def check_labels(path: str, labels: NDArray[Any], count: int) -> None:
    """Raise unless each label names one of ``count`` classes.

    Args:
        path: where they were read, for the error.
        labels: ``(n,)``, integer.
        count: the number of classes.

    Raises:
        DataError: if one does not.
    """
    wrong = np.flatnonzero((labels < 0) | (labels >= count))
    if wrong.size:
        raise DataError(
            path,
            f"labels are 0 to {count - 1}",
            label=labels[wrong[0]],
            at=wrong[0],
            wrong=f"{wrong.size} of {len(labels)}",
        )


def _find(folder: Path, stems: Sequence[str]) -> list[Path] | None:
    """The files of all stems, gzipped or plain, or None if one is absent."""
    found = [
        next((p for p in (folder / f"{stem}.gz", folder / stem) if p.is_file()), None)
        for stem in stems
    ]
    return [path for path in found if path] if all(found) else None
