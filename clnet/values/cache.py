"""Files that can be made anew, kept for later processes: verified, and nobody else's to write.

A kept file is found by its key and holds one line with its length and a hash of key and content;
what is torn, damaged or another key's is as good as absent. Kernels are run from here. So folders
and files must belong to the user (or to root) and be writable by nobody else; where they are not, a
private folder is used, and one line says so. A folder that cannot be written is told once and costs
only the time to make things anew. What the files mean is their owners' business.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from .atomic import claimed, replacing
from .process import process_lock

_MAGIC = b"clnet kept 1 "
_HEAD = len(_MAGIC) + 16 + 1 + 64 + 1
_READ = os.O_RDONLY | sum(getattr(os, f"O_{f}", 0) for f in ("NOFOLLOW", "NONBLOCK", "BINARY"))
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ROOT = 0
_PATIENCE_S = 60  # with another process that makes what is wanted
# Where folders lie is decided, and told, by one thread at a time.
_LOCK = process_lock()


class Shelf:
    """A folder of kept files, each found by its key. Get it from :func:`shelf`.

    Args:
        cache: what it is a part of.
        parts: the folder within it.
        suffix: of its files' names.
    """

    def __init__(self, cache: Cache, parts: tuple[str, ...], suffix: str) -> None:
        self._cache = cache
        self._parts = parts
        self._suffix = suffix
        self._settled = False
        self._folder: Path | None = None
        self._patience_s = _PATIENCE_S

    def read(self, key: str) -> bytes | None:
        """What was kept for a key, or None if there is nothing whole that can be trusted."""
        digest = hashlib.sha256(key.encode()).digest()
        try:
            folder = self._place(make=False)
            return None if folder is None else _read(folder / self._name(digest), digest)
        except OSError:
            return None

    def holds(self, key: str) -> bool:
        """Whether there is a file for a key; it may yet be found to be damaged."""
        try:
            folder = self._place(make=False)
        except OSError:
            return False
        name = self._name(hashlib.sha256(key.encode()).digest())
        return folder is not None and (folder / name).is_file()

    def is_empty(self) -> bool:
        """Whether nothing is kept yet."""
        try:
            folder = self._place(make=False)
            return folder is None or not any(folder.glob(f"*{self._suffix}"))
        except OSError:
            return True

    def write(self, key: str, data: bytes) -> None:
        """Keep something for a key, in the place of what was kept for it before."""
        digest = hashlib.sha256(key.encode()).digest()
        try:
            folder = self._place(make=True)
            if folder is None:
                return
            # A umask of 0 would let others write it, and nobody would trust it.
            with replacing(
                folder / self._name(digest), durable=False, mode=0o600, follow=False
            ) as file:
                file.write(_head(digest, data))
                file.write(data)
        except OSError as error:
            self._cache.tell_unwritable(error)

    @contextmanager
    def claimed(self, key: str, *, waiting: bool = True) -> Iterator[bool]:
        """Make what will be kept for a key while no other process does.

        Others that want it wait meanwhile. One that is stopped may be waited for in vain: once in
        a process, which from then on makes all itself.

        Args:
            key: by which it will be found.
            waiting: False: not to wait for another, either.

        Yields:
            Whether no other was making it; if one was, it may be kept by now.
        """
        digest = hashlib.sha256(key.encode()).digest()
        folder, start = None, time.monotonic()
        with suppress(OSError):
            folder = self._place(make=True)
        if folder is None:
            yield True
            return
        seconds = self._patience_s if waiting else 0
        with claimed(folder / self._name(digest), seconds=seconds) as first:
            if waiting and time.monotonic() - start >= seconds:
                self._patience_s = 0
            yield first

    def _name(self, digest: bytes) -> str:
        return f"{digest.hex()}{self._suffix}"

    def _place(self, *, make: bool) -> Path | None:
        """The folder; None where nothing is kept, or nothing was yet."""
        if not self._settled:
            settled, self._folder = self._cache.settle(self._parts, make=make)
            self._settled = settled  # last: other threads then take the folder as it is
        if make and self._folder is not None:
            _make(self._folder)  # once more: the user may delete the cache at any time
        return self._folder


class Cache:
    """A folder of shelves.

    Args:
        root: where the user wants it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._told: set[str] = set()

    def settle(self, parts: tuple[str, ...], *, make: bool) -> tuple[bool, Path | None]:
        """Decide where a shelf lies: in the cache, else in the private folder, else nowhere.

        Args:
            parts: the folder within the cache.
            make: whether to make it.

        Returns:
            Whether that is decided (a folder that does not exist yet is not), and the folder.

        Raises:
            OSError: if it cannot be made or looked at.
        """
        with _LOCK:
            folder = self._root.joinpath(*parts)
            reason = objection(folder, self._root)
            if reason is None and make:
                _make(folder)
                reason = objection(folder, self._root)
            if reason is None:
                return (True, folder) if folder.is_dir() else (False, None)
            with suppress(OSError):
                private = private_folder()
                instead = private.joinpath(*parts)
                _make(instead)
                # Not through a link: in /tmp others could have made it.
                if not private.is_symlink() and objection(instead, private) is None:
                    self._tell(
                        "private",
                        f"cache: {reason}, and what is run from it must be yours alone to write; "
                        f"{private} is used instead. Mend it (chown, chmod -R go-w), or set "
                        "CLNET_CACHE_DIR to a folder of your own",
                    )
                    return True, instead
            self._tell(
                "private",
                f"cache: {reason}, and there is no private folder to use instead; nothing is kept, "
                "kernels are compiled anew in every process. Set CLNET_CACHE_DIR to a folder of "
                "your own",
            )
            return True, None

    def tell_unwritable(self, error: OSError) -> None:
        """Say once that nothing more can be kept."""
        self._tell(
            "unwritable",
            f"cache: cannot write {self._root} ({error.strerror}); what is not kept (kernels and "
            "more) is made anew in every process. Make room, or set CLNET_CACHE_DIR to a folder "
            "you may write",
        )

    def _tell(self, what: str, text: str) -> None:
        with _LOCK:
            if what in self._told:
                return
            self._told.add(what)
        warnings.warn(text, RuntimeWarning, stacklevel=4)


