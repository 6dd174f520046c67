"""Stores that processes share by names: in a process, in a file, behind a port.

Programs count and wait by them beside exchanges; tensors go by MPI.
"""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import json
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

from ..errors import DistributedError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

_USUAL = timedelta(seconds=300)
_LOOKS_S = 0.01


class Store:
    """Bytes by names.

    Attributes:
        timeout: how long :meth:`get` and :meth:`wait` wait, a ``timedelta``.
    """

    timeout = _USUAL

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long is waited from now on."""
        self.timeout = timeout

    def ask(self, op: str, *args: Any) -> Any:
        """What the table that all share does; see :func:`_done`."""
        raise NotImplementedError(f"{type(self).__name__}.ask")

    def set(self, key: str, value: str | bytes) -> None:
        """Put a value under a name."""
        self.ask("set", key, _text(value))

    def get(self, key: str) -> bytes:
        """The value of a name, once there is one.

        Raises:
            DistributedError: if there is none in time.
        """
        self.wait([key])
        return self.ask("get", key).encode("latin-1")

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 at first; what it is then.

        Raises:
            DistributedError: if the value is no number.
        """
        return int(self.ask("add", key, amount))

    def append(self, key: str, value: str | bytes) -> None:
        """Put bytes behind those that are there."""
        self.ask("append", key, _text(value))

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Put ``desired`` where ``expected`` is, or nothing is and it is empty; what is there."""
        return self.ask("compare_set", key, _text(expected), _text(desired)).encode("latin-1")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all names have values."""
        return bool(self.ask("check", list(keys)))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all names have values.

        Args:
            keys: the names.
            timeout: how long; None: the store's.

        Raises:
            DistributedError: if they have none in time.
        """
        seconds = (self.timeout if timeout is None else timeout).total_seconds()
        end = time.monotonic() + seconds
        while not self.check(keys):
            if time.monotonic() > end:
                law = "names have values in time"
                raise DistributedError(type(self).__name__, law, keys=list(keys), seconds=seconds)
            time.sleep(_LOOKS_S)

    def delete_key(self, key: str) -> bool:
        """Take a name away; whether it was there."""
        return bool(self.ask("delete", key))

    def num_keys(self) -> int:
        """How many names have values."""
        return int(self.ask("count"))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of names, once there are all."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Put values under names."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """True: it appends, and takes several at once."""
        return True


def _text(value: str | bytes) -> str:
    """Bytes as JSON takes them."""
    return (value.encode() if isinstance(value, str) else bytes(value)).decode("latin-1")


def _done(table: dict[str, str], op: str, args: Sequence[Any]) -> Any:
    """What an op makes of a table of texts."""
    if op == "count":
        return len(table)
    if op == "check":
        return all(key in table for key in args[0])
    key, *rest = args
    if op == "get":
        return table.get(key, "")
    if op == "delete":
        return table.pop(key, None) is not None
    if op == "compare_set":
        expected, desired = rest
        if table.get(key, "") == expected:
            table[key] = desired
        return table.get(key, expected)
    before = table.get(key, "")
    if op == "add" and not re.fullmatch(r"(-?\d+)?", before):
        law, remedy = "what is added to is a number", "set() it to one, or take another key"
        raise DistributedError("Store.add", law, key=key, value=before, remedy=remedy)
    table[key] = {
        "set": lambda: rest[0],
        "append": lambda: before + rest[0],
        "add": lambda: str(int(before or "0") + int(rest[0])),
    }[op]()
    return table[key]


class HashStore(Store):
    """Of the threads of one process."""

    def __init__(self) -> None:
        self._table: dict[str, str] = {}
        self._lock = threading.Lock()

    def ask(self, op: str, *args: Any) -> Any:
        with self._lock:
            return _done(self._table, op, args)


def _locks() -> Any:
    """The system's locks of files.

    Raises:
        DistributedError: if it has none.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        law, remedy = "a file that processes share is locked", "Take TCPStore"
        raise DistributedError("FileStore", law, remedy=remedy) from None
    return fcntl


class FileStore(Store):
    """In a file, which is taken away by nobody.

    What changes is put behind what is there, with its length and a checksum. What a process that
    was killed has left unfinished is no record, and the next one that changes something writes over
    it.

    Args:
        file_name: where; others find it there.
        world_size: taken.

    Raises:
        DistributedError: where the system has no locks of files (Windows), or the file is another.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        del world_size
        _locks()
        self.path = file_name
        self._lock = threading.Lock()
        self._forget((0, 0))

    def _forget(self, identity: tuple[int, int]) -> None:
        self._identity, self._read = identity, 0
        self._table: dict[str, str] = {}

    def ask(self, op: str, *args: Any) -> Any:
        changes = op not in ("get", "check", "count")
        path, locks = Path(self.path), _locks()
        with self._lock, _opened(path) as file:
            locks.flock(file, locks.LOCK_EX if changes else locks.LOCK_SH)
            self._catch_up(file)
            if changes:
                found = _done(dict(self._table), op, args)  # nothing is written of what is refused
                file.seek(self._read)
                file.truncate()  # what somebody has not finished
                file.write(_record([op, *args]))
                file.flush()
                self._catch_up(file)
                return found
            return _done(self._table, op, args)

    def _catch_up(self, file: Any) -> None:
        """Do what records say that this process has not read.

        Raises:
            DistributedError: if the file does not begin as a store's.
        """
        found = os.fstat(file.fileno())
        identity = found.st_dev, found.st_ino
        if identity != self._identity or found.st_size < self._read:  # it is another
            self._forget(identity)
        file.seek(self._read)
        rest = file.read()
        if not self._read and rest and not _START.startswith(rest[: len(_START)]):
            law, remedy = "the file is empty, absent, or a store's", "Take another name"
            raise DistributedError("FileStore", law, path=self.path, remedy=remedy)
        for text, length in _records(rest):
            op, *args = json.loads(text)
            _done(self._table, op, args)
            self._read += length


# The first four bytes of each record; then come its length and its checksum.
_START = b"cln1"
_HEAD = struct.Struct("<4sII")


def _opened(path: Path) -> Any:
    """A file to be read and written, which is made if there is none."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")


