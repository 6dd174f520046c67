"""Files that appear whole or not at all; it knows no format."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from .pattern import pattern


def _locks() -> Any:
    """The system's locks; None on Windows, where nobody can delete what is open."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return None
    return fcntl


_LOCKS = _locks()
_PARTIAL = pattern(r"\.clnet-[0-9a-f]{16}\.partial")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_LOOK = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@contextmanager
def replacing(
    path: Path, *, durable: bool = True, mode: int = 0o666, follow: bool = True
) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` when the body ends without an exception.

    The bytes are on the disk before the name changes hands, so a crash leaves the old file or the
    new one, never a part. If the body raises, the old file stays and nothing is left behind; what a
    killed process left in the folder goes when the next one writes there.

    Args:
        path: the file to make or to replace; its folder exists.
        durable: False for what can be made anew and whose readers check it: it takes 0.1 instead
            of 8 ms, but if the machine itself stops, a part may be left.
        mode: the file's permissions, as far as the process's umask leaves them.
        follow: whether a link stays one and what it leads to is replaced, and devices and pipes
            (``/dev/stdout``) are written to as they are; else a file takes their place.

    Yields:
        A binary file to write to.

    Raises:
        OSError: if the folder or the file cannot be written.
    """
    if follow and _is_special(path):
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve() if follow and path.is_symlink() else path
    sweep(path.parent)
    partial, file = _partial(path, mode)
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if _LOCKS is not None:  # while the lock is held, or it could be swept away
                os.replace(partial, path)
        if _LOCKS is None:  # Windows does not rename what is open
            os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        _sync_folder(path.parent)


def _is_special(path: Path) -> bool:
    """Whether no new file can take its place: a device, a pipe, or a folder, which is refused."""
    try:
        kind = path.stat().st_mode
    except OSError:  # there is none yet
        return False
    return not stat.S_ISREG(kind)


@cache
def sweep(folder: Path) -> None:
    """Delete what killed processes left half written in a folder, once in a process.

    Who writes holds a lock that ends with the process, however it ends; so what can be locked has
    no writer any more. Process ids would not tell: folders are shared by containers and machines.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _PARTIAL.fullmatch(entry.name):
                with suppress(OSError):
                    _delete_unlocked(entry.path)


def _delete_unlocked(partial: str) -> None:
    if _LOCKS is None:
        os.unlink(partial)
        return
    handle = os.open(partial, _LOOK)
    try:
        _LOCKS.flock(handle, _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
        os.unlink(partial)
    finally:
        os.close(handle)


def _partial(path: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new file, locked where that is possible.

    It lies in the same folder, because a rename across file systems is a copy and can be torn.
    """
    while True:
        partial = path.with_name(f".clnet-{secrets.token_hex(8)}.partial")
        try:
            file = os.fdopen(os.open(partial, _NEW, mode), "wb")
        except OSError as error:
            error.filename = os.fspath(path)  # the name that the caller knows
            raise
        if _LOCKS is None:
            return partial, file
        with suppress(OSError):  # a file system without locks; nothing is swept there either
            _LOCKS.flock(file, _LOCKS.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return partial, file
        file.close()  # it was swept before it was locked


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can (Windows cannot open a folder)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
