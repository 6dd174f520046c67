"""What pointwise steps make of a product's result is computed where the product stores it.

A sigmoid behind a linear layer, its gradient behind the product that gives it, and the update of a
weight behind the product that gives the weight's gradient: so the result is not read again, and
where nobody else wants it, as a gradient that is forgotten before the function ends, not stored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ..array import Array
from ..expr import Expr, Input, inputs_of, substitute
from ..kernels.pointwise import MOST_ELEMENTS
from ..ops.matmul import Linear, MatMul
from ..ops.rewritten.finished import Finished, should_finish
from ..values.record import NamedTuple
from .fusion_obstacle import FusionObstacle, UnfusedPair
from .pointwise_step import PointwiseStep, as_pointwise
from .simplify import cells_of
from .trace import Trace
from .tracer import Action, Step

_MOST_OPERANDS = 8
_MOST_NODES = 64
# What reading another array at the end of a product costs more than elsewhere, in instructions.
_READ = 8


def fuse_into_products(trace: Trace) -> Trace:
    """The trace with pointwise steps computed by the products whose results they read.

    A step moves up to its product. What the host does for it, such as counting an optimiser's
    steps, moves up, too, if nothing that it passes reads a number that may change by that.
    """
    steps: list[list[Step | Action]] = [[step] for step in trace.steps]
    actions = [i for i, step in enumerate(trace.steps) if isinstance(step, Action)]
    taken: set[int] = set()
    for at, product in _products(trace):
        found = _first_finish(trace, actions, taken, at, product)
        if found is None:
            continue
        reader, finish = found
        taken.add(reader)
        steps[reader] = []
        moved: list[Step | Action] = []
        if finish.cells:
            for i in actions[bisect_left(actions, at) : bisect_right(actions, reader)]:
                moved += steps[i]
                steps[i] = []
        steps[at] = [*moved, finish.step]
    return trace.with_steps([step for group in steps for step in group])


def unfused_pairs(trace: Trace) -> Iterator[UnfusedPair]:
    """Pointwise steps that are not computed by the product whose result they read, and why."""
    actions = [i for i, step in enumerate(trace.steps) if isinstance(step, Action)]
    for at, product in _products(trace):
        for reader in trace.readers.get(product.outputs[0].storage, ()):
            step = trace.steps[reader]
            if isinstance(step, Step) and as_pointwise(step) is not None:
                found = _finished(trace, actions, at, reader)
                if isinstance(found, FusionObstacle):
                    yield at, reader, found


class _Finish(NamedTuple):
    """A product with the step behind it; ``cells``: it reads what actions may change."""

    step: Step
    cells: bool


def _first_finish(
    trace: Trace, actions: list[int], taken: set[int], at: int, product: Step
) -> tuple[int, _Finish] | None:
    """The first reader of a product's result that the product can compute, and both in one."""
    for reader in trace.readers.get(product.outputs[0].storage, ()):
        found = None if reader in taken else _finished(trace, actions, at, reader)
        if isinstance(found, _Finish):
            return reader, found
    return None


def _products(trace: Trace) -> Iterator[tuple[int, Step]]:
    """Products, with their positions; none on CPUs, whose kernels leave results as they are."""
    if trace.device.target.traits.dedicated_local_memory:
        for position, step in trace.ops:
            if isinstance(step.function, MatMul | Linear):
                yield position, step


def _finished(trace: Trace, actions: list[int], at: int, reader: int) -> _Finish | FusionObstacle:
    """A product at ``at`` with a pointwise step that reads its result, as one step."""
    product, step = trace.steps[at], trace.steps[reader]
    form = as_pointwise(step) if isinstance(step, Step) else None
    if form is None or not isinstance(product, Step):
        return FusionObstacle.CHANGED
    function = product.function
    if not isinstance(function, MatMul | Linear):
        return FusionObstacle.CHANGED
    (x,) = product.outputs
    against = _obstacle(trace, x, form) or _obstacle_to_moving(trace, actions, at, reader, form)
    if against is not None:
        return against
    others = {(a.storage, a.offset) for a in form.reads if a.storage is not x.storage}
    if not should_finish(
        trace.device.target,
        function,
        x,
        product.inputs,
        operands=len(others) + len(form.written),
        light=form.light,
        effort=_effort(form, len(others)),
    ):
        return FusionObstacle.UNSUITED
    kept = trace.outlives(x.storage) or len(trace.readers[x.storage]) > 1
    return _Finish(_joined(product, function, form, kept=kept), form.cells)


def _effort(form: PointwiseStep, reads: int) -> int:
    """Instructions for one element that wait for the product; an update's are worth it anyhow."""
    return 0 if form.changed else form.effort + _READ * reads


def _obstacle(trace: Trace, x: Array, form: PointwiseStep) -> FusionObstacle | None:
    """Why a product's kernel cannot compute a form of its result ``x``."""
    arrays = (*form.reads, *form.written)
    if form.compute is not x.dtype or any(a.dtype is not x.dtype for a in arrays):
        return FusionObstacle.DTYPE
    if any(a.size != x.size or not a.contiguous for a in arrays):
        return FusionObstacle.SHAPE
    if any(a.storage is x.storage and a.offset != x.offset for a in arrays):
        return FusionObstacle.VIEW
    if not trace.is_value(x.storage) or any(not trace.is_value(y.storage) for y in form.made):
        return FusionObstacle.CHANGED
    changed = {a.storage for a in form.changed}
    if len(changed) < len(form.changed) or any(
        a.storage is b.storage and a.offset != b.offset for a in form.changed for b in form.reads
    ):
        return FusionObstacle.OVERLAP
    if form.changed and x.size <= MOST_ELEMENTS:
        return FusionObstacle.MERGED
    return form.obstacle(operands=_MOST_OPERANDS, nodes=_MOST_NODES)


def _obstacle_to_moving(
    trace: Trace, actions: list[int], at: int, reader: int, form: PointwiseStep
) -> FusionObstacle | None:
    """Why a step cannot be done as early as its product."""
    product = trace.steps[at]
    own = product.storages if isinstance(product, Step) else ()
    changed = {a.storage for a in form.changed}
    if changed & set(own):  # the product would read what it overwrites
        return FusionObstacle.ORDER
    if trace.is_disturbed(at, reader, reads=form.reads, changed=form.changed):
        return FusionObstacle.ORDER
    last = max((i for i in actions if at < i < reader), default=-1)
    if form.cells and any(cells_of(step.function) for i, step in trace.ops if at <= i < last):
        return FusionObstacle.ORDER
    return None


def _joined(product: Step, function: MatMul | Linear, form: PointwiseStep, *, kept: bool) -> Step:
    """A product and a form of its result as one step, at the product's place."""
    (x,) = product.outputs
    reads: list[Array] = list(form.changed)
    leaves: dict[Expr, Expr] = {}
    for leaf in inputs_of(*form.exprs):
        array = form.reads[leaf.index]
        if array.storage is x.storage:
            leaves[leaf] = Input(0)
            continue
        place = (array.storage, array.offset)
        same = (i for i, a in enumerate(reads) if (a.storage, a.offset) == place)
        found = next(same, len(reads))
        if found == len(reads):
            reads.append(array)
        leaves[leaf] = Input(1 + found)
    made = (*form.made, x) if kept else form.made
    finished = Finished(
        function,
        form.parts,
        (*(substitute(e, leaves) for e in form.exprs), *([Input(0)] if kept else [])),
        form.scalars,
        tuple(y.shape for y in made),
        x.dtype,
        len(form.changed),
        len(reads),
    )
    return Step(finished, (*reads, *product.inputs), made, product.module_path, product.phase)
