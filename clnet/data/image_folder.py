"""Images in one folder for each class, read when they are asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, refusal
from .dataset import Arrays, Dataset
from .image import SUFFIXES, decode, read


class ImageFolder(Dataset):
    """``root/CLASS/IMAGE``: the sorted names of the folders are the classes.

    An example is an RGB image ``(3, h, w)`` uint8 and its label. Files are decoded by Pillow, in
    threads, when they are fetched; nothing is kept.

    Args:
        root: the folder of the classes' folders.
        size: ``(h, w)`` to resize each image to; None if they are of one size already.

    Raises:
        DataError: if the folder is missing or holds no image in a folder.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, size: tuple[int, int] | None = None
    ) -> None:
        self.root = Path(root)
        self.size = size
        try:
            folders = sorted(path for path in self.root.iterdir() if path.is_dir())
        except OSError as error:
            raise DataError(
                str(self.root), "the folder cannot be read", error=refusal(error)
            ) from error
        self.classes = tuple(folder.name for folder in folders)
        found = [
            (path, label)
            for label, folder in enumerate(folders)
            for path in sorted(folder.rglob("*"))
            if path.suffix.lower() in SUFFIXES
        ]
        if not found:
            raise DataError(
                str(self.root),
                f"needs a folder for each class, with images ({' '.join(SUFFIXES)})",
                folders=self.classes,
            )
        self.paths = tuple(path for path, _ in found)
        self.labels = np.array([label for _, label in found], np.int64)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        images, labels = self.fetch(np.array([self._position(index)]))
        return images[0], labels[0]

    def fetch(self, indices: NDArray[Any]) -> Arrays:
        """Read and decode the files at ``indices``, in threads."""
        encoded = [read(self.paths[i]) for i in indices]
        return decode(encoded, size=self.size), self.labels[indices]
