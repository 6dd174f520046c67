"""Elements picked by an index along an axis, on CPUs: by lines, whose loop compilers make wide."""

from __future__ import annotations

from math import prod

from ...array import Array
from ...device import Launch, Target
from ...values.record import NamedTuple
from ...values.shapes import Shape, ceil_div
from ..kernel import Kernel, Named, by_name, joined

_RUNS = Kernel("gather_runs", "index/gather_runs.mako")
# Elements that an item copies, and items for each unit.
_SHARE, _ITEMS = 4096, 4


class Lines(NamedTuple):
    """What is picked along lines of an output.

    Attributes:
        shape: of the lines, one axis or more.
        n: elements of a line.
        limit: size of the axis that is indexed.
        x_step: step along it.
        x_along: step in the operand along a line, 0 if that is the axis.
        index_along: step in the index along a line.
        x_steps: steps in the operand from line to line.
        index_steps: steps in the index from line to line.
    """

    shape: Shape
    n: int
    limit: int
    x_step: int
    x_along: int
    index_along: int
    x_steps: Shape
    index_steps: Shape


def lines_along(shape: Shape, limit: int, x_step: int, steps: tuple[Shape, Shape]) -> Lines:
    """The lines of the last of an output's axes, with steps in the operand and in the index."""
    x_steps, index_steps = steps
    ends = x_steps[-1], index_steps[-1]
    rest = (shape[:-1] or (1,), x_steps[:-1] or (0,), index_steps[:-1] or (0,))
    return Lines(rest[0], shape[-1], limit, x_step, *ends, *rest[1:])


def gather_runs(
    target: Target, params: Named, y: Array, x: Array, index: Array, lines: Lines
) -> Launch:
    """``y[line, i] = x[line, index[line, i]]``.

    Args:
        target: whose units have work to share.
        params: the kernel's, but for the number of axes.
        y: dense, not empty.
        x: any strides, not empty.
        index: any strides.
        lines: where all that lies.
    """
    count, each = prod(lines.shape), _ITEMS * target.traits.compute_units
    shared = count > 1 and not any(lines.index_steps) and lines.x_along == 0
    share = max(1, min(_SHARE // lines.n, ceil_div(count, each)))
    part = min(lines.n, max(_SHARE, ceil_div(lines.n, each)))
    if shared:  # places are made for as many lines as leave each unit something
        share, part = ceil_div(count, each), min(lines.n, _SHARE)
    args = joined(
        by_name("lines n share part limit", count, lines.n, share, part, lines.limit),
        by_name("x_step x_along index_along", lines.x_step, lines.x_along, lines.index_along),
        by_name("size_{d}", lines.shape),
        by_name("x_stride_{d} index_stride_{d}", lines.x_steps, lines.index_steps),
        by_name("y x index", y, x, index),
    )
    return _RUNS.launch(
        joined(params, by_name("ndim shared room", len(lines.shape), shared, _SHARE)),
        args,
        global_size=(ceil_div(count, share), ceil_div(lines.n, part)),
        flops=0,
        bytes=2 * y.nbytes + index.nbytes,
    )
