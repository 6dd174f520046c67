"""The gradient of products of elements where an index points: one walk forward and one back."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape
from ..kernel import Kernel, by_name, joined
from .scatter_rows import walk_of

_SLOPE = Kernel("scatter_product_slope", "index/scatter_product_slope.mako")


def scatter_product_slope(
    target: Target,
    gx: Array,
    before: Array,
    after: Array,
    x: Array,
    index: Array,
    *,
    dim: int,
    blocks: tuple[Shape, Shape, Shape],
) -> Launch:
    """The gradient of ``y[..., index[..., i, j], j] *= x[..., i, j]``; 0 out of range.

    Args:
        target: as for :func:`scatter_rows`.
        gx: that of ``x``; dense.
        before: what ``y`` was; any strides; overwritten.
        after: the gradient of ``y``; lies as ``before``; becomes that of what ``y`` was.
        x: as the index, dense.
        index: dense.
        dim: the axis along which it points.
        blocks: as for :func:`scatter_rows`.
    """
    sizes, places, grid = walk_of(target, before, index, dim, blocks)
    return _SLOPE.launch(
        joined(by_name("ctype", x.dtype.ctype), sizes),
        joined(places, by_name("before after gx x index", before, after, gx, x, index)),
        **grid,
        flops=3 * x.size,
        bytes=10 * x.nbytes + 2 * index.nbytes,
    )
