"""What a function takes or returns: its structure, and the tensors of a call in their places."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from ..tensor import Tensor
from ..values.containers import again

__all__ = ["put_together", "taken_apart"]


@dataclass(frozen=True)
class _Made:
    """An object, or a dict of a class of its own, that is copied for every call.

    Attributes:
        model: what the function returned.
        parts: by key or name, the structures of what the copies hold instead.
    """

    model: Any
    parts: dict[Any, Any]


def taken_apart(value: Any, tensors: list[Tensor]) -> Any:
    """The structure of a result, with ``Tensor`` in the place of tensors, which are collected.

    Tensors may lie in tuples, lists, dicts, data classes (what models return), and be attributes
    of other objects (of a distribution).
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor
    if isinstance(value, tuple | list):
        return again(value, (taken_apart(v, tensors) for v in value))
    if isinstance(value, dict):
        parts = {k: taken_apart(v, tensors) for k, v in value.items()}
        return parts if type(value) is dict else _Made(value, parts)
    held = _attributes(value)
    if held:
        return _Made(value, {k: taken_apart(v, tensors) for k, v in held.items()})
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


def _attributes(value: Any) -> dict[str, Any]:
    """What an object holds by name, if it is one whose tensors are those of a call."""
    if isinstance(value, type) or hasattr(value, "named_parameters"):
        return {}
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if hasattr(value, f.name)}
    held: dict[str, Any] = getattr(value, "__dict__", {})
    made = any(isinstance(v, Tensor) and v.array.storage.buffer is None for v in held.values())
    return dict(held) if made else {}
