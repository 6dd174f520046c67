"""Tensors outside that a plan replaces by writing where they lie, and who else looks there."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import sub
from sys import getrefcount
from typing import Any

from ..array import Array
from ..device import Storage
from ..tensor import Tensor
from ..values.changes import PLACES
from ..values.collector import known_objects
from .tracer import entry

__all__ = ["States"]

_YOUNG = (0, 1)  # generations of the collector: most views were taken since the last call


def _count(read: Callable[[Any], Any], name: Any) -> int:
    return getrefcount(read(name))


_ALONE = _count({"": object()}.get, "")  # of what its table alone has


class States:
    """Attributes in whose tensors a plan writes what the function assigns to them.

    In eager execution another tensor takes the place, and who holds the old one, a view of it or
    its ``detach()``, keeps its elements. So these get memory of their own before the plan writes.
    That there are some is told by counting references, which costs nothing to speak of; which they
    are Python's collector knows.

    Args:
        written: dicts, or lists, and keys of the tensors.
    """

    def __init__(self, written: Iterable[tuple[Any, Any]]) -> None:
        self._written = tuple(written)
        self._readers = [
            (t.get if isinstance(t, dict) else partial(entry, t), name) for t, name in self._written
        ]
        self._seen: list[Any] = []  # the array and the storage of each, after the last call
        self._settled = not self._written  # whether all these are as they were then
        self._usual: list[int] = []  # how many references each of these had then

    def part(self) -> None:
        """Before the plan writes: what somebody else holds moves away with its elements."""
        if not self._written:
            return
        seen, counts = self._seen, [*map(getrefcount, self._seen)]
        if counts == self._usual and seen:
            k = 0
            for read, name in self._readers:
                there: Any = read(name)
                array = there.array
                del there
                if array is not seen[k] or _count(read, name) != _ALONE:
                    break
                k += 2
            else:
                return
        self._settled = False
        for k, (table, name) in enumerate(self._written):
            alone, since = _count(*self._readers[k]) == _ALONE, None
            if seen and getattr(entry(table, name), "array", None) is seen[2 * k]:
                same, apart = map(sub, counts[2 * k : 2 * k + 2], self._usual[2 * k : 2 * k + 2])
                if alone and same == apart == 0:
                    continue
                since = (same, apart)
            _part(table, name, since, alone=alone)

    def settle(self) -> None:
        """The plan has run: who looks at the states from now on is new."""
        if not self._settled:
            arrays = [getattr(read(name), "array", None) for read, name in self._readers]
            self._seen = [
                part for array in arrays for part in (array, getattr(array, "storage", None))
            ]
            del arrays
            self._usual = [*map(getrefcount, self._seen)]
            self._settled = True


def _part(table: Any, name: Any, since: tuple[int, int] | None, *, alone: bool) -> None:
    """Give others' tensors that look at a state memory of their own.

    Args:
        table: where the state lies.
        name: its key.
        since: how many references there are more than after the last call, to its array and its
            storage; None: nobody knows.
        alone: whether nobody else has the state itself.
    """
    held = entry(table, name)
    if type(held) is not Tensor or held.requires_grad:
        return
    storage = held.array.storage
    others = _others(held, since)
    if not alone:
        table[name] = held.detach()
        others.append(held)
    if not others:
        return
    apart = Storage(storage.device, storage.nbytes)
    apart.share(storage)
    apart.move_away()
    for x in others:
        old = x.array
        x.array = type(old)(apart, old.shape, old.strides, old.offset, old.dtype)
        x.version = apart.version
        if storage.aliases is not None and old in storage.aliases:
            x.array.register()
    # Modules' attributes are told by versions, all others by where they lie.
    if storage.moves is not None and any(map(_is_of_module, others)):
        storage.moves += 1
        PLACES.tell()


def _others(held: Tensor, since: tuple[int, int] | None) -> list[Tensor]:
    """Tensors beside a state that look at its memory.

    Args:
        held: the state.
        since: as of :func:`_part`.
    """
    array, storage = held.array, held.array.storage
    if since == (0, 0):
        return []
    if since is not None and min(since) >= 0:
        young = (x for k in _YOUNG for x in known_objects(gc.get_objects, k))
        found = [*_at(storage, young, held)]
        arrays = {id(x.array) for x in found} - {id(array)}
        if (sum(x.array is array for x in found), len(arrays)) == since:
            return found
    referrers = known_objects(gc.get_referrers, storage)
    looking = [x for x in referrers if issubclass(type(x), Array)]
    return [*_at(storage, known_objects(gc.get_referrers, *looking), held)]


def _at(storage: Storage, among: Iterable[Any], held: Tensor) -> Iterator[Tensor]:
    for x in among:
        # No ``__class__`` of a program's is asked.
        if issubclass(type(x), Tensor) and x is not held:
            array: Any = getattr(x, "array", None)
            if issubclass(type(array), Array) and array.storage is storage:
                yield x


def _is_of_module(x: Tensor) -> bool:
    """Whether a tensor is an attribute of a module."""
    tables = [t for t in known_objects(gc.get_referrers, x) if type(t) is dict]
    for owner in known_objects(gc.get_referrers, *tables) if tables else ():
        if getattr(type(owner), "_clnet_tells_changes", False):
            return True
        if type(owner) is dict and any(owner.get("_buffers") is table for table in tables):
            return True
    return False
