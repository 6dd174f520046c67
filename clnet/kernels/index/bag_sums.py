"""Rows of a table summed up bag by bag, on CPUs: the rows are never stored one by one."""

from __future__ import annotations

from ...array import Array
from ...device import Check, Launch, Target
from ...values.dtypes import DType
from ...values.shapes import ceil_div
from ..grid import in_groups, lanes_of
from ..kernel import Kernel, by_name, joined

_SUMS = Kernel("bag_sums", "index/bag_sums.mako")
_ITEMS_PER_UNIT = 16


def sums_bags(target: Target, dtype: DType) -> bool:
    """Whether :func:`bag_sums` is there for tables of a dtype: on CPUs, of 32 bits and more."""
    return not in_groups(target.traits) and dtype.name in ("float32", "float64")


def bag_sums(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    starts: Array | None,
    *,
    each: int = 0,
    skip: int = -1,
    mean: bool = False,
    check: Check | None = None,
) -> list[Launch]:
    """``y[b]``: the sum, or mean, of ``x[index[i]]`` over the ``i`` of bag ``b``.

    Args:
        target: whose units share the bags.
        y: ``(bags, width)``, dense.
        x: ``(rows, width)``, dense, float32 or float64.
        index: ``(n,)``, dense, int32 or int64; one out of range makes its bag NaN.
        starts: ``(bags,)``, int64, dense: where bags begin, ascending; None: each has ``each``.
        each: indices of a bag.
        skip: a row that does not count; -1 for none.
        mean: by how many there are, 0 of none.
        check: reports what is out of range.

    Returns:
        One launch, none for no elements.
    """
    if y.size == 0:
        return []
    bags, width = y.shape
    share = ceil_div(bags, _ITEMS_PER_UNIT * target.traits.compute_units)
    types = by_name("ctype index_type", y.dtype.ctype, index.dtype.ctype)
    how = (lanes_of(target, y.dtype.itemsize), starts is not None, mean, check is not None)
    args = joined(
        by_name("bags share n each", bags, share, index.size, each),
        by_name("width limit skip y x index", width, x.shape[0], skip, y, x, index),
    )
    return [
        _SUMS.launch(
            joined(types, by_name("vector ragged mean check", *how)),
            args if starts is None else joined(args, {"starts": starts}),
            global_size=(ceil_div(bags, share),),
            local_size=(1,),
            flops=index.size * width,
            bytes=(index.size + bags) * width * y.dtype.itemsize + index.nbytes,
        ).reporting(check)
    ]
