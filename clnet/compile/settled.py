"""What was found as it was traced, and is looked at again by identity alone.

A program with much code of its own names thousands of functions and settings: the fingerprints of
2,000 took 10 ms of each call, to see that they are the same objects takes 1.4.
"""

from __future__ import annotations

from array import array
from collections import ChainMap, OrderedDict, UserDict, defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import is_
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..tensor import Tensor
from ..values.programs import is_programs
from .drawn import GENERATORS
from .fingerprint import CONTAINERS, PLAIN, fingerprint
from .reachable import MISSING, attribute, content, global_of

__all__ = ["Settled"]

_DICTS = (dict, OrderedDict, defaultdict)
_FIXED = (*PLAIN, float, complex, frozenset)
_BY_MORE = (
    *(Tensor, dict, *CONTAINERS, *GENERATORS, Iterator, MethodType),
    *(MappingProxyType, UserDict, ChainMap, bytearray, array),
)
"""Types of values that are told by more than which object they are."""

_MOST_PARTS = 512
_MOST_DEEP = 8

_Look = tuple[Any, Any, Any, Any]  # how, of what, by which name, and what was found


class _Open(Exception):
    """A value that may be another to a trace though it is the same object."""


class Settled:
    """Places whose values are as they were if all that is looked at are the same objects.

    Of lists and dicts that are their parts, of functions their code and what they hold. Who finds
    another object knows nothing yet, since it may be equal: then fingerprints are compared.

    Args:
        places: what gives each value.
        version: the values' fingerprints, which they have now.
        before: an earlier look at them. What is another object since is compared from now on.
    """

    def __init__(
        self, places: Sequence[partial[Any]], version: list[Any], before: Settled | None = None
    ) -> None:
        self._of = places, version
        self._each = [_looks_of(place) for place in places]
        if before is not None:
            pairs = zip(self._each, before._each, strict=True)
            self._each = [now if _alike(now, old) else None for now, old in pairs]
        every = {(how, id(o), name): (o, name, v) for how, o, name, v in self._looks()}
        self._entries = _columns(every, dict.get)
        self._attributes = _columns(every, getattr)
        self._parts = [(o, v) for (how, *_), (o, _, v) in every.items() if how is _parts_of]
        told = zip(places, version, self._each, strict=True)
        self._compared = [(place, old) for place, old, looks in told if looks is None]

    def is_of(self, places: Sequence[partial[Any]], version: list[Any]) -> bool:
        """Whether it looks at these places, which had this version."""
        return self._of[0] is places and self._of[1] is version

    def holds(self) -> bool:
        """Whether all is as it was, for sure."""
        try:
            return (
                _are_there(dict.get, *self._entries)
                and _are_there(getattr, *self._attributes)
                and all(_same(_parts_of(o), parts) for o, parts in self._parts)
                and all(fingerprint(place()) == old for place, old in self._compared)
            )
        except Exception:  # of a program's ``__getattr__``; an empty variable
            return False

    def _looks(self) -> Iterator[_Look]:
        for looks in self._each:
            yield from looks or ()


def _looks_of(place: partial[Any]) -> list[_Look] | None:
    """What to look at, so that a place's value is as it is now; None: that does not tell."""
    looks: list[_Look] = []
    try:
        if place.func is global_of:
            name, space = place.args
            if type(space) is not dict:
                return None
            looks.append((dict.get, space, name, space.get(name, MISSING)))
        elif place.func is attribute:
            owner, name = place.args
            looks.append((getattr, owner, name, getattr(owner, name, MISSING)))
        elif place.func is content:
            cell = place.args[0]
            looks.append((getattr, cell, "cell_contents", cell.cell_contents))
        else:
            return None
        _settle(looks[0][-1], looks, set(), _MOST_DEEP)
    except Exception:  # it is open, or a program's ``__getattr__`` fails
        return None
    return looks


def _settle(value: Any, looks: list[_Look], known: set[int], depth: int) -> None:
    """Add what must be the same objects for a value to be as it is.

    Raises:
        _Open: that does not tell.
    """
    kind: Any = type(value)
    if kind in _FIXED or isinstance(value, np.generic | ModuleType) or id(value) in known:
        return
    if not depth:
        raise _Open
    known.add(id(value))
    inside: list[Any] = []
    if kind is FunctionType:
        if not is_programs(value):
            return
        names = ("__code__", "__defaults__", "__kwdefaults__", "__wrapped__")
        looks += [(getattr, value, name, getattr(value, name, MISSING)) for name in names]
        cells = value.__closure__ or ()
        looks += [(getattr, cell, "cell_contents", cell.cell_contents) for cell in cells]
        held = (*(cell.cell_contents for cell in cells), *(value.__defaults__ or ()))
        if value.__kwdefaults__:
            looks.append((_parts_of, value.__kwdefaults__, None, _parts_of(value.__kwdefaults__)))
            held += (*value.__kwdefaults__.values(),)
        held += (getattr(value, "__wrapped__", None),)
        inside = [v for v in held if type(v) is FunctionType]  # others are told by their type
    elif kind in (list, tuple, *_DICTS):
        if len(value) > _MOST_PARTS:
            raise _Open
        inside = _parts_of(value)
        if kind is not tuple:
            looks.append((_parts_of, value, None, inside))
    elif isinstance(value, _BY_MORE):
        raise _Open
    for each in inside:
        _settle(each, looks, known, depth - 1)


def _parts_of(value: Any) -> list[Any]:
    return [*value, *value.values()] if type(value) in _DICTS else [*value]


def _columns(every: dict[Any, tuple[Any, Any, Any]], wanted: Any) -> tuple[list[Any], ...]:
    """Owners, names and values of what is looked at in one way."""
    found = [look for (how, *_), look in every.items() if how is wanted]
    return [o for o, *_ in found], [name for _, name, _ in found], [v for *_, v in found]


def _are_there(how: Any, owners: list[Any], names: list[Any], values: list[Any]) -> bool:
    return all(map(is_, map(how, owners, names, repeat(MISSING)), values))


def _same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _alike(now: list[_Look] | None, before: list[_Look] | None) -> bool:
    """Whether the same is looked at, and was found."""
    if now is None or before is None or len(now) != len(before):
        return False
    pairs = zip(now, before, strict=True)
    return all(
        _same([*a[:3]], [*b[:3]]) and (_same(a[3], b[3]) if a[0] is _parts_of else a[3] is b[3])
        for a, b in pairs
    )