def _record(what: Any) -> bytes:
    text = json.dumps(what).encode()
    return _HEAD.pack(_START, len(text), crc32(text)) + text


def _records(raw: bytes) -> Iterator[tuple[bytes, int]]:
    """The texts of records, each with how many bytes it takes, up to one that is not finished."""
    begin = 0
    while begin + _HEAD.size <= len(raw):
        start, length, check = _HEAD.unpack_from(raw, begin)
        text = raw[begin + _HEAD.size : begin + _HEAD.size + length]
        if start != _START or len(text) < length or crc32(text) != check:
            return
        yield text, _HEAD.size + length
        begin += _HEAD.size + length


class PrefixStore(Store):
    """Names of another store that begin alike.

    Args:
        prefix: what they begin with.
        store: the other.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix, self.underlying_store = prefix, store
        self.timeout = store.timeout

    def ask(self, op: str, *args: Any) -> Any:
        if op == "count":
            return self.underlying_store.ask(op)
        first, *rest = args
        named = (
            [f"{self.prefix}/{key}" for key in first] if op == "check" else f"{self.prefix}/{first}"
        )
        return self.underlying_store.ask(op, named, *rest)


def _serve(listener: socket.socket, ask: Callable[..., Any]) -> None:
    """Answer all that ask, until the listener is closed."""
    while True:
        try:
            asking, _ = listener.accept()
        except OSError:  # it is closed; or who asked has gone, or there are too many files just now
            if listener.fileno() < 0:
                return
            time.sleep(_LOOKS_S)
            continue
        threading.Thread(target=_answer, args=(asking, ask), daemon=True).start()


def _answer(asking: socket.socket, ask: Callable[..., Any]) -> None:
    """Answer a process line by line, as long as it asks what a store is asked."""
    nonsense = (ValueError, TypeError, LookupError)
    with suppress(OSError, *nonsense), asking, asking.makefile("rwb") as file:
        for line in file:
            op, *args = json.loads(line)
            try:
                answer = {"found": ask(op, *args)}
            except DistributedError as error:  # raised where it was asked for
                values = {k: str(v) for k, v in error.values.items()}
                answer = {"fault": [error.op, error.law, error.remedy, values]}
            file.write(json.dumps(answer).encode() + b"\n")
            file.flush()


class TCPStore(Store):
    """Behind a port of one process, which answers as long as it lives.

    Args:
        host_name: where that is.
        port: which; 0: any, for the process itself.
        world_size: how many processes are waited for; None: none.
        is_master: whether this is the process.
        timeout: how long is waited, here and in what is asked.
        wait_for_workers: whether all come before the first goes on.
        multi_tenant: taken: a port that this process answers at is asked again.
        **given: taken.

    Attributes:
        host, port: where it is.

    Raises:
        DistributedError: if nobody answers in time, or the port is taken.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _USUAL,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        **given: Any,
    ) -> None:
        del multi_tenant, given
        self.host, self.timeout = host_name, timeout
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        if is_master:
            try:
                self._listener = socket.create_server((host_name, port))
            except OSError as error:
                law = "the port is free"
                raise DistributedError("TCPStore", law, port=port, error=error) from error
            port = self._listener.getsockname()[1]
            shared = HashStore()
            told = self._listener, shared.ask
            threading.Thread(target=_serve, args=told, daemon=True).start()
        self.port = port
        self._socket = self._joined()
        self._file = self._socket.makefile("rwb")
        if world_size and wait_for_workers:
            joined = self.add("clnet/joined", 1)
            end = time.monotonic() + timeout.total_seconds()
            while joined < world_size and is_master:
                if time.monotonic() > end:
                    law = "all processes come in time"
                    raise DistributedError("TCPStore", law, came=joined, expected=world_size)
                time.sleep(_LOOKS_S)
                joined = self.add("clnet/joined", 0)

    def __del__(self) -> None:
        """Ask, and answer, no more."""
        listener = vars(self).get("_listener")
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # who waits for others to ask is woken
        for held in (vars(self).get("_file"), vars(self).get("_socket"), listener):
            if held is not None:
                with suppress(OSError):
                    held.close()

    def _joined(self) -> socket.socket:
        """The way to the process that answers."""
        end = time.monotonic() + self.timeout.total_seconds()
        while True:
            try:
                made = socket.create_connection((self.host, self.port), timeout=5)
            except OSError as error:
                if time.monotonic() > end:
                    law, where = "a process answers in time", f"{self.host}:{self.port}"
                    raise DistributedError("TCPStore", law, at=where, error=error) from error
                time.sleep(_LOOKS_S)
                continue
            made.settimeout(max(self.timeout.total_seconds(), 1))
            return made

    def ask(self, op: str, *args: Any) -> Any:
        with self._lock:
            try:
                self._file.write(json.dumps([op, *args]).encode() + b"\n")
                self._file.flush()
                answer = self._file.readline()
            except OSError as error:
                law = "the process that answers lives"
                raise DistributedError("TCPStore", law, error=error) from error
        if not answer:
            raise DistributedError("TCPStore", "the process that answers lives", port=self.port)
        told = json.loads(answer)
        if "fault" in told:
            op, law, remedy, values = told["fault"]
            raise DistributedError(op, law, remedy=remedy, **values)
        return told["found"]
