"""Files that appear whole or not at all; it knows no format."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` when the body ends without an exception.

    The bytes are on the disk before the name changes hands, so a crash leaves the old file or the
    new one, never a part. If the body raises, the old file stays and nothing is left behind.

    Args:
        path: the file to make or to replace; its folder exists.
        durable: False for what can be made anew and whose readers check it: it takes 0.1 instead
            of 8 ms, but if the machine itself stops, a part may be left.

    Yields:
        A binary file to write to.

    Raises:
        OSError: if the folder or the file cannot be written.
    """
    # In the same folder, because a rename across file systems is a copy and can be torn.
    partial = path.with_name(f".clnet-{secrets.token_hex(8)}.partial")
    file = partial.open("xb")
    try:
        with file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can (Windows cannot open a folder)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
