"""Gradients that a plan leaves in leaves, in memory that it writes again at the next call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import gt
from sys import getrefcount
from typing import Any

from ..array import Array
from ..device import Storage
from ..tensor import Tensor
from ..values.changes import PLACES
from .tracer import Tracer


class LeftGradients:
    """What leaves get as their gradients: tensors that lie where the plan writes.

    A program may keep one beyond the next call (``held.append(p.grad)``), or a view of it, and
    eager steps leave it as it is. So what leaves get looks through a storage of its own at the
    plan's memory. Where somebody else holds one of these at the next call, that storage moves away
    with its elements, and the leaf gets another tensor. Who holds one is told by counting
    references, which costs nothing to speak of.

    Gradients that the plan finds in leaves, see :mod:`.found_gradients`, stay theirs.

    Args:
        tracer: knows leaves, and gradients of the trace or None.
        own: storages in which the plan writes them; others, which were there before, stay as is.
        arguments: of the trace, the gradients that it finds among them.

    Attributes:
        hidden: where these lie, and which of the arguments they are.
    """

    def __init__(self, tracer: Tracer, own: Iterable[Storage], arguments: Sequence[Array]) -> None:
        places = ((a.storage, i) for i, a in enumerate(arguments))
        self.hidden = hidden = {s: i for s, i in places if s in tracer.hidden}
        given = list(tracer.grads_after.items())
        inside = {*own}
        self._moved: list[tuple[Any, Array]] = []  # of which another leaf, or another form is found
        self._given: list[tuple[Any, Any]] = []
        for key, (leaf, grad) in given:
            if grad is None or grad.array.storage not in hidden:
                self._given.append((leaf, grad))
                continue
            _, before = tracer.grads_before.get(key, (None, None))
            if before is None or _lies(before.array) != _lies(grad.array):
                self._moved.append((leaf, grad.array))
        self._found: list[Array] = []
        self._places: dict[int, Array] = {}  # of gradients that look through a window, and at what
        for k, (_, grad) in enumerate(self._given):
            if type(grad) is Tensor and grad.node is None and grad.array.storage in inside:
                self._places[k] = grad.array
        self._windows: dict[Storage, Storage] = {}
        self._renew({a.storage for a in self._places.values()})
        self._usual = [*map(getrefcount, self._seen)]
        self._usual[::3] = [n + 1 for n in self._usual[::3]]  # the leaf's

    def let_go(self, arguments: Sequence[Array]) -> None:
        """Before the plan writes: what somebody else holds moves away with its elements.

        Args:
            arguments: of the call; a gradient that it finds where it writes another moves, too.
        """
        if self._moved:
            self._found = [arguments[self.hidden[a.storage]] for _, a in self._moved]
        if not self._windows:
            return
        inside = {*self._windows.values()} if self.hidden else ()
        read = [s for s in (arguments[i].storage for i in self.hidden.values()) if s in inside]
        counts = [*map(getrefcount, self._seen)]
        theirs = all(self._given[k][0]._grad is self._given[k][1] for k in self._places)
        if counts == self._usual and theirs and not read:
            return
        held: set[Storage] = set()
        for n, (k, array) in enumerate(self._places.items()):
            leaf, grad = self._given[k]
            found, usual = counts[3 * n : 3 * n + 3], self._usual[3 * n : 3 * n + 3]
            found[0] += leaf._grad is not grad
            if any(map(gt, found, usual)) or self._windows[array.storage] in read:
                held.add(array.storage)
        for storage in held:
            window = self._windows[storage]
            window.move_away()
            if window.moves is not None:  # plans found it by another name than a leaf's gradient
                window.moves += 1
                PLACES.tell()
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
        for (leaf, view), found in zip(self._moved, self._found, strict=True):
            offset = found.offset + view.offset
            leaf.grad = Tensor(found.view(view.shape, view.strides, offset))
        self._found = []

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


def _lies(x: Array) -> tuple[Any, ...]:
    return x.storage, x.offset, x.shape, x.strides
