"""Pure shape and stride algebra: broadcasting, views, collapsing, window sizes. No device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ..errors import BoundsError, NoAxisError, ShapeError
from .plain import integers, is_iterable
from .words import Named

Shape = tuple[int, ...]
Strides = tuple[int, ...]


class Size(tuple[int, ...]):
    """A tensor's shape: a tuple that knows how many elements that makes.

    Args:
        sizes: whole numbers.

    Raises:
        DtypeError: if one is none.

    Example:
        >>> Size((2, 3, 4))[1:].numel()
        12
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = (), /) -> Size:
        given = tuple(sizes) if is_iterable(sizes) else sizes
        return tuple.__new__(cls, integers("Size", "size", given))  # pyrefly: ignore[bad-specialization] - a tuple

    def __repr__(self) -> str:
        """A tuple's; where programs find clnet as PyTorch, they show PyTorch's."""
        if Named.library == "clnet":
            return tuple.__repr__(self)
        return f"{Named.library}.Size({[*self]})"

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if type(found) is tuple else found  # pyrefly: ignore[bad-specialization] - a tuple

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, tuple | list):
            return NotImplemented
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, tuple | list):
            return NotImplemented
        return Size(tuple.__add__(tuple(other), self))

    def __mul__(self, other: Any) -> Any:
        found = tuple.__mul__(self, other)
        return found if found is NotImplemented else Size(found)

    __rmul__ = __mul__


size_of = lru_cache(maxsize=4096)(Size)
"""The :class:`Size` of a tuple; those asked for lately are kept."""


@lru_cache(maxsize=4096)
def contiguous_strides(shape: Shape) -> Strides:
    """Strides, in elements, of a dense row-major array of ``shape``."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def last_place(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Where the last element of a view lies, counted in elements from its first."""
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


@lru_cache(maxsize=4096)
def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """Whether the elements lie densely in row-major order (axes of size 1 do not count)."""
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """The common shape of operands, by NumPy's and PyTorch's rule.

    Raises:
        ShapeError: if an axis has two sizes other than 1.
    """
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return first
    ndim = max(map(len, shapes))
    result = []
    for axis in range(-ndim, 0):
        sizes = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(sizes) > 1:
            raise ShapeError(op, f"sizes differ at axis {axis} and none is 1", shapes=shapes)
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def broadcast_strides(shape: Shape, strides: Strides, to: Shape) -> Strides:
    """Strides that read an array of ``shape`` as if it were ``to``; 0 along repeated axes."""
    lead = len(to) - len(shape)
    return (0,) * lead + tuple(
        0 if size == 1 and target != 1 else stride
        for size, stride, target in zip(shape, strides, to[lead:], strict=True)
    )


@lru_cache(maxsize=4096)
def memory_order(shape: Shape, operands: tuple[Strides, ...]) -> tuple[int, ...]:
    """The axes from the outermost in memory to the innermost, as PyTorch's ops keep them.

    The first operand that can say of two axes which lies inside the other decides. Axes of one step
    are those of repeated elements, or of one size 1; they keep their places.

    Args:
        shape: the common shape.
        operands: strides of each operand over ``shape``, 0 where it is broadcast.
    """
    found = list(range(len(shape) - 1, -1, -1))  # from the innermost
    for last in range(1, len(shape)):
        place = last
        for k in range(last - 1, -1, -1):
            inner = _is_inside(shape, operands, found[place], found[k])
            if inner:
                found[k], found[place] = found[place], found[k]
                place = k
            elif inner is not None:
                break
    return tuple(reversed(found))


def _is_inside(shape: Shape, operands: tuple[Strides, ...], axis: int, other: int) -> bool | None:
    """Whether an axis lies inside another in memory; None where that cannot be said."""
    for strides in operands:
        mine, its = strides[axis], strides[other]
        if 0 in (mine, its):
            continue
        if mine != its:
            return mine < its
        if shape[axis] < shape[other]:
            return True
    return None


@lru_cache(maxsize=4096)
def strides_in(shape: Shape, order: tuple[int, ...]) -> Strides:
    """Strides of a dense array whose axes lie in an order, named from the outermost one."""
    dense = contiguous_strides(tuple([shape[axis] for axis in order]))
    return tuple([dense[order.index(axis)] for axis in range(len(shape))])


def normalize_dim(op: str, dim: int, ndim: int) -> int:
    """A dim counted from the front.

    Raises:
        BoundsError: if it lies outside ``[-ndim, ndim)``.
    """
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise BoundsError(op, f"dim lies in [{-bound}, {bound})", dim=dim, ndim=ndim)
    return dim % bound


def axis_of(op: str, dim: int, shape: Sequence[int]) -> int:
    """A dim of a tensor that has one, counted from the front.

    Raises:
        BoundsError: if it lies outside.
        NoAxisError: if the tensor has no axes.
    """
    if not shape:
        raise NoAxisError(op, "the tensor has an axis", shape=tuple(shape), dim=dim)
    return normalize_dim(op, dim, len(shape))


