"""Elements picked by an index along an axis, on CPUs: by lines, whose loop compilers make wide."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape, ceil_div
from ..kernel import Kernel, Named, by_name, joined

_RUNS = Kernel("gather_runs", "index/gather_runs.mako")
# Elements that an item copies, and items for each unit.
_SHARE, _ITEMS = 4096, 4


def gather_runs(
    target: Target,
    params: Named,
    y: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    shape: Shape,
    steps: tuple[Shape, Shape],
) -> Launch:
    """``y[..., i, ...] = x[..., index[..., i, ...], ...]`` with the index at ``dim``.

    Args:
        target: whose units have work to share.
        params: the kernel's, but for the number of axes.
        y: dense, not empty.
        x: any strides, not empty.
        index: any strides, the shape of ``y``.
        dim: the axis.
        shape: that of ``y``, with as few axes as lie evenly.
        steps: those of ``x`` (0 along the axis) and of ``index`` along these.
    """
    *outer, n = shape
    lines, each = prod(outer), _ITEMS * target.traits.compute_units
    share = max(1, min(_SHARE // n, ceil_div(lines, each)))
    part = min(n, max(_SHARE, ceil_div(n, each)))
    x_steps, index_steps = steps
    args = joined(
        by_name("lines n share part limit", lines, n, share, part, x.shape[dim]),
        by_name("x_step x_along index_along", x.strides[dim], x_steps[-1], index_steps[-1]),
        by_name("size_{d}", tuple(outer) or (1,)),
        by_name("x_stride_{d} index_stride_{d}", x_steps[:-1] or (0,), index_steps[:-1] or (0,)),
        by_name("y x index", y, x, index),
    )
    return _RUNS.launch(
        joined(params, {"ndim": max(len(outer), 1)}),
        args,
        global_size=(ceil_div(lines, share), ceil_div(n, part)),
        flops=0,
        bytes=2 * y.nbytes + index.nbytes,
    )
