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
from ...values.shapes import Shape, Strides, broadcast_strides, collapse, last_place, round_up
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
    outputs, inputs = _in_order(outputs, inputs)
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


def _in_order(
    outputs: Sequence[Array], inputs: Sequence[Array]
) -> tuple[Sequence[Array], Sequence[Array]]:
    """All arrays with their axes as those of the first output lie in memory, so that rows do."""
    first = outputs[0]
    if first.contiguous:
        return outputs, inputs
    order = first.order
    if order == tuple(range(first.ndim)):
        return outputs, inputs

    def turned(x: Array) -> Array:
        lead = (0,) * (first.ndim - x.ndim)
        shape, strides = (1,) * len(lead) + x.shape, lead + x.strides
        return x.view(tuple([shape[a] for a in order]), tuple([strides[a] for a in order]))

    return [turned(y) for y in outputs], [turned(x) for x in inputs]


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
    """The first kernel that suits: vectors or loops on CPUs, runs of four on GPUs, any layout.

    Args:
        exprs: an expression for each output.
        compute: the dtype of the arithmetic.
        num_outputs: how many of the operands are written, the first ones.
        num_scalars: run-time scalars.
        operands: dtype, shape and strides of each.
        traits: the device's numbers.
        whole_vectors: whether outputs begin at lines of the caches, or at their buffers'.
        in_fours: whether all operands begin at multiples of four elements.
    """
    p = _problem(exprs, compute, num_scalars, operands, traits)
    fitting = (traits, compute, p.dtypes, p.sizes, p.steps, num_outputs)
    rows_suit = rows_fit(*fitting)
    if rows_suit and is_short(traits, p.sizes, num_outputs):
        return _in_rows(p)
    runs, along = in_vectors(traits.simd_width, p.sizes, p.steps)
    vectors_suit = vectors_fit(traits, compute, p.dtypes, runs, along, num_outputs)
    if vectors_suit and truths_fit(p.exprs, compute, p.dtypes):
        return _in_vectors(p, runs, along, aligned=whole_vectors)
    if in_fours and runs_fit(*fitting):
        return _in_runs(p)
    if is_small(p.sizes, p.steps):
        return _of_few(p)
    if rows_suit:
        return _in_rows(p)
    if lines_fit(traits, p.sizes, p.steps, num_outputs):
        return _in_lines(p)
    return _in_one_layout(p)


class _Problem(NamedTuple):
    """What a recipe is made for.

    Attributes:
        exprs: an expression for each output, of numbers where no truth values are stored.
        compute: the dtype of the arithmetic.
        dtypes: of the operands, outputs first.
        sizes: the common axes, collapsed.
        steps: of each operand along them.
        scalars: how many run-time scalars there are.
        traits: the device's numbers.
        cost: operations and bytes.
    """

    exprs: tuple[Expr, ...]
    compute: DType
    dtypes: list[DType]
    sizes: Shape
    steps: tuple[Strides, ...]
    scalars: int
    traits: DeviceTraits
    cost: tuple[int, int]


def _problem(
    exprs: tuple[Expr, ...],
    compute: DType,
    scalars: int,
    operands: tuple[tuple[DType, Shape, Strides], ...],
    traits: DeviceTraits,
) -> _Problem:
    shape = operands[0][1]
    strides = [broadcast_strides(own, steps, shape) for _, own, steps in operands]
    sizes, steps = collapse(shape, strides)
    dtypes = [dtype for dtype, _, _ in operands]
    exprs = tuple([x if d is bool_ else as_number(x) for x, d in zip(exprs, dtypes, strict=False)])
    cost = (
        prod(shape) * flops(*exprs),
        sum(prod(own) * dtype.itemsize for dtype, own, _ in operands),
    )
    return _Problem(exprs, compute, dtypes, sizes, steps, scalars, traits, cost)


def _in_rows(p: _Problem) -> _Recipe:
    """Vectors along rows of any length."""
    kernel, places, last, items = rows_recipe(
        p.exprs, p.dtypes, p.traits, p.sizes, p.steps, scalars=p.scalars
    )
    return _Recipe(kernel, places, p.sizes[:-1], last, items, (1, 1), *p.cost)


def _in_lines(p: _Problem) -> _Recipe:
    """Loops along rows of any dtypes and steps."""
    kernel, places, last, items = lines_recipe(
        p.exprs, p.compute, p.dtypes, p.traits, p.sizes, p.steps, scalars=p.scalars
    )
    return _Recipe(kernel, places, p.sizes[:-1], last, items, (1, 1), *p.cost)


def _in_vectors(p: _Problem, runs: Shape, along: Sequence[Strides], *, aligned: bool) -> _Recipe:
    """Whole vectors of long rows, and of blocked arrays; sizes and steps are in vectors."""
    kernel, last, global_size = vectors_recipe(
        p.exprs, p.dtypes, runs, along, scalars=p.scalars, aligned=aligned
    )
    steps = tuple((step[-2], *step[:-2]) for step in along)
    return _Recipe(kernel, steps, runs[:-2], last, global_size, (1, 1), *p.cost)


def _in_runs(p: _Problem) -> _Recipe:
    """Four elements for each work-item of a GPU."""
    kernel, last, global_size, local_size = runs_recipe(
        p.exprs,
        p.dtypes,
        p.sizes,
        p.steps,
        scalars=p.scalars,
        max_group=p.traits.max_group_size,
    )
    kernel.launched_in(local_size)
    steps = tuple(step[:-1] for step in p.steps)
    return _Recipe(kernel, steps, p.sizes[:-1], last, global_size, local_size, *p.cost)


def _of_few(p: _Problem) -> _Recipe:
    """Few elements, by one kernel for all layouts."""
    kernel, packed, last, global_size, local_size = small_recipe(
        p.exprs,
        p.compute,
        p.dtypes,
        p.sizes,
        p.steps,
        scalars=p.scalars,
        max_group=p.traits.max_group_size,
    )
    # No group is told: a call for each of so few elements takes less than a launch, and a CPU's
    # compiler a third of the time (a session of tests has thousands of these kernels).
    return _Recipe(kernel, ((),) * len(p.dtypes), packed, last, global_size, local_size, *p.cost)


def _in_one_layout(p: _Problem) -> _Recipe:
    """An element for each work-item, by a kernel that knows which operands are dense."""
    sizes, steps = p.sizes, p.steps
    span = max(last_place(sizes, step) for step in steps)
    inner = tuple({1: "unit", 0: "none"}.get(step[-1], "any") for step in steps)
    axes = [*sizes]
    short = len(axes) > 1 and axes[-1] < _SHORT_ROW and prod(axes) >= _MANY_ELEMENTS
    few = axes[-1] if short and span < _INT_ELEMENTS and not in_groups(p.traits) else 0
    kinds = inner
    if few:
        kinds = [
            "flat" if s[-2:] == (few, 1) else kind for s, kind in zip(steps, inner, strict=True)
        ]
    params = _params(
        p.exprs,
        p.compute,
        p.dtypes,
        kinds,
        num_outputs=len(p.exprs),
        num_scalars=p.scalars,
        outer=len(sizes) - 1,
        index="int" if span < _INT_ELEMENTS else "long",
        few=few,
    )
    taken = (*axes[:-2], axes[-2] * axes[-1]) if few else sizes
    global_size, local_size = _groups(
        taken, p.traits.max_group_size, gpu_shaped=in_groups(p.traits)
    )
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
        *p.cost,
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
