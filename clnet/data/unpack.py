"""Packed files, read within bounds: a few bytes can pack gigabytes of zeros; it knows no data set.

Nothing is written to the disk, so names in archives do no harm. The standard library's readers meet
damaged bytes with errors of many kinds: each becomes a DataError that names the file.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO

from ..errors import DataError, refusal, shortened
from .image import Encoded

_GZIP_MAGIC = b"\x1f\x8b"
# A packed byte gives at most so many: two bits for 258 bytes.
MOST_OF_A_BYTE = 1032
_MOST_MEMBERS = 1000
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_ENCRYPTED = 0x1


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a reader of foreign bytes into a DataError.

    Args:
        path: the file that is read.
        what: what it should have been.

    Raises:
        DataError: instead.
    """
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            str(path),
            f"{what} is needed",
            bytes=path.stat().st_size if path.exists() else "none",
            error=shortened(error),
        ) from error


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A file to read from, gunzipped if its first bytes say so.

    Args:
        path: the file.

    Yields:
        It, and the bytes that it may hold at most.

    Raises:
        DataError: if it cannot be read; in the body, too, if it is no whole gzip file.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(str(path), "the file cannot be read", error=refusal(error)) from error
    with file, reading(path, "a whole gzip file"):
        size = path.stat().st_size
        packed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        if packed:
            with gzip.open(file) as stream:
                yield stream, MOST_OF_A_BYTE * size  # pyrefly: ignore[invalid-yield] - it reads
        else:
            yield file, size


def from_tar(path: Path, names: Collection[str], *, most: int) -> dict[str, bytes]:
    """Files in a ``tar.gz`` archive.

    Args:
        path: the archive.
        names: the files' names, in whatever folder.
        most: bytes that all of the archive may unpack to.

    Returns:
        By name, those that are there.

    Raises:
        DataError: if the archive is damaged, or larger.
    """
    contents: dict[str, bytes] = {}
    # Not tarfile's own gzip mode, which ignores the checksum at the end.
    with reading(path, "a whole tar.gz archive"), gzip.open(path) as stream:
        bounded = _Bounded(path, stream, most)
        with tarfile.open(fileobj=bounded, mode="r|") as archive:  # pyrefly: ignore[no-matching-overload] - it reads
            for count, member in enumerate(archive):
                if count == _MOST_MEMBERS:
                    raise DataError(str(path), f"it holds more than {_MOST_MEMBERS} files")
                name = PurePath(member.name).name
                wanted = name in names and not member.issparse()
                file = archive.extractfile(member) if wanted else None
                if file is not None:
                    contents[name] = file.read()
        while bounded.read(2**20):
            pass
    return contents


def from_zip(
    path: Path, wanted: Callable[[str], bool], *, each: int, most: int
) -> Iterator[Encoded]:
    """Files in a zip archive.

    Args:
        path: the archive.
        wanted: says of a name whether it is read.
        each: bytes that a file may unpack to.
        most: bytes that all of them may.

    Yields:
        The files, each named by the archive's path and its own.

    Raises:
        DataError: if the archive is damaged, encrypted, packed in an unusual way, or larger.
    """
    with reading(path, "a whole zip archive"), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not (wanted(member.filename) or member.flag_bits & _ENCRYPTED):
                archive.open(member).close()  # its name stands twice: a damaged one hides no image
        members = [member for member in archive.infolist() if wanted(member.filename)]
        for member in members:
            _require_plain(path, member, each)
        total = sum(member.file_size for member in members)
        if total > most:
            raise DataError(str(path), f"its files have at most {most:,} bytes", bytes=total)
        for member in members:
            # The directory may lie about sizes: reading ends there, and the checksum is compared.
            with archive.open(member) as file:
                content = file.read(member.file_size)
                if len(content) != member.file_size or file.read(1):
                    raise DataError(f"{path}/{member.filename}", "it has another size than stated")
            yield Encoded(f"{path}/{member.filename}", content)


def _require_plain(path: Path, member: zipfile.ZipInfo, most: int) -> None:
    """Refuse a file of an archive that is encrypted, packed in an unusual way, or too large."""
    name = f"{path}/{member.filename}"
    if member.flag_bits & _ENCRYPTED:
        raise DataError(name, "it is encrypted", remedy="Unpack it, and pack it plainly")
    if member.compress_type not in _METHODS:
        raise DataError(
            name,
            "it is stored, or packed by deflate",
            method=member.compress_type,
            remedy="Unpack it, and pack it plainly",
        )
    if member.file_size > most:
        raise DataError(name, f"a file has at most {most:,} bytes", bytes=member.file_size)


class _Bounded:
    """A stream that refuses to give more than so many bytes."""

    def __init__(self, path: Path, stream: gzip.GzipFile, most: int) -> None:
        self._path = path
        self._stream = stream
        self._most = self._left = most

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes."""
        content = self._stream.read(min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise DataError(str(self._path), f"it unpacks to more than {self._most:,} bytes")
        return content
