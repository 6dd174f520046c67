"""The IDX format of MNIST and its kin, and the data sets made of two such files."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .dataset import ArrayDataset
from .image import read
from .source import Remote, Root, download, missing, places

_GZIP_MAGIC = b"\x1f\x8b"
_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


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
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES:
        raise DataError(
            str(path),
            "an IDX file starts with 00 00, a type code and the number of dimensions",
            start=content[:4].hex(" ") or "nothing",
        )
    if content[3] != ndim:
        raise DataError(str(path), f"an IDX file of {ndim} dimensions is needed", ndim=content[3])
    start = 4 + 4 * ndim
    if len(content) < start:
        raise DataError(
            str(path), f"its header is {start} bytes, the file is truncated", bytes=len(content)
        )
    shape = struct.unpack(f">{ndim}I", content[4:start])
    dtype = np.dtype(_DTYPES[content[2]])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise DataError(
            str(path),
            f"its header {shape} makes {expected} bytes, the file is "
            + ("truncated" if len(content) < expected else "too long"),
            bytes=len(content),
        )
    array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


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
    images, labels = read_idx(files[0], ndim=3), read_idx(files[1], ndim=1)
    if len(images) != len(labels):
        raise DataError(
            name,
            "as many labels as images are needed",
            images=f"{len(images)} in {files[0]}",
            labels=f"{len(labels)} in {files[1]}",
        )
    if images.dtype != np.uint8:
        raise DataError(str(files[0]), "images are unsigned bytes", dtype=images.dtype)
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


def _content(path: Path) -> bytes:
    content = read(path).content
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            str(path), "a whole gzip file is needed", bytes=len(content), error=error
        ) from error


def _find(folder: Path, stems: Sequence[str]) -> list[Path] | None:
    """The files of all stems, gzipped or plain, or None if one is absent."""
    found = [
        next((p for p in (folder / f"{stem}.gz", folder / stem) if p.is_file()), None)
        for stem in stems
    ]
    return [path for path in found if path] if all(found) else None
