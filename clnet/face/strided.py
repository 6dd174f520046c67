"""Views of a tensor's memory at other strides."""

# ruff: noqa: A002 - PyTorch's names

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..array import Array
from ..autodiff.tape import Node
from ..errors import ShapeError
from ..ops.strided import Strided
from ..tensor import Tensor, tensor
from ..values import mode
from ..values.shapes import last_place

__all__ = ["as_strided", "as_strided_scatter"]


def as_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """The elements of its memory at other strides: a view.

    Raises:
        ShapeError: if an element lies outside the memory, or on the tape outside the tensor, or
            there is not a stride for each size.
    """
    input.array.require_alone()
    offset = input.array.offset
    if (tracer := mode.current().tracer) is not None:
        tracer.require_laid(input, "as_strided")
    if storage_offset is not None:  # of the whole memory, of which a trace has the argument's
        offset += storage_offset - input.storage_offset()
    room = input.array.storage.nbytes // input.dtype.itemsize
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=False))
    if len(size) != len(stride) or min((*stride, offset), default=0) < 0 or last >= room:
        law = "elements lie inside the memory"
        raise ShapeError("as_strided", law, size=tuple(size), stride=tuple(stride), elements=room)
    array = Array(input.array.storage, tuple(size), tuple(stride), offset, input.dtype)
    if not mode.current().grad:
        return Tensor(array)
    taken = _strided(input, size, stride, storage_offset)
    if input.requires_grad:
        taken.places()  # raises where one is no element
        found = Tensor(array, Node(taken, (input,), (True,), (array,), Tensor), 0)
    else:
        found = Tensor(array)
    if input.requires_grad or _lies_inside(taken, input.array):
        found.source = (input, taken)
    return found


def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of ``input`` in which ``src`` stands at those strides."""
    places = tensor(_strided(input, size, stride, storage_offset).places(), device=input.device)
    flat = input.reshape(-1).index_put((places.reshape(-1),), src.expand(size).reshape(-1))
    return flat.reshape(input.shape)


def _strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Strided:
    """The op that views a tensor so."""
    x = input.array
    offset = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return Strided(tuple(size), tuple(stride), offset, tuple(x.shape), tuple(x.strides))


def _lies_inside(taken: Strided, x: Array) -> bool:
    """Whether all elements of a view are elements of ``x``."""
    if x.contiguous:
        last = taken.offset + last_place(taken.size, taken.stride)
        return not prod(taken.size) or 0 <= taken.offset <= last < prod(x.shape)
    try:
        taken.places()
    except ShapeError:
        return False
    return True
