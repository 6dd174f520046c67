"""``clnet.fx``: functions are not taken apart symbolically; marks for that are accepted."""

from __future__ import annotations

from typing import Any, TypeVar

from ..errors import ArgumentError

__all__ = ["symbolic_trace", "wrap"]

F = TypeVar("F")


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
