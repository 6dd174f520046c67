"""Gradients of :mod:`.row_norm`: of input, weight and bias in one pass over the rows."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import from_name
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import filled, in_groups, lanes_of_stored
from ..kernel import Kernel, by_name, joined, nbytes_of
from ..reduce import Reduction, reduce
from ..streaming import streams_rows
from .row_norm import AT_ONCE, require_dense, rows_per_item
from .row_norm_grad_group import GROUP, Share, join

ROWS = Kernel("row_norm_grad_rows", "norm/row_norm_grad.mako")

# Each has sums of its own, which have to be joined.
_ITEMS_PER_UNIT = 4
_GROUPS_PER_UNIT = 2


def row_norm_grad(
    target: Target,
    gx: Array,
    sums: tuple[Array, ...],
    gy: Array,
    x: Array,
    mean: Array | None,
    invstd: Array,
    weight: Array | None,
) -> list[Launch]:
    """Gradients of :func:`.row_norm.row_norm`: to ``gx`` and, unless there are none, ``sums``.

    ``sums`` are ``(n,)`` each: the gradients of weight and, if there is a mean, bias. ``gx`` and
    ``gy`` are ``(rows, n)``, dense; the rest is as the normalisation had or wrote it.

    Returns:
        The launches: all rows, and the joining of sums over parts of them.

    Raises:
        ArgumentError: if an array is not dense.
    """
    require_dense(gx, gy, x, weight)
    rows, n = x.shape
    memory = Scratch(x.device)
    cut = _Cut.of(target, x, len(sums))
    partial = [Array.scratch(memory, (cut.sums, cut.step), a.dtype) for a in sums]
    arrays = (gx, gy, x, mean, invstd, weight, *partial)
    types = (x.dtype.stored, (x if weight is None else weight).dtype.stored, invstd.dtype.ctype)
    params = by_name(
        "ctype wtype acc centred weighted summed",
        *types,
        *(mean is not None, weight is not None, bool(sums)),
    )
    if in_groups(target.traits):
        share = Share.of(target, n)
        kernel, own, group = GROUP, share.params(), share.group
        items = cut.sums * group
    else:
        lanes = _lanes(target, x)
        kernel, own = ROWS, by_name("lanes stream", lanes, streams_rows(gx, n, lanes))
        items, group = cut.sums, 1
    launches: list[Launch] = []
    if x.size:
        launch = kernel.launch(
            joined(params, own),
            joined(
                by_name("rows n part_step", rows, n, cut.step),
                by_name("rows_per_part" if kernel is GROUP else "rows_per_item", cut.rows),
                by_name("gx gy x mean invstd weight", *arrays[:6]),
                dict(zip(("gweight", "gbias"), partial, strict=False)),
            ),
            global_size=(items,),
            local_size=(group,),
            flops=16 * x.size,
            bytes=nbytes_of(arrays),
        )
        launches.append(launch)
    if kernel is GROUP and len(sums) == 2 and x.size:
        return [*launches, join(target, (sums[0], sums[1]), partial, n)]
    for out, each in zip(sums, partial, strict=True):
        rows_of_sums = each.view((cut.sums, n), (cut.step, 1))
        launches += reduce(target, out, rows_of_sums, dims=(0,), kind=Reduction.SUM, memory=memory)
    return launches


def _lanes(target: Target, x: Array) -> int:
    return filled(lanes_of_stored(target, x.dtype), x.shape[1])


class _Cut(NamedTuple):
    """Rows in parts, and sums of them: ``step`` elements each, in whole vectors."""

    rows: int
    sums: int
    step: int

    @staticmethod
    def of(target: Target, x: Array, sums: int) -> _Cut:
        rows, n = x.shape
        traits, grouped = target.traits, in_groups(target.traits)
        share = Share.of(target, n).parts if grouped else 1
        step = n if grouped else round_up(n, _lanes(target, x))
        most = traits.compute_units * (_GROUPS_PER_UNIT if grouped else _ITEMS_PER_UNIT)
        acc_bytes = from_name(x.dtype.compute).itemsize
        room = target.workspace_limit // max(1, sums * step * acc_bytes)
        most = share * max(1, min(most, room))
        if grouped:
            part = round_up(ceil_div(rows, most), AT_ONCE)
        else:
            part = rows_per_item(target, rows, n, most)
        return _Cut(part, ceil_div(rows, part * share) if rows else 0, step)