def normalize_dims(op: str, dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Several dims counted from the front, ascending; None stands for all.

    Raises:
        BoundsError: if one lies outside ``[-ndim, ndim)``.
        ShapeError: if one is named twice.
    """
    if dim is None:
        return tuple(range(ndim))
    if isinstance(dim, int):
        axis = normalize_dim(op, dim, ndim)
        return (axis,) if ndim else ()
    dims = tuple(sorted(normalize_dim(op, d, ndim) for d in dim))
    if len(set(dims)) != len(dims):
        raise ShapeError(op, "a dim is named once", dim=tuple(dim))
    return dims if ndim else ()


def collapse(shape: Shape, operands: Sequence[Strides]) -> tuple[Shape, tuple[Strides, ...]]:
    """Merge neighbouring axes that every operand steps through evenly; drop axes of size 1.

    Args:
        shape: the common shape.
        operands: strides of each operand over ``shape``, 0 where it is broadcast.

    Returns:
        The smallest equivalent shape (at least one axis) and the operands' strides over it.
    """
    sizes: list[int] = []
    steps: list[list[int]] = []
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        here = [strides[axis] for strides in operands]
        if sizes and all(
            outer == size * inner for outer, inner in zip(steps[-1], here, strict=True)
        ):
            sizes[-1] *= size
            steps[-1] = here
        else:
            sizes.append(size)
            steps.append(here)
    if not sizes:
        return (1,), tuple((0,) for _ in operands)
    return tuple(sizes), tuple(tuple(step[i] for step in steps) for i in range(len(operands)))


@lru_cache(maxsize=4096)
def resolve_reshape(op: str, shape: Shape, target: tuple[int, ...]) -> Shape:
    """The shape that ``target`` asks for, its single ``-1`` filled in.

    Raises:
        ShapeError: if the number of elements differs or cannot be made.
    """
    wanted = tuple(map(int, target))
    count = prod(shape)
    if min(wanted, default=0) < -1 or wanted.count(-1) > 1:
        raise ShapeError(op, "sizes are 0 or more, with at most one -1", shape=shape, target=wanted)
    if -1 in wanted:
        rest = prod(size for size in wanted if size != -1)
        if rest == 0 or count % rest:
            raise ShapeError(
                op, f"{count} elements do not divide into it", shape=shape, target=wanted
            )
        wanted = tuple(count // rest if size == -1 else size for size in wanted)
    if prod(wanted) != count:
        raise ShapeError(
            op, f"it has {prod(wanted)} elements, not {count}", shape=shape, target=wanted
        )
    return wanted


@lru_cache(maxsize=4096)
def reshape_strides(shape: Shape, strides: Strides, target: Shape) -> Strides | None:
    """Strides that show the same memory as ``target``, or None if only a copy can."""
    if is_contiguous(shape, strides):
        return contiguous_strides(target)
    sizes, (steps,) = collapse(shape, [strides])
    result = [0] * len(target)
    axis = len(target) - 1
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        filled = 1
        while filled < size and axis >= 0:
            if size % (filled * target[axis]):
                return None
            result[axis] = step * filled
            filled *= target[axis]
            axis -= 1
        if filled != size:
            return None
    return tuple(result)


def window_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Positions of a sliding window along one axis (may be below 1: the caller checks)."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def pair(value: int | Sequence[int], op: str, name: str) -> tuple[int, int]:
    """An int or a pair of ints as ``(vertical, horizontal)``.

    Raises:
        ShapeError: if it is neither.
    """
    if isinstance(value, int):
        return (value, value)
    values = tuple(value)
    if len(values) == 1:  # of one axis and all
        values *= 2
    if len(values) != 2 or not all(isinstance(v, int) for v in values):
        raise ShapeError(op, f"{name} is an int or a pair of ints", value=value)
    return (values[0], values[1])


def as_key(setting: Any) -> Any:
    """A setting of one number or several as what a dictionary can hold."""
    return tuple(setting) if isinstance(setting, list) else setting


def each(value: int | Sequence[int], count: int, op: str, name: str) -> tuple[int, ...]:
    """An int, or one int for each of ``count`` axes, as a tuple.

    Raises:
        ShapeError: if it is neither.
    """
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        values *= count
    if len(values) != count or not all(isinstance(v, int) for v in values):
        raise ShapeError(op, f"{name} is an int or {count} ints", value=value)
    return values


def ceil_div(a: int, b: int) -> int:
    """``a / b`` rounded up."""
    return -(-a // b)


def round_up(a: int, b: int) -> int:
    """The smallest multiple of ``b`` that is at least ``a``."""
    return -(-a // b) * b
