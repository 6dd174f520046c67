"""Fourier transforms of several lines at once, one in each lane of a vector: CPU-shaped.

Of one line at a time a CPU computes scalars, and a cosine and a sine for each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
# Lines of a kernel are at most so long: a little more than stockham.py takes, so that its arrays do
# not begin at equal places of a cache.
_ROOM = 4096 + 8


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
    while lanes >= 2 and n > _room(target, lanes, itemsize):
        lanes //= 2
    return lanes if 2 <= lanes <= 16 and 2 * lines > lanes else None


def _room(target: Target, lanes: int, itemsize: int) -> int:
    """Elements of the longest line for which local memory has room."""
    return min(_ROOM, target.traits.static_local_bytes // (itemsize * (4 * lanes + 2)))


def transform_lanes(
    target: Target,
    y: Array,
    x: Array,
    lanes: int,
    radices: Sequence[int],
    sign: int,
    forms: dict[str, str],
) -> Launch:
    """One launch that transforms all lines.

    Args:
        target: what to choose for.
        y: as :func:`.stockham.transform_lines` has it.
        x: likewise.
        lanes: of :func:`lanes_of`.
        radices: of all passes, in order; their product is a line's size.
        sign: of the exponent.
        forms: the kernel's parameters that say what ``x`` and ``y`` are.
    """
    n, lines, real = prod(radices), y.shape[0], y.dtype.real
    # With radices that no pass has, lines of 105 and 1000 take up to 1.6 times as long.
    listed = tuple(dict.fromkeys(radices))
    room = _room(target, lanes, real.itemsize)
    params = {"ctype": real.ctype, "lanes": lanes, "room": room, "radices": listed, **forms}
    share = round_up(ceil_div(lines, _ITEMS_PER_UNIT * target.traits.compute_units), lanes)
    values = {
        "size": n,
        "back": int(sign > 0),
        "passes_{r}": [radices.count(radix) for radix in listed],
        "lines": lines,
        "share": share,
        "y": y,
        "x": x,
    }
    return _LANES.launch(
        params,
        values,
        global_size=(ceil_div(lines, share),),
        local_size=(1,),
        flops=lines * n * sum(8 * radix for radix in radices),
        bytes=x.nbytes + y.nbytes,
    )
