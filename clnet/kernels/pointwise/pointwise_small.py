"""Pointwise expressions over few elements: one kernel for all layouts, so that few are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...expr import Expr, print_c
from ...values.dtypes import DType, bool_
from ...values.shapes import Shape, Strides, round_up
from ..kernel import Kernel, Rendered

# A launch takes longer than so many elements do in any order.
SMALL_ELEMENTS = 512
_GROUP = 256


SMALL = Kernel("pointwise_small", "pointwise/pointwise_small.mako")


def is_small(sizes: Shape, steps: Sequence[Strides]) -> bool:
    """Whether a problem has few elements, along two axes at most, with steps of 16 bits.

    Args:
        sizes: the common axes, collapsed.
        steps: of each operand, along them.
    """
    few = len(sizes) <= 2 and prod(sizes) <= SMALL_ELEMENTS
    return few and all(-(2**15) <= s < 2**15 for step in steps for s in step)


def small_recipe(
    exprs: tuple[Expr, ...],
    compute: DType,
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    *,
    scalars: int,
    max_group: int,
) -> tuple[Rendered, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The kernel, arguments before its scalars and after them, its global and local size.

    Args:
        exprs: an expression for each output.
        compute: the dtype of the arithmetic.
        dtypes: of the operands, outputs first.
        sizes: the common axes, collapsed.
        steps: of each operand along them.
        scalars: run-time scalars.
        max_group: items a group may have.
    """
    outputs = len(exprs)
    printed = print_c(
        exprs,
        compute.ctype,
        inputs=[f"v_{j}" for j in range(len(dtypes) - outputs)],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    stored = [dtype.stored for dtype in dtypes]
    inputs = zip(stored[outputs:], dtypes[outputs:], strict=True)
    params = {
        **printed._asdict(),
        "compute": compute.ctype,
        "outputs": tuple(stored[:outputs]),
        "inputs": tuple((ctype, dtype is bool_) for ctype, dtype in inputs),
        "scalars": scalars,
    }
    halves = [n for step in steps for n in (step[-1], step[0] if len(sizes) == 2 else 0)]
    packed = tuple(_packed(halves[at : at + 4]) for at in range(0, len(halves), 4))
    total, group = prod(sizes), min(_GROUP, max_group)
    last = (sizes[-1], total)
    return SMALL.bind(params), packed, last, (round_up(total, group),), (group,)


def _packed(steps: Sequence[int]) -> int:
    """Up to four numbers of 16 bits in one signed one of 64, the first in the lowest bits."""
    bits = sum((step & 0xFFFF) << (16 * k) for k, step in enumerate(steps))
    return bits - (1 << 64) if bits >> 63 else bits
