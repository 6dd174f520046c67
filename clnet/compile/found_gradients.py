"""Gradients that a trace finds in leaves: further arguments, read and written where they lie.

So one plan serves whatever tensor a leaf has as its gradient, of an eager step, of another plan or
of another call of this one, as long as there is one of the same form; and no plan holds one, which
would look to :mod:`.left_gradients` as if the program kept it.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import ref

from ..array import Array
from ..tensor import Tensor
from ..values.record import NamedTuple

_GRAD = attrgetter("_grad")


class Source(NamedTuple):
    """Where a call finds a gradient.

    Attributes:
        leaf: who has it, or the position of the argument that does.
        form: as :func:`gradient_form` gives it.
        place: which of the further arguments it is; two leaves may have one.
    """

    leaf: Any
    form: tuple[Any, ...]
    place: int


def gradient_form(grad: Any) -> tuple[Any, ...] | None:
    """What gradients share that one plan serves; None of one that it must find itself again."""
    if type(grad) is not Tensor or grad.node is not None or grad.requires_grad or vars(grad):
        return None
    array = grad.array
    return (array.storage.device, array.shape, array.dtype) if array.contiguous else None


def is_as(x: Array, y: Array) -> bool:
    """Whether two arrays are the same elements."""
    return x.storage is y.storage and x.form == y.form


def overlap(x: Array, y: Array) -> bool:
    """Whether two arrays may see each other's elements."""
    if x.storage is not y.storage:
        return False
    a, c = x.offset * x.dtype.itemsize, y.offset * y.dtype.itemsize
    return not (x.contiguous and y.contiguous) or (a < c + y.nbytes and c < a + x.nbytes)


def found_by(
    sources: Sequence[Source], given: Sequence[Tensor], outside: Any, known: list[Any]
) -> list[Tensor] | None:
    """The gradients that a call finds; None if a plan cannot take them.

    Args:
        sources: of the recording.
        given: the call's tensors.
        outside: memory that the plan reads or writes without being given it, a set.
        known: of each source a reference to the array that it had last, filled in here: a form is
            looked at once, and nothing is held.
    """
    found: list[Tensor] = []
    for k, (leaf, form, place) in enumerate(sources):
        grad: Any = _GRAD(given[leaf] if type(leaf) is int else leaf)
        same = type(grad) is Tensor and grad.node is None and known[k]() is grad.array
        if not same or grad.requires_grad:
            if gradient_form(grad) != form:
                return None
            known[k] = ref(grad.array)
        if place == len(found):
            found.append(grad)
        elif not is_as(found[place].array, grad.array):
            return None
    storages = {x.array.storage for x in found}
    apart = len(storages) == len(found) and storages.isdisjoint([x.array.storage for x in given])
    if not apart:
        arrays = [x.array for x in (*given, *found)]
        for k in range(len(given), len(arrays)):
            if any(overlap(arrays[i], arrays[k]) for i in range(k)):
                return None
    return found if storages.isdisjoint(outside) else None


def unknown() -> None:
    """Stands for a reference to what is not known yet."""
