"""Gradients that a trace finds in leaves: further arguments, read and written where they lie.

So one plan serves whatever tensor a leaf has as its gradient, of an eager step, of another plan or
of another call of this one, as long as there is one of the same form; and no plan holds one, which
would look to :mod:`.left_gradients` as if the program kept it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..array import Array
from ..tensor import Tensor
from ..values.record import NamedTuple


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
    sources: Iterable[Source], given: Sequence[Tensor], outside: Iterable[Any]
) -> list[Tensor] | None:
    """The gradients that a call finds; None if a plan cannot take them.

    Args:
        sources: of the recording.
        given: the call's tensors.
        outside: memory that the plan reads or writes without being given it.
    """
    found: list[Tensor] = []
    for leaf, form, place in sources:
        grad: Any = (given[leaf] if type(leaf) is int else leaf).grad
        if place < len(found):
            if gradient_form(grad) != form or not is_as(found[place].array, grad.array):
                return None
        elif gradient_form(grad) != form:
            return None
        else:
            found.append(grad)
    arrays = [x.array for x in (*given, *found)]
    if len({a.storage for a in arrays}) < len(arrays):
        for k in range(len(given), len(arrays)):
            if any(overlap(arrays[i], arrays[k]) for i in range(k)):
                return None
    known = {a.storage for a in arrays[len(given) :]}
    return None if known.intersection(outside) else found
