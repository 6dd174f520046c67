"""``torch.nested``: makes batches of tensors that differ in size, jagged or strided."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .. import ops
from ..errors import ArgumentError, ShapeError
from ..tensor import Tensor, tensor
from ..values.dtypes import DType
from ..values.words import Layout
from . import nested_calls, nested_rows
from .nested_rows import JAGGED, STRIDED, NestedTensor, Rows

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

_internal = ModuleType("torch.nested._internal", "Where PyTorch has the class.")
_internal.__dict__.update(nested_tensor=nested_rows, ops=nested_calls)


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: DType | None = None,
    layout: Layout | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """A nested tensor of elements, apart from their tape.

    Args:
        tensor_list: tensors, or what a tensor is made of.
        dtype: of the result; None: the elements'.
        layout: ``clnet.jagged``, where elements differ in one axis, or ``clnet.strided``.
        device: of the result; None: the elements'.
        requires_grad: whether gradients flow to it.
        pin_memory: taken and without effect.

    Raises:
        ArgumentError: if there is no element.
        ShapeError: if elements differ where they must not.
    """
    parts = [x.detach() if isinstance(x, Tensor) else tensor(x) for x in tensor_list]
    made = as_nested_tensor(parts, dtype, device, layout)
    apart = [x.detach().clone() for x in made.held()]
    kept = apart if made.rows is None else apart[0]
    found = NestedTensor(kept, made.rows, made.ragged)
    return found.requires_grad_() if requires_grad else found


def as_nested_tensor(
    ts: Any, dtype: DType | None = None, device: Any = None, layout: Layout | None = None
) -> NestedTensor:
    """As :func:`nested_tensor`, on the tape of what it is made of.

    Args:
        ts: tensors, or one whose rows are the elements.
        dtype: of the result; None: the elements'.
        device: of the result; None: the elements'.
        layout: as there.

    Raises:
        ArgumentError: if there is no element.
        ShapeError: if elements differ in their number of axes, or jagged ones in several axes.
    """
    if isinstance(ts, NestedTensor):
        return ts
    parts = [x.to(device=device, dtype=dtype) for x in (ts.unbind(0) if _is_dense(ts) else ts)]
    if not parts:
        raise ArgumentError("nested_tensor", "there is an element")
    if len({part.ndim for part in parts}) > 1:
        law = "elements have one number of axes"
        raise ShapeError("nested_tensor", law, shapes=[part.shape for part in parts])
    if layout is not JAGGED:
        return NestedTensor(parts)
    shapes = [part.shape for part in parts]
    axes = [k for k, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1] or [0]
    if len(axes) > 1:
        raise ShapeError("nested_tensor", "a jagged tensor differs in one axis", shapes=shapes)
    lengths = [shape[axes[0]] for shape in shapes]
    return NestedTensor(ops.cat(parts, axes[0]), Rows([0, *np.cumsum(lengths)]), axes[0] + 1)


def _is_dense(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, NestedTensor)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """A jagged tensor of rows that lie behind each other, on their tape.

    Args:
        values: all rows.
        offsets: ``(n + 1,)``, the first row of each element, and one past the last.
        lengths: ``(n,)``, how many rows each has.
        jagged_dim: the ragged axis, counted with the batch's; None: 1.
        min_seqlen: taken; it is known.
        max_seqlen: taken; it is known.

    Raises:
        ArgumentError: if neither offsets nor lengths are given.
    """
    if offsets is None and lengths is None:
        raise ArgumentError("nested_tensor_from_jagged", "offsets or lengths are given")
    listed: Any = None if lengths is None else lengths.tolist()
    bounds = [0, *np.cumsum(listed)] if offsets is None else offsets.tolist()
    return NestedTensor(values, Rows(bounds, None if offsets is None else listed), jagged_dim or 1)


def to_padded_tensor(
    input: Any,  # noqa: A002 - PyTorch's name
    padding: float,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """The elements of a nested tensor in a dense one, with a number behind the end of each."""
    if not isinstance(input, NestedTensor):
        return input
    return input.to_padded_tensor(padding, output_size)


def narrow(
    tensor: Tensor,
    dim: int,
    start: Any,
    length: Any,
    layout: Layout = STRIDED,  # pyrefly: ignore[bad-function-definition] - a word of layouts
) -> Any:
    """A part of each row of a tensor, as an element of a jagged one.

    Args:
        tensor: ``(n, rows, ...)``.
        dim: 1.
        start: ``(n,)``, where the part of each begins, or one number.
        length: ``(n,)``, how long it is, or one number.
        layout: ``clnet.jagged``; strided, it is ``tensor.narrow``.

    Raises:
        ArgumentError: if another axis is named.
    """
    if layout is not JAGGED:
        return tensor.narrow(dim, start, length)
    if dim != 1:
        raise ArgumentError("nested.narrow", "dim is 1", dim=dim)
    count = tensor.shape[0]
    starts = np.broadcast_to(np.asarray(_listed(start)), (count,))
    lengths = np.broadcast_to(np.asarray(_listed(length)), (count,))
    begin = starts + np.arange(count) * tensor.shape[1]
    flat = tensor.reshape(-1, *tensor.shape[2:])
    bounds = [*begin.tolist(), int(begin[-1] + lengths[-1])]
    return NestedTensor(flat, Rows(bounds, lengths.tolist()))


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """The elements of each row where a mask is true, as a jagged tensor.

    Args:
        tensor: ``(n, rows)``.
        mask: booleans that broadcast to it.
    """
    whole = mask.expand(tensor.shape)
    counts = whole.reshape(whole.shape[0], -1).sum(1).tolist()
    return NestedTensor(ops.masked_select(tensor, whole), Rows([0, *np.cumsum(counts)]))
