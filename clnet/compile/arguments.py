"""Arguments of a compiled function: the tensors among them, and what tells calls apart.

Tensors may lie in tuples, lists and dicts. Of tensors their form matters, of all else the value
and its type, since 1, 1.0 and True are equal and yet give other dtypes, and 0.0 and -0.0 other
signs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import TraceError
from ..ops import contiguous
from ..tensor import Tensor
from ..values.containers import again

_DICTS = (dict, OrderedDict)
_NUMBERS = (float, complex, np.floating, np.complexfloating)


def looked_at(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Tensor], list[Tensor], tuple[Any, ...]]:
    """Arguments in one go: between calls the device leaves nothing of all this in the caches.

    Returns:
        The tensors in them, in the order of :func:`placed`; the same with arrays that a plan can
        read, which almost always are they themselves; and what calls share that one plan serves.

    Raises:
        TraceError: if an argument can not be compared.
    """
    given: list[Tensor] = []
    guards: list[Any] = [len(args), *kwargs] if kwargs else []
    try:
        for value in (*args, *kwargs.values()) if kwargs else args:
            guards.append(_told(value, given))  # noqa: PERF401 - how many tells which is refused
    except TypeError:
        place = len(guards) - (1 + len(kwargs) if kwargs else 0)
        raise TraceError(
            "compile",
            "arguments are tensors, hashable values, and tuples, lists and dicts of these",
            argument=(*range(len(args)), *kwargs)[place],
            type=type((*args, *kwargs.values())[place]).__name__,
            remedy="Pass its tensors one by one",
        ) from None
    tensors = [x if x.array.contiguous else contiguous(x.detach()) for x in given]
    return given, tensors, tuple(guards)


def placed(value: Any, place: Callable[[Tensor], Tensor]) -> Any:
    """An argument with other tensors in the place of its own; containers are made anew."""
    if isinstance(value, Tensor):
        return place(value)
    if isinstance(value, tuple | list):
        return again(value, [placed(v, place) for v in value])
    if type(value) in _DICTS:
        return type(value)((k, placed(v, place)) for k, v in value.items())
    return value


def contents(value: Any) -> list[Any]:
    """All that lies in an argument, in order, and where containers begin: to see a change."""
    if isinstance(value, tuple | list):
        found = [v for part in value for v in contents(part)]
    elif type(value) in _DICTS:
        found = [v for key, part in value.items() for v in (key, *contents(part))]
    else:
        return [value]
    return [(type(value), len(value)), *found]


def same_contents(before: list[Any], after: list[Any]) -> bool:
    """Whether two of :func:`contents` have the same objects in the same containers."""
    return len(before) == len(after) and all(
        a is b or (type(a) is type(b) is tuple and a == b)
        for a, b in zip(before, after, strict=True)
    )


def _told(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        array = value.array
        return (array.storage.device, array.shape, array.dtype, value.requires_grad)
    kind: Any = type(value)
    if isinstance(value, _NUMBERS):
        return (kind, repr(value))  # which tells -0.0 from 0.0, and one NaN is as another
    if isinstance(value, tuple | list):
        return (kind, *[_told(v, tensors) for v in value])
    if kind in _DICTS:
        return (kind, *[(k, _told(v, tensors)) for k, v in value.items()])
    hash(value)
    return (kind, value)
