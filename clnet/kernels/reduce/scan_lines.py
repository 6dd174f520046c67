"""Parts of running sums and products on CPUs: several lines, or vectors of neighbours, at once."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import lanes_of
from ..kernel import Kernel, by_name, joined
from ..streaming import streams_rows

__all__ = ["carry_lines", "scan_parts"]

# Sums of so many lines are under way at once: one takes four cycles.
_LINES = 4
# Neighbours of an item, whose row before stays in the first-level cache.
_CHUNK = 512


_SCAN_LINES = Kernel("scan_lines", "reduce/scan_lines.mako")
_NEIGHBOURS = Kernel("scan_neighbours", "reduce/scan_lines.mako")
_CARRY = Kernel("scan_carry_lines", "reduce/scan_lines.mako")


def scan_parts(
    target: Target,
    kind: str,
    extent: tuple[int, int, int],
    part_size: int,
    steps: tuple[int, ...],
    out: Array,
    x: Array,
) -> Launch:
    """Each part scanned by itself.

    Args:
        target: the device's traits.
        kind: ``"sum"`` or ``"prod"``.
        extent: outer axes, the axis, neighbours beside it.
        part_size: elements of a part.
        steps: of ``out`` along the outer axes and the axis, then of ``x``.
        out: at its first element.
        x: at its first element.
    """
    outer, n, inner = extent
    parts, ctype = ceil_div(n, part_size), out.dtype.ctype
    lanes = lanes_of(target, out.dtype.itemsize)
    cost: dict[str, Any] = {
        "flops": outer * n * inner,
        "bytes": 2 * outer * n * inner * out.dtype.itemsize,
    }
    names = "n inner part_size out_outer out_step x_outer x_step out x"
    args = by_name(names, n, inner, part_size, *steps, out, x)
    if inner >= lanes:
        units = target.traits.compute_units
        fair = ceil_div(inner, ceil_div(units, outer * parts))
        chunk = max(lanes, min(_CHUNK, fair) // lanes * lanes)
        return _NEIGHBOURS.launch(
            by_name("kind ctype lanes", kind, ctype, lanes),
            joined(by_name("chunk", chunk), args),
            global_size=(ceil_div(inner, chunk), parts, outer),
            **cost,
        )
    _, out_step, _, x_step = steps
    past_caches = (
        inner == 1
        and part_size % lanes == 0
        and (out_step, x_step) in ((1, 1), (-1, -1))
        and streams_rows(
            out.view(out.shape, out.strides, out.offset + min(0, out_step) * (n - 1)), n, lanes
        )
    )
    streamed = (lanes if past_caches else 0, past_caches and out_step < 0)
    return _SCAN_LINES.launch(
        by_name("kind ctype lines lanes reverse", kind, ctype, _LINES, *streamed),
        joined(by_name("outers parts", outer, parts), args),
        global_size=(ceil_div(outer * parts * inner, _LINES),),
        **cost,
    )


def carry_lines(
    target: Target,
    kind: str,
    extent: tuple[int, int, int],
    part_size: int,
    steps: tuple[int, ...],
    out: Array,
    before: Array,
) -> Launch:
    """The scan of the parts' totals joined to the parts that follow.

    ``before`` is ``(outer, parts - 1, inner)``, dense; the rest is :func:`scan_parts`', but that
    ``steps`` are those of ``out`` alone.
    """
    outer, n, inner = extent
    parts, item = ceil_div(n, part_size), out.dtype.itemsize
    return _CARRY.launch(
        by_name("kind ctype lanes", kind, out.dtype.ctype, lanes_of(target, item)),
        by_name(
            "n inner parts part_size out_outer out_step out before",
            *(n, inner, parts, part_size, *steps, out, before),
        ),
        global_size=(parts - 1, outer),
        flops=outer * (n - part_size) * inner,
        bytes=2 * outer * (n - part_size) * inner * item + before.nbytes,
    )
