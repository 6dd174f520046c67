"""Tensors joined along an axis, and an axis cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..device import Launch, Target
from ..errors import ArgumentError, ShapeError
from ..kernels.moving import join_rows
from ..values.dtypes import Kind, promote
from ..values.shapes import axis_of
from .copying import copies
from .machinery.function import Arrays, Face, Function, Grads, Needs, Saved, apply, op
from .rearrange import select
from .shape import narrow, reshape, slice_view, to_dtype, unsqueeze

if TYPE_CHECKING:
    from ..tensor import Tensor


class Cat(Function):
    """Inputs one after another along an axis."""

    takes_complex = True
    repeats = True

    dim: int

    def infer(self, *inputs: Array) -> tuple[Array, ...]:
        first = inputs[0].shape
        for x in inputs[1:]:
            same = [
                a == b
                for axis, (a, b) in enumerate(zip(x.shape, first, strict=False))
                if axis != self.dim
            ]
            if len(x.shape) != len(first) or not all(same):
                raise ShapeError(
                    "cat",
                    "shapes agree but for the axis joined",
                    shapes=[a.shape for a in inputs],
                    dim=self.dim,
                )
        size = sum(x.shape[self.dim] for x in inputs)
        shape = (*first[: self.dim], size, *first[self.dim + 1 :])
        return (Array.abstract(shape, inputs[0].dtype, inputs[0].device),)

    def lower(self, target: Target, outputs: Arrays, inputs: Arrays) -> list[Launch]:
        """One launch on GPUs; else a copy for each input, small ones of dense parts together."""
        (y,) = outputs
        if at_once := join_rows(target, y, inputs, self.dim):
            return at_once
        pairs: list[tuple[Array, Array]] = []
        start = 0
        for x in inputs:
            starts = tuple(start if d == self.dim else 0 for d in range(y.ndim))
            pairs.append((slice_view(y, starts, (1,) * y.ndim, x.shape), x))
            start += x.shape[self.dim]
        return copies(target, pairs)

    def backward(self, saved: Saved, grads: Grads, needs: Needs) -> Grads:
        """Each input's part."""
        out: list[Any] = []
        start = 0
        for (shape, _), need in zip(saved.input_specs, needs, strict=True):
            length = shape[self.dim]
            out.append(narrow(grads[0], self.dim, start, length) if need else None)
            start += length
        return tuple(out)


@op(Face.FUNCTION)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after another along an axis.

    Args:
        tensors: one or more, whose shapes agree but for ``dim``; those of shape ``(0,)`` add
            nothing, whatever the others' shape, as in PyTorch.
        dim: the axis.

    Returns:
        A dense tensor of the dtype that theirs promote to.

    Raises:
        ShapeError: if there is none, or the shapes disagree.
    """
    if not tensors:
        raise ShapeError("cat", "it joins one tensor or more")
    dtype = reduce(promote, [t.dtype for t in tensors])
    like = next((t for t in tensors if t.shape != (0,)), tensors[0]).shape
    axis = 0 if like == (0,) else axis_of("cat", dim, like)
    nothing = (*like[:axis], 0, *like[axis + 1 :])
    joined = [t if t.shape != (0,) else reshape(t, nothing) for t in tensors]
    return apply(Cat(axis), *(to_dtype(t, dtype) for t in joined))


@op(Face.FUNCTION)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new axis, of the dtype that theirs promote to.

    Raises:
        ShapeError: if there is none, or the shapes differ.
    """
    if not tensors or any(t.shape != tensors[0].shape for t in tensors):
        shapes = [t.shape for t in tensors]
        raise ShapeError("stack", "it joins one tensor or more, of one shape", shapes=shapes)
    if tensors[0].is_sparse:  # whose axes lie elsewhere than an array's
        return cat([t.unsqueeze(dim) for t in tensors], dim)
    return cat([unsqueeze(t, dim) for t in tensors], dim)


@op(Face.FUNCTION)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: along the second axis, or the first of vectors."""
    parts = [_at_least(x, 1) for x in tensors]
    return cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@op(Face.FUNCTION)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors below each other: along the first axis; vectors are rows."""
    return cat([_at_least(x, 2) for x in tensors])


@op(Face.FUNCTION)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors behind each other: along the third axis."""
    parts = [_at_least(x, 2) for x in tensors]
    return cat([reshape(x, (*x.shape, 1)) if x.ndim == 2 else x for x in parts], 2)


def _at_least(x: Tensor, ndim: int) -> Tensor:
    return x if x.ndim >= ndim else reshape(x, (1,) * (ndim - x.ndim) + x.shape)


# Cutting up.


@op()
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of an axis, without copies.

    Args:
        x: any shape with an axis.
        split_size: the length of each piece (the last may be shorter), or all the lengths.
        dim: the axis.

    Returns:
        The pieces.

    Raises:
        ShapeError: if the lengths do not add up to the size of the axis.
    """
    axis = axis_of("split", dim, x.shape)
    size = x.shape[axis]
    if isinstance(split_size, int):
        if split_size < 0 or (split_size == 0 and size):
            raise ArgumentError("split", "a piece has a length", split_size=split_size)
        lengths = [min(split_size, size - s) for s in range(0, size, split_size or 1)] or [0]
    else:
        lengths = list(split_size)
    if sum(lengths) != size or any(n < 0 for n in lengths):
        law = "lengths add up to the size of the axis"
        raise ShapeError("split", law, x=x.shape, dim=dim, split_size=split_size)
    starts = accumulate(lengths, initial=0)
    return tuple(narrow(x, axis, s, n) for s, n in zip(starts, lengths, strict=False))


@op()
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of an axis, equal but for the last, without copies.

    Raises:
        ArgumentError: if ``chunks`` is below 1.
    """
    if chunks < 1:
        raise ArgumentError("chunk", "there is one chunk or more", chunks=chunks)
    axis = axis_of("chunk", dim, x.shape)
    if x.shape[axis] == 0:
        return split(x, [0] * chunks, axis)
    return split(x, -(-x.shape[axis] // chunks), axis)


@op()
def tensor_split(
    x: Tensor, indices_or_sections: Tensor | int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """So many pieces of an axis, the first ones longer by 1; or pieces cut at given positions.

    Args:
        x: any shape.
        indices_or_sections: how many pieces, or where they are cut: a sequence, or ``(n,)`` of
            whole numbers; ``()`` is how many. The host waits for a tensor.
        dim: the axis.

    Raises:
        ArgumentError: if there is no piece.
        ShapeError: if a tensor is neither a whole number nor a row of them.
    """
    axis = axis_of("tensor_split", dim, x.shape)
    size = x.shape[axis]
    if not isinstance(indices_or_sections, int | Sequence):
        if indices_or_sections.ndim > 1 or indices_or_sections.dtype.kind != Kind.INTEGER:
            law = "positions are whole numbers in a row"
            raise ShapeError("tensor_split", law, shape=indices_or_sections.shape)
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ArgumentError("tensor_split", "there is one piece or more", sections=count)
        return split(x, [size // count + (i < size % count) for i in range(count)], axis)
    cuts = [slice(None, c).indices(size)[1] for c in indices_or_sections]
    ends = [0, *cuts, size]
    return tuple(narrow(x, axis, a, max(b - a, 0)) for a, b in pairwise(ends))


@op()
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices at every position of an axis, without copies."""
    axis = axis_of("unbind", dim, x.shape)
    return tuple(select(x, axis, i) for i in range(x.shape[axis]))
