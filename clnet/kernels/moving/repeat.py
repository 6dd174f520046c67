"""Broadcasts along the last axis on CPUs: each element of an array fills a row."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import Shape, Strides, ceil_div, round_up
from ..grid import in_groups, jobs_per_item, lanes_of
from ..kernel import Constraint, Kernel, by_name, joined
from ..streaming import streams

_REPEAT = Kernel(
    "repeat", "moving/repeat.mako", (Constraint("lanes in (2, 4, 8, 16)", "vectors OpenCL has"),)
)


def repeats(target: Target, y: Array, n: int) -> bool:
    """Whether :func:`repeat` takes rows of ``n`` elements of ``y``."""
    if in_groups(target.traits) or y.dtype.itemsize > 8:
        return False
    return y.contiguous and n >= lanes_of(target, y.dtype.itemsize)


def repeat(
    target: Target, y: Array, x: Array, rows: Shape, x_strides: Strides, *, divisor: float = 1
) -> Launch:
    """``y[row, :] = x[row] / divisor``.

    Args:
        target: what to choose vectors for.
        y: dense, not empty; each row of it is one that :func:`repeats` takes.
        x: the elements, of ``y``'s dtype.
        rows: the shape of the rows.
        x_strides: the steps in ``x`` from row to row.
        divisor: 1 moves bits of any type; else the type is float32 or float64.

    Returns:
        The launch.
    """
    lanes, bytes_each = lanes_of(target, y.dtype.itemsize), y.dtype.itemsize
    n = y.size // prod(rows)
    share = round_up(jobs_per_item(target, y.size, y.size), lanes)
    whole = {1: "char", 2: "short", 4: "int", 8: "long"}[bytes_each]
    divided = divisor != 1
    params = joined(
        by_name("ctype whole lanes", y.dtype.moved_as, whole, lanes),
        by_name("divided stream ndim", divided, streams(y, lanes), max(len(rows), 1)),
    )
    return _REPEAT.launch(
        params,
        joined(
            by_name("total n share", y.size, n, share),
            by_name("size_{d} x_stride_{d}", rows or (1,), x_strides or (0,)),
            by_name("y x divisor", y, x, float(divisor) if divided else None),
        ),
        global_size=(ceil_div(y.size, share),),
        flops=0,
        bytes=y.nbytes + y.size // n * bytes_each,
    )
