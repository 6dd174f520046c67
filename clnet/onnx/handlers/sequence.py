"""Sequences of tensors, which are lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...errors import BoundsError
from ...tensor import Tensor
from ..registry import Host, handler
from .cast import plain
from .control import stacked
from .text import is_text


def _place(items: list[Any], position: np.ndarray | None, *, behind: bool) -> int:
    last = len(items) if behind else len(items) - 1
    if position is None:
        return last
    index = int(np.asarray(position).reshape(-1)[0])
    if not -len(items) <= index <= last:
        raise BoundsError(
            "onnx", "a position lies in the sequence", position=index, size=len(items)
        )
    return index + len(items) if index < 0 else index


@handler("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    """No tensors."""
    return []


@handler("SequenceConstruct")
def sequence_construct(*values: Any) -> list[Any]:
    """Tensors as a sequence."""
    return list(values)


@handler("SequenceInsert")
def sequence_insert(items: Any, value: Any, position: Host | None = None) -> list[Any]:
    """With a tensor more: at the end, or before a position."""
    at = _place(items, position, behind=True)
    return [*items[:at], value, *items[at:]]


@handler("SequenceErase")
def sequence_erase(items: Any, position: Host | None = None) -> list[Any]:
    """Without the last tensor, or that at a position."""
    at = _place(items, position, behind=False)
    return [*items[:at], *items[at + 1 :]]


@handler("SequenceAt")
def sequence_at(items: Any, position: Host) -> Any:
    """The tensor at a position."""
    return items[_place(items, position, behind=False)]


@handler("SequenceLength")
def sequence_length(items: Any) -> Host:
    """How many tensors it holds."""
    return np.array(len(items), dtype=np.int64)


@handler("SplitToSequence")
def split_to_sequence(
    x: Tensor, sizes: Host | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Any]:
    """Parts along an axis: of one element, of one size, or of sizes given."""
    length = x.shape[axis]
    if sizes is None:
        return [
            ops.narrow(x, axis, i, 1) if keepdims else ops.select(x, axis, i) for i in range(length)
        ]
    if np.ndim(sizes) == 0:
        step = int(sizes)
        parts = [min(step, length - i) for i in range(0, length, step)]
    else:
        parts = [int(n) for n in sizes]
    starts = np.cumsum([0, *parts]).tolist()
    return [ops.narrow(x, axis, starts[i], n) for i, n in enumerate(parts)]


@handler("ConcatFromSequence")
def concat_from_sequence(items: Any, *, axis: int, new_axis: int = 0) -> Any:
    """Tensors one behind the other, or along a new axis."""
    if new_axis:
        return stacked(items, axis)
    if all(is_text(v) for v in items):
        return np.concatenate(items, axis)
    return ops.cat([plain(v) for v in items], axis)


@handler("SequenceMap")
def sequence_map(
    items: Any, *others: Any, body: Callable[..., list[Any]], outputs: int = 1
) -> tuple[list[Any], ...]:
    """A graph run on each tensor, and on those of other sequences beside it."""
    made: list[list[Any]] = [[] for _ in range(outputs)]
    for i, item in enumerate(items):
        beside = [other[i] if isinstance(other, list) else other for other in others]
        for column, value in zip(made, body(item, *beside), strict=True):
            column.append(value)
    return tuple(made)
