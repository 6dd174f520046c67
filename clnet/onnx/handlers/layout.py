"""Ops that move elements: shapes, axes, slices, parts, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...creation import arange
from ...errors import ArgumentError
from ...nn import functional
from ...tensor import Tensor, full
from ...values.dtypes import bool_, int64, uint8
from ..elements import Carried, by_number
from ..registry import OURS, Host, handler
from .shapes import cuts_of


def _axes(axes: Any, ndim: int) -> list[int]:
    return sorted(int(a) % ndim if ndim else 0 for a in axes)


@handler("Reshape")
def reshape_old(x: Tensor, *, shape: Sequence[int], consumed_inputs: Any = None) -> Tensor:
    """Of another shape."""
    return reshape(x, np.array(shape))


@handler("Reshape", since=5)
def reshape(x: Tensor, shape: Host, *, allowzero: int = 0) -> Tensor:
    """Of another shape; 0 is the size that is there, -1 what remains."""
    sizes = [int(n) for n in shape]
    if not allowzero:
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return ops.reshape(x, sizes)


@handler("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """Axes before and from ``axis`` on, each as one."""
    axis = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis]))
    return ops.reshape(x, (rows, int(np.prod(x.shape[axis:]))))


@handler("MoveAxis", domain=OURS)
def move_axis(x: Tensor, *, axis: int, to: int) -> Tensor:
    """With an axis at another place."""
    return ops.movedim(x, axis, to)


@handler("Transpose")
def transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    """Axes in another order; backwards if none is given."""
    return ops.permute(x, list(range(x.ndim))[::-1] if perm is None else list(perm))


@handler("Squeeze")
def squeeze_old(x: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    """Without axes of size 1."""
    return squeeze(x, None if axes is None else np.array(axes))


@handler("Squeeze", since=13)
def squeeze(x: Tensor, axes: Host | None = None) -> Tensor:
    """Without axes of size 1: all, or some."""
    if axes is None:
        return ops.reshape(x, [n for n in x.shape if n != 1])
    gone = _axes(axes, x.ndim)
    if any(x.shape[a] != 1 for a in gone):
        raise ArgumentError("onnx", "axes that go have size 1", axes=gone, shape=x.shape)
    return ops.reshape(x, [n for i, n in enumerate(x.shape) if i not in gone])


@handler("Unsqueeze")
def unsqueeze_old(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    """With axes of size 1."""
    return unsqueeze(x, np.array(axes))


@handler("Unsqueeze", since=13)
def unsqueeze(x: Tensor, axes: Host) -> Tensor:
    """With axes of size 1, where they lie in the result."""
    for axis in _axes(np.atleast_1d(axes), x.ndim + np.size(axes)):
        x = ops.unsqueeze(x, axis)
    return x


@handler("Concat")
def concat(*tensors: Tensor, axis: int = 1) -> Tensor:
    """One behind the other along an axis."""
    return ops.cat(list(tensors), axis)


@handler("Split")
def split(
    x: Tensor,
    sizes: Host | None = None,
    *,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
    outputs: int = 1,
) -> tuple[Tensor, ...]:
    """Parts along an axis, of sizes given or of nearly one size."""
    if sizes is None and split is None:
        count = num_outputs or outputs
        length = x.shape[axis]
        step = -(-length // count)
        parts = [max(0, min(step, length - i * step)) for i in range(count)]
    else:
        parts = [int(n) for n in (sizes if sizes is not None else split or ())]
    if sum(parts) != x.shape[axis]:
        raise ArgumentError("onnx", "parts add up to the axis", parts=parts, size=x.shape[axis])
    starts = np.cumsum([0, *parts]).tolist()
    return tuple(ops.narrow(x, axis, starts[i], n) for i, n in enumerate(parts))


@handler("Slice")
def slice_old(
    x: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Tensor:
    """Parts of axes."""
    return slices(x, np.array(starts), np.array(ends), None if axes is None else np.array(axes))


@handler("Slice", since=10)
def slices(
    x: Tensor, starts: Host, ends: Host, axes: Host | None = None, steps: Host | None = None
) -> Tensor:
    """Parts of axes, in steps that may go backwards."""
    for axis, cut in cuts_of(x.shape, starts, ends, axes, steps):
        first, stop, step = cut.indices(x.shape[axis])
        picked = range(first, stop, step)
        if step < 0:
            picked = picked[::-1]
        low = picked.start if len(picked) else 0
        x = ops.narrow(x, axis, low, picked[-1] - low + 1 if len(picked) else 0)
        if abs(step) > 1:
            index: list[Any] = [slice(None)] * axis + [slice(None, None, abs(step))]
            x = x[tuple(index)]
        if step < 0:
            x = ops.flip(x, [axis])
    return x


@handler("Expand")
def expand(x: Tensor, shape: Host) -> Tensor:
    """Repeated along axes of size 1, as arithmetic would."""
    return ops.broadcast_to(x, np.broadcast_shapes(tuple(x.shape), tuple(int(n) for n in shape)))


@handler("Tile")
def tile(x: Tensor, repeats: Host) -> Tensor:
    """Repeated along each axis."""
    return ops.tile(x, [int(n) for n in repeats])


@handler("Range")
def numbers(
    start: Host, limit: Host, delta: Host, *, stash_type: int = 1, device: Any = None
) -> Any:
    """Numbers in steps, each a multiple of the step from the first."""
    first, last, step = (np.asarray(v).reshape(-1)[0] for v in (start, limit, delta))
    if not step:
        raise ArgumentError("onnx", "numbers in steps have a step that is not 0", delta=step)
    count = max(0, int(np.ceil((float(last) - float(first)) / float(step))))
    from_zero = arange(count, dtype=int64, device=device)
    return _scaled(from_zero, first, step)


def _scaled(index: Tensor, start: Any, delta: Any) -> Tensor:
    if start.dtype.kind in "iu":
        return (index * int(delta) + int(start)).to(_native(start))
    return index.to(_native(start)) * float(delta) + float(start)


def _native(array: Any) -> Any:
    from_host = {e.numpy: e.dtype for e in map(by_number, (1, 5, 6, 7, 11, 10, 16, 2, 3))}
    return from_host[array.dtype]


@handler("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Any:
    """Ones on a diagonal, zeros beside it."""
    element = None if dtype is None else by_number(dtype)
    rows = arange(x.shape[0], device=x.device).reshape(-1, 1)
    columns = arange(x.shape[1], device=x.device)
    made = ops.eq(columns - rows, k).to(x.dtype if element is None else element.dtype)
    return Carried(made, element) if element is not None and element.carried else made


@handler("Trilu")
def trilu(x: Tensor, k: Host | None = None, *, upper: int = 1) -> Tensor:
    """The upper or the lower triangle, zeros in the other."""
    diagonal = 0 if k is None else int(k)
    if not x.numel():
        return x
    return ops.triu(x, diagonal) if upper else ops.tril(x, diagonal)


@handler("Pad")
def pad_old(
    x: Tensor,
    *,
    pads: Sequence[int] | None = None,
    paddings: Sequence[int] | None = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    """With elements around it."""
    given = pads if pads is not None else paddings
    return padded(x, [int(n) for n in given or ()], mode, value)


@handler("Pad", since=11)
def pad(
    x: Tensor,
    pads: Host,
    constant_value: Host | None = None,
    axes: Host | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """With elements around it; negative paddings take some away."""
    value = 0 if constant_value is None or not np.size(constant_value) else constant_value.item()
    given = [int(n) for n in pads]
    if axes is not None:
        half, all_of_them = len(given) // 2, [0] * (2 * x.ndim)
        for i, axis in enumerate(int(a) % x.ndim for a in axes):
            all_of_them[axis], all_of_them[x.ndim + axis] = given[i], given[half + i]
        given = all_of_them
    return padded(x, given, mode, value)


def padded(x: Tensor, pads: list[int], mode: str, value: Any) -> Tensor:
    """A tensor with elements before and behind each axis.

    Args:
        x: any shape.
        pads: of all axes before, then of all axes behind.
        mode: ``"constant"``, ``"edge"``, ``"reflect"`` or ``"wrap"``.
        value: of the constant mode.
    """
    for axis, (before, after) in enumerate(zip(pads[: x.ndim], pads[x.ndim :], strict=True)):
        if before < 0 or after < 0:
            x = ops.narrow(x, axis, max(0, -before), x.shape[axis] + min(0, before) + min(0, after))
    grown = [max(0, n) for n in pads]
    if mode == "constant":
        pairs = [n for a in reversed(range(x.ndim)) for n in (grown[a], grown[x.ndim + a])]
        if x.dtype is bool_:
            return functional.pad(x.to(uint8), pairs, value=int(value)).to(bool_)
        return functional.pad(x, pairs, value=value) if any(pairs) else x
    for axis in range(x.ndim):
        before, after = grown[axis], grown[x.ndim + axis]
        if before or after:
            source = _sources(x.shape[axis], before, after, mode)
            x = ops.index_select(x, axis, _on(x, source))
    return x


def _sources(size: int, before: int, after: int, mode: str) -> np.ndarray:
    """Of each element along a padded axis, where it comes from."""
    modes = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}
    if mode not in modes:
        raise ArgumentError("onnx", "padding is constant, edge, reflect or wrap", mode=mode)
    return np.pad(np.arange(size), (before, after), mode=mode)


def _on(x: Tensor, array: np.ndarray) -> Tensor:
    return x.new_tensor(array, dtype=int64)


@handler("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of channels laid out in the plane."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        parts = ops.permute(x.reshape((n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = ops.permute(x.reshape((n, c // (b * b), b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return parts.reshape((n, c // (b * b), h * b, w * b))


@handler("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of the plane as channels."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = ops.permute(x.reshape((n, c, h // b, b, w // b, b)), order)
    return parts.reshape((n, c * b * b, h // b, w // b))


@handler("ReverseSequence")
def reverse_sequence(
    x: Tensor, lengths: Host, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Each sequence backwards, up to its length."""
    size, rows = x.shape[time_axis], x.shape[batch_axis]
    steps = np.tile(np.arange(size), (rows, 1))
    for row, length in enumerate(int(n) for n in lengths):
        steps[row, :length] = steps[row, :length][::-1]
    shape = [1] * x.ndim
    shape[batch_axis], shape[time_axis] = rows, size
    ordered = steps if batch_axis < time_axis else steps.T
    index = ops.broadcast_to(_on(x, ordered.reshape(shape)), x.shape)
    return ops.gather(x, time_axis, index)


