"""Gradients that a plan leaves in leaves, in memory that it writes again at the next call."""

from __future__ import annotations

from collections.abc import Iterable
from operator import gt
from sys import getrefcount
from typing import Any

from ..array import Array
from ..device import Storage
from ..tensor import Tensor


class LeftGradients:
    """What leaves get as their gradients: tensors that lie where the plan writes.

    A program may keep one beyond the next call (``held.append(p.grad)``), or a view of it, and
    eager steps leave it as it is. So what leaves get looks through a storage of its own at the
    plan's memory. Where somebody else holds one of these at the next call, that storage moves away
    with its elements, and the leaf gets another tensor. Who holds one is told by counting
    references, which costs nothing to speak of.

    Gradients that another plan reads or adds to stay where they are: it looks for them there.

    Args:
        written: leaves, and gradients of the trace or None.
        own: storages in which the plan writes them; others, which were there before, stay as is.
    """

    def __init__(self, written: Iterable[tuple[Any, Any]], own: Iterable[Storage]) -> None:
        self._given = [*written]
        inside = {*own}
        self._places: dict[int, Array] = {}  # of gradients that look through a window, and at what
        for k, (_, grad) in enumerate(self._given):
            if type(grad) is Tensor and grad.node is None and grad.array.storage in inside:
                self._places[k] = grad.array
        self._windows: dict[Storage, Storage] = {}
        self._renew({a.storage for a in self._places.values()})
        self._usual = [*map(getrefcount, self._seen)]
        self._usual[::3] = [n + 1 for n in self._usual[::3]]  # the leaf's

    def let_go(self) -> None:
        """Before the plan writes: what somebody else holds moves away with its elements."""
        counts = [*map(getrefcount, self._seen)]
        if counts == self._usual:
            return
        held: set[Storage] = set()
        for n, (k, array) in enumerate(self._places.items()):
            leaf, grad = self._given[k]
            found, usual = counts[3 * n : 3 * n + 3], self._usual[3 * n : 3 * n + 3]
            found[0] += leaf._grad is not grad
            fixed = self._windows[array.storage].moves is not None
            if not fixed and any(map(gt, found, usual)):
                held.add(array.storage)
        for storage in held:
            self._windows[storage].move_away()
        if held:
            self._renew(held)

    def written(self) -> None:
        """Count a write of each, at every replay."""
        for window in self._windows.values():
            window.written()

    def leave(self) -> None:
        """Give leaves their gradients."""
        for leaf, grad in self._given:
            leaf.grad = grad

    def _renew(self, storages: set[Storage]) -> None:
        """Make windows at the plan's memory, and the gradients that look through them."""
        for storage in storages:
            self._windows[storage] = Storage(storage.device, storage.nbytes)
            self._windows[storage].look_at(storage)
        for k, array in self._places.items():
            if array.storage in storages:
                window = self._windows[array.storage]
                seen = Array(window, array.shape, array.strides, array.offset, array.dtype)
                self._given[k] = (self._given[k][0], Tensor(seen))
        grads = [self._given[k][1] for k in self._places]
        self._seen = [x for g in grads for x in (g, g.array, g.array.storage)]
