"""``clnet.fx``: functions are not taken apart symbolically; marks for that are accepted."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeVar

from ..errors import ArgumentError
from ..nn import Module

__all__ = ["Graph", "GraphModule", "Node", "Proxy", "Tracer", "symbolic_trace", "wrap"]

F = TypeVar("F")


class Graph:
    """A function taken apart: there is none."""


class Node:
    """A call in such a one: there is none."""


class Proxy:
    """A value in such a one: there is none."""


class Tracer:
    """What takes functions apart, which nothing does: :func:`symbolic_trace` says so."""


class GraphModule(Module):
    """A module of such a one: there is none."""


def wrap(fn_or_name: F) -> F:
    """What it got: a mark for a tracer that there is none of."""
    return fn_or_name


def symbolic_trace(root: Any, concrete_args: Any = None) -> Any:
    """There is no such tracer.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "fx.symbolic_trace",
        "modules are not taken apart",
        type=type(root).__name__,
        remedy="Use clnet.compile for speed, forward hooks to see inner values",
    )


def _no_mode() -> None:
    """None: nothing is traced."""


def _as_it_is(a: Any) -> Any:
    return a


experimental = ModuleType("torch.fx.experimental", "Of PyTorch's compiler.")
experimental.__dict__.update(
    proxy_tensor=ModuleType("torch.fx.experimental.proxy_tensor", "Of PyTorch's compiler."),
    symbolic_shapes=ModuleType("torch.fx.experimental.symbolic_shapes", "Sizes are known."),
)
experimental.__dict__["proxy_tensor"].__dict__["get_proxy_mode"] = _no_mode
experimental.__dict__["symbolic_shapes"].__dict__.update(
    dict.fromkeys(("guard_size_oblivious", "guard_or_false", "guard_or_true"), _as_it_is)
)
