"""Which of a plan's new kernels this process builds, where others build the same plan now.

Ranks on one machine want the same kernels at the same time: each takes what nobody builds yet, and
has the others' from the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from ..values.cache import Shelf


class Claims:
    """Kernels by number that this process builds, until they are on the disk.

    Args:
        shelf: where they will be kept.
        keys: by which they will be found; may still grow.
    """

    def __init__(self, shelf: Shelf, keys: Sequence[str]) -> None:
        self._shelf = shelf
        self._keys = keys
        self._held: dict[int, ExitStack] = {}

    def take(self, number: int) -> bool:
        """Whether this process builds a kernel: no other does, or did so meanwhile."""
        key = self._keys[number]
        with ExitStack() as held:
            first = held.enter_context(self._shelf.claimed(key, waiting=False))
            if first and not self._shelf.holds(key):
                self._held[number] = held.pop_all()
                return True
        return False

    def release(self, number: int) -> None:
        """Others may take a kernel from the disk, or build it after all."""
        self._held.pop(number).close()

    def close(self) -> None:
        """Let go of all: nothing more is built."""
        for number in list(self._held):
            self.release(number)