@cache
def _cache(root: Path) -> Cache:
    return Cache(root)


def shelf(root: Path, *parts: str, suffix: str = "") -> Shelf:
    """A folder of kept files.

    Args:
        root: the cache.
        *parts: the folder within it.
        suffix: of its files' names.
    """
    return Shelf(_cache(root), parts, suffix)


def private_folder() -> Path:
    """Where things are kept whose own folder cannot be trusted: one for each user."""
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    return Path(tempfile.gettempdir()) / f"clnet-{user}"


def objection(folder: Path, root: Path) -> str | None:
    """Why what lies in a folder cannot be trusted; None: it can.

    Args:
        folder: root, or a folder in it; what does not exist yet is passed over.
        root: from here on, folders are the user's (or root's) and nobody else writes them. Above,
            nobody may who could put another folder in the place of this one.
    """
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are the user's
        return None
    trusted = {os.geteuid(), _ROOT}
    # Who owns "/" can do as he likes; in a container without a root of its own it is "nobody".
    above = trusted | {os.stat("/").st_uid}
    top, below = root.resolve(), folder.resolve()
    for place in (below, *below.parents):
        try:
            found = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        inside = place == top or top in place.parents
        if found.st_uid not in (trusted if inside else above):
            return f"{place} belongs to user {found.st_uid}"
        others = found.st_mode & _OTHERS
        if not inside and found.st_mode & stat.S_ISVTX:  # nobody renames what is not his: /tmp
            others = 0
        if not inside and others & stat.S_IWGRP and _own_group(found):
            others &= ~stat.S_IWGRP
        if others:
            who = "everybody" if others & stat.S_IWOTH else f"group {found.st_gid}"
            return f"{place} may be written by {who}"
    return None


def _own_group(found: os.stat_result) -> bool:
    """Whether a folder's group is its user's own, which nobody else is in: a umask of 002."""
    try:
        import grp  # noqa: PLC0415 - not on Windows
        import pwd  # noqa: PLC0415

        group, user = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid)
    except (ImportError, KeyError):
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _make(folder: Path) -> None:
    """Make a folder and those above it, for the user alone."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _head(key: bytes, data: bytes) -> bytes:
    digest = hashlib.sha256(key)
    digest.update(data)
    return _MAGIC + f"{len(data):016x} {digest.hexdigest()}\n".encode()


def verified(path: Path, whole: bytes | None = None) -> bytes | None:
    """A kept file as it lies on the disk, if its head is true of its name and content; else None.

    Args:
        path: the file; its name begins with the hash of its key.
        whole: what it holds, head included; None: that is read.
    """
    key = bytes.fromhex(path.name.partition(".")[0])
    if whole is None:
        try:
            data = _read(path, key)
        except OSError:
            return None
        return None if data is None else _head(key, data) + data
    data = whole[_HEAD:]
    return whole if whole[:_HEAD] == _head(key, data) else None


def _read(path: Path, key: bytes) -> bytes | None:
    """The content of a kept file, or None."""
    with os.fdopen(os.open(path, _READ), "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or not _own_file(found):
            return None
        head = file.read(_HEAD)
        # The length first: what is not ours may be of any size.
        size = f"{found.st_size - _HEAD:016x}".encode()
        if head is None or not head.startswith(_MAGIC + size):
            return None
        data = file.readall()
    return data if _head(key, data) == head else None


def _own_file(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid in (os.geteuid(), _ROOT) and not found.st_mode & _OTHERS
