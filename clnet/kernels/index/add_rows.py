"""Rows added up, put or compared where an index points, by items that own rows: for CPUs.

Each looks at every index, in order. A sort is a dozen launches, each of which reads and writes all
keys; a look at an index takes a nanosecond, and there are few items.
"""

from __future__ import annotations

from ...array import Array
from ...device import Check, Launch, Target
from ...values.shapes import ceil_div
from .. import streaming
from ..grid import in_groups, lanes_of
from ..kernel import Kernel, by_name, joined

_ADD = Kernel("add_rows", "index/add_rows.mako")
_ITEMS_PER_UNIT = 1
_BLOCK = 8  # rows, as in the template
_MOST_ITEMS = 64
_BESIDE = 8
# Rows of so few elements are written sooner than an item finds out that they are not its own, which
# a processor guesses wrong every other time; unless there are many more rows to make 0.
_SHORT, _ROWS = 4, 16


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
    return _rows(target, y, x, index, "add", wrap=wrap, skip=skip, check=check)


def puts_rows(target: Target) -> bool:
    """Whether rows are put so: far out or near, each is written once for each index."""
    return not in_groups(target.traits)


def put_owned_rows(
    target: Target, y: Array, x: Array, index: Array, *, wrap: bool, check: Check | None
) -> Launch:
    """The launch; the arguments are those of :func:`.gather.put_rows`."""
    return _rows(target, y, x, index, "put", wrap=wrap, skip=-1, check=check)


def meet_owned_rows(
    target: Target, y: Array, x: Array, index: Array, how: str, *, check: Check | None
) -> Launch:
    """Rows of ``x`` meet what is there, in order; arguments as :func:`.gather.put_rows`'s.

    Args:
        target: what to choose the kernel for.
        y: ``(outer, rows, inner)``, dense.
        x: ``(outer, n, inner)``, dense.
        index: ``(n,)``.
        how: ``"times"``, ``"most"`` or ``"least"``.
        check: reports what is out of range.
    """
    return _rows(target, y, x, index, how, wrap=False, skip=-1, check=check)


def _rows(
    target: Target,
    y: Array,
    x: Array,
    index: Array,
    how: str,
    *,
    wrap: bool,
    skip: int,
    check: Check | None,
) -> Launch:
    outer, rows, inner = y.shape
    wanted = min(_ITEMS_PER_UNIT * target.traits.compute_units, _MOST_ITEMS)
    items = 1
    short = inner <= _SHORT and (how != "add" or rows <= _ROWS * index.size)
    while not short and items * outer < wanted and items * _BLOCK < rows:
        items *= 2
    # Lines of single elements: what an index says is found out once for some of them.
    beside = _BESIDE if how != "put" and inner == 1 and items == 1 and outer > 1 else 1
    lanes = 1 if y.dtype.is_complex else lanes_of(target, 4)
    return _ADD.launch(
        by_name(
            "how ctype index_type vector beside wrap check",
            how,
            y.dtype.moved_as if how == "put" else y.dtype.ctype,
            *(index.dtype.ctype, lanes, beside, wrap, check is not None),
        ),
        joined(
            by_name("outer n inner limit", outer, index.size, inner, rows),
            by_name("skip y x index", skip, y, x, index),
        ),
        global_size=(items, ceil_div(outer, beside)),
        local_size=(1, 1),
        flops=0 if how == "put" else x.size,
        bytes=y.nbytes + 2 * x.nbytes + items * index.nbytes,
    ).reporting(check)
