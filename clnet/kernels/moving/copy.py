"""Copies between arrays of any strides and dtypes, constants and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...values.dtypes import Kind, bool_
from ...values.shapes import Shape, Strides, ceil_div, collapse
from ..grid import in_groups, items, lanes_of
from ..kernel import Constraint, Kernel, Named, by_name, joined
from ..streaming import streams
from .copy_lines import backwards, backwards_fit, by_lines
from .copy_pairs import in_pairs, turned_pairs
from .place import as_moved, place
from .repeat import repeat, repeats

_CPU_TILE = 16
_SQUARES_EACH = 8
_GPU_TILE = 32
_GPU_ROWS = 8
_LEAST_TURNED = 4
# Elements of which a CPU's copy goes by lines: fewer are soon found one by one.
_MANY = 1024
# Of a fill: rows that are worth an item, and the elements of one.
_LEAST_ROW, _SHARE = 256, 2**16
# Positions that an int holds, also of a block that reaches past the end.
_INT_HOLDS = 2**31 - 2**16
# What an item of a GPU moves at once.
_VECTOR_BYTES = 16
_GROUP_FITS = Constraint("tile % group_rows == 0", "every item takes the same number of rows")


_ELEMENTS = Kernel("copy_elements", "moving/copy.mako")
_TRANSPOSED = Kernel("copy_transposed", "moving/copy.mako")
_SQUARES = Kernel("copy_squares", "moving/copy.mako")
_TRANSPOSED_LOCAL = Kernel("copy_transposed_local", "moving/copy.mako", constraints=(_GROUP_FITS,))
_FILL = Kernel("fill", "moving/copy.mako")
_FILL_ROWS = Kernel("fill_rows", "moving/copy.mako")
_ARANGE = Kernel("arange", "moving/copy.mako")


def copy(target: Target, y: Array, x: Array) -> list[Launch]:
    """``y = x``, elementwise, converted to ``y``'s dtype.

    Args:
        target: what to choose the kernel for.
        y: any shape and strides that do not overlap themselves.
        x: the same shape, any strides; it does not overlap ``y``. A float of 16 bits has the
            dtype of ``y``.
    """
    if y.size == 0:
        return []
    shape, (y_strides, x_strides) = _ordered(y.shape, y.strides, x.strides)
    if (axis := _far_axis(shape, y_strides, x_strides)) is not None:
        whole = (y.view(shape, y_strides), x.view(shape, x_strides))
        halves = zip(*(_halves(each, axis) for each in whole), strict=True)
        return [launch for half in halves for launch in copy(target, *half)]
    if -1 in x_strides[:-1] and not in_groups(target.traits):
        return copy(target, *_other_way_round(y, x, shape, y_strides, x_strides))
    turned = turned_axis(shape, y_strides, x_strides)
    if turned is not None:
        return [_transposed(target, y, x, shape, y_strides, x_strides, turned)]
    if x_strides[-1] == 0 and y.dtype is x.dtype and repeats(target, y, shape[-1]):
        return [repeat(target, y, x, shape[:-1], x_strides[:-1])]
    to_bool = y.dtype is bool_ and x.dtype is not bool_  # which is no cast
    lines, groups = len(shape) > 1, in_groups(target.traits)
    if lines and not to_bool and streams(y, lanes_of(target, y.dtype.itemsize)):
        dense = y.view(shape, y_strides)
        at_once = place(target, dense, x, shape, x_strides, starts=(0,) * len(shape))
        if at_once:
            return at_once
    if backwards_fit(target, y, x, shape[-1], y_strides[-1], x_strides[-1]):
        return [backwards(target, y, x, shape, y_strides, x_strides)]
    if not groups and (y.size >= _MANY or not lines):
        return [by_lines(_types(y, x), target, y, x, shape, y_strides, x_strides)]
    width = _at_once(target, y, x, shape, y_strides, x_strides)
    if width > 1:
        shape = (*shape[:-1], shape[-1] // width)
        y_strides, x_strides = (
            (*(n // width for n in steps[:-1]), 1) for steps in (y_strides, x_strides)
        )
    params = joined(_types(y, x), by_name("ndim width", len(shape), width))
    args = joined(by_name("n", y.size // width), _axes(shape, y_strides, x_strides))
    return [_launch(_ELEMENTS, params, args, y, x, **items(target, y.size // width))]


def fill(target: Target, y: Array, value: float | HostScalar) -> list[Launch]:
    """``y = value``, elementwise.

    Args:
        target: what to choose the kernel for.
        y: any shape and strides that do not overlap themselves.
        value: a number of ``y``'s kind; or a cell of one, but for floats of 16 bits.
    """
    if y.size == 0:
        return []
    if y.dtype.is_complex:
        return [launch for k, v in enumerate((value, 0)) for launch in fill(target, y.part(k), v)]
    shape, (strides,) = _ordered(y.shape, y.strides)
    if (axis := _far_axis(shape, strides)) is not None:
        halves = _halves(y.view(shape, strides), axis)
        return [launch for half in halves for launch in fill(target, half, value)]
    alone = len(shape) == 1
    if not in_groups(target.traits) and strides[-1] == 1 and (alone or shape[-1] >= _LEAST_ROW):
        return [_rows_filled(target, y, shape, strides, value)]
    width = _at_once(target, y, y, shape, strides, strides) if alone else 1
    return [
        _FILL.launch(
            {"ctype": y.dtype.moved_as, "ndim": len(shape), "width": width},
            {
                "n": y.size // width,
                "size_{d}": shape,
                "y_stride_{d}": strides,
                "y": y,
                "value": as_moved(y.dtype, value),
            },
            **items(target, y.size // width),
            flops=0,
            bytes=y.nbytes,
        )
    ]


def _rows_filled(
    target: Target, y: Array, shape: Shape, strides: Strides, value: float | HostScalar
) -> Launch:
    """A constant in rows that lie side by side, for CPUs."""
    others, steps, n = shape[:-1] or (1,), strides[:-1] or (0,), shape[-1]
    share = min(max(ceil_div(n, target.traits.compute_units), _LEAST_ROW), _SHARE)
    return _FILL_ROWS.launch(
        {"ctype": y.dtype.moved_as, "ndim": len(others)},
        {
            "n": n,
            "share": share,
            "size_{d}": others,
            "y_stride_{d}": steps,
            "y": y,
            "value": as_moved(y.dtype, value),
        },
        global_size=(ceil_div(n, share), prod(others)),
        local_size=(1, 1),
        flops=0,
        bytes=y.nbytes,
    )


def arange(target: Target, y: Array, start: float, step: float) -> list[Launch]:
    """``y[i] = start + i * step``, rounded once; the same bits on every device.

    Args:
        target: what to choose the kernel for.
        y: ``(n,)``, dense.
        start: the first element.
        step: from one element to the next.
    """
    if y.size == 0:
        return []
    real = y.dtype.ctype if y.dtype.kind is Kind.FLOATING else "long"
    return [
        _ARANGE.launch(
            {"ctype": y.dtype.ctype, "real": real},
            by_name("n y start step", y.size, y, start, step),
            **items(target, y.size),
            flops=2 * y.size,
            bytes=y.nbytes,
        )
    ]


def _types(y: Array, x: Array) -> Named:
    """The C types of both, and whether truth values are made of what is none."""
    moved = (y.dtype.moved_as, y.dtype.moved_as, False)
    made = (y.dtype.ctype, x.dtype.ctype, y.dtype is bool_)
    return by_name("ctype source to_bool", *(moved if y.dtype is x.dtype else made))


def _axes(shape: Sequence[int], y_strides: Sequence[int], x_strides: Sequence[int]) -> Named:
    """Sizes and steps of axes as arguments; one of one element if there is none."""
    axes = (shape or (1,), y_strides or (0,), x_strides or (0,))
    return by_name("size_{d} y_stride_{d} x_stride_{d}", *axes)


def _ordered(shape: Shape, *operands: Strides) -> tuple[Shape, tuple[Strides, ...]]:
    """The fewest axes, ordered so that the first operand is stepped through in memory order."""
    axes = sorted(range(len(shape)), key=lambda axis: -abs(operands[0][axis]))
    return collapse(
        tuple(shape[axis] for axis in axes),
        [tuple(strides[axis] for axis in axes) for strides in operands],
    )


def _far_axis(shape: Shape, *operands: Strides) -> int | None:
    """The longest axis, if kernels, which count with an int, cannot reach all of an operand."""
    far = [[(n - 1) * abs(s) for n, s in zip(shape, steps, strict=True)] for steps in operands]
    if max(map(sum, far)) < _INT_HOLDS:
        return None
    longest = [max(each) for each in zip(*far, strict=True)]
    return longest.index(max(longest))


def _halves(x: Array, axis: int) -> list[Array]:
    """An array in two parts along an axis, whose launches begin where a long says."""
    n, middle = x.shape[axis], x.shape[axis] // 2
    return [
        x.view(
            (*x.shape[:axis], end - begin, *x.shape[axis + 1 :]),
            x.strides,
            x.offset + begin * x.strides[axis],
        )
        for begin, end in ((0, middle), (middle, n))
    ]


def _other_way_round(
    y: Array, x: Array, shape: Shape, y_strides: Strides, x_strides: Strides
) -> tuple[Array, Array]:
    """Both from the end of the axis along which neighbours of ``x`` lie backwards."""
    axis = x_strides.index(-1)
    back = shape[axis] - 1
    turned = [(*s[:axis], -s[axis], *s[axis + 1 :]) for s in (y_strides, x_strides)]
    to, of = (array.offset + back * s[axis] for array, s in ((y, y_strides), (x, x_strides)))
    return y.view(shape, turned[0], to), x.view(shape, turned[1], of)


def turned_axis(shape: Shape, y_strides: Strides, x_strides: Strides) -> int | None:
    """The axis along which x is dense when y is dense along another, else None.

    Args:
        shape: the fewest axes, in the order of ``y`` in memory.
        y_strides: steps of ``y`` along them.
        x_strides: those of ``x``.
    """
    if y_strides[-1] != 1 or x_strides[-1] in (0, 1) or shape[-1] < _LEAST_TURNED:
        return None
    for axis in range(len(shape) - 1):
        if x_strides[axis] == 1 and shape[axis] >= _LEAST_TURNED:
            return axis
    return None


def _at_once(
    target: Target, y: Array, x: Array, shape: Shape, y_strides: Strides, x_strides: Strides
) -> int:
    """Elements that an item of a GPU moves as one vector: rows of both are made of whole ones."""
    moved = y.dtype is x.dtype and not y.dtype.is_complex and in_groups(target.traits)
    if not moved or not shape or not y_strides[-1] == x_strides[-1] == 1:
        return 1
    width = _VECTOR_BYTES // y.dtype.itemsize
    numbers = (shape[-1], *y_strides[:-1], *x_strides[:-1], y.offset, x.offset)
    return width if all(n % width == 0 for n in numbers) else 1


def _transposed(
    target: Target,
    y: Array,
    x: Array,
    shape: Shape,
    y_strides: Strides,
    x_strides: Strides,
    axis: int,
) -> Launch:
    """A copy whose source is dense along another axis than its result: by squares, turned."""
    last = len(shape) - 1
    others = [d for d in range(last) if d != axis]
    rows, columns = shape[axis], shape[last]
    ndim = max(len(others), 1)
    params = joined(_types(y, x), by_name("ndim", ndim))
    args = joined(
        by_name("rows columns y_row x_column", rows, columns, y_strides[axis], x_strides[last]),
        _axes(
            [shape[d] for d in others],
            [y_strides[d] for d in others],
            [x_strides[d] for d in others],
        ),
    )
    count = y.size // (rows * columns)
    steps = [s[d] for s in (y_strides, x_strides) for d in others]
    even = (rows, columns, y_strides[axis], x_strides[last], *steps)
    if in_pairs(target.traits, y, x, even):
        return turned_pairs(y, x, args, ndim, rows, columns, count)
    if in_groups(target.traits):
        down = max(1, min(_GPU_ROWS, target.traits.max_group_size // _GPU_TILE))
        blocks = (ceil_div(columns, _GPU_TILE) * _GPU_TILE, ceil_div(rows, _GPU_TILE) * down)
        params = joined(params, by_name("tile group_rows", _GPU_TILE, down))
        sizes = {"global_size": (*blocks, count), "local_size": (_GPU_TILE, down, 1)}
        return _launch(_TRANSPOSED_LOCAL, params, args, y, x, **sizes)
    item_bytes = y.dtype.itemsize
    tile = min(4 * target.traits.simd_width // item_bytes, _CPU_TILE)
    if y.dtype is x.dtype and 4 <= item_bytes <= 8 and 2 <= tile <= min(rows, columns):
        whole = all(s % tile == 0 for s in (columns, *y_strides[:-1])) and streams(y, tile)
        squares = by_name("ctype ndim tile stream", y.dtype.moved_as, ndim, tile, whole)
        args = joined(by_name("share", tile * _SQUARES_EACH), args)
        share = tile * _SQUARES_EACH
        sizes = (ceil_div(columns, tile), ceil_div(rows, share), count)
        return _launch(_SQUARES, squares, args, y, x, global_size=sizes)
    blocks = (ceil_div(columns, _CPU_TILE), ceil_div(rows, _CPU_TILE), count)
    params = joined(params, by_name("tile", _CPU_TILE))
    return _launch(_TRANSPOSED, params, args, y, x, global_size=blocks)


def _launch(
    kernel: Kernel,
    params: Named,
    args: Named,
    y: Array,
    x: Array,
    **sizes: tuple[int, ...],
) -> Launch:
    return kernel.launch(
        params, joined(args, by_name("y x", y, x)), **sizes, flops=0, bytes=y.nbytes + x.nbytes
    )