@handler("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Host, *, axes: Sequence[int] | None = None) -> Tensor:
    """Cut or padded with zeros on both sides to a shape."""
    asked = list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]
    pads = [0] * (2 * x.ndim)
    for axis, wanted in zip(asked, (int(n) for n in shape), strict=True):
        more = wanted - x.shape[axis]
        before = more // 2 if more >= 0 else -(-more // 2)
        pads[axis], pads[x.ndim + axis] = before, more - before
    return padded(x, pads, "constant", 0)


@handler("TensorScatter")
def tensor_scatter(
    cache: Tensor,
    update: Tensor,
    positions: Host | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """A cache with new rows written at each batch's position."""
    axis %= cache.ndim
    length, count = cache.shape[axis], update.shape[axis]
    starts = np.zeros(cache.shape[0], np.int64) if positions is None else np.asarray(positions)
    where = starts.reshape(-1, 1) + np.arange(count)
    where = where % length if mode == "circular" else where
    shape = [1] * cache.ndim
    shape[0], shape[axis] = where.shape
    index = ops.broadcast_to(_on(cache, where.reshape(shape)), update.shape)
    return ops.scatter(cache, axis, index, update)


def filled(shape: Sequence[int], value: float, like: Tensor) -> Tensor:
    """A tensor of one value, of another's type and device."""
    return full(list(shape), value, dtype=like.dtype, device=like.device)
