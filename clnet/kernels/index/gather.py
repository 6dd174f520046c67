"""Elements and rows picked by an index; the gradients sort the index and add up runs of equal ones.

An index out of range never touches memory outside the array: it reads as NaN (0 for integers), and
nothing is written for it. With a check it is reported, too. Indices are int32 or int64, dense but
for :func:`gather_along`'s; with ``wrap`` negative ones count from the end. Rows are ``(outer, rows,
inner)``, those picked ``(outer, n, inner)``; arrays are dense where nothing else is said. All
functions give their launches: none for no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...array import Array
from ...device import Check, Launch, Scratch, Target
from ...values.dtypes import DType, int32
from ...values.shapes import Shape, ceil_div, collapse
from ..grid import flat_type, in_groups, items
from ..kernel import Kernel, Named, by_name, joined
from ..moving import fill
from .add_rows import add_rows, adds_rows, meet_owned_rows, put_owned_rows, puts_rows
from .gather_runs import gather_runs, lines_along
from .gather_wide import gather_wide
from .scatter_product_slope import scatter_product_slope
from .scatter_rows import scatter_rows, walks_rows
from .segment import segment_last, segment_sum
from .sort import Sorted, sort
from .unordered import (
    add_unordered,
    adds_unordered,
    along,
    extremes_unordered,
    first_extreme,
    meets_unordered,
)

_CPU_LEAST_ROW = 8
_CPU_SHARE = 4096  # elements that an item copies
_CPU_ITEMS = 4  # for each unit
_GPU_LEAST_LINES = 4096
_SHORT_LINE = 32


_ROWS = Kernel("gather_rows", "index/gather.mako")
_ROW_ELEMENTS = Kernel("gather_row_elements", "index/gather.mako")
_ALONG = Kernel("gather_along", "index/gather.mako")
_LINES = Kernel("scatter_lines", "index/gather.mako")
_KEYS_ALONG = Kernel("keys_along", "index/gather.mako")
_KEYS_OF_ROWS = Kernel("keys_of_rows", "index/gather.mako")
_FOLD = Kernel("fold_indices", "index/gather.mako")


def gather_rows(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    wrap: bool = False,
    check: Check | None = None,
    zero: bool = False,
) -> list[Launch]:
    """``y[o, i] = x[o, index[i]]``; rows of ``x`` are dense, with any steps between them.

    With ``zero`` an index out of range picks zeros.
    """
    if y.size == 0:
        return []
    outer, n, inner = y.shape
    types = (y.dtype.moved_as, index.dtype.ctype)
    params: Named = by_name(
        "ctype index_type missing wrap check flat",
        *(*types, "0" if zero else _missing(y.dtype), wrap, check is not None, _flat(x, y.size)),
    )
    if in_groups(target.traits):
        return [gather_wide(target, params, y, x, index).reporting(check)]
    if inner == 1 and x.size and (outer == 1 or n >= _CPU_LEAST_ROW):
        steps = (x.strides[0], 0), (0, *index.strides)
        lines = lines_along((outer, n), x.shape[1], x.strides[1], steps)
        return [gather_runs(target, params, y, x, index, lines).reporting(check)]
    args = by_name(
        "outer n inner limit x_outer x_row y x index",
        *(outer, n, inner, x.shape[1], *x.strides[:2], y, x, index),
    )
    kernel, sizes = _ROW_ELEMENTS, items(target, y.size)
    if inner >= _CPU_LEAST_ROW:
        share = max(_CPU_SHARE // inner, 1)
        share = min(share, ceil_div(n * outer, _CPU_ITEMS * target.traits.compute_units))
        args = joined(args, {"share": share})
        kernel, sizes = _ROWS, {"global_size": (ceil_div(n, share), outer)}
    moved = 2 * y.nbytes + index.nbytes
    return [kernel.launch(params, args, **sizes, flops=0, bytes=moved).reporting(check)]


def gather_rows_gradient(
    target: Target,
    gx: Array,
    gy: Array,
    index: Array,
    *,
    wrap: bool = False,
    skip: int = -1,
    check: Check | None = None,
) -> list[Launch]:
    """``gx[o, r] = sum of gy[o, i]`` over the ``i`` with ``index[i] == r``, in ascending ``i``.

    ``gx`` is written whole; the row ``skip``, if it is not -1, gets 0 whatever points to it.
    """
    if gx.size == 0:
        return []
    if adds_rows(target, gx, gy):
        return [add_rows(target, gx, gy, index, wrap=wrap, skip=skip, check=check)]
    memory = Scratch(gx.device)
    runs = _sorted_rows(target, memory, index, gx.shape[1], wrap=wrap, skip=skip, check=check)
    return [*runs.launches, *segment_sum(target, memory, gx, gy, runs)]


def put_rows(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    wrap: bool = False,
    check: Check | None = None,
) -> list[Launch]:
    """``y[o, index[i]] = x[o, i]``, ascending in ``i``: of equal indices the last one stays.

    Rows without an index stay as they are.
    """
    if y.size == 0 or index.size == 0:
        return []
    if puts_rows(target):
        return [put_owned_rows(target, y, x, index, wrap=wrap, check=check)]
    memory = Scratch(y.device)
    runs = _sorted_rows(target, memory, index, y.shape[1], wrap=wrap, skip=-1, check=check)
    return [*runs.launches, *segment_last(target, memory, y, x, runs)]


def gather_along(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    check: Check | None = None,
) -> list[Launch]:
    """``y[..., i, ...] = x[..., index[..., i, ...], ...]`` with the index at ``dim``.

    ``index`` and ``x`` have any strides; no axis of ``x`` but ``dim`` is shorter than the index's.
    """
    if y.size == 0:
        return []
    shape, x_strides, index_strides = along(index, x.strides, dim)
    params = joined(
        by_name("ctype index_type", y.dtype.moved_as, index.dtype.ctype),
        by_name("missing check flat", _missing(y.dtype), check is not None, _flat(x, index.size)),
    )
    if not in_groups(target.traits) and x.size and shape[-1] >= _CPU_LEAST_ROW:
        steps = x_strides, index_strides
        lines = lines_along(shape, x.shape[dim], x.strides[dim], steps)
        params = joined(params, {"wrap": False})
        return [gather_runs(target, params, y, x, index, lines).reporting(check)]
    return [
        _ALONG.launch(
            joined(params, {"ndim": len(shape)}),
            joined(
                by_name("n limit x_step", y.size, x.shape[dim], x.strides[dim]),
                by_name("size_{d} x_stride_{d} index_stride_{d}", shape, x_strides, index_strides),
                by_name("y x index", y, x, index),
            ),
            **items(target, y.size),
            flops=0,
            bytes=2 * y.nbytes + index.nbytes,
        ).reporting(check)
    ]


def gather_along_gradient(
    target: Target,
    gx: Array,
    gy: Array,
    index: Array,
    *,
    dim: int,
    check: Check | None = None,
) -> list[Launch]:
    """Each element of ``gx``: the sum of those of ``gy`` whose index picked it, in fixed order.

    ``gx`` is written whole; ``gy`` has the shape of ``index``.
    """
    if gx.size == 0 or index.size == 0:
        return fill(target, gx, 0)
    return _scatter(target, gx, gy, index, dim=dim, add=True, check=check)


def takes_extremes(target: Target, dtype: DType) -> bool:
    """Whether :func:`extremes_along` is a good way: by lines on CPUs, on GPUs by atomics."""
    return not in_groups(target.traits) or meets_unordered(target, dtype)


def extremes_along(
    target: Target, y: Array, x: Array, index: Array, *, dim: int, largest: bool
) -> list[Launch]:
    """Each element of ``y``: the most, or least, of those of ``x`` whose index says so.

    ``y`` is written whole, the least of all numbers (or the most) where no index points; what is
    out of range takes no part. ``x`` has the shape of ``index``.
    """
    if y.size and meets_unordered(target, y.dtype, y, index):
        return extremes_unordered(target, y, x, index, dim=dim, largest=largest)
    launches = fill(target, y, first_extreme(y.dtype, largest=largest))
    if y.size and index.size:
        how = "most" if largest else "least"
        launches.append(_scatter_lines(target, y, x, index, dim=dim, how=how, check=None))
    return launches


def meets_in_order(target: Target) -> bool:
    """Whether :func:`meet_along` is a good way for all shapes: an item has many lines, or rows."""
    return not in_groups(target.traits)


def meet_along(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    how: str,
    *,
    dim: int,
    check: Check | None = None,
) -> list[Launch]:
    """``y[..., index[..., i, ...], ...] *= x[..., i, ...]`` at ``dim``, in order, or as ``how``.

    ``x`` has the shape of ``index``; each line is one item's. On CPUs ``index`` may also be a
    vector for all lines along axis 1 of three.

    Args:
        target: what to choose the kernel for.
        y: holds what elements begin with.
        x: what they meet.
        index: where.
        how: ``"times"``, ``"most"`` or ``"least"``.
        dim: the axis.
        check: reports what is out of range.
    """
    if y.size == 0 or index.size == 0:
        return []
    if index.ndim < y.ndim:
        return [meet_owned_rows(target, y, x, index, how, check=check)]
    return [_scatter_lines(target, y, x, index, dim=dim, how=how, check=check)]


def multiply_along_gradient(
    target: Target, gx: Array, before: Array, after: Array, x: Array, index: Array, *, dim: int
) -> list[Launch]:
    """The gradient of products by :func:`meet_along`, without a division; each line is one item's.

    ``before`` is what ``y`` was, and is overwritten; ``after`` its gradient, which becomes that of
    what it was.
    """
    if gx.size == 0:
        return []
    shape, y_strides, steps = _lines(before, index, dim)
    if y_strides[-1] != 1 or steps[-1] != 1:  # a column of its own for each
        shape, y_strides, steps = (*shape, 1), (*y_strides, 1), (*steps, 1)
    blocks = shape, y_strides, steps
    return [scatter_product_slope(target, gx, before, after, x, index, dim=dim, blocks=blocks)]


def multiplies_along(target: Target, index: Shape, dim: int) -> bool:
    """Whether products go so: by :func:`meet_along`, on CPUs, on GPUs if there are many lines."""
    lines = prod(index) // max(index[dim], 1)
    return not in_groups(target.traits) or lines >= _GPU_LEAST_LINES


def put_along(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    check: Check | None = None,
) -> list[Launch]:
    """``y[..., index[..., i, ...], ...] = x[..., i, ...]`` at ``dim``; the last one stays.

    Elements without an index stay as they are; ``x`` has the shape of ``index``, no axis of which
    but ``dim`` is longer than that of ``y``.
    """
    if y.size == 0 or index.size == 0:
        return []
    return _scatter(target, y, x, index, dim=dim, add=False, check=check)


def fold_indices(
    target: Target, y: Array, indices: Sequence[Array], *, sizes: Shape, check: Check | None = None
) -> list[Launch]:
    """Several indices as one into the flattened axes of ``sizes``; negative ones from the end.

    ``indices`` are of one dtype; ``y`` is int32, and the product of the sizes where one of them is
    out of range.
    """
    if y.size == 0:
        return []
    return [
        _FOLD.launch(
            {
                "index_type": indices[0].dtype.ctype,
                "count": len(indices),
                "check": check is not None,
            },
            {"n": y.size, "size_{d}": sizes, "y": y, "index_{d}": indices},
            **items(target, y.size),
            flops=2 * y.size * len(indices),
            bytes=y.nbytes + sum(index.nbytes for index in indices),
        ).reporting(check)
    ]


def _flat(x: Array, size: int) -> str:
    """The type of places in an array, and of the numbers of so many elements."""
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True))
    return flat_type(max(size, reach, *x.strides))


def _missing(dtype: DType) -> str:
    bits = {"float16": "0x7e00", "bfloat16": "0x7fc0"}  # moved as whole numbers
    return bits.get(dtype.name, "NAN" if dtype.is_floating_point else "0")


def _scatter(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    add: bool,
    check: Check | None,
) -> list[Launch]:
    """In one pass if there are lines enough to keep the device busy, else by a sort.

    With ``add`` the elements of ``y`` begin at 0.
    """
    length = index.shape[dim]
    lines = index.size // length
    traits = target.traits
    enough = _GPU_LEAST_LINES if in_groups(traits) else traits.compute_units
    if length <= _SHORT_LINE or lines >= enough:
        zeros = fill(target, y, 0) if add else []
        return [
            *zeros,
            _scatter_lines(target, y, x, index, dim=dim, how="add" if add else "put", check=check),
        ]
    if add and adds_unordered(target, y, index):
        return add_unordered(target, y, x, index, dim=dim, check=check)
    flat = y.view((1, y.size, 1), (y.size, 1, 1))
    picked = x.view((1, index.size, 1), (index.size, 1, 1))
    alone = lines == 1 and y.shape[dim] == y.size and index.strides[dim] == 1
    if alone and add and adds_rows(target, flat, picked):
        return [add_rows(target, flat, picked, index, wrap=False, skip=-1, check=check)]
    if alone and not add and puts_rows(target):
        return [put_owned_rows(target, flat, picked, index, wrap=False, check=check)]
    memory = Scratch(y.device)
    runs = _sorted_along(target, memory, y, index, dim=dim, check=check)
    finish = segment_sum if add else segment_last
    return [*runs.launches, *finish(target, memory, flat, picked, runs)]


def _scatter_lines(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    how: str,
    check: Check | None,
) -> Launch:
    """An item, or on CPUs a walk through neighbours, for each line along ``dim``, in order."""
    shape, y_strides, index_strides = _lines(y, index, dim)
    if walks_rows(target, shape, y_strides, index_strides):
        return scatter_rows(
            target,
            y,
            x,
            index,
            dim=dim,
            how=how,
            check=check,
            blocks=(shape, y_strides, index_strides),
        )
    length = index.shape[dim]
    lines = index.size // length
    params = joined(
        by_name("ctype", y.dtype.moved_as if how == "put" else y.dtype.ctype),
        by_name("index_type ndim", index.dtype.ctype, len(shape)),
        by_name("how check flat", how, check is not None, _flat(y, index.size)),
    )
    args = joined(
        by_name("lines n limit", lines, length, y.shape[dim]),
        by_name("y_step index_step", y.strides[dim], index.strides[dim]),
        by_name("size_{d} y_stride_{d} index_stride_{d}", shape, y_strides, index_strides),
        by_name("y x index", y, x, index),
    )
    return _LINES.launch(
        params,
        args,
        **items(target, lines),
        flops=x.size,
        bytes=3 * x.nbytes + index.nbytes,
    ).reporting(check)


def _lines(y: Array, index: Array, dim: int) -> tuple[Shape, Shape, Shape]:
    """The shape of the lines along ``dim``, collapsed, and their steps in ``y`` and the index."""

    def others(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:dim], *values[dim + 1 :])

    shape, (y_strides, index_strides) = collapse(
        others(index.shape), [others(y.strides), others(index.strides)]
    )
    return shape, y_strides, index_strides


def _sorted_along(
    target: Target,
    memory: Scratch,
    y: Array,
    index: Array,
    *,
    dim: int,
    check: Check | None,
) -> Sorted:
    n = index.size
    keys, order = Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32)
    shape, y_strides, index_strides = along(index, y.strides, dim)
    launch = _KEYS_ALONG.launch(
        by_name("index_type ndim check", index.dtype.ctype, len(shape), check is not None),
        joined(
            by_name("n limit x_step last", n, y.shape[dim], y.strides[dim], y.size),
            by_name("size_{d} x_stride_{d} index_stride_{d}", shape, y_strides, index_strides),
            by_name("keys order index", keys, order, index),
        ),
        **items(target, n),
        flops=0,
        bytes=index.nbytes + keys.nbytes + order.nbytes,
    ).reporting(check)
    runs = sort(target, memory, keys, order, limit=y.size)
    return Sorted(runs.keys, runs.order, [launch, *runs.launches])


def _sorted_rows(
    target: Target,
    memory: Scratch,
    index: Array,
    rows: int,
    *,
    wrap: bool,
    skip: int,
    check: Check | None,
) -> Sorted:
    n = index.size
    keys, order = Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32)
    launches: list[Launch] = []
    if n:
        launches.append(
            _KEYS_OF_ROWS.launch(
                by_name("index_type wrap check", index.dtype.ctype, wrap, check is not None),
                by_name("n limit skip keys order index", n, rows, skip, keys, order, index),
                **items(target, n),
                flops=0,
                bytes=index.nbytes + keys.nbytes + order.nbytes,
            ).reporting(check)
        )
    runs = sort(target, memory, keys, order, limit=rows)
    return Sorted(runs.keys, runs.order, [*launches, *runs.launches])
