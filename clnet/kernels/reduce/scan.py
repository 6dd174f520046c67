"""Running sums and products along one axis of a dense array, by parts of a fixed length."""

from __future__ import annotations

from enum import Enum
from math import prod

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.record import NamedTuple
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups
from ..kernel import Kernel, by_name, joined
from .running import running_dtype
from .scan_lines import scan_parts, total_parts


class Scan(Enum):
    """How the running value takes the next element."""

    SUM = "sum"
    PROD = "prod"


class _Line(NamedTuple):
    """An array, and how to step along its outer axes and along the scanned one."""

    array: Array
    outer: int
    step: int


class _Extent(NamedTuple):
    """Sizes of the axes before the scanned one, of it, and of those after it."""

    outer: int
    n: int
    inner: int


ITEMS = Kernel("scan_items", "reduce/scan.mako")
GROUP = Kernel("scan_group", "reduce/scan.mako")
CARRY = Kernel("scan_carry", "reduce/scan.mako")

# Long enough that the totals are few, short enough that a part's rounding errors stay small; the
# same on all devices and for all batches.
_PART = 1024
_GROUP = 128
_LOCAL = 64
_NEIGHBOURS = 32


def scan(
    target: Target, out: Array, x: Array, *, dim: int, kind: Scan, reverse: bool = False
) -> list[Launch]:
    """``out[i] = x[0] joined with x[1] ... x[i]`` along ``dim``.

    Args:
        target: the device's traits.
        out: dense, ``x``'s shape and dtype.
        x: dense; not of a 16-bit floating type, which could not hold a running value.
        dim: an axis, counted from the front.
        kind: what to do.
        reverse: begin at the end of the axis.

    Returns:
        One launch for a short axis, three or more for a long one.
    """
    if x.size == 0:
        return []
    extent = _Extent(prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :]))
    last = (extent.n - 1) * extent.inner
    step = -extent.inner if reverse else extent.inner
    out_line, x_line = (
        _Line(
            a.view(a.shape, a.strides, a.offset + (last if reverse else 0)),
            extent.n * extent.inner,
            step,
        )
        for a in (out, x)
    )
    return _scan(target, Scratch(x.device), extent, out_line, x_line, kind)


def _scan(
    target: Target, memory: Scratch, extent: _Extent, out: _Line, x: _Line, kind: Scan
) -> list[Launch]:
    """Scan parts, then their totals in the same way, and add these to the parts behind."""
    if not in_groups(target.traits):
        return _from_totals(target, memory, extent, out, x, kind)
    outer, n, inner = extent
    launches = [_parts(target, extent, out, x, kind)]
    parts = ceil_div(n, _PART)
    if parts == 1:
        return launches
    # The totals are the last elements of all parts but the last.
    totals = out.array.view(
        out.array.shape, out.array.strides, out.array.offset + (_PART - 1) * out.step
    )
    before = Array.scratch(memory, (outer, parts - 1, inner), x.array.dtype)
    launches += _scan(
        target,
        memory,
        _Extent(outer, parts - 1, inner),
        _Line(before, (parts - 1) * inner, inner),
        _Line(totals, out.outer, _PART * out.step),
        kind,
    )
    jobs = outer * (n - _PART) * inner
    item = x.array.dtype.itemsize
    launches.append(
        CARRY.launch(
            {"kind": kind.value, "ctype": x.array.dtype.ctype},
            joined(
                by_name("jobs n inner part_size", jobs, n, inner, _PART),
                by_name("out_outer out_step", out.outer, out.step),
                by_name("out before", out.array, before),
            ),
            global_size=(round_up(jobs, _LOCAL),),
            local_size=(_LOCAL,),
            flops=jobs,
            bytes=2 * jobs * item + before.nbytes,
        )
    )
    return launches


def _from_totals(
    target: Target, memory: Scratch, extent: _Extent, out: _Line, x: _Line, kind: Scan
) -> list[Launch]:
    """Scan the parts' totals, then the parts from these on."""
    outer, n, inner = extent
    launches, before, parts = [], None, ceil_div(n, _PART)
    if parts > 1:
        totals, before = (
            Array.scratch(memory, (outer, parts - 1, inner), running_dtype(target, x.array.dtype))
            for _ in range(2)
        )
        steps = (x.outer, x.step)
        launches = [total_parts(target, kind.value, extent, _PART, steps, totals, x.array)]
        into, of = (_Line(a, (parts - 1) * inner, inner) for a in (before, totals))
        short = _Extent(outer, parts - 1, inner)
        launches += _from_totals(target, memory, short, into, of, kind)
    steps = (out.outer, out.step, x.outer, x.step)
    arrays = (out.array, x.array, before)
    return [*launches, scan_parts(target, kind.value, extent, _PART, steps, *arrays)]


def _parts(target: Target, extent: _Extent, out: _Line, x: _Line, kind: Scan) -> Launch:
    """Each part scanned by itself."""
    outer, n, inner = extent
    steps = (out.outer, out.step, x.outer, x.step)
    params = {"kind": kind.value, "ctype": x.array.dtype.ctype}
    parts = ceil_div(n, _PART)
    jobs = outer * parts * inner
    args = by_name(
        "n inner parts part_size out_outer out_step x_outer x_step out x",
        *(n, inner, parts, _PART, *steps, out.array, x.array),
    )
    cost = {"flops": outer * n * inner, "bytes": 2 * outer * n * inner * x.array.dtype.itemsize}
    # Neighbouring items of a GPU read neighbouring elements: along the axis, or beside it.
    if inner < _NEIGHBOURS and n > _NEIGHBOURS:
        group = min(_GROUP, target.traits.max_group_size)
        return GROUP.launch(
            {**params, "group": group},
            args,
            global_size=(jobs * group,),
            local_size=(group,),
            **cost,
        )
    return ITEMS.launch(
        params,
        joined(by_name("jobs", jobs), args),
        global_size=(round_up(jobs, _LOCAL),),
        local_size=(_LOCAL,),
        **cost,
    )
