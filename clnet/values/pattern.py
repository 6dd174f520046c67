"""Regular expressions that are compiled at their first use: a process needs few of them."""

from __future__ import annotations

import re
from typing import Any, cast

__all__ = ["pattern"]


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    r"""A regular expression, to be used like what ``re.compile`` gives.

    Args:
        text: the expression.
        flags: as for ``re.compile``.

    Example:
        >>> pattern(r"(\w+)=").findall("a=1, b=2")
        ['a', 'b']
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    """Has the methods of what it becomes."""

    def __init__(self, text: str, flags: int) -> None:
        self._asked = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, getattr(re.compile(*self._asked), name))
