"""What a function takes or returns: its structure, and the tensors of a call in their places."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from ..tensor import Tensor
from ..values.containers import again

__all__ = ["holds_made", "opaque", "put_together", "taken_apart"]

_DEPTH = 4  # of containers and objects within each other
_OURS = f"{__name__.partition('.')[0]}."
_DISTRIBUTIONS = f"{_OURS}distributions."
_OWN = {"__dict__", "__weakref__"}


@dataclass(frozen=True)
class _Made:
    """An object, or a dict of a class of its own, that is copied for every call.

    Attributes:
        model: what the function returned.
        parts: by key or name, the structures of what the copies hold instead.
    """

    model: Any
    parts: dict[Any, Any]


def taken_apart(value: Any, tensors: list[Tensor], known: Container[int] = ()) -> Any:
    """The structure of a result, with ``Tensor`` in the place of tensors, which are collected.

    Tensors may lie in tuples, lists, dicts, data classes (what models return), and be attributes
    of other objects (of a distribution).

    Args:
        value: the result.
        tensors: gets those in it.
        known: the ``id`` of objects that stay what they are.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor
    if isinstance(value, tuple | list):
        return again(value, (taken_apart(v, tensors, known) for v in value))
    if isinstance(value, dict):
        parts = {k: taken_apart(v, tensors, known) for k, v in value.items()}
        return parts if type(value) is dict else _Made(value, parts)
    held = {} if id(value) in known else _attributes(value)
    if held:
        return _Made(value, {k: taken_apart(v, tensors, known) for k, v in held.items()})
    return value


def put_together(template: Any, tensors: Iterator[Tensor]) -> Any:
    """The result that has a structure, with these tensors in the order they were collected in."""
    if template is Tensor:
        return next(tensors)
    if isinstance(template, tuple | list):
        return again(template, (put_together(v, tensors) for v in template))
    if isinstance(template, dict):
        return {k: put_together(v, tensors) for k, v in template.items()}
    if not isinstance(template, _Made):
        return template
    made = copy(template.model)
    for key, part in template.parts.items():
        value = put_together(part, tensors)
        if isinstance(made, dict):
            made[key] = value
        else:
            object.__setattr__(made, key, value)
    return made


def opaque(template: Any) -> Iterator[Any]:
    """What a structure has beside tensors, and containers and objects that are made anew."""
    parts: Iterable[Any] = ()
    if isinstance(template, tuple | list):
        parts = template
    elif isinstance(template, dict):
        parts = template.values()
    elif isinstance(template, _Made):
        parts = template.parts.values()
    elif template is not Tensor:
        yield template
    for part in parts:
        yield from opaque(part)


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name, if it is one whose tensors are those of a call."""
    if isinstance(value, type) or hasattr(value, "named_parameters"):
        return {}
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}
    held = _by_name(value)
    return held if any(holds_made(v) for v in held.values()) else {}


def holds_made(value: Any, depth: int = _DEPTH) -> bool:
    """Whether there are tensors without memory in a value: those of the call, of a trace.

    Looked at are containers, plain objects (also ``__slots__``), variables and defaults of
    functions, objects that methods are bound to, and arguments of a ``partial``.
    """
    if isinstance(value, Tensor):
        array = getattr(value, "array", None)
        return array is not None and array.storage.buffer is None
    return depth > 0 and any(holds_made(v, depth - 1) for v in _held(value))


def _held(value: Any) -> Iterable[Any]:
    """What lies in a container or an object; nothing of modules and optimisers."""
    kind: Any = type(value)
    if isinstance(value, tuple | list | set | frozenset | deque):
        return value
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, FunctionType):
        cells = (getattr(cell, "cell_contents", None) for cell in value.__closure__ or ())
        return (*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
    # A device, or what stands for a number that varies, leads to all there is.
    ours = kind.__module__.startswith(_OURS) and not kind.__module__.startswith(_DISTRIBUTIONS)
    if ours or isinstance(value, type | ModuleType) or hasattr(kind, "_clnet_version"):
        return ()
    return _by_name(value).values()


def _by_name(value: Any) -> dict[str, Any]:
    """The attributes of an object that lie in it."""
    bases = type(value).__mro__
    slots = {name for base in bases for name in _names(vars(base).get("__slots__", ()))}
    found = {name: getattr(value, name) for name in slots - _OWN if hasattr(value, name)}
    return found | getattr(value, "__dict__", {})


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots
