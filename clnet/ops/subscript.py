"""What stands between brackets: ``x[key]``, ``x[key] = value`` and ``index_put``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..device import Check
from ..errors import ArgumentError, BoundsError, DtypeError, ShapeError, SubscriptError
from ..values import mode
from ..values.arguments import shown
from ..values.dtypes import bool_, int8, int16, int32, int64, uint8
from ..values.foreign import host_of
from ..values.shapes import Shape, broadcast_shapes
from .arithmetic import where
from .check import of_index
from .chosen import Chosen
from .index import (
    FoldIndices,
    GatherRowsBackward,
    PutRows,
    ReplaceRows,
    added_up,
    pick,
)
from .machinery.another import as_another
from .machinery.autocast import autocast_operands
from .machinery.function import Face, apply, op, require_same_dtype
from .machinery.pointwise import apart
from .masked import nonzero, positions_of
from .rearrange import flip
from .shape import Slice, contiguous, expand, overwrite, permute, reshape, to_dtype

if TYPE_CHECKING:
    from ..tensor import Tensor


_CHECK = of_index("index", wrap=True)
_WHOLE = (int64, int32, int16, int8)
_PLAIN = type(None) | type(...)
_SHORT = 32  # longer lists are one index, whatever they hold


@dataclass(frozen=True)
class Located:
    """What a key means for a tensor.

    Attributes:
        view: the tensor without what ints and slices leave out, its indexed axes together.
        order: the axes of ``view`` before they were put together, None if they were.
        first, last: the range of the indexed axes; empty for a key without index tensors.
        index: one dense index into these axes taken together, or None.
        shape: the index's.
        check: what is reported of an index out of range; None: that was done already.
    """

    view: Tensor
    order: tuple[int, ...] | None = None
    first: int = 0
    last: int = 0
    index: Tensor | None = None
    shape: Shape = ()
    check: Check | None = None

    @property
    def picked(self) -> Shape:
        """The shape of what a key with index tensors picks."""
        return (*self.view.shape[: self.first], *self.shape, *self.view.shape[self.last :])

    @property
    def rows(self) -> Shape:
        """``view`` as batches, rows that the index names, and what lies in a row."""
        shape = self.view.shape
        between = shape[self.first : self.last]
        return prod(shape[: self.first]), prod(between), prod(shape[self.last :])

    def source(self, value: Tensor) -> Tensor:
        """A value, broadcast, as the rows that the index names; dense."""
        outer, _, inner = self.rows
        wide = contiguous(expand(to_dtype(value, self.view.dtype), self.picked))
        return reshape(wide, (outer, prod(self.shape), inner))

    def restored(self, rows: Tensor) -> Tensor:
        """Rows in the shape and the order of axes that ``view`` had at first."""
        y = reshape(rows, self.view.shape)
        if self.order is None:
            return y
        return permute(y, tuple(self.order.index(d) for d in range(y.ndim)))


@op(Face.METHOD, name="__getitem__", seen=as_another)
def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: ints, slices, None and ``...`` give a view, index tensors and masks a copy.

    A whole number in a tensor without axes is read by the host, and gives the view that an int
    does; in a compiled function and under ``vmap`` it gives a copy.

    Args:
        x: any shape.
        key: one of these, or a tuple of them; a list of up to 31 parts that are not all numbers is
            a tuple, as PyTorch reads it. Steps below 0 go backwards, in a copy, where PyTorch
            refuses them. Index tensors (int64 or int32; lists and NumPy arrays become ones)
            broadcast together; negative indices count from the end; one out of range gives NaN (0
            for integers), and an error at the next synchronisation. A mask (bool) of several axes
            stands for the coordinates of its true elements; to count them the host waits once.
            The axes of the indices take the place of the first one if they are neighbours, else
            the front.

    Returns:
        The picked elements.

    Raises:
        BoundsError: if an int lies outside its axis, a mask has another size than its axes, or
            there are more indices than axes.
        ArgumentError: if the key holds something else.
        TraceError: for a mask inside a function that ``clnet.compile`` traces, where the number of
            elements counts: what is picked there can be computed with element by element, assigned
            under the same mask, and summed up.
    """
    key = _plain(key)
    if mode.current().tracer is not None and (mask := _only_mask(x, key)) is not None:
        found: Any = Chosen(x, mask, key[0] if isinstance(key, tuple) else key)
        return found
    key = _with_numbers(x, key)
    if (apart_ := _numbers_first(key)) is not None:
        return getitem(getitem(x, apart_[0]), apart_[1])
    at = _located(x, key)
    if at.index is None:
        return at.view
    picked = pick(at.view, at.first, at.last, at.index, wrap=True, check=at.check)
    return reshape(picked, at.picked)


