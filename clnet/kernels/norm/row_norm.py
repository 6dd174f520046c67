"""Rows by their deviation from the mean (layer norm), or by their root mean square (RMS norm)."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.shapes import ceil_div, round_up
from ..grid import filled, in_groups, jobs_per_item, lanes_of_stored
from ..kernel import Kernel, by_name, joined, nbytes_of
from ..streaming import streams_rows

ROWS = Kernel("row_norm_rows", "norm/row_norm.mako")
GROUP = Kernel("row_norm_group", "norm/row_norm.mako")

# Rows that a kernel computes at once.
AT_ONCE = 4
GROUP_ITEMS = 256
# Elements of a row that an item has in registers: as many as are wanted and at most, with a mean
# and without one, where more were seen to be slower on an H200 than reading the row again.
_OWN = {True: (16, 32), False: (8, 12)}
_LEAST_SHARE = 8


def row_norm(
    target: Target,
    y: Array,
    mean: Array | None,
    invstd: Array,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    *,
    eps: float,
) -> list[Launch]:
    """``y = (x - mean) * invstd * weight + bias`` by mean and deviation of each row.

    Args:
        target: the device's traits.
        y: ``(rows, n)``, dense, of ``x``'s dtype; statistics have that of its arithmetic.
        mean: ``(rows,)``, written; None: nothing is subtracted, as for the root mean square.
        invstd: ``(rows,)``, written: ``1 / sqrt(mean square + eps)`` of what is left.
        x: ``(rows, n)``, dense.
        weight: ``(n,)``, dense, or None; of ``x``'s dtype or that of its arithmetic.
        bias: ``(n,)``, dense, or None; of the weight's dtype, if there is one.
        eps: added to the mean square.

    Raises:
        ArgumentError: if an array is not dense.
    """
    require_dense(y, x, weight, bias)
    if x.size == 0:
        return []
    rows, n = x.shape
    given = next(a for a in (weight, bias, x) if a is not None)
    params = by_name(
        "ctype wtype acc centred weighted biased",
        *(x.dtype.stored, given.dtype.stored, invstd.dtype.ctype),
        *(mean is not None, weight is not None, bias is not None),
    )
    arrays = (y, mean, invstd, x, weight, bias)
    args = by_name("rows n eps y mean invstd x weight bias", rows, n, eps, *arrays)
    cost: dict[str, Any] = {"flops": 8 * x.size, "bytes": nbytes_of(arrays)}
    if in_groups(target.traits):
        share, kept, own = _sharing(target, n, centred=mean is not None)
        group = share * kept
        return [
            GROUP.launch(
                joined(params, by_name("group reduce_items own", group, share, own)),
                args,
                global_size=(ceil_div(rows, kept) * group,),
                local_size=(group,),
                **cost,
            )
        ]
    lanes = filled(lanes_of_stored(target, x.dtype), n)
    per_item = rows_per_item(target, rows, n)
    return [
        ROWS.launch(
            joined(params, by_name("lanes stream", lanes, streams_rows(y, n, lanes))),
            joined(args, by_name("rows_per_item", per_item)),
            global_size=(ceil_div(rows, per_item),),
            **cost,
        )
    ]


def require_dense(*arrays: Array | None) -> None:
    """Check what the kernels rely on.

    Raises:
        ArgumentError: if an array is not dense.
    """
    for array in arrays:
        if array is not None and not array.contiguous:
            raise ArgumentError(
                "row_norm", "arrays are dense", shape=array.shape, strides=array.strides
            )


def rows_per_item(target: Target, rows: int, n: int, most: int | None = None) -> int:
    """Rows one work-item takes where each has its own core.

    Args:
        target: what it runs on.
        rows: how many there are.
        n: their length.
        most: work-items at most, where there is a reason for fewer.
    """
    per_item = jobs_per_item(target, rows, rows * n, most=most)
    return round_up(per_item, AT_ONCE) if per_item > AT_ONCE else per_item


def group_shape(target: Target, n: int) -> tuple[int, int]:
    """Work-items that share a row of ``n``, and how often a group has as many."""
    group = min(GROUP_ITEMS, target.traits.max_group_size)
    share = min(group, 1 << (n - 1).bit_length())
    return share, group // share


def _sharing(target: Target, n: int, *, centred: bool) -> tuple[int, int, int]:
    """Items that share a row, rows of a group, and elements that an item has in registers.

    Rows that are read once, and items that have several loads under way, reach the speed of memory;
    few items a row also meet at fewer barriers.
    """
    most, rows = group_shape(target, n)
    wanted, limit = _OWN[centred]
    share = min(most, max(_LEAST_SHARE, 1 << (ceil_div(n, wanted) - 1).bit_length()))
    own = ceil_div(n, share)
    return (share, most * rows // share, own) if own <= limit else (most, rows, 0)
