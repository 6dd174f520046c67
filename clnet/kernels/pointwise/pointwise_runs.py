"""Pointwise expressions in runs of four elements an item: GPU-shaped."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...device import DeviceTraits
from ...expr import Expr, print_c
from ...values.dtypes import DType, bfloat16, float16, float32
from ...values.shapes import Shape, Strides, ceil_div, last_place, round_up
from ..grid import in_groups
from ..kernel import Kernel, Rendered

_RUN = 4
_GROUP = 256
# With fewer elements for each unit, items of one element are done sooner: more work at once.
ELEMENTS_PER_UNIT = 512
_INT_ELEMENTS = 2**31 - 1
_PLANE = 2  # axes
_ROWS = 4
_MOST_HELD = 3  # operands of which an item keeps so many rows in registers
_MANY_ELEMENTS = 2**21
_DTYPES = (float32, float16, bfloat16)


RUNS = Kernel("pointwise_runs", "pointwise/pointwise_runs.mako")


def runs_fit(
    traits: DeviceTraits,
    compute: DType,
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    outputs: int,
) -> bool:
    """Whether a problem, whose operands begin at multiples of four, is one of many aligned runs.

    Args:
        traits: the device's numbers.
        compute: the dtype of the arithmetic.
        dtypes: of the operands.
        sizes: the common axes, collapsed.
        steps: of each operand, along them.
        outputs: how many of the operands, the first ones, are written.
    """
    moving = [step for step in steps if step[-1]]
    span = max(last_place(sizes, step) for step in steps)
    return (
        in_groups(traits)
        and compute is float32
        and all(dtype in _DTYPES for dtype in dtypes)
        and sizes[-1] % _RUN == 0
        and all(step[-1] == 1 for step in moving)
        and all(outer % _RUN == 0 for step in moving for outer in step[:-1])
        and all(step[-1] for step in steps[:outputs])
        and ELEMENTS_PER_UNIT * traits.compute_units <= prod(sizes)
        and max(span, prod(sizes)) < _INT_ELEMENTS
    )


def runs_recipe(
    exprs: tuple[Expr, ...],
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    *,
    scalars: int,
    max_group: int,
) -> tuple[Rendered, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The kernel, its last arguments, and its global and local size.

    Args:
        exprs: an expression for each output.
        dtypes: of the operands, outputs first.
        sizes: the common axes, collapsed.
        steps: of each operand, outputs first.
        scalars: run-time scalars.
        max_group: items a group may have.
    """
    given = steps[len(exprs) :]
    stays = tuple(len(sizes) == _PLANE and step[0] == 0 for step in given)
    rows = _rows(sizes, given, stays)
    printed = print_c(
        exprs,
        float32.ctype,
        inputs=[f"v_{j}" for j in range(len(given))],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    params = {
        **printed._asdict(),
        "outputs": tuple(dtype.stored for dtype in dtypes[: len(exprs)]),
        "inputs": tuple(
            (dtype.stored, step[-1] == 1)
            for dtype, step in zip(dtypes[len(exprs) :], given, strict=True)
        ),
        "scalars": scalars,
        "outer": len(sizes) - 1,
        "rows": rows,
        "stays": stays,
    }
    items, inner, group = prod(sizes) // _RUN, sizes[-1], min(_GROUP, max_group)
    if rows > 1:
        items = ceil_div(sizes[0], rows) * (inner // _RUN)
    return RUNS.bind(params), (inner, items), (round_up(items, group),), (group,)


def _rows(sizes: Shape, given: Sequence[Strides], stays: Sequence[bool]) -> int:
    """Rows that an item takes: several where values for each column would be read again and again.

    A normalisation of rows of channels reads three to five of these beside each element.
    """
    columns = sum(stay and step[-1] == 1 for stay, step in zip(stays, given, strict=True))
    if not columns or prod(sizes) < _MANY_ELEMENTS:
        return 1
    return _ROWS if len(given) - columns <= _MOST_HELD else 1
