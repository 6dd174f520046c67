"""Containers made anew with other parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["ByPosition", "again"]


def again(container: Any, parts: Iterable[Any]) -> Any:
    """A list, tuple or named tuple of the kind of another, with other parts.

    Example:
        >>> again([1, 2], (3, 4))
        [3, 4]
    """
    kind = type(container)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


class ByPosition(dict[Any, Any]):
    """A dict whose keys are numbers written out: ``"3"``, which is found as ``3``, too.

    Files of states keep texts as keys; PyTorch's programs ask with numbers.
    """

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, int):
            return self[str(key)]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(str(key) if isinstance(key, int) else key)

    def get(self, key: Any, default: Any = None) -> Any:
        """What is there for a number, or its text."""
        return super().get(str(key) if isinstance(key, int) else key, default)
