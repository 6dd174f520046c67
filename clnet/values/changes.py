"""Whether anything has changed at all, so that what depends on many things asks one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

__all__ = ["FLAGS", "LIBRARY", "MODULES", "PLACES", "WRITES", "Changes", "Replaceable"]


class Changes:
    """What many things tell when they change.

    Who depends on some of them keeps the mark, looks at each only if it is another one than before,
    and reads the mark first: what changes while it looks makes it look again.

    Attributes:
        mark: an object that is another one after each change. A number would not do: of two threads
            that count at once, one could lead it back to what a third has kept.
    """

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = object()

    def tell(self) -> None:
        """Called behind a change, when it can be seen."""
        self.mark = object()


WRITES = Changes()
"""Of storages' versions: of all that is written in place."""

MODULES = Changes()
"""Of modules' versions."""

PLACES = Changes()
"""Of tensors that a plan looks for in one memory and that were given another."""

FLAGS = Changes()
"""Of tensors in memory that a plan knows and that ask for gradients now, or no more."""


class _Library:
    """What compiled functions depend on: whether one of clnet's functions was replaced."""

    _clnet_tells_changes = True
    _clnet_version = 0


LIBRARY = _Library()
"""The functions that clnet shows."""


class Replaceable(ModuleType):
    """A module that shows functions, of which a program may replace one: ``F.relu = mock``."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not (name.startswith("__") or isinstance(value, ModuleType)):
            LIBRARY._clnet_version += 1
            MODULES.tell()

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        LIBRARY._clnet_version += 1
        MODULES.tell()
