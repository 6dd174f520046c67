"""Files that appear whole or not at all, and are made by one process at a time; no format of them.

Who writes a file, or makes what it will hold, keeps the lock of another one beside it, which the
system lets go of with the process, however it ends.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
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
_SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LOOK = os.O_RDONLY | _SAFE
_CLAIM = os.O_RDWR | os.O_CREAT | _SAFE
_SOONEST_S, _LATEST_S = 0.001, 0.01  # between two looks at what another process makes
_TRIES = 10
_CLAIMED: set[Path] = set()  # by threads of this process


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
        OSError: if the folder or the file cannot be written; it names the file.
    """
    if follow and _is_special(path):
        with _naming(path), path.open("wb") as file:
            yield file
        return
    path = path.resolve() if follow and path.is_symlink() else path
    sweep(path.parent)
    partial, file = _partial(path, mode)
    with _naming(path):
        yield from _replaced(path, partial, file, durable=durable)


def _replaced(path: Path, partial: Path, file: BinaryIO, *, durable: bool) -> Iterator[BinaryIO]:
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


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of writing, such as that a disk is full, name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def claimed(path: Path, *, seconds: float) -> Iterator[bool]:
    """Make a file while no other process does, so that they need not make it, too.

    It need not appear. Nobody waits for another thread of this process, which may want what this
    one holds; nor where nothing can be locked (Windows, some file systems, folders that cannot be
    written).

    Args:
        path: the file; its folder exists.
        seconds: how long to wait, at most, for another that makes it; then both do.

    Yields:
        Whether no other was making it. If one was, it may be there by now.
    """
    place = path.with_name(f".clnet-{hashlib.sha256(path.name.encode()).hexdigest()[:16]}.partial")
    until, pause, first, handle = time.monotonic() + seconds, _SOONEST_S, True, None
    with suppress(OSError):
        while place not in _CLAIMED and (handle := _locked(place)) is None:
            first, left = False, until - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LATEST_S)
    if handle is not None:
        _CLAIMED.add(place)
    try:
        yield first
    finally:
        if handle is not None:
            _CLAIMED.discard(place)
            with suppress(OSError):  # a child that was forked meanwhile keeps a file without a name
                place.unlink(missing_ok=True)
            os.close(handle)


def _locked(place: Path) -> int | None:
    """The lock that is a claim; None: another has it.

    Raises:
        OSError: if there is nothing to lock.
    """
    if _LOCKS is None:
        raise OSError("no locks")
    for _ in range(_TRIES):
        handle = os.open(place, _CLAIM, 0o600)
        try:
            _LOCKS.flock(handle, _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
            if os.fstat(handle).st_nlink:
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError:
            os.close(handle)
            place.unlink(missing_ok=True)
            raise
        os.close(handle)  # who had it let go of it before it was locked: the next is another file
    raise OSError("a file system that counts no names of files")


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
