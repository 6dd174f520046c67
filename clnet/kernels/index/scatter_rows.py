"""Elements put, added up or compared where an index points, for CPUs, by rows.

Lines that lie side by side, as columns do, are walked through together: by one line after another
each cache line is read as often as it has elements, each time from farther away than caches hold.
"""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Check, Launch, Target
from ...values.shapes import Shape, ceil_div
from ..grid import flat_type, in_groups
from ..kernel import Kernel, Named, by_name, joined

_ROWS = Kernel("scatter_rows", "index/scatter_rows.mako")
_LEAST_ROW = 8
_CACHE_LINE = 64


def walks_rows(target: Target, shape: Shape, y_strides: Shape, index_strides: Shape) -> bool:
    """Whether lines of that shape, and such steps from line to line, are taken so."""
    beside = y_strides[-1] == index_strides[-1] == 1
    return not in_groups(target.traits) and beside and shape[-1] >= _LEAST_ROW


def scatter_rows(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    how: str,
    check: Check | None,
    blocks: tuple[Shape, Shape, Shape],
) -> Launch:
    """``y[..., index[..., i, j], j] = x[..., i, j]``, ``+=``, ``*=``, or the most or least of both.

    Args:
        target: whose units share the columns.
        y: any strides.
        x: as the index, dense.
        index: dense.
        dim: the axis along which it points.
        how: ``"put"``, ``"add"``, ``"times"``, ``"most"`` or ``"least"``.
        check: reports what is out of range.
        blocks: the other axes, collapsed: their shape, steps in ``y``, steps in the index.
    """
    sizes, places, grid = walk_of(target, y, index, dim, blocks)
    types = by_name("ctype", y.dtype.moved_as if how == "put" else y.dtype.ctype)
    return _ROWS.launch(
        joined(types, sizes, by_name("how check", how, check is not None)),
        joined(places, by_name("y x index", y, x, index)),
        **grid,
        flops=x.size,
        bytes=3 * x.nbytes + index.nbytes,
    ).reporting(check)


def walk_of(
    target: Target, y: Array, index: Array, dim: int, blocks: tuple[Shape, Shape, Shape]
) -> tuple[Named, Named, dict[str, Shape]]:
    """Where rows lie, as parameters and arguments, and sizes; for scatter_product_slope, too."""
    shape, y_strides, index_strides = blocks
    inner, outer = shape[-1], shape[:-1] or (1,)
    count = prod(outer)
    parts = ceil_div(target.traits.compute_units, count)
    least = max(_CACHE_LINE // y.dtype.itemsize, 1)  # two units write in one in turns slowly
    share = ceil_div(ceil_div(inner, parts), least) * least
    reach = sum((n - 1) * step for n, step in zip(y.shape, y.strides, strict=True))
    flat = flat_type(max(index.size, reach))
    params = by_name("index_type ndim flat", index.dtype.ctype, len(outer), flat)
    args = joined(
        by_name("n inner share", index.shape[dim], inner, share),
        by_name("limit y_step", y.shape[dim], y.strides[dim]),
        by_name("index_step", index.strides[dim]),
        by_name("size_{d}", outer),
        by_name("y_stride_{d}", y_strides[:-1] or (0,)),
        by_name("index_stride_{d}", index_strides[:-1] or (0,)),
    )
    return params, args, {"global_size": (ceil_div(inner, share), count), "local_size": (1, 1)}
