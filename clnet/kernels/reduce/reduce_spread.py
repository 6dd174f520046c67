"""Variances, or their roots, and the means that they are taken around."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...expr import Expr, Input, Scalar, isinf, sqrt, where
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

    The mean is rounded, which far from 0 is much beside small distances: what it adds to their
    squares, the square of their sum over their number, is subtracted.

    Args:
        target: the device's traits and the scratch memory allowed.
        out: as of :func:`.reduce.reduce`, of ``x``'s dtype, with size 1 in place of ``dims``.
        center: dense, of the same sizes.
        x: any shape and strides, float32 or float64.
        dims: axes of ``x``, as of :func:`.reduce.reduce`.
        divisor: of the sums; None: they are left as they are.
        root: the square root of that.

    Returns:
        One launch where groups have whole outputs; else those of a mean, of the sums of distances
        from it and of their squares, and of what is made of both.
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
    shift = Array.scratch(memory, out.shape, x.dtype)
    # Elsewhere two passes over distances that are kept take less than two that compute them.
    if in_groups(target.traits) or x.size * x.dtype.itemsize > target.workspace_limit:
        for y, kind in ((shift, Pairing.DIFFERENCE), (out, Pairing.SQUARED_DISTANCE)):
            launches += reduce_pairs(target, y, x, around, dims=dims, kind=kind, memory=memory)
    else:
        apart, gap = Array.scratch(memory, x.shape, x.dtype), Input(0) - Input(1)
        launches += pointwise(target, (apart,), (x, around), (gap,), compute=x.dtype)
        for y, kind in ((shift, Reduction.SUM), (out, Reduction.SUM_SQUARES)):
            launches += reduce(target, y, apart, dims=dims, kind=kind, memory=memory)
    scalars = (float(problem.total), 1.0 if divisor is None else divisor)
    made = (_spread(root=root),)
    return launches + pointwise(
        target, (out,), (out, shift), made, scalars=scalars, compute=x.dtype
    )


def _spread(*, root: bool) -> Expr:
    """A result, of the sum of squares and that of distances."""
    squares, shift = Input(0), Input(1)
    left = squares - where(isinf(squares), 0, shift * (shift / Scalar(0)))
    left = where(left < 0, 0, left) / Scalar(1)  # rounded; NaN stays, and infinity
    return sqrt(left) if root else left
