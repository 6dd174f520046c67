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
    """A dict whose keys are numbers, found by their texts, too: ``3`` by ``"3"``.

    PyTorch's programs ask with numbers; files of states keep texts as keys.
    """

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, str) and _number(key) != key:
            return self[_number(key)]
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_number(key))

    def get(self, key: Any, default: Any = None) -> Any:
        """What is there for a number, or its text."""
        return super().get(_number(key), default)


def _number(key: Any) -> Any:
    return int(key) if isinstance(key, str) and key.isdecimal() else key
