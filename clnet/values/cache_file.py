"""A cache in one file, for machines that would start with an empty one: CI, containers, classrooms.

The file is a zip archive: ``manifest.json``, then kept files as they lie in the cache, each with
the hash of its key and content. A folder of kernels is of one device and driver, whose key the
manifest names; other devices find nothing in it. Native code is run from a cache: import only a
file that you trust as you trust a program.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError, refusal, shortened
from .atomic import replacing
from .cache import objection, verified

_MANIFEST = "manifest.json"
_FORMAT = 1
# <room>/<folder>/<sha256 of the key>[.suffix], as shelves make them: no other path is written.
_MEMBER = re.compile(r"([a-z]+/[0-9a-f]{16})/([0-9a-f]{64})(\.[a-z]+)?")
_MOST_BYTES = 1 << 30
"""Of one member, unpacked: a kernel is some KiB."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)
_REMEDY = "Nothing was imported. Make it anew: clnet cache export"


class Packed(NamedTuple):
    """What a cache file holds.

    Attributes:
        files: how many were exported or imported.
        present: of an import: how many more lay in the cache already.
        bytes: of all of them, unpacked.
    """

    files: int
    present: int
    bytes: int


def pack(path: Path, root: Path, folders: Mapping[str, str]) -> Packed:
    """Write folders of a cache into one file; damaged files are left out.

    Args:
        path: the file to make or to replace.
        root: the cache.
        folders: within it, like ``kernels/0123456789abcdef``, and for each what it is for.

    Returns:
        What was written.

    Raises:
        DataError: if the file cannot be written, or the cache holds nothing.
    """
    files = [
        (f"{folder}/{entry.name}", entry)
        for folder in folders
        for entry in sorted(root.joinpath(folder).glob("*"))
        if _MEMBER.fullmatch(f"{folder}/{entry.name}") and verified(entry) is not None
    ]
    if not files:
        raise DataError(f"cache {root}", "nothing is kept here yet", remedy="Run a program first")
    try:
        with (
            replacing(path, mode=0o600) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        ):
            manifest = {"format": _FORMAT, "folders": dict(folders), "files": len(files)}
            archive.writestr(_MANIFEST, json.dumps(manifest, indent=1))
            for name, entry in files:
                archive.write(entry, name)
    except OSError as error:
        raise DataError(str(path), "the file cannot be written", error=refusal(error)) from error
    return Packed(len(files), 0, sum(entry.stat().st_size for _, entry in files))


def unpack(path: Path, root: Path, wanted: Collection[str]) -> Packed:
    """Put what a file holds into a cache. All of it is verified before anything is written.

    Args:
        path: as :func:`pack` wrote it; its owner is this user or root.
        root: the cache.
        wanted: folders that are of use here; the others are left out.

    Returns:
        What was written, and what lay there already.

    Raises:
        DataError: if the file is absent, another user's, damaged, or of no use here; then the
            cache is as it was.
    """
    with _reading(path):
        reason = objection(path, path) or objection(root, root)
        if reason is not None:
            raise DataError(
                str(path),
                f"{reason}, and native code is run from a cache",
                remedy="Copy the file, if you trust it, and import the copy",
            )
        with zipfile.ZipFile(path) as archive:
            folders = _manifest(archive, path)
            if not set(wanted) & {f for f in folders if f.startswith("kernels/")}:
                raise DataError(
                    str(path),
                    "it is of no use here: its kernels are of other devices or drivers",
                    found="; ".join(v for f, v in folders.items() if f.startswith("kernels/")),
                    remedy="Export one on a machine with this device and driver",
                )
            names = [name for name, _ in _members(archive, path) if _folder(name) in wanted]
        new = [name for name in names if verified(root / name) is None]
        with zipfile.ZipFile(path) as archive:
            size = sum(_write(root / name, archive.read(name)) for name in new)
    return Packed(len(new), len(names) - len(new), size)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """What goes wrong with the file is one error."""
    try:
        yield
    except _DAMAGED as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            str(path), "no whole cache file", error=shortened(error), remedy=_REMEDY
        ) from error
    except OSError as error:
        raise DataError(str(path), "it cannot be read", error=refusal(error)) from error


def _manifest(archive: zipfile.ZipFile, path: Path) -> Mapping[str, str]:
    """Its folders, and what each is for."""
    names = archive.namelist()
    if names[:1] != [_MANIFEST] or archive.getinfo(_MANIFEST).file_size > _MOST_BYTES:
        raise DataError(str(path), "no cache file: it has no manifest", remedy=_REMEDY)
    manifest = json.loads(archive.read(_MANIFEST))
    folders = manifest.get("folders") if isinstance(manifest, dict) else None
    if not isinstance(folders, dict) or manifest.get("format") != _FORMAT:
        raise DataError(str(path), "a cache file of another version of clnet", remedy=_REMEDY)
    if manifest.get("files") != len(names) - 1:
        raise DataError(str(path), "files are missing from it", remedy=_REMEDY)
    return {str(folder): str(about) for folder, about in folders.items()}


def _members(archive: zipfile.ZipFile, path: Path) -> Iterator[tuple[str, bytes]]:
    """Its files, each verified."""
    for info in archive.infolist()[1:]:
        if not _MEMBER.fullmatch(info.filename) or info.file_size > _MOST_BYTES:
            raise DataError(str(path), "no file of a cache", name=info.filename, remedy=_REMEDY)
        data = archive.read(info)
        if verified(Path(info.filename), data) is None:
            law = "a file in it is damaged"
            raise DataError(str(path), law, name=info.filename, remedy=_REMEDY)
        yield info.filename, data


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _write(path: Path, data: bytes) -> int:
    """Write one member into the cache; gives its bytes."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path, durable=False, mode=0o600, follow=False) as file:
            file.write(data)
    except OSError as error:
        raise DataError(str(path), "the cache cannot be written", error=refusal(error)) from error
    return len(data)
