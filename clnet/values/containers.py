"""Containers made anew with other parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["again"]


def again(container: Any, parts: Iterable[Any]) -> Any:
    """A list, tuple or named tuple of the kind of another, with other parts.

    Example:
        >>> again([1, 2], (3, 4))
        [3, 4]
    """
    kind = type(container)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
