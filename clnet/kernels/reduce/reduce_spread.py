"""Variances, or their roots, and the means that they are taken around."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...expr import Input, sqrt
from ...values.shapes import broadcast_strides
from ..grid import in_groups
from ..kernel import Kernel
from ..pointwise import pointwise
from .reduce import Problem, Reduction, axes_of, launches_of, parts_of, reduce
from .reduce_pairs import Pairing, reduce_pairs

SPREAD = Kernel("reduce_spread", "reduce/reduce_spread.mako")


def reduce_spread(
    target: Target,
    out: Array,
    center: Array,
    x: Array,
    *,
    dims: tuple[int, ...],
    divisor: float | None,
    root: bool,
) -> list[Launch]:
    """``center = mean of x over dims, out = sum over dims of (x - center)^2``, divided.

    Args:
        target: the device's traits and the scratch memory allowed.
        out: as of :func:`.reduce.reduce`, of ``x``'s dtype, with size 1 in place of ``dims``.
        center: dense, of the same sizes.
        x: any shape and strides, float32 or float64.
        dims: axes of ``x``, as of :func:`.reduce.reduce`.
        divisor: of the sums; None: they are left as they are.
        root: the square root of that.

    Returns:
        One launch where groups have whole outputs; else those of a mean, of distances from it, and
        of a root.
    """
    around = center.view(x.shape, broadcast_strides(center.shape, center.strides, x.shape))
    axes = axes_of(out, x, around, dims)
    problem = Problem(out, x, x.dtype, "sum", "plain", divisor is not None, *axes, divisor)
    if problem.outs == 0:
        return []
    if in_groups(target.traits) and parts_of(target, problem) == 1:
        pair = (SPREAD, "root" if root else "plain", around)
        return launches_of(target, problem._replace(pair=pair), None)
    memory = Scratch(x.device)
    launches = reduce(target, center, x, dims=dims, kind=Reduction.MEAN, memory=memory)
    apart = Pairing.SQUARED_DISTANCE
    launches += reduce_pairs(
        target, out, x, around, dims=dims, kind=apart, divisor=divisor, memory=memory
    )
    if root:
        launches += pointwise(target, (out,), (out,), (sqrt(Input(0)),), compute=x.dtype)
    return launches
