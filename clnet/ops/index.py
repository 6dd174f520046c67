"""Picking elements by position: indexing, embeddings, gathers; gradients add in fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..device import Launch, Target
from ..dtypes import bool_, int32, int64
from ..errors import ArgumentError, BoundsError, DtypeError, ShapeError
from ..kernels import gather as kernels
from ..shapes import Shape, broadcast_shapes, normalize_dim
from .arithmetic import ne
from .function import Face, Function, Saved, apply, op
from .shape import CopyInto, Slice, contiguous, expand, permute, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor

Grads = tuple[Any, ...]


@dataclass(frozen=True)
class GatherRows(Function):
    """``y[o, i] = x[o, index[i]]`` for ``x`` of ``(outer, rows, inner)``."""

    wrap: bool

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        """A dense output."""
        outer, _, inner = x.shape
        return (Array.abstract((outer, index.size, inner), x.dtype, x.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        return kernels.gather_rows(target, outputs[0], *inputs, wrap=self.wrap)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The index."""
        return (1,), ()

    def backward(self, saved: Saved, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        """Rows added up where they came from."""
        function = GatherRowsBackward(saved.input_specs[0][0][1], self.wrap, -1)
        return apply(function, contiguous(grads[0]), saved.inputs[1]), None


@dataclass(frozen=True)
class Embedding(Function):
    """As :class:`GatherRows`; the row ``padding`` gets no gradient."""

    padding: int

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        """A dense output."""
        return GatherRows(wrap=False).infer(x, index)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        return kernels.gather_rows(target, outputs[0], *inputs)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The index."""
        return (1,), ()

    def backward(self, saved: Saved, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        """Rows added up where they came from, but for the padding's."""
        function = GatherRowsBackward(saved.input_specs[0][0][1], False, self.padding)
        return apply(function, contiguous(grads[0]), saved.inputs[1]), None


@dataclass(frozen=True)
class GatherRowsBackward(Function):
    """``y[o, r]``: the sum of ``x[o, i]`` with ``index[i] == r``; 0 for the row ``skip``."""

    rows: int
    wrap: bool
    skip: int

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        """A dense output."""
        outer, _, inner = x.shape
        return (Array.abstract((outer, self.rows, inner), x.dtype, x.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """A sort of the index, then sums over runs of equal ones."""
        return kernels.gather_rows_gradient(
            target, outputs[0], *inputs, wrap=self.wrap, skip=self.skip
        )

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The index."""
        return (1,), ()

    def backward(self, saved: Saved, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        """The rows picked again."""
        index = saved.inputs[1]
        picked = apply(GatherRows(self.wrap), contiguous(grads[0]), index)
        if self.skip >= 0:
            kept = reshape(to_dtype(ne(index, self.skip), picked.dtype), (-1, 1))
            picked = picked * kept
        return picked, None


@dataclass(frozen=True)
class PutRows(Function):
    """``x[o, index[i]] = value[o, i]`` in place; of equal indices the last one stays."""

    wrap: bool

    mutates = (0,)

    def infer(self, x: Array, value: Array, index: Array) -> tuple[Array, ...]:
        """No outputs."""
        return ()

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """A sort of the index, then the last of each run of equal ones."""
        return kernels.put_rows(target, *inputs, wrap=self.wrap)


@dataclass(frozen=True)
class FoldIndices(Function):
    """Several indices as one into the flattened axes."""

    sizes: Shape

    def infer(self, *indices: Array) -> tuple[Array, ...]:
        """A dense output."""
        return (Array.abstract(indices[0].shape, int32, indices[0].device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        return kernels.fold_indices(target, outputs[0], inputs, sizes=self.sizes)


@dataclass(frozen=True)
class Gather(Function):
    """``y[..., i, ...] = x[..., index[..., i, ...], ...]`` at ``dim``."""

    dim: int

    def infer(self, x: Array, index: Array) -> tuple[Array, ...]:
        """A dense output of the index's shape."""
        return (Array.abstract(index.shape, x.dtype, x.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """One launch."""
        return kernels.gather_along(target, outputs[0], *inputs, dim=self.dim)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The index."""
        return (1,), ()

    def backward(self, saved: Saved, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        """Elements added up where they came from."""
        function = GatherBackward(self.dim, saved.input_specs[0][0])
        return apply(function, contiguous(grads[0]), contiguous(saved.inputs[1])), None


@dataclass(frozen=True)
class GatherBackward(Function):
    """The transpose of :class:`Gather`; ``shape`` is that of what was gathered from."""

    dim: int
    shape: Shape

    def infer(self, gy: Array, index: Array) -> tuple[Array, ...]:
        """A dense output."""
        return (Array.abstract(self.shape, gy.dtype, gy.device),)

    def lower(
        self, target: Target, outputs: tuple[Array, ...], inputs: tuple[Array, ...]
    ) -> list[Launch]:
        """Sums within lines, or a sort and sums over runs."""
        return kernels.gather_along_gradient(target, outputs[0], *inputs, dim=self.dim)

    def saves(self, needs: tuple[bool, ...]) -> tuple[Sequence[int], Sequence[int]]:
        """The index."""
        return (1,), ()

    def backward(self, saved: Saved, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        """Gathered again: the op is linear."""
        return apply(Gather(self.dim), grads[0], saved.inputs[1]), None


@op(Face.FUNCTIONAL)
def embedding(
    input: Tensor,  # noqa: A002 - PyTorch's name
    weight: Tensor,
    padding_idx: int | None = None,
) -> Tensor:
    """Rows of a table: ``y[..., :] = weight[input[...], :]``.

    Args:
        input: indices in ``[0, rows)``, any shape, int64 or int32; one out of range gives NaN: to
            raise an error the host would have to wait for the device.
        weight: ``(rows, width)``.
        padding_idx: a row that gets no gradient; None for none.

    Returns:
        ``(*input.shape, width)``.

    Raises:
        ShapeError: if ``weight`` has not two axes.
        DtypeError: if ``input`` does not hold indices.
        BoundsError: if ``padding_idx`` is not a row.
    """
    _require_index("embedding", input)
    if weight.ndim != 2:
        raise ShapeError("embedding", "weight is (rows, width)", weight=weight.shape)
    rows, width = weight.shape
    padding = -1
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise BoundsError(
                "embedding", "padding_idx is a row", padding_idx=padding_idx, rows=rows
            )
        padding = padding_idx % rows
    table = reshape(_dense_rows(weight), (1, rows, width))
    result = apply(Embedding(padding), table, reshape(input, (input.numel(),)))
    return reshape(result, (*input.shape, width))


@op()
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of ``x`` along ``dim`` in the order of an index.

    Args:
        x: any shape.
        dim: the axis.
        index: ``(n,)``, int64 or int32, in ``[0, size)``; one out of range gives NaN (0 for
            integers).

    Returns:
        As ``x``, with ``n`` at ``dim``.

    Raises:
        ShapeError: if ``index`` has not one axis.
        DtypeError: if it does not hold indices.
    """
    _require_index("index_select", index)
    if index.ndim != 1:
        raise ShapeError("index_select", "the index has one axis", index=index.shape)
    axis = normalize_dim("index_select", dim, x.ndim)
    return _pick(x, axis, axis + 1, contiguous(index), wrap=False)


@op()
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``y[i][j][k] = x[i][index[i][j][k]][k]`` for ``dim = 1``, and so for every axis.

    Args:
        x: any shape.
        dim: the axis.
        index: as many axes, sizes at most those of ``x`` but for ``dim``; int64 or int32, in
            ``[0, size)``; one out of range gives NaN (0 for integers).

    Returns:
        The shape of ``index``.

    Raises:
        ShapeError: if the shapes do not fit.
        DtypeError: if ``index`` does not hold indices.
    """
    _require_index("gather", index)
    axis = normalize_dim("gather", dim, x.ndim)
    others = [d for d in range(x.ndim) if d != axis]
    if index.ndim != x.ndim or any(index.shape[d] > x.shape[d] for d in others):
        raise ShapeError(
            "gather",
            "the index has as many axes as x, none longer but for dim",
            x=x.shape,
            index=index.shape,
            dim=dim,
        )
    return apply(Gather(axis), x, index)


@op(Face.METHOD, name="__getitem__")
def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: ints, slices, None and ``...`` give a view, index tensors a copy.

    Args:
        x: any shape.
        key: one of these, or a tuple of them. Steps are positive. Index tensors (int64 or int32;
            lists and NumPy arrays become ones) broadcast together; negative indices count from
            the end; one out of range gives NaN (0 for integers). Their axes take the place of
            the first one if they are neighbours, else the front.

    Returns:
        The picked elements.

    Raises:
        BoundsError: if an int lies outside its axis, or there are more indices than axes.
        ArgumentError: if the key holds something else.
    """
    view, indexed = _basic(x, key)
    if not indexed:
        return view
    view, first, last, index, shape = _advanced(view, indexed)
    picked = _pick(view, first, last, reshape(index, (index.numel(),)), wrap=True)
    return reshape(picked, (*view.shape[:first], *shape, *view.shape[last:]))


@op(Face.METHOD, name="__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value`` in place; of equal indices the last one stays.

    Args:
        x: off the tape.
        key: as :func:`getitem` takes it; indices out of range write nothing.
        value: a number or a tensor that broadcasts to ``x[key]``.

    Raises:
        ShapeError: if ``value`` does not broadcast.
        GradientError: if ``x`` is on the tape and gradients are recorded.
    """
    if not isinstance(value, type(x)):
        host = np.asarray(value, x.dtype.numpy)
        value = type(x)(Array.from_numpy(host, x.device))
    view, indexed = _basic(x, key)
    if not indexed:
        apply(CopyInto(), view, value)
        return
    view, first, last, index, shape = _advanced(view, indexed)
    outer, inner = prod(view.shape[:first]), prod(view.shape[last:])
    picked = (*view.shape[:first], *shape, *view.shape[last:])
    rows = prod(view.shape[first:last])
    source = contiguous(expand(to_dtype(value, x.dtype), picked))
    source = reshape(source, (outer, index.numel(), inner))
    flat = reshape(contiguous(view), (outer, rows, inner))
    apply(PutRows(wrap=True), flat, source, reshape(index, (index.numel(),)))
    if not view.array.contiguous:
        apply(CopyInto(), view, reshape(flat, view.shape))


def _basic(x: Tensor, key: Any) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """The view that all but the index tensors take, and these with the axes of it they index."""
    parts = _expanded(x, key if isinstance(key, tuple) else (key,))
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[int] = []
    shape: list[int] = []
    indexed: list[tuple[int, Tensor]] = []
    for part in parts:
        if part is None:
            shape.append(1)
            continue
        size = x.shape[len(sizes)]
        if isinstance(part, int):
            if not -size <= part < size:
                raise BoundsError("index", "it lies inside its axis", index=part, size=size)
            start, step, length = part % size, 1, 1
        elif isinstance(part, slice):
            start, step, length = _range(part, size)
            shape.append(length)
        else:
            indexed.append((len(shape), part))
            start, step, length = 0, 1, size
            shape.append(length)
        starts.append(start if length else 0)
        steps.append(step)
        sizes.append(length)
    whole = tuple(sizes) == x.shape and set(steps) <= {1}
    view = x if whole else apply(Slice(tuple(starts), tuple(steps), tuple(sizes)), x)
    return reshape(view, tuple(shape)), indexed


def _expanded(x: Tensor, key: tuple[Any, ...]) -> list[Any]:
    """One part for each axis: None, int, slice or an index tensor; ``...`` filled in."""
    parts: list[Any] = []
    for part in key:
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            parts.append(int(part))
        else:
            parts.append(_index_tensor(x, part))
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if taken > x.ndim or len(dots) > 1:
        law = "one ... at most, and no more indices than axes"
        raise BoundsError("index", law, indices=taken, x=x.shape)
    at = dots[0] if dots else len(parts)
    rest = [slice(None)] * (x.ndim - taken)
    return [*parts[:at], *rest, *parts[at + 1 :]]


def _index_tensor(x: Tensor, part: Any) -> Tensor:
    if not isinstance(part, type(x)):
        host = np.asarray(part)
        if host.dtype.kind not in "iu" and host.size:
            raise ArgumentError(
                "index",
                "a key holds ints, slices, None, ... and whole-number tensors",
                part=type(part).__name__,
                dtype=host.dtype,
            )
        part = type(x)(Array.from_numpy(host.astype(np.int64), x.device))
    _require_index("index", part)
    return part


def _range(part: slice, size: int) -> tuple[int, int, int]:
    step = 1 if part.step is None else part.step
    if step < 1:
        raise ArgumentError("index", "the step of a slice is positive", step=step)
    start, stop, step = part.indices(size)
    return start, step, max(0, -(-(stop - start) // step))


def _advanced(
    x: Tensor, indexed: list[tuple[int, Tensor]]
) -> tuple[Tensor, int, int, Tensor, Shape]:
    """The tensor with its indexed axes together, their range, one index for them and its shape."""
    axes = [axis for axis, _ in indexed]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        x = permute(x, (*axes, *(d for d in range(x.ndim) if d not in axes)))
        axes = list(range(len(axes)))
    first, last = axes[0], axes[-1] + 1
    if len(indexed) == 1:
        index = contiguous(indexed[0][1])
        return x, first, last, index, index.shape
    shape = broadcast_shapes("index", *(index.shape for _, index in indexed))
    together = [contiguous(expand(to_dtype(index, int64), shape)) for _, index in indexed]
    return x, first, last, apply(FoldIndices(x.shape[first:last]), *together), shape


def _pick(x: Tensor, first: int, last: int, index: Tensor, *, wrap: bool) -> Tensor:
    """Rows of axes ``first`` to ``last``, taken together, by a dense index of one axis."""
    outer, rows, inner = (
        prod(x.shape[:first]),
        prod(x.shape[first:last]),
        prod(x.shape[last:]),
    )
    flat = _dense_rows(reshape(x, (outer, rows, inner)))
    picked = apply(GatherRows(wrap), flat, index)
    return reshape(picked, (*x.shape[:first], index.numel(), *x.shape[last:]))


def _dense_rows(x: Tensor) -> Tensor:
    """``x`` itself if its last axis is dense, else a dense copy."""
    return x if x.shape[-1] == 1 or x.array.strides[-1] == 1 else contiguous(x)


def _require_index(name: str, index: Tensor) -> None:
    if index.dtype is bool_:
        raise DtypeError(name, "a mask is not an index", dtype=index.dtype, remedy="Use where")
    if index.dtype not in (int32, int64):
        raise DtypeError(name, "an index is int64 or int32", dtype=index.dtype)
