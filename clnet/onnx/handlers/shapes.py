"""Shapes and what is computed of them: host data, as axes and sizes are.

The handlers say what a tensor's shape is; the twins compute with host data alone. No twin is given
elements of a tensor on the device, and none makes more than some thousand elements: what would be
larger is made on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ...tensor import full
from ..elements import Carried, by_number, by_numpy
from ..registry import Host, handler, on_host

_LARGEST = 4096


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a value of any kind."""
    return tuple(x.tensor.shape if isinstance(x, Carried) else x.shape)


@handler("Shape")
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Host:
    """The sizes of a tensor's axes, or of some of them."""
    return np.array(shape_of(x)[start:end], dtype=np.int64)


@handler("Size")
def size(x: Any) -> Host:
    """The number of elements."""
    return np.array(math.prod(shape_of(x)), dtype=np.int64)


@handler("ConstantOfShape")
def constant_of_shape(shape: Host, *, value: Host | None = None, device: Any = None) -> Any:
    """A tensor of one value."""
    sizes = [int(n) for n in np.atleast_1d(shape)]
    given = np.zeros(1, np.float32) if value is None else np.asarray(value)
    element = by_numpy(given.dtype)
    if element.dtype is None:
        return np.full(sizes, given.reshape(-1)[0], dtype=object)
    made = full(sizes, given.reshape(-1)[0].item(), dtype=element.dtype, device=device)
    return Carried(made, element) if element.carried else made


def _pairwise(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def of_two(x: np.ndarray, other: np.ndarray, **options: Any) -> np.ndarray:
        if options.get("axis") is not None:
            return NotImplemented
        with np.errstate(all="ignore"):
            return np.asarray(compute(x, other))

    return of_two


def _quotient(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return x / other
    down = x // other  # towards zero, and exactly, where a float would round
    return np.asarray(down + ((down < 0) & (down * other != x)), x.dtype)


def _power(x: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.power(x.astype(np.float64), other)).astype(x.dtype)


for _name, _compute in {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _quotient,
    "Pow": _power,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}.items():
    on_host(_name)(_pairwise(_compute))


def _alone(compute: Callable[[Any], Any]) -> Callable[..., Any]:
    def of_one(x: np.ndarray) -> np.ndarray:
        return np.asarray(compute(x))

    return of_one


for _name, _function in {
    "Neg": np.negative,
    "Abs": np.abs,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Not": np.logical_not,
    "Sqrt": np.sqrt,
    "Identity": np.asarray,
}.items():
    on_host(_name)(_alone(_function))


@on_host("Mod")
def mod(x: np.ndarray, other: np.ndarray, fmod: int = 0) -> np.ndarray:
    """The rest of a division."""
    return np.asarray(np.fmod(x, other) if fmod else np.mod(x, other))


@on_host("Max")
def host_max(*arrays: np.ndarray) -> np.ndarray:
    """The largest."""
    return np.asarray(reduce(np.maximum, arrays))


@on_host("Min")
def host_min(*arrays: np.ndarray) -> np.ndarray:
    """The smallest."""
    return np.asarray(reduce(np.minimum, arrays))


@on_host("Cast")
def cast(x: np.ndarray, to: int, **options: Any) -> Any:
    """Numbers of another type; of types that clnet has."""
    element = by_number(to)
    if element.dtype is None or element.carried or element.number == 16:
        return NotImplemented
    return x.astype(element.numpy)


@on_host("Where")
def where(condition: np.ndarray, x: np.ndarray, other: np.ndarray) -> np.ndarray:
    """One or the other."""
    return np.where(condition, x, other)


@on_host("Concat")
def concat(*arrays: np.ndarray, axis: int) -> np.ndarray:
    """One behind the other."""
    return np.concatenate(arrays, axis)


@on_host("Gather")
def gather(x: np.ndarray, indices: np.ndarray, axis: int = 0) -> np.ndarray:
    """Elements by index."""
    return np.asarray(np.take(x, indices, axis))


@on_host("Unsqueeze")
def unsqueeze(x: np.ndarray, given: Any = None, axes: Any = None) -> Any:
    """With axes of size 1."""
    asked = tuple(int(a) for a in np.atleast_1d(given if given is not None else axes))
    return np.expand_dims(x, asked)


@on_host("Squeeze")
def squeeze(x: np.ndarray, given: Any = None, axes: Any = None) -> np.ndarray:
    """Without axes of size 1."""
    asked = given if given is not None else axes
    return np.squeeze(x, None if asked is None else tuple(int(a) for a in np.atleast_1d(asked)))


@on_host("Slice")
def host_slice(
    x: np.ndarray,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
    steps: Any = None,
    **old: Any,
) -> np.ndarray:
    """Parts of axes."""
    starts, ends = old.get("starts_", starts), old.get("ends_", ends)
    axes = old.get("axes_", axes)
    cuts: list[slice] = [slice(None)] * x.ndim
    for axis, cut in cuts_of(x.shape, starts, ends, axes, steps):
        cuts[axis] = cut
    return x[tuple(cuts)]


def cuts_of(
    shape: Sequence[int], starts: Any, ends: Any, axes: Any, steps: Any
) -> list[tuple[int, slice]]:
    """The parts of axes that Slice asks for."""
    first = [int(n) for n in starts]
    axes = range(len(first)) if axes is None else [int(a) for a in axes]
    steps = [1] * len(first) if steps is None else [int(n) for n in steps]
    found: list[tuple[int, slice]] = []
    for start, end, axis, step in zip(first, ends, axes, steps, strict=True):
        stop = int(end)
        past = step < 0 and stop < -shape[axis]
        cut = slice(start, None if past else stop, step)
        found.append((axis % max(len(shape), 1), cut))
    return found


@on_host("Range")
def host_range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray, stash_type: int = 1) -> Any:
    """Numbers in steps."""
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0 or abs(last - first) > _LARGEST * abs(step):
        return NotImplemented
    return np.arange(first, last, step, dtype=start.dtype)


@on_host("Reshape")
def reshape(x: np.ndarray, given: Any = None, shape: Any = None, allowzero: int = 0) -> Any:
    """Of another shape."""
    asked = [int(n) for n in (given if given is not None else shape)]
    if 0 in asked and not allowzero:
        return NotImplemented
    return x.reshape(asked) if len(asked) <= 1 else NotImplemented


def _reduced(compute: Callable[..., Any]) -> Callable[..., Any]:
    def along(
        x: np.ndarray,
        given: Any = None,
        axes: Any = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Any:
        asked = given if given is not None else axes
        if not x.size or ((asked is None or len(asked) == 0) and noop_with_empty_axes):
            return NotImplemented
        found = None if asked is None or len(asked) == 0 else tuple(int(a) for a in asked)
        return np.asarray(compute(x, axis=found, keepdims=bool(keepdims)), x.dtype)

    return along


for _name, _function in {
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}.items():
    on_host(_name)(_reduced(_function))
