"""A place in a file's bytes that moves on; nothing is read beyond the end."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CheckpointError, MissingFileError

__all__ = ["Cursor", "opened"]

_MOST_AXES = 64


def opened(path: str | os.PathLike[str]) -> Cursor:
    """The beginning of a file, which is looked at where it lies.

    Args:
        path: the file.

    Raises:
        MissingFileError: if there is none.
        CheckpointError: if it cannot be read.
    """
    source = Path(path)
    if not source.exists():
        raise MissingFileError(str(source), "there is no such file", folder=source.parent)
    try:
        with source.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise CheckpointError(str(source), "the file cannot be read", error=error) from error
    return Cursor(str(source), memoryview(data))


class Cursor:
    """Bytes, little end first, and a place in them.

    Args:
        name: of the file, for errors.
        data: all there is.

    Attributes:
        name: as above.
        data: as above.
        place: how many bytes lie before.
    """

    def __init__(self, name: str, data: memoryview) -> None:
        self.name = name
        self.data = data
        self.place = 0

    @property
    def left(self) -> int:
        """Bytes that follow."""
        return len(self.data) - self.place

    def damaged(self, what: str, **facts: Any) -> CheckpointError:
        """An error that names file and place."""
        return CheckpointError(self.name, what, byte=self.place, **facts)

    def take(self, count: int) -> memoryview:
        """So many bytes.

        Raises:
            CheckpointError: if the file has fewer.
        """
        if not 0 <= count <= self.left:
            raise self.damaged("the file ends before what it announces", wanted=count)
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, form: str) -> Any:
        """A number in one of ``struct``'s forms."""
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def text(self, count: int) -> str:
        """So many bytes of UTF-8."""
        found = bytes(self.take(count))
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise self.damaged("a text is not UTF-8", text=repr(found[:40])) from None

    def require_sizes(self, shape: Sequence[int]) -> None:
        """Sizes that an array can have; beside a 0, too, NumPy takes no others.

        Raises:
            CheckpointError: if there is none with these.
        """
        known = len(shape) <= _MOST_AXES and all(n >= 0 for n in shape)
        if not known or prod(n for n in shape if n) >= 2**48:
            raise self.damaged("no array has these sizes", sizes=list(shape[:_MOST_AXES]))

    def array(self, dtype: Any, shape: Sequence[int]) -> NDArray[Any]:
        """Dense elements, as a copy.

        Args:
            dtype: NumPy's, of whole bytes.
            shape: sizes, which may be any numbers.

        Raises:
            CheckpointError: if no array has these sizes, or the file has fewer bytes.
        """
        self.require_sizes(shape)
        item = np.dtype(dtype).itemsize
        content = self.take(prod(shape) * item)
        found = np.frombuffer(content, np.dtype(f"<u{item}")).astype(f"=u{item}")
        return found.view(dtype).reshape(tuple(shape))
