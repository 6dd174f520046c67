"""Sums of what is made of two arrays: products, differences, their squares or exponentials."""

from __future__ import annotations

from enum import Enum

from ...array import Array
from ...device import Launch, Scratch, Target
from ...expr import Expr, Input, exp
from ..grid import in_groups
from ..kernel import Kernel
from ..pointwise import pointwise
from .reduce import Problem, axes_of, launches_of

PAIRS = Kernel("reduce_pairs", "reduce/reduce_pairs.mako")


class Pairing(Enum):
    """What is summed of two elements: as the template names it."""

    PRODUCT = "product"
    DIFFERENCE = "apart"
    SQUARED_DISTANCE = "gap"
    DECAY = "decay"

    @property
    def expression(self) -> Expr:
        """It as an expression."""
        x, y = Input(0), Input(1)
        if self is Pairing.DECAY:
            return exp(x - y)
        if self is Pairing.DIFFERENCE:
            return x - y
        return x * y if self is Pairing.PRODUCT else (x - y) * (x - y)


def reduce_pairs(
    target: Target,
    out: Array,
    x: Array,
    y: Array,
    *,
    dims: tuple[int, ...],
    kind: Pairing,
    divisor: float | None = None,
    memory: Scratch | None = None,
) -> list[Launch]:
    """``out = sum over dims of what kind makes of x and y``, over ``divisor`` if it is given.

    Args:
        target: the device's traits and the scratch memory allowed.
        out: as of :func:`.reduce.reduce`, of ``x``'s dtype.
        x: any shape and strides, float32 or float64.
        y: the same shape (a stride of 0 repeats it) and dtype.
        dims: axes of ``x``, as of :func:`.reduce.reduce`.
        kind: products, differences, or their squares or exponentials.
        divisor: of the sums.
        memory: the scratch memory of the op that this is a part of, if it has any.

    Returns:
        One launch or two; where work-items have vectors, another before them.

    Raises:
        ArgumentError: if the sizes of ``out`` are not those that ``x`` keeps.
    """
    mean, paired = divisor is not None, in_groups(target.traits)
    scratch, before = memory or Scratch(x.device), []
    if not paired:
        made = Array.scratch(scratch, x.shape, x.dtype)
        before = pointwise(target, (made,), (x, y), (kind.expression,), compute=x.dtype)
        x = y = made
    axes = axes_of(out, x, y, dims)
    problem = Problem(out, x, x.dtype, "sum", "plain", mean, *axes, divisor)
    if paired:
        problem = problem._replace(pair=(PAIRS, kind.value, y))
    return [*before, *launches_of(target, problem, scratch)]
