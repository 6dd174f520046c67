"""Launches of pointwise expressions over broadcast, strided arrays. It knows no op by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ...array import Array
from ...device import DeviceTraits, HostScalar, Launch, Scratch, Target
from ...expr import Expr, as_number, check_domains, flops, print_c
from ...values.dtypes import DType, bool_
from ...values.record import NamedTuple
from ...values.shapes import Shape, Strides, broadcast_strides, collapse, round_up
from ..grid import in_groups
from ..kernel import Kernel, Rendered
from ..moving import copy, turned_axis
from ..streaming import aligned
from .pointwise_lines import lines_fit, lines_recipe
from .pointwise_rows import is_short, rows_fit, rows_recipe
from .pointwise_runs import runs_fit, runs_recipe
from .pointwise_small import is_small, small_recipe
from .pointwise_vectors import in_vectors, truths_fit, vectors_fit, vectors_recipe

_INT_ELEMENTS = 2**31 - 1
_FLAT_GROUP = 1024
_GPU_GROUP = 256
# Rows of fewer elements are no work for a group, which then takes several; it is another kernel for
# each length, so of few elements nobody asks for it.
_SHORT_ROW = 16
_MANY_ELEMENTS = 2**14


class _Recipe(NamedTuple):
    """All of a launch that depends on shapes, strides and dtypes, and not on which arrays they are.

    Attributes:
        kernel: the rendered kernel.
        steps: for each operand, the arguments that follow its offset.
        sizes: the arguments after those: the outer axes' sizes, or steps.
        last: the arguments after all others: elements along the inner axis.
    """

    kernel: Rendered
    steps: tuple[tuple[int, ...], ...]
    sizes: Shape
    last: tuple[int, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    flops: int
    bytes: int


POINTWISE = Kernel("pointwise", "pointwise/pointwise.mako")


def pointwise(
    target: Target,
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    exprs: tuple[Expr, ...],
    *,
    scalars: Sequence[float | HostScalar] = (),
    compute: DType,
) -> list[Launch]:
    """One launch that writes ``outputs[j] = exprs[j](inputs, scalars)`` in a single pass.

    An output may be an input: each element is read before it is written.

    Args:
        target: the device's numbers.
        outputs: arrays of one shape.
        inputs: arrays that broadcast to that shape; ``Input(i)`` of the expressions.
        exprs: an expression for each output.
        scalars: ``Scalar(i)`` of the expressions, read at the enqueue.
        compute: the dtype of the arithmetic.

    Returns:
        One launch, or none if the outputs are empty.

    Raises:
        DtypeError: if an expression is not defined in the dtype of the arithmetic.
    """
    if 0 in outputs[0].shape:
        check_domains(exprs, compute.ctype)
        return []
    before, inputs = _laid_along(target, outputs, inputs)
    operands = (*outputs, *inputs)
    offsets = 0
    for array in operands:
        offsets |= array.offset
    recipe = _recipe(
        exprs,
        compute,
        len(outputs),
        len(scalars),
        tuple([(a.dtype, a.shape, a.strides) for a in operands]),
        target.traits,
        offsets == 0 or aligned(outputs),
        offsets % 4 == 0,
    )
    args: list[Any] = []
    for array, steps in zip(operands, recipe.steps, strict=True):
        args += (array.storage, array.offset, *steps)
    args += (*recipe.sizes, *scalars, *recipe.last)
    launch = Launch(
        recipe.kernel,
        recipe.global_size,
        recipe.local_size,
        tuple(args),
        flops=recipe.flops,
        bytes=recipe.bytes,
    )
    return [*before, launch]


def _laid_along(
    target: Target, outputs: Sequence[Array], inputs: Sequence[Array]
) -> tuple[list[Launch], Sequence[Array]]:
    """Copies of large inputs that lie across the outputs, on CPUs, and all inputs.

    Gathered one by one each element is a line of the caches; a copy turns squares in registers.
    """
    across = [x for x in inputs if x.size >= _MANY_ELEMENTS and not x.contiguous]
    if not across or in_groups(target.traits) or not outputs[0].contiguous:
        return [], inputs
    if sum(x.nbytes for x in across) > target.workspace_limit:
        return [], inputs
    shape, launches, laid = outputs[0].shape, list[Launch](), list(inputs)
    memory = Scratch.beside(*(array.storage for array in (*outputs, *inputs)))
    for at, x in enumerate(inputs):
        steps = [outputs[0].strides, broadcast_strides(x.shape, x.strides, shape)]
        if any(x is each for each in across) and turned_axis(*_flattened(shape, steps)) is not None:
            laid[at] = Array.scratch(memory, x.shape, x.dtype)
            launches += copy(target, laid[at], x)
    return launches, laid


def _flattened(shape: Shape, steps: Sequence[Strides]) -> tuple[Shape, Strides, Strides]:
    sizes, (y, x) = collapse(shape, steps)
    return sizes, y, x


@lru_cache(maxsize=8192)
def _recipe(
    exprs: tuple[Expr, ...],
    compute: DType,
    num_outputs: int,
    num_scalars: int,
    operands: tuple[tuple[DType, Shape, Strides], ...],
    traits: DeviceTraits,
    whole_vectors: bool,  # noqa: FBT001 - lru_cache's keys
    in_fours: bool,  # noqa: FBT001
) -> _Recipe:
    shape = operands[0][1]
    strides = [broadcast_strides(own, steps, shape) for _, own, steps in operands]
    sizes, steps = collapse(shape, strides)
    dtypes = [dtype for dtype, _, _ in operands]
    exprs = tuple([x if d is bool_ else as_number(x) for x, d in zip(exprs, dtypes, strict=False)])
    moved = sum(prod(own) * dtype.itemsize for dtype, own, _ in operands)
    cost = (prod(shape) * flops(*exprs), moved)
    runs, along = in_vectors(traits.simd_width, sizes, steps)
    if is_short(traits, sizes, num_outputs) and rows_fit(
        traits, compute, dtypes, sizes, steps, num_outputs
    ):
        return _in_rows(exprs, dtypes, traits, sizes, steps, scalars=num_scalars, cost=cost)
    fits = vectors_fit(traits, compute, dtypes, runs, along, num_outputs)
    if fits and truths_fit(exprs, compute, dtypes):
        kernel, last, global_size = vectors_recipe(
            exprs, dtypes, runs, along, scalars=num_scalars, aligned=whole_vectors
        )
        steps = tuple((step[-2], *step[:-2]) for step in along)
        return _Recipe(kernel, steps, runs[:-2], last, global_size, (1, 1), *cost)
    if in_fours and runs_fit(traits, compute, dtypes, sizes, steps, num_outputs):
        kernel, last, global_size, local_size = runs_recipe(
            exprs, dtypes, sizes, steps, scalars=num_scalars, max_group=traits.max_group_size
        )
        steps = tuple(step[:-1] for step in steps)
        kernel.launched_in(local_size)
        return _Recipe(kernel, steps, sizes[:-1], last, global_size, local_size, *cost)
    if is_small(sizes, steps):
        kernel, packed, last, global_size, local_size = small_recipe(
            exprs,
            compute,
            dtypes,
            sizes,
            steps,
            scalars=num_scalars,
            max_group=traits.max_group_size,
        )
        # No group is told: a call for each of so few elements takes less than a launch, and a CPU's
        # compiler a third of the time (a session of tests has thousands of these kernels).
        return _Recipe(kernel, ((),) * len(dtypes), packed, last, global_size, local_size, *cost)
    if rows_fit(traits, compute, dtypes, sizes, steps, num_outputs):
        return _in_rows(exprs, dtypes, traits, sizes, steps, scalars=num_scalars, cost=cost)
    if lines_fit(traits, sizes, steps, num_outputs):
        kernel, places, last, items = lines_recipe(
            exprs, compute, dtypes, traits, sizes, steps, scalars=num_scalars
        )
        return _Recipe(kernel, places, sizes[:-1], last, items, (1, 1), *cost)
    return _in_one_layout(
        exprs, compute, dtypes, sizes, steps, traits, scalars=num_scalars, cost=cost
    )


def _in_rows(
    exprs: tuple[Expr, ...],
    dtypes: Sequence[DType],
    traits: DeviceTraits,
    sizes: Shape,
    steps: Sequence[Strides],
    *,
    scalars: int,
    cost: tuple[int, int],
) -> _Recipe:
    """Vectors along rows of any length."""
    kernel, places, last, items = rows_recipe(exprs, dtypes, traits, sizes, steps, scalars=scalars)
    return _Recipe(kernel, places, sizes[:-1], last, items, (1, 1), *cost)


def _in_one_layout(
    exprs: tuple[Expr, ...],
    compute: DType,
    dtypes: Sequence[DType],
    sizes: Shape,
    steps: Sequence[Strides],
    traits: DeviceTraits,
    *,
    scalars: int,
    cost: tuple[int, int],
) -> _Recipe:
    """An element for each work-item, by a kernel that knows which operands are dense."""
    span = max(sum((n - 1) * s for n, s in zip(sizes, step, strict=True)) for step in steps)
    inner = tuple({1: "unit", 0: "none"}.get(step[-1], "any") for step in steps)
    axes = [*sizes]
    short = len(axes) > 1 and axes[-1] < _SHORT_ROW and prod(axes) >= _MANY_ELEMENTS
    few = axes[-1] if short and span < _INT_ELEMENTS and not in_groups(traits) else 0
    kinds = inner
    if few:
        kinds = [
            "flat" if s[-2:] == (few, 1) else kind for s, kind in zip(steps, inner, strict=True)
        ]
    params = _params(
        exprs,
        compute,
        dtypes,
        kinds,
        num_outputs=len(exprs),
        num_scalars=scalars,
        outer=len(sizes) - 1,
        index="int" if span < _INT_ELEMENTS else "long",
        few=few,
    )
    taken = (*axes[:-2], axes[-2] * axes[-1]) if few else sizes
    global_size, local_size = _groups(taken, traits.max_group_size, gpu_shaped=in_groups(traits))
    kernel = POINTWISE.bind(params)
    kernel.launched_in(local_size)
    return _Recipe(
        kernel,
        tuple(
            (step[-1:] if kind == "any" else ()) + step[:-1]
            for step, kind in zip(steps, inner, strict=True)
        ),
        sizes[:-1],
        sizes[-1:],
        global_size,
        local_size,
        *cost,
    )


def _groups(
    sizes: Shape, max_group: int, *, gpu_shaped: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Global and local size."""
    n, outer = sizes[-1], prod(sizes[:-1])
    if len(sizes) == 1:
        group = min(max_group, _GPU_GROUP if gpu_shaped else _FLAT_GROUP)
        return (round_up(n, group),), (group,)
    # Three fixed group shapes, since PoCL compiles a kernel again for each.
    most = min(max_group, _GPU_GROUP)
    wide = max(most if n >= 128 else most // 8 if n >= 16 else most // 32, 1)
    local = (wide, most // wide)
    return (round_up(n, local[0]), round_up(outer, local[1])), local


def _params(
    exprs: tuple[Expr, ...],
    compute: DType,
    dtypes: Sequence[DType],
    inner: Sequence[str],
    *,
    num_outputs: int,
    num_scalars: int,
    outer: int,
    index: str,
    few: int,
) -> dict[str, Any]:
    printed = print_c(
        exprs,
        compute.ctype,
        inputs=[f"v_{j}" for j in range(len(dtypes) - num_outputs)],
        scalars=[f"s_{j}" for j in range(num_scalars)],
    )
    operands = [(d.stored, step, d is bool_) for d, step in zip(dtypes, inner, strict=True)]
    return {
        **printed._asdict(),
        "compute": compute.ctype,
        "outputs": tuple((ctype, step) for ctype, step, _ in operands[:num_outputs]),
        "inputs": tuple(operands[num_outputs:]),
        "scalars": num_scalars,
        "outer": outer,
        "index": index,
        "few": few,
    }
