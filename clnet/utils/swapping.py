"""``torch.utils.swap_tensors``: two tensors become each other, for all who hold them."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from ..tensor import Tensor

__all__ = ["swap_tensors"]

_ABSENT = object()
_SLOTS = tuple(name for name in Tensor.__slots__ if name not in ("__dict__", "__weakref__"))


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange all that two tensors are: class, elements, gradient, attributes, place on the tape.

    Args:
        t1: the one.
        t2: the other.

    Raises:
        ArgumentError: if one is a view, or has views: they would stay with what it was.
    """
    for tensor in (t1, t2):
        if tensor.source is not None:
            raise ArgumentError("swap_tensors", "neither is a view", shape=tensor.shape)
    first, second = _parts(t1), _parts(t2)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__  # all have these slots
    _become(t1, second)
    _become(t2, first)


def _parts(tensor: Tensor) -> tuple[dict[str, Any], dict[str, Any]]:
    slots = {name: getattr(tensor, name, _ABSENT) for name in _SLOTS}
    return slots, dict(vars(tensor))


def _become(tensor: Tensor, parts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    slots, attributes = parts
    for name, value in slots.items():
        if value is not _ABSENT:
            setattr(tensor, name, value)
        elif getattr(tensor, name, _ABSENT) is not _ABSENT:
            delattr(tensor, name)
    vars(tensor).clear()
    vars(tensor).update(attributes)
