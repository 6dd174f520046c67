"""Classes and functions of programs, which a file holds by name: what they are lies in the program.

They are looked up among what was loaded, and neither imported nor called. Those of Python's own
library are none of them, but for numbers, texts, containers and mathematics.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType
from typing import Any

__all__ = ["SAFE", "name_of", "of_name"]

SAFE: dict[str, Any] = {}
"""What the program allows to be made of any file, by name: ``serialization.add_safe_globals``."""

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
_MATHEMATICS = ("math", "cmath", "_operator", "operator")


def of_name(name: str) -> Any:
    """What :func:`name_of` named; None if the program has not loaded it, or may not get it so.

    Args:
        name: module, colon, path of attributes.
    """
    place, _, path = name.partition(":")
    found: Any = sys.modules.get(place)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if _own_name(found) == name else None


def name_of(value: Any) -> str | None:
    """The name of a class or a function, by which it is found; None if it is not, or is another."""
    name = _own_name(value)
    return name if name is not None and of_name(name) is value else None


def _own_name(value: Any) -> str | None:
    if not isinstance(value, type | FunctionType | BuiltinFunctionType):
        return None
    place, path = getattr(value, "__module__", None), value.__qualname__
    if not isinstance(place, str) or "<" in path:
        return None
    top = place.partition(".")[0]
    python = top in sys.stdlib_module_names and top != "__main__"
    if python and value not in _PLAIN and place not in _MATHEMATICS:
        return None
    return f"{place}:{path}"
