"""Rows picked by an index on GPUs: neighbouring items move neighbouring vectors of a row."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel, Named, by_name, joined

_WIDE = Kernel(
    "gather_wide",
    "index/gather_wide.mako",
    (Constraint("(group & (group - 1) | width & (width - 1)) == 0", "items have shares of rows"),),
)
_GROUP = 256
_VECTOR_BYTES = 16


def gather_wide(target: Target, params: Named, y: Array, x: Array, index: Array) -> Launch:
    """``y[o, i] = x[o, index[i]]``; rows of ``x`` are dense, with any steps between them.

    Args:
        target: whose limits hold.
        params: the kernel's, but for how rows are laid over groups.
        y: ``(outer, n, inner)``, dense, not empty.
        x: ``(outer, rows, inner)``.
        index: ``(n,)``, dense.
    """
    outer, n, inner = y.shape
    # Complex numbers are vectors of two already.
    lanes = 1 if y.dtype.is_complex else _VECTOR_BYTES // y.dtype.itemsize
    while any(size % lanes for size in (inner, x.offset, y.offset, *x.strides[:2])):
        lanes //= 2
    group = 1 << (min(_GROUP, target.traits.max_group_size).bit_length() - 1)
    vectors = inner // lanes
    width = min(group, 1 << (vectors - 1).bit_length())
    across, rows = ceil_div(vectors, width), group // width
    args = by_name(
        "outer n inner across limit x_outer x_row y x index",
        *(outer, n, inner, across, x.shape[1], *x.strides[:2], y, x, index),
    )
    return _WIDE.launch(
        joined(params, by_name("lanes group width", lanes, group, width)),
        args,
        global_size=(ceil_div(outer * n, rows) * across * group,),
        local_size=(group,),
        flops=0,
        bytes=2 * y.nbytes + index.nbytes,
    )
