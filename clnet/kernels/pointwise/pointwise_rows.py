"""Pointwise expressions over rows of any length and any inner steps, in vectors: CPU-shaped.

Gates beside each other, channels of odd maps, biases of few columns: PoCL makes no vectors of work-
items whose places take a division, so here an item loops over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...device import DeviceTraits
from ...expr import Expr, print_c
from ...values.dtypes import DType, bfloat16, float16, float32
from ...values.shapes import Shape, Strides, ceil_div, last_place, round_up
from ..grid import in_groups
from ..kernel import Constraint, Kernel, Rendered
from ..streaming import STREAM_BYTES

# Elements an item takes: enough to repay its start, few enough for all units to have some.
_LEAST_SHARE, _MOST_SHARE = 256, 4096
_ITEMS_PER_UNIT = 4
_LONG_ROW = 512
_INT_ELEMENTS = 2**31 - 1
_DTYPES = (float32, float16, bfloat16)


ROWS = Kernel(
    "pointwise_rows",
    "pointwise/pointwise_rows.mako",
    (Constraint("lanes in (4, 8, 16)", "vectors OpenCL has"),),
)


def rows_fit(
    traits: DeviceTraits,
    compute: DType,
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    outputs: int,
) -> bool:
    """Whether rows of a problem hold a vector of this device, and each element is written once.

    Args:
        traits: the device's numbers.
        compute: the dtype of the arithmetic.
        dtypes: of the operands.
        sizes: the common axes, collapsed.
        steps: of each operand, along them.
        outputs: how many of the operands, the first ones, are written.
    """
    return (
        not in_groups(traits)
        and traits.simd_width in (4, 8, 16)
        and sizes[-1] >= traits.simd_width
        and compute is float32
        and all(d in _DTYPES for d in dtypes)
        and all(step[-1] for step in steps[:outputs])
        and max(prod(sizes), *(last_place(sizes, step) for step in steps)) < _INT_ELEMENTS
    )


def is_short(traits: DeviceTraits, sizes: Shape, outputs: int) -> bool:
    """Whether rows are so short that an item for each, as of pointwise_vectors, has too little.

    Args:
        traits: the device's numbers.
        sizes: the common axes, collapsed.
        outputs: how many arrays are written; large ones go past the caches, which this does not.
    """
    short = len(sizes) > 1 and traits.simd_width < sizes[-1] < _LONG_ROW
    return short and 4 * outputs * prod(sizes) < STREAM_BYTES


def rows_recipe(
    exprs: tuple[Expr, ...],
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
        dtypes: of the operands, outputs first.
        traits: the device's numbers.
        sizes: the common axes, collapsed.
        steps: of each operand, outputs first, along them.
        scalars: how many run-time scalars there are.
    """
    lanes, n, count = traits.simd_width, sizes[-1], prod(sizes[:-1])
    inner = tuple({1: "unit", 0: "none"}.get(step[-1], "any") for step in steps)
    stored = tuple(dtype.stored for dtype in dtypes)
    operands = (*zip(stored, inner, strict=True),)
    inputs = operands[len(exprs) :]
    printed = print_c(
        exprs,
        f"float{lanes}",
        inputs=[f"v_{j}" for j in range(len(inputs))],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    params = {
        **printed._asdict(),
        "lanes": lanes,
        "outputs": operands[: len(exprs)],
        "inputs": inputs,
        "scalars": scalars,
        "outer": len(sizes) - 1,
        "ragged": n % lanes != 0,
    }
    each = ceil_div(n * count, _ITEMS_PER_UNIT * traits.compute_units)
    each = min(max(each, _LEAST_SHARE), _MOST_SHARE)
    share = round_up(ceil_div(n, ceil_div(n, each)), lanes)
    rows = max(each // n, 1)
    places = tuple(
        (step[-1:] if kind == "any" else ()) + step[:-1]
        for step, kind in zip(steps, inner, strict=True)
    )
    items = (ceil_div(n, share), ceil_div(count, rows))
    return ROWS.bind(params), places, (n, share, count, rows), items
