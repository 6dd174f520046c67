"""Numbers that lie where a function finds things by name: which are others, and what is left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Set
from functools import partial
from typing import Any

from .numbers import Slot, is_number
from .reachable import attribute, content, global_of

__all__ = ["UNSEEN", "differing", "masked", "masked_content", "numbers_in", "slot_of"]

_MOST_DEPTH = 3
_LISTS = (list, deque)


def _nothing(name: str) -> None:
    del name


UNSEEN: partial[Any] = partial(_nothing, "")
"""The place of what is not compared, since it may vary."""


def slot_of(place: partial[Any]) -> Slot | None:
    """Where the value of a place lies, if that is a table."""
    if place.func is attribute:
        owner, name = place.args
        table = getattr(owner, "__dict__", None)
        if type(table) is not dict or name not in table:
            return None
        return Slot(table, name, owner if hasattr(type(owner), "_clnet_tell_of") else None)
    if place.func is global_of:
        name, space = place.args
        return Slot(space, name) if name in space else None
    return Slot(*place.args) if place.func is content else None


def numbers_in(value: Any, slot: Slot | None, depth: int = _MOST_DEPTH) -> Iterator[Slot]:
    """The slots of numbers: a value's own, or those in a container."""
    if is_number(value):
        if slot is not None:
            yield slot
    elif depth and type(value) in (dict, *_LISTS):
        for key, part in _items(value):
            yield from numbers_in(part, Slot(value, key), depth - 1)


def differing(old: Any, new: Any, slot: Slot | None, value: Any) -> Iterator[tuple[Slot, Any]]:
    """The slots of numbers by which what tells a value from others is another; what they held.

    Args:
        old: its :func:`.fingerprint` in a version of :class:`.Outer`.
        new: that of now.
        slot: where the value lies.
        value: the newer.
    """
    if not (type(old) is tuple is type(new) and len(old) == len(new) == 2):
        return
    if old[0] in (int, float) and new[0] in (int, float):
        if slot is not None:
            yield slot, old[0](old[1])
    elif type(value) is dict and _are_told(old, new, value):
        for (key, part), (k, x), (j, y) in zip(value.items(), old[1], new[1], strict=False):
            if k == j and x != y:
                yield from differing(x, y, Slot(value, key), part)
    elif type(value) in _LISTS and _are_told(old, new, value):
        for (key, part), x, y in zip(enumerate(value), old[1], new[1], strict=False):
            if x != y:
                yield from differing(x, y, Slot(value, key), part)


def masked(place: partial[Any], names: Set[tuple[int, Any]]) -> partial[Any]:
    """The place without the numbers in slots of these names."""
    slot, value = slot_of(place), place()
    if slot is not None and slot.name in names:
        return UNSEEN
    if any(each.name in names for each in _held(value, _MOST_DEPTH)):
        name = place.args[0] if isinstance(place.args[0], str) else place.args[1]
        return partial(masked_content, place, name, names)
    return place


def masked_content(place: partial[Any], name: str, names: Set[tuple[int, Any]]) -> Any:
    """What a place holds, without the numbers in slots of these names."""
    del name
    return _without(place(), names, _MOST_DEPTH)


def _held(value: Any, depth: int) -> Iterator[Slot]:
    if depth and type(value) in (dict, *_LISTS):
        for key, part in _items(value):
            yield Slot(value, key)
            yield from _held(part, depth - 1)


def _without(value: Any, names: Set[tuple[int, Any]], depth: int) -> Any:
    """A container whose numbers of these names are left out, which tells which one it is."""
    if not depth or type(value) not in (dict, *_LISTS):
        return value
    own = id(value)
    parts = {
        k: None if (own, k) in names else _without(v, names, depth - 1) for k, v in _items(value)
    }
    if any((own, k) in names for k in parts):
        parts["id"] = own
    return parts if type(value) is dict else type(value)(parts.values())


def _items(value: Any) -> Any:
    return value.items() if type(value) is dict else enumerate(value)


def _are_told(old: Any, new: Any, value: Any) -> bool:
    """Whether both tell the parts of a container one by one."""
    return type(old[1]) is list is type(new[1]) and len(old[1]) == len(new[1]) >= len(value)
