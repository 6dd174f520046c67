"""Parts of running sums and products on CPUs: several lines, or vectors of neighbours, at once."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div
from ..grid import lanes_of
from ..kernel import Kernel, by_name, joined
from ..streaming import streams_rows
from .running import running_dtype

__all__ = ["scan_parts", "total_parts"]

# Sums of so many lines are under way at once: one takes four cycles.
_LINES = 4
# Neighbours of an item, whose running values stay in the first-level cache.
_CHUNK = 512

_TEMPLATE = "reduce/scan_lines.mako"
_SCAN_LINES = Kernel("scan_lines", _TEMPLATE)
_NEIGHBOURS = Kernel("scan_neighbours", _TEMPLATE)
_TOTAL_LINES = Kernel("total_lines", _TEMPLATE)
_TOTAL_NEIGHBOURS = Kernel("total_neighbours", _TEMPLATE)


def scan_parts(
    target: Target,
    kind: str,
    extent: tuple[int, int, int],
    part_size: int,
    steps: tuple[int, ...],
    out: Array,
    x: Array,
    before: Array | None,
) -> Launch:
    """Each part scanned, from what comes before it on.

    Args:
        target: the device's traits.
        kind: ``"sum"`` or ``"prod"``.
        extent: outer axes, the axis, neighbours beside it.
        part_size: elements of a part.
        steps: of ``out`` along the outer axes and the axis, then of ``x``.
        out: at its first element.
        x: at its first element.
        before: dense ``(outer, parts - 1, inner)``, what comes before all parts but the first.
    """
    outer, n, inner = extent
    parts, ctype = ceil_div(n, part_size), out.dtype.ctype
    total = running_dtype(target, out.dtype)
    lanes = lanes_of(target, total.itemsize)
    cost: dict[str, Any] = {
        "flops": outer * n * inner,
        "bytes": 2 * outer * n * inner * out.dtype.itemsize,
    }
    names = "n inner parts part_size out_outer out_step x_outer x_step out x"
    args = by_name(names, n, inner, parts, part_size, *steps, out, x)
    if before is not None:
        args = joined(args, by_name("before", before))
    params = by_name("kind ctype total carried", kind, ctype, total.ctype, before is not None)
    if inner >= lanes:
        chunk = _chunk(target, inner, outer * parts, lanes)
        return _NEIGHBOURS.launch(
            joined(params, by_name("lanes most", lanes, _CHUNK)),
            joined(by_name("chunk", chunk), args),
            global_size=(ceil_div(inner, chunk), parts, outer),
            **cost,
        )
    _, out_step, _, x_step = steps
    lanes = lanes_of(target, out.dtype.itemsize)
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
        joined(params, by_name("lines lanes reverse", _LINES, *streamed)),
        joined(by_name("outers", outer), args),
        global_size=(ceil_div(outer * parts * inner, _LINES),),
        **cost,
    )


def total_parts(
    target: Target,
    kind: str,
    extent: tuple[int, int, int],
    part_size: int,
    steps: tuple[int, int],
    totals: Array,
    x: Array,
) -> Launch:
    """The sum or product of each part but the last.

    ``totals`` is ``(outer, parts - 1, inner)``, dense, of the running values' dtype; ``steps`` are
    those of ``x`` alone, and the rest is :func:`scan_parts`'.
    """
    outer, n, inner = extent
    parts, jobs = ceil_div(n, part_size), totals.size
    lanes = lanes_of(target, totals.dtype.itemsize)
    cost: dict[str, Any] = {
        "flops": jobs * part_size,
        "bytes": jobs * part_size * x.dtype.itemsize + totals.nbytes,
    }
    args = by_name(
        "inner parts part_size x_outer x_step totals x",
        *(inner, parts, part_size, *steps, totals, x),
    )
    params = by_name("kind ctype total", kind, x.dtype.ctype, totals.dtype.ctype)
    if inner >= lanes:
        chunk = _chunk(target, inner, outer * (parts - 1), lanes)
        return _TOTAL_NEIGHBOURS.launch(
            joined(params, by_name("lanes most", lanes, _CHUNK)),
            joined(by_name("chunk", chunk), args),
            global_size=(ceil_div(inner, chunk), parts - 1, outer),
            **cost,
        )
    dense = inner == 1 and steps[1] in (1, -1)
    return _TOTAL_LINES.launch(
        joined(params, by_name("lines lanes", _LINES, lanes if dense else 1)),
        joined(by_name("jobs", jobs), args),
        global_size=(ceil_div(jobs, _LINES),),
        **cost,
    )


def _chunk(target: Target, inner: int, beside: int, lanes: int) -> int:
    """Neighbours of an item, so that each core has some."""
    fair = ceil_div(inner, ceil_div(target.traits.compute_units, beside))
    return max(lanes, min(_CHUNK, fair) // lanes * lanes)
