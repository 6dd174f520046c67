"""Whether anything has changed at all, so that what depends on many things asks one."""

from __future__ import annotations

__all__ = ["FLAGS", "MODULES", "PLACES", "WRITES", "Changes"]


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
