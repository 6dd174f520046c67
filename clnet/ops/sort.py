"""Sorting along an axis, and what is made of it; random order, by sorting random keys."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Device, Launch, Scratch, Target
from ..errors import ArgumentError
from ..kernels.index import beats_sorting, sort_lines, top
from ..kernels.index import sort as sort_by_keys
from ..kernels.moving import arange
from ..kernels.pointwise import integers
from ..values.dtypes import DType, bool_, int32, int64
from ..values.record import NamedTuple
from ..values.returned import returned
from ..values.shapes import normalize_dim
from .copying import copy_launches
from .index import GatherBackward, added_up, gather_within
from .machinery.function import Arrays, Function, Grads, Needs, Saved, apply, op
from .random import Counter
from .rearrange import movedim
from .shape import clone, contiguous, narrow, permute, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

_LARGEST_KEY = 2**31 - 1
NUMBERS_PER_ELEMENT = 2
"""Of a random permutation: a key is a whole number, which takes two."""


class Ordered(NamedTuple):
    """Elements in order along an axis, and where they were.

    Attributes:
        values: the elements.
        indices: int64.
    """

    values: Any
    indices: Any


class Sort(Function):
    """The last of two axes in order, and where its elements were."""

    repeats = True

    descending: bool

    differentiable = (0,)
    saved_outputs = (1,)

    def infer(self, x: Array) -> tuple[Array, ...]:
        """Dense values and int64 indices."""
        indices = Array.abstract(x.shape, int64, x.device)
        return Array.abstract(x.shape, x.dtype, x.device), indices

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch for short lines, else a radix sort."""
        return sort_lines(target, *outputs, *inputs, descending=self.descending)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Every gradient back to where its element was."""
        back = GatherBackward(1, saved.input_specs[0][0])
        return (added_up(back, grads[0], saved.outputs[1]),)


class Top(Function):
    """Where the ``k`` largest or smallest elements of lines are, in order."""

    sixteen_bit = False
    repeats = True
    differentiable = ()
    op_name = "topk"

    k: int
    largest: bool

    def infer(self, x: Array) -> tuple[Array, ...]:
        """``(lines, k)``, int64."""
        return (Array.abstract((x.shape[0], self.k), int64, x.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch, of few long lines on GPUs two."""
        return top(target, *outputs, *inputs, largest=self.largest)


@op()
def sort(
    x: Tensor,
    dim: int = -1,
    descending: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    stable: bool | None = False,  # noqa: FBT001, FBT002
) -> Ordered:
    """The elements in order along an axis, and where they were.

    Args:
        x: any shape and dtype; NaN is larger than infinity.
        dim: the axis.
        descending: the largest first.
        stable: taken for PyTorch's sake: equal elements always keep their order.

    Returns:
        Values and int64 indices, of the shape of ``x``, their axes in memory in its order.
    """
    axis = normalize_dim("sort", dim, x.ndim)
    given = returned("sort", Ordered)
    if x.ndim == 0:
        return given(clone(x), x.new_zeros((), dtype=int64))
    found = _in_order(x, axis, descending=descending)
    if x.array.contiguous:
        return given(*map(contiguous, found))
    order = x.array.order
    back = tuple(map(order.index, range(x.ndim)))
    return given(*(permute(contiguous(permute(y, order)), back) for y in found))


def _in_order(x: Tensor, axis: int, *, descending: bool = False) -> list[Tensor]:
    """Values and indices of all lines, as views that need not be dense."""
    moved = movedim(x, axis, -1)
    lines = contiguous(reshape(moved, (prod(moved.shape[:-1]), moved.shape[-1])))
    found = apply(Sort(descending), lines)
    return [movedim(reshape(y, moved.shape), -1, axis) for y in found]


@op()
def argsort(
    x: Tensor,
    dim: int = -1,
    descending: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    stable: bool = False,  # noqa: FBT001, FBT002
) -> Tensor:
    """The indices that :func:`sort` gives."""
    return sort(x.detach(), dim, descending, stable).indices


