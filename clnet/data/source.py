"""Where a data set's files lie, and how they are fetched; it opens none of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ..errors import DataError
from ..values.cache import Shelf, shelf
from ..values.settings import SETTINGS

Root: TypeAlias = "str | os.PathLike[str] | None"


class Remote(NamedTuple):
    """A file to download: its address, and the MD5 its publisher states."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rsplit("/", 1)[-1]


def cache_folder() -> Path:
    """Where downloads are kept."""
    return SETTINGS.cache_dir / "data"


def kept(name: str) -> Shelf:
    """Where arrays that took a while to decode are kept."""
    return shelf(SETTINGS.cache_dir, "data", name, suffix=".records")


def places(root: Root, folders: Sequence[str]) -> list[Path]:
    """The folders a data set is looked for in, best first.

    Args:
        root: the user's path. If given, nothing is looked for elsewhere: other data than asked for
            would be worse than an error.
        folders: the sub-folder's usual names.

    Returns:
        ``root`` and its sub-folders; or the sub-folders of ``CLNET_DATA`` and of the cache.
    """
    if root is not None:
        return [Path(root), *(Path(root, folder) for folder in folders)]
    bases = [cache_folder()] if SETTINGS.data_dir is None else [SETTINGS.data_dir, cache_folder()]
    return [base / folder for base in bases for folder in folders]


def missing(name: str, looked_in: Sequence[Path], files: Sequence[str]) -> DataError:
    """The error for a data set that is nowhere.

    Args:
        name: the data set.
        looked_in: every folder tried.
        files: what was looked for in each.

    Returns:
        The error, to be raised.
    """
    return DataError(
        name,
        f"no folder has {' and '.join(files)}",
        looked_in=[str(place) for place in looked_in],
        CLNET_DATA=SETTINGS.data_dir,
        remedy="Pass download=True, or the files' folder as root, or set CLNET_DATA to the folder "
        "that holds it",
    )


def download(name: str, remote: Remote, folder: Path) -> Path:
    """Fetch a file unless it is there already, and compare its checksum.

    Args:
        name: the data set, for the errors.
        remote: the file.
        folder: where it goes; made if need be.

    Returns:
        The file.

    Raises:
        DataError: if pooch is not installed, the server not reached, the checksum another, or the
            folder not writable.
    """
    try:
        import pooch  # noqa: PLC0415 - optional
    except ImportError as error:
        raise DataError(
            name, "a download needs pooch", error=error, remedy="pip install 'clnet[data]'"
        ) from error
    try:
        path = pooch.retrieve(
            remote.url, known_hash=f"md5:{remote.md5}", fname=remote.name, path=folder
        )
    except (ValueError, OSError) as error:
        raise DataError(
            name,
            "the download failed",
            url=remote.url,
            folder=folder,
            error=error,
            remedy="check the network and that the folder can be written (CLNET_CACHE_DIR), or "
            "fetch the file by hand and pass its folder as root",
        ) from error
    return Path(path)
