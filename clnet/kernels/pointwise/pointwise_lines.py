"""Pointwise expressions over rows of any type, an item for a piece of some rows: CPU-shaped.

What has no vectors of its own (whole numbers, doubles, conversions) is left to the compiler, which
makes vectors of a loop. Of the items of a group it makes them as well, but each has to ask whether
it is past the end: loads and stores under a mask, which some processors do one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...device import DeviceTraits
from ...expr import Expr, print_c
from ...values.dtypes import DType, bool_
from ...values.shapes import Shape, Strides, ceil_div, last_place
from ..grid import in_groups
from ..kernel import Kernel, Rendered

# Elements an item takes: enough to repay its start, few enough for all units to have some.
_LEAST_SHARE, _MOST_SHARE = 1024, 8192
_ITEMS_PER_UNIT = 4
# Shorter rows are no work for a loop.
_LEAST_ROW = 16
_INT_ELEMENTS = 2**31 - 1

LINES = Kernel("pointwise_lines", "pointwise/pointwise_lines.mako")


def lines_fit(traits: DeviceTraits, sizes: Shape, steps: Sequence[Strides], outputs: int) -> bool:
    """Whether rows of a problem repay a loop, and each element is written once.

    Args:
        traits: the device's numbers.
        sizes: the common axes, collapsed.
        steps: of each operand, along them.
        outputs: how many of the operands, the first ones, are written.
    """
    return (
        not in_groups(traits)
        and sizes[-1] >= _LEAST_ROW
        and all(step[-1] for step in steps[:outputs])
        and max(prod(sizes), *(last_place(sizes, step) for step in steps)) < _INT_ELEMENTS
    )


def lines_recipe(
    exprs: tuple[Expr, ...],
    compute: DType,
    dtypes: Sequence[DType],
    traits: DeviceTraits,
    sizes: Shape,
    steps: Sequence[Strides],
    *,
    scalars: int,
) -> tuple[Rendered, tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, int]]:
    """The kernel, each operand's steps, its last arguments, and how many items there are.

    Args:
        exprs: an expression for each output.
        compute: what they are computed in.
        dtypes: of the operands, outputs first.
        traits: the device's numbers.
        sizes: the common axes, collapsed.
        steps: of each operand, outputs first, along them.
        scalars: how many run-time scalars there are.
    """
    n, count, outputs = sizes[-1], prod(sizes[:-1]), len(exprs)
    inner = tuple({1: "unit", 0: "none"}.get(step[-1], "any") for step in steps)
    operands = [(d.stored, step, d is bool_) for d, step in zip(dtypes, inner, strict=True)]
    printed = print_c(
        exprs,
        compute.ctype,
        inputs=[f"v_{j}" for j in range(len(dtypes) - outputs)],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    params = {
        **printed._asdict(),
        "compute": compute.ctype,
        "outputs": tuple((ctype, step) for ctype, step, _ in operands[:outputs]),
        "inputs": tuple(operands[outputs:]),
        "scalars": scalars,
        "outer": len(sizes) - 1,
    }
    each = ceil_div(n * count, _ITEMS_PER_UNIT * traits.compute_units)
    each = min(max(each, _LEAST_SHARE), _MOST_SHARE)
    share = ceil_div(n, ceil_div(n, each))
    rows = max(each // n, 1)
    places = tuple(
        (step[-1:] if kind == "any" else ()) + step[:-1]
        for step, kind in zip(steps, inner, strict=True)
    )
    items = (ceil_div(n, share), ceil_div(count, rows))
    return LINES.bind(params), places, (n, share, count, rows), items