@op()
def msort(x: Tensor) -> Tensor:
    """The elements in order along the first axis."""
    return sort(x, 0).values


@op()
def topk(
    x: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,  # noqa: FBT001, FBT002 - PyTorch's
    sorted: bool = True,  # noqa: A002, FBT001, FBT002
) -> Ordered:
    """The ``k`` largest (or smallest) elements along an axis, and where they were.

    Args:
        x: any shape and dtype; NaN is larger than infinity.
        k: how many.
        dim: the axis.
        largest: whether the largest are asked for.
        sorted: taken for PyTorch's sake: they always come in order.

    Returns:
        Values and int64 indices; of equal elements the first ones.

    Raises:
        ArgumentError: if the axis has fewer than ``k`` elements.
    """
    axis = normalize_dim("topk", dim, x.ndim)
    size = x.shape[axis] if x.ndim else 1
    if not 0 <= k <= size or (k == 0 and x.ndim == 0):
        raise ArgumentError("topk", "k lies in [0, size of the axis]", k=k, x=x.shape, dim=dim)
    given = returned("topk", Ordered)
    if x.ndim == 0:
        return given(*sort(x))
    count = x.numel() // max(size, 1)
    if count and beats_sorting(x.device.target, x.dtype, size, k):
        moved = movedim(x.detach(), axis, -1)
        lines = contiguous(reshape(moved, (count, size)))
        if x.dtype is bool_:
            lines = to_dtype(lines, int32)
        places = reshape(apply(Top(k, largest), lines), (*moved.shape[:-1], k))
        places = contiguous(movedim(places, -1, axis))
        return given(gather_within(x, axis, places), places)
    found = _in_order(x, axis, descending=largest)
    return given(*(contiguous(narrow(y, axis, 0, k)) for y in found))


@op()
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Ordered:  # noqa: FBT001, FBT002
    """The ``k``-th smallest element along an axis, counted from 1, and where it was.

    Args:
        x: one axis or more.
        k: in ``[1, size of the axis]``.
        dim: the axis.
        keepdim: leave the axis with size 1.

    Returns:
        Values and int64 indices.

    Raises:
        ArgumentError: if there is no such element.
    """
    axis = normalize_dim("kthvalue", dim, x.ndim)
    given = returned("kthvalue", Ordered)
    if x.ndim == 0:
        return given(*(reshape(y, ()) for y in kthvalue(reshape(x, (1,)), k)))
    if not 1 <= k <= x.shape[axis]:
        raise ArgumentError("kthvalue", "k lies in [1, size of the axis]", k=k, x=x.shape, dim=dim)
    found = (contiguous(narrow(y, axis, k - 1, 1)) for y in _in_order(x, axis))
    if keepdim:
        return given(*found)
    return given(*(reshape(y, (*x.shape[:axis], *x.shape[axis + 1 :])) for y in found))


class Permutation(Function):
    """The numbers 0 to ``n - 1`` in random order.

    Elements with the same key of 31 bits keep their order, which is so rare that no order is
    likelier than another by more than ``n**2 / 2**32``.
    """

    n: int
    dtype: DType
    counter: Counter
    device: Device
    op_name = "randperm"

    def infer(self) -> tuple[Array, ...]:
        """``(n,)``."""
        return (Array.abstract((self.n,), self.dtype, self.device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """Keys, positions, a sort of both, and the positions converted."""
        memory = Scratch(self.device)
        keys = Array.scratch(memory, (self.n,), int32)
        order = Array.scratch(memory, (self.n,), int32)
        cells = {"seed": self.counter.seed, "offset": self.counter.offset}
        launches = integers(target, keys, **cells, low=0, high=_LARGEST_KEY + 1)
        launches += arange(target, order, 0, 1)
        found = sort_by_keys(target, memory, keys, order, limit=_LARGEST_KEY)
        return [
            *launches,
            *found.launches,
            *copy_launches(target, outputs[0], found.order),
        ]
