"""Rows added up where an index points, by items that own rows and look at every index: for CPUs.

A sort is a dozen launches, each of which reads and writes all keys; a look at an index takes a
nanosecond, and there are few items.
"""

from __future__ import annotations

from ...array import Array
from ...device import Check, Launch, Target
from .. import streaming
from ..grid import in_groups, lanes_of
from ..kernel import Kernel, by_name

_ADD = Kernel("add_rows", "index/add_rows.mako")
_ITEMS_PER_UNIT = 1
_BLOCK = 8  # rows, as in the template
_MOST_ITEMS = 64


def adds_rows(target: Target, y: Array, x: Array) -> bool:
    """Whether rows are added up so. What is beyond the caches is better read and stored once."""
    moved = y.nbytes + 2 * x.nbytes
    return not in_groups(target.traits) and moved < streaming.STREAM_BYTES


def add_rows(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    *,
    wrap: bool,
    skip: int,
    check: Check | None,
) -> Launch:
    """The launch; the arguments are those of :func:`.gather.gather_rows_gradient`."""
    outer, rows, inner = y.shape
    wanted = min(_ITEMS_PER_UNIT * target.traits.compute_units, _MOST_ITEMS)
    items = 1
    while items * outer < wanted and items * _BLOCK < rows:
        items *= 2
    return _ADD.launch(
        by_name(
            "ctype index_type vector wrap check",
            *(y.dtype.ctype, index.dtype.ctype, lanes_of(target, 4), wrap, check is not None),
        ),
        by_name("n inner limit skip y x index", index.size, inner, rows, skip, y, x, index),
        global_size=(items, outer),
        local_size=(1, 1),
        flops=x.size,
        bytes=y.nbytes + 2 * x.nbytes + items * index.nbytes,
    ).reporting(check)
