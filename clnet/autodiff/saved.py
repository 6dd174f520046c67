"""What nodes of the tape keep for backward, also where a program's hooks have it in hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import DtypeError
from ..ops.shape import alias
from ..values import mode
from ..values.record import NamedTuple


class Kept(NamedTuple):
    """A tensor saved for backward and the version its storage had."""

    tensor: Any
    version: int


class Edge(NamedTuple):
    """Where a gradient goes: output ``index`` of a node, or a leaf tensor."""

    node: Any
    index: int
    leaf: Any


class Packed(NamedTuple):
    """What a hook made of a tensor saved for backward, and the tensor's place on the tape."""

    value: Any
    unpack_hook: Callable[[Any], Any]
    edge: Edge | None
    version = None


def edge_of(tensor: Any) -> Edge:
    """Where the gradient of a tensor goes."""
    node = tensor.node
    return Edge(None, 0, tensor) if node is None else Edge(node, tensor.index, None)


def pack(tensor: Any) -> Packed | None:
    """What the hook of the mode makes of a tensor, off the tape; None: it leaves it to the tape."""
    pack_hook, unpack_hook = mode.current().saved_hooks  # pyrefly: ignore[not-iterable] - asked before
    with mode.using(grad=False, saved_hooks=None):
        value = pack_hook(tensor.detach())
    if value is NotImplemented:
        return None
    return Packed(value, unpack_hook, edge_of(tensor) if tensor.requires_grad else None)


def unpacked(packed: Packed) -> Any:
    """The tensor that a hook gives back, at the place where the saved one was.

    Raises:
        DtypeError: if it gives something else.
    """
    with mode.using(grad=False, saved_hooks=None):
        found = packed.unpack_hook(packed.value)
    if not hasattr(found, "array"):
        law = "unpack_hook gives a tensor"
        raise DtypeError("saved_tensors_hooks", law, type=type(found).__name__)
    edge = packed.edge
    if edge is None or not mode.current().grad:
        return found.detach()
    place = Edge(edge.node, edge.index, None) if edge.node else edge_of(alias(edge.leaf))
    return type(found.detach())(found.array, place.node, place.index)