@op(Face.METHOD, name="__setitem__")
def setitem(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value`` in place; of equal indices the last one stays.

    Args:
        x: any shape; a leaf that requires a gradient only under ``clnet.no_grad()``. On the tape it
            becomes what :func:`index_put` would give.
        key: as :func:`getitem` takes it, but for steps below 0 beside index tensors; indices out
            of range write nothing and are reported at the next synchronisation. For one value and a
            single mask the host does not wait.
        value: a number or a tensor that broadcasts to ``x[key]``.

    Raises:
        ArgumentError: if steps below 0 and index tensors come together.
        DtypeError: if ``value`` is neither a tensor nor made of numbers that the dtype holds.
        ShapeError: if ``value`` does not broadcast.
        GradientError: if ``x`` is a leaf that requires a gradient and gradients are recorded.
    """
    key = _plain(key)
    if _numbers_first(key) is not None:
        key = _with_numbers(x, key)
    if not isinstance(value, type(x.detach())):
        try:
            host = host_of(value, np.asarray(value), x.dtype)
        except (TypeError, ValueError, OverflowError):
            law = "what is assigned is a tensor, or numbers that the dtype holds"
            raise DtypeError("__setitem__", law, value=shown(value)) from None
        value = type(x.detach())(Array.from_numpy(host, x.device))
    key, value = _forward(x, key, value)
    mask = _only_mask(x, key)
    if mask is not None and value.numel() == 1:
        value = reshape(to_dtype(value, x.dtype), ())
        overwrite(x, where(mask, value, x), "index")
        return
    at = _located(x, key)
    if at.index is None:
        if not _same(at.view.array, value.array):
            overwrite(at.view, _without_leading_ones(value, at.view.ndim), "index")
        return
    value = _without_leading_ones(value, len(at.picked))
    if mode.current().grad and (x.requires_grad or value.requires_grad):
        function = ReplaceRows(wrap=True, check=at.check)
        rows = apply(function, reshape(at.view, at.rows), at.source(value), at.index)
        overwrite(at.view, reshape(rows, at.view.shape), "index")
        return
    flat = reshape(contiguous(at.view), at.rows)
    apply(PutRows(wrap=True, check=at.check), flat, apart(at.source(value), flat), at.index)
    if flat.array.storage is not x.array.storage:
        overwrite(at.view, reshape(flat, at.view.shape), "index")


@op()
def index_put(
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Tensor:
    """``x`` with ``values`` at ``x[indices]``.

    Args:
        x: any shape.
        indices: index tensors and masks for the first axes; None stands for a whole one.
        values: of the dtype of ``x``; they broadcast to ``x[indices]``.
        accumulate: add them; else they replace what was there, and of equal indices the last
            one stays. Sums are made in the order of the indices.

    Returns:
        The shape of ``x``.

    Raises:
        ShapeError: if ``values`` do not broadcast.
        DtypeError: if the dtypes differ.
        ArgumentError: if no index is given.
    """
    x, values = autocast_operands("index_put", x, values)
    require_same_dtype("index_put", x=x.array, values=values.array)
    key = _plain(tuple(slice(None) if index is None else index for index in indices))
    at = _located(x, key)
    if at.index is None:
        raise ArgumentError("index_put", "there is an index tensor or more", indices=len(key))
    rows, source = reshape(at.view, at.rows), at.source(values)
    if accumulate:
        function = GatherRowsBackward(at.rows[1], wrap=True, skip=-1, check=at.check)
        return x + at.restored(added_up(function, source, at.index))
    return at.restored(apply(ReplaceRows(wrap=True, check=at.check), rows, source, at.index))


@op(Face.METHOD)
def index_put_(
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> Tensor:
    """:func:`index_put` in place; returns the tensor."""
    return overwrite(x, index_put(x, indices, values, accumulate), "index_put_")


def _same(a: Array, b: Array) -> bool:
    """Whether two arrays are the same elements, as after ``x[i] += y`` in Python's two steps."""
    places = [(x.offset, x.shape, x.strides, x.dtype) for x in (a, b)]
    return a.storage is b.storage and places[0] == places[1]


def _only_mask(x: Tensor, key: Any) -> Tensor | None:
    """The mask, with axes to broadcast to ``x``, if the key is nothing else."""
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    if not isinstance(key, type(x.detach())) or key.dtype is not bool_ or not key.ndim:
        return None
    _check_mask(key, x.shape[: key.ndim])
    return reshape(key, (*key.shape, *(1,) * (x.ndim - key.ndim)))


def _plain(key: Any) -> Any:
    """The key as a tuple, where a list stands for one, and with uint8 tensors as masks.

    That is how PyTorch reads old programs: uint8 was its bool, and a list that holds more than
    numbers was a tuple, as in NumPy then.
    """
    if _stands_for_a_tuple(key):
        return _plain(tuple(key))
    if type(key) is tuple:
        old = any(getattr(part, "dtype", None) is uint8 for part in key)
        return tuple(map(_plain, key)) if old else key
    return to_dtype(key, bool_) if getattr(key, "dtype", None) is uint8 else key


def _is_number(part: Any) -> bool:
    """Whether part of a key is a tensor without axes that holds a whole number."""
    dtype = getattr(part, "dtype", None)  # of a program's class it may be anything
    return any(dtype is whole for whole in _WHOLE) and not part.ndim


def _with_numbers(x: Tensor, key: Any) -> Any:
    """A key with ints for tensors without axes, where the host may read them.

    They are views then, as in PyTorch, which programs write into.
    """
    parts = key if isinstance(key, tuple) else (key,)
    tensors = [part for part in parts if _is_number(part)]
    if not tensors or mode.current().tracer is not None or not all(map(_is_alone, (x, *tensors))):
        return key
    found = tuple(part.item() if _is_number(part) else part for part in parts)
    return found if isinstance(key, tuple) else found[0]


def _is_alone(x: Tensor) -> bool:
    """Whether it is no element of a batch."""
    return type(x.array).require_alone is Array.require_alone


def _numbers_first(key: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Two keys, one behind the other, where tensors without axes come with other index tensors.

    They take their axes away like ints, and so have no say in where the axes of the others come.
    """
    if not isinstance(key, tuple) or not any(map(_is_number, key)):
        return None
    if all(_is_number(part) or isinstance(part, int | slice | _PLAIN) for part in key):
        return None
    first: list[Any] = []
    second: list[Any] = []
    for part in key:
        if _is_number(part) or isinstance(part, int | slice | _PLAIN):
            first.append(part)
            if part is ...:
                second.append(part)
            elif part is None or isinstance(part, slice):
                second.append(slice(None))
        else:
            first += [slice(None)] * _axes_taken(part)
            second.append(part)
    return tuple(first), tuple(second)


def _stands_for_a_tuple(key: Any) -> bool:
    return type(key) is list and len(key) < _SHORT and any(map(_is_more_than_a_number, key))


def _is_more_than_a_number(part: Any) -> bool:
    return part is None or part is ... or isinstance(part, slice) or hasattr(part, "__len__")


def _without_leading_ones(value: Tensor, ndim: int) -> Tensor:
    """A value whose axes of size 1 that its place lacks are dropped, as PyTorch does."""
    extra = value.ndim - ndim
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        return reshape(value, value.shape[extra:])
    return value


# The meaning of a key.


def _located(x: Tensor, key: Any) -> Located:
    view, indexed = _basic(x, key)
    if not indexed:
        return Located(view)
    axis, part = indexed[0]
    if len(indexed) == 1 and part.dtype is bool_ and part.ndim:
        places = positions_of(part)
        return Located(view, None, axis, axis + part.ndim, places, places.shape)
    indexed = [one for axis, part in indexed for one in _indices(axis, part)]
    axes = [axis for axis, _ in indexed]
    order, check = None, _CHECK
    if axes != list(range(axes[0], axes[0] + len(axes))):
        order = (*axes, *(d for d in range(view.ndim) if d not in axes))
        view = permute(view, order)
        axes = list(range(len(axes)))
    first, last = axes[0], axes[-1] + 1
    shapes = [index.shape for _, index in indexed]
    try:
        shape = broadcast_shapes("index", *shapes)
    except ShapeError:
        law = "index tensors have one shape, or shapes that broadcast to it"
        raise SubscriptError("index", law, shapes=shapes) from None
    if len(indexed) == 1:
        index = contiguous(indexed[0][1])
    else:
        together = [contiguous(expand(to_dtype(index, int64), shape)) for _, index in indexed]
        check = None  # once is enough
        index = apply(FoldIndices(view.shape[first:last], _CHECK), *together)
    return Located(view, order, first, last, reshape(index, (prod(shape),)), shape, check)


def _forward(x: Tensor, key: Any, value: Tensor) -> tuple[Any, Tensor]:
    """A key whose slices go forward, and a value turned around where they went backwards."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, slice) and _is_backward(part) for part in parts):
        return key, value
    taken, axes, backwards = [], 0, []
    whole = _expanded(x, parts)
    sizes = iter(x.shape)
    for part in whole:
        size = 0 if part is None else next(sizes)
        if not isinstance(part, int | slice | None):
            law = "steps below 0 do not come beside index tensors"
            raise ArgumentError("__setitem__", law, remedy="Turn the index around: index.flip(0)")
        if isinstance(part, slice) and _is_backward(part):
            backwards.append(axes)
            start, step, length = _range(part, size)
            last = start + (length - 1) * step
            part = slice(last, start + 1, -step) if length else slice(0, 0)
        axes += not isinstance(part, int)
        taken.append(part)
    value = _without_leading_ones(value, axes)
    missing = axes - value.ndim  # axes that are broadcast are turned around already
    turned = [d - missing for d in backwards if d >= missing and value.shape[d - missing] > 1]
    return tuple(taken), flip(value, turned) if turned else value


def _is_backward(part: slice) -> bool:
    return part.step is not None and part.step < 0


def _basic(x: Tensor, key: Any) -> tuple[Tensor, list[tuple[int, Tensor]]]:
    """The view that all but index tensors and masks take, and these with the first axes of it."""
    starts: list[int] = []
    steps: list[int] = []
    sizes: list[int] = []
    shape: list[int] = []
    backwards: list[int] = []
    indexed: list[tuple[int, Tensor]] = []
    own = x.array.shape
    for part in _expanded(x, key if isinstance(key, tuple) else (key,)):
        if part is None:
            shape.append(1)
            continue
        if isinstance(part, int | slice):
            start, step, length = _range(part, own[len(sizes)])
            if step < 0:
                backwards.append(len(shape))
                start, step = start + (length - 1) * step, -step
            shape += [length] if isinstance(part, slice) else []
            starts.append(start if length else 0)
            steps.append(step)
            sizes.append(length)
            continue
        axes = own[len(sizes) :][: _axes_taken(part)]
        if part.dtype is bool_:
            _check_mask(part, axes)
        indexed.append((len(shape), part))
        shape += axes or (1,)
        starts += [0] * len(axes)
        steps += [1] * len(axes)
        sizes += axes
    whole = tuple(sizes) == own and set(steps) <= {1}
    view = x if whole else apply(Slice(tuple(starts), tuple(steps), tuple(sizes)), x)
    view = reshape(view, tuple(shape))
    return flip(view, backwards) if backwards else view, indexed


def _indices(axis: int, part: Tensor) -> list[tuple[int, Tensor]]:
    """An index tensor or a mask as indices, each with the axis that it takes.

    A mask without axes takes a new one of size 1.
    """
    if part.dtype is not bool_:
        return [(axis, part)]
    found = nonzero(part)
    if part.ndim == 0:
        return [(axis, found.new_zeros(found.shape[0]))]
    return [(axis + k, found.select(1, k)) for k in range(part.ndim)]


def _check_mask(mask: Tensor, axes: Shape) -> None:
    if mask.shape != axes:
        raise BoundsError("index", "a mask has the size of its axes", mask=mask.shape, axes=axes)


def _expanded(x: Tensor, key: tuple[Any, ...]) -> list[Any]:
    """None, ints, slices, index tensors and masks for all axes; ``...`` filled in."""
    parts: list[Any] = []
    for part in key:
        if part is None or part is Ellipsis or isinstance(part, slice):
            parts.append(part)
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            parts.append(int(part))
        else:
            parts.append(_index_tensor(x, part))
    taken = sum(map(_axes_taken, parts))
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if taken > x.ndim or len(dots) > 1:
        law = "one ... at most, and no more indices than axes"
        raise BoundsError("index", law, indices=taken, x=x.shape)
    at = dots[0] if dots else len(parts)
    rest = [slice(None)] * (x.ndim - taken)
    return [*parts[:at], *rest, *parts[at + 1 :]]


def _axes_taken(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, int | slice) or part.dtype is not bool_:
        return 1
    return part.ndim


def _index_tensor(x: Tensor, part: Any) -> Tensor:
    kind = type(x.detach())
    if not isinstance(part, kind):
        try:
            host = np.asarray(part)
        except (ValueError, TypeError):
            law = "a list in a key holds whole numbers, rows of equal length"
            raise SubscriptError("index", law, part=shown(part)) from None
        if host.dtype.kind not in "iub" and host.size:
            raise SubscriptError(
                "index",
                "a key holds ints, slices, None, ..., whole-number tensors and masks",
                part=type(part).__name__,
                dtype=host.dtype,
            )
        host = host if host.dtype.kind == "b" else host.astype(np.int64)
        part = kind(Array.from_numpy(host, x.device))
    if part.dtype not in (bool_, int32, int64):
        raise SubscriptError("index", "an index is int64 or int32", dtype=part.dtype)
    return part


def _range(part: int | slice, size: int) -> tuple[int, int, int]:
    """Start, step and number of the elements that an int or a slice takes."""
    if isinstance(part, int):
        if not -size <= part < size:
            raise BoundsError("index", "it lies inside its axis", index=part, size=size)
        return part % size, 1, 1
    if part.step is not None and part.step == 0:
        raise ArgumentError("index", "the step of a slice is not 0", step=part.step)
    try:
        start, stop, step = part.indices(size)
    except TypeError:
        law = "bounds of a slice are whole numbers or None"
        raise DtypeError("index", law, start=shown(part.start), stop=shown(part.stop)) from None
    return start, step, len(range(start, stop, step))
