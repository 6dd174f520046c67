"""Fourier transforms of several lines at once, one in each lane of a vector: CPU-shaped.

Of one line at a time a CPU computes scalars, and a cosine and a sine for each product.
"""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Target
from ...values.shapes import ceil_div, round_up
from ..grid import in_groups
from ..kernel import Constraint, Kernel

_LANES = Kernel(
    "stockham_lanes",
    "fourier/stockham_lanes.mako",
    (Constraint("lanes in (2, 4, 8, 16)", "vectors OpenCL has"),),
)
_ITEMS_PER_UNIT = 2  # each makes a table of factors


def lanes_of(target: Target, lines: int, n: int, itemsize: int) -> int | None:
    """How many lines are taken at once; None: they are taken one by one.

    Args:
        target: what to choose for.
        lines: how many there are.
        n: elements of a line.
        itemsize: bytes of a real number.
    """
    traits = target.traits
    if in_groups(traits):
        return None
    lanes = traits.simd_width * 4 // itemsize
    while lanes >= 2 and n * itemsize * (4 * lanes + 2) > traits.static_local_bytes:
        lanes //= 2
    return lanes if 2 <= lanes <= 16 and 2 * lines > lanes else None


def transform_lanes(target: Target, y: Array, x: Array, params: dict[str, Any]) -> Launch:
    """One launch that transforms all lines; arrays and parameters are the kernel's."""
    n, lanes, lines = params["n"], params["lanes"], y.shape[0]
    share = round_up(ceil_div(lines, _ITEMS_PER_UNIT * target.traits.compute_units), lanes)
    values = {"size": n, "lines": lines, "share": share, "y": y, "x": x}
    return _LANES.launch(
        params,
        values,
        global_size=(ceil_div(lines, share),),
        local_size=(1,),
        flops=lines * n * sum(8 * radix for radix in params["radices"]),
        bytes=x.nbytes + y.nbytes,
    )
