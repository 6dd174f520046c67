"""Steps that are pointwise, whatever op they came from, in one form that can be composed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..array import Array
from ..device import HostScalar
from ..expr import (
    Call,
    Const,
    Domain,
    Expr,
    Input,
    Scalar,
    as_stored,
    flops,
    inputs_of,
    scalars_of,
    substitute,
    topological,
)
from ..ops.create import Full, MakeInto
from ..ops.machinery.fused import Fused
from ..ops.machinery.pointwise import Overwrite, Pointwise
from ..ops.shape import CopyInto
from ..values.dtypes import DType, Kind, float32, from_name
from ..values.lazy import lazy
from ..values.shapes import broadcast_strides, collapse
from .fusion_obstacle import FusionObstacle
from .tracer import Step

_DIVISIONS = {"fmod", "remainder", "floor_divide", "trunc_divide"}
# Instructions that a GPU takes for a function, roughly; any other of floating numbers is like erf.
_INSTRUCTIONS = {"exp": 8, "exp2": 8, "log": 8, "div": 8, "sqrt": 8, "rsqrt": 8, "sigmoid": 18}
_FUNCTION = 24
_SHORT = 2  # bytes of float16 and bfloat16


@dataclass(frozen=True)
class PointwiseStep:
    """``changed, made = exprs(reads, scalars)``, elementwise over the shape of what is written.

    Attributes:
        parts: names of the ops.
        exprs: first of ``changed``, then of ``made``.
        scalars: values of ``Scalar(i)``.
        compute: the dtype of the arithmetic; None: any, there are only constants.
        reads: operands, ``Input(i)``; they broadcast.
        changed: arrays that are overwritten.
        made: outputs, dense in some order of their axes.
    """

    parts: tuple[str, ...]
    exprs: tuple[Expr, ...]
    scalars: tuple[float | HostScalar, ...]
    compute: DType | None
    reads: tuple[Array, ...]
    changed: tuple[Array, ...]
    made: tuple[Array, ...]

    @property
    def written(self) -> tuple[Array, ...]:
        """What it writes."""
        return (*self.changed, *self.made)

    @lazy
    def shape(self) -> tuple[int, ...]:
        """The shape of what it writes."""
        return self.written[0].shape

    @property
    def cells(self) -> bool:
        """Whether it reads numbers that actions on the host may change."""
        return any(isinstance(s, HostScalar) for s in self.scalars)

    @property
    def work(self) -> int:
        """Operations for one element."""
        return flops(*self.exprs)

    @property
    def effort(self) -> int:
        """Instructions for one element, roughly."""
        calls = [n.primitive for n in topological(self.exprs) if isinstance(n, Call)]
        dear = {p.name: _FUNCTION for p in calls if p.domain is Domain.FLOATING} | _INSTRUCTIONS
        return sum(dear.get(p.name, p.flops) for p in calls)

    @property
    def light(self) -> bool:
        """Whether there is nothing but arithmetic: no division, no transcendental function."""
        calls = [n.primitive for n in topological(self.exprs) if isinstance(n, Call)]
        return not any(p.domain is Domain.FLOATING or p.name in _DIVISIONS for p in calls)

    @property
    def num_nodes(self) -> int:
        """Length of the expressions."""
        return len(topological(self.exprs))

    def obstacle(self, *, operands: int, nodes: int) -> FusionObstacle | None:
        """Why one launch cannot do it all: it has too many operands, or too much to compute."""
        if len(self.reads) + len(self.written) > operands:
            return FusionObstacle.OPERANDS
        return FusionObstacle.LENGTH if self.num_nodes > nodes else None

    def trimmed(self) -> PointwiseStep:
        """Without operands and scalars that no expression names."""
        reads: list[Array] = []
        leaves = _added(self, self.reads, reads)
        scalars = scalars_of(*self.exprs)
        leaves |= {s: Scalar(k) for k, s in enumerate(scalars)}
        return PointwiseStep(
            self.parts,
            tuple(substitute(e, leaves) for e in self.exprs),
            tuple(self.scalars[s.index] for s in scalars),
            self.compute,
            tuple(reads),
            self.changed,
            self.made,
        )

    def step(self, like: Step) -> Step:
        """The form as one step; module path and phase are ``like``'s."""
        compute = self.compute or from_name(self.written[0].dtype.compute)
        inputs = list(self.changed)
        leaves = _added(self, self.reads, inputs)
        function = Fused(
            self.parts,
            tuple(substitute(e, leaves) for e in self.exprs),
            self.scalars,
            compute,
            self.shape,
            len(self.changed),
            tuple(a.dtype for a in self.made),
        )
        return Step(function, tuple(inputs), self.made, like.module_path, like.phase)


def as_pointwise(step: Step) -> PointwiseStep | None:
    """A pointwise step in common form, None for another."""
    function, inputs, outputs = step.function, step.inputs, step.outputs
    name = (function.name,)
    if any(a.dtype.is_complex for a in (*inputs, *outputs)):
        return None  # its expressions are of parts
    if isinstance(function, Pointwise):
        return PointwiseStep(
            name, function.exprs, function.scalars, function.compute, inputs, (), outputs
        )
    if isinstance(function, Overwrite):
        of = function.function
        return PointwiseStep(name, of.exprs, of.scalars, of.compute, inputs[1:], inputs[:1], ())
    if isinstance(function, Fused):
        changed, compute = inputs[: function.changed], function.compute
        return PointwiseStep(
            function.parts, function.exprs, function.scalars, compute, inputs, changed, outputs
        )
    if isinstance(function, CopyInto) and inputs[0].dtype is inputs[1].dtype:
        compute = from_name(inputs[1].dtype.compute)
        return PointwiseStep(name, (Input(0),), (), compute, inputs[1:], inputs[:1], ())
    if isinstance(function, Full):
        return _constant(name, function, (), outputs)
    if isinstance(function, MakeInto) and isinstance(function.function, Full):
        return _constant(name, function.function, inputs, ())
    return None


def compose(
    producer: PointwiseStep, consumer: PointwiseStep, keep: Sequence[Array]
) -> PointwiseStep | FusionObstacle:
    """The consumer with the producer's outputs computed in place instead of read.

    ``y = exp(x)`` and then ``z = y.T + b`` become ``z = exp(x.T) + b``, which reads ``b, x.T``; if
    ``y`` is wanted, too, ``y, z`` are made at once where they have one shape.

    Args:
        producer: what makes them.
        consumer: what reads them.
        keep: those of the producer's outputs that are still wanted; the new form makes them, too.

    Returns:
        One step, or an obstacle where that would not give the same bits, or the producer writes
        something that is left and the iteration spaces differ.
    """
    compute = producer.compute or consumer.compute
    if compute is None or consumer.compute is not compute:
        return FusionObstacle.DTYPE
    if (keep or producer.changed) and producer.shape != consumer.shape:
        return FusionObstacle.SHAPE
    joined = _Composition(producer, consumer, compute, writes=bool(keep or producer.changed))
    obstacle = joined.take_leaves()
    return obstacle or joined.form(keep)


class _Composition:
    """Two steps on the way to one: the consumer's operands, to which the producer's are added.

    Args:
        producer: what makes some of the consumer's operands.
        consumer: what reads them.
        compute: the dtype of both.
        writes: whether the producer writes something that is left, so that its own operands are
            read as well.
    """

    def __init__(
        self, producer: PointwiseStep, consumer: PointwiseStep, compute: DType, *, writes: bool
    ) -> None:
        self.producer, self.consumer = producer, consumer
        self.compute, self.writes = compute, writes
        self.reads = list(consumer.reads)
        self.made = {y.storage: k for k, y in enumerate(producer.made)}
        self.shifted: dict[Expr, Expr] = {
            s: Scalar(s.index + len(consumer.scalars)) for s in scalars_of(*producer.exprs)
        }
        self.leaves: dict[Expr, Expr] = {}

    def take_leaves(self) -> FusionObstacle | None:
        """Find the producer's expression for each leaf of the consumer's that it makes."""
        for leaf in inputs_of(*self.consumer.exprs):
            if self.consumer.reads[leaf.index].storage in self.made:
                found = self._computed(self.consumer.reads[leaf.index])
                if isinstance(found, FusionObstacle):
                    return found
                self.leaves[leaf] = found
        return None

    def _computed(self, view: Array) -> Expr | FusionObstacle:
        """What is read at a view of one of the producer's outputs, from the producer's operands."""
        producer, place = self.producer, self.made[view.storage]
        whole = producer.made[place]
        value = stored(producer.exprs[len(producer.changed) + place], whole, self.compute)
        operands = seen_through(view, whole, producer.reads)
        if value is None:
            return FusionObstacle.DTYPE
        if self.writes and not same_view(view, whole):
            return FusionObstacle.SHAPE
        if operands is None:
            return FusionObstacle.VIEW
        if isinstance(value, Const) and _raises(self.consumer):
            return FusionObstacle.EXPONENT
        return substitute(value, {**self.shifted, **_added(producer, operands, self.reads)})

    def form(self, keep: Sequence[Array]) -> PointwiseStep:
        """Both as one; ``keep`` are the producer's outputs that are made, too."""
        producer, consumer = self.producer, self.consumer
        exprs = [substitute(e, self.leaves) for e in consumer.exprs]
        read = _added(producer, producer.reads, self.reads) if self.writes else {}
        own = [substitute(e, {**self.shifted, **read}) for e in producer.exprs]
        split, first = len(producer.changed), len(consumer.changed)
        kept = [own[split + self.made[y.storage]] for y in keep]
        return (
            PointwiseStep(
                (*producer.parts, *consumer.parts),
                (*own[:split], *exprs[:first], *kept, *exprs[first:]),
                (*consumer.scalars, *producer.scalars),
                self.compute,
                tuple(self.reads),
                (*producer.changed, *consumer.changed),
                (*keep, *consumer.made),
            )
        ).trimmed()


def stored(expr: Expr, place: Array, compute: DType) -> Expr | None:
    """What is read where an expression was stored in ``place``; None if no expression says it.

    Floats stored in 16 bits are rounded where they stay in registers, too.
    """
    dtype = place.dtype
    if dtype.kind is Kind.BOOL:
        return expr if expr.boolean else None
    if isinstance(expr, Const):
        return expr
    if expr.boolean:
        return None
    if dtype.itemsize == _SHORT and dtype.is_floating_point and compute is float32:
        return as_stored(expr, dtype.name)
    return expr if dtype is compute else None


def seen_through(view: Array, dense: Array, operands: Sequence[Array]) -> list[Array] | None:
    """The operands as they are read where ``view`` looks at what is computed from them.

    Where ``dense`` is ``(2, 3)`` and computed from ``x`` of strides ``(1, 2)``, the view
    ``dense[1, ::2]`` begins at ``(1, 0)`` and runs along axis 1 in steps of 2: so ``x`` is read
    from offset 1 on with stride 4, which is ``x[1, ::2]``.

    Args:
        view: an array over the storage of ``dense``.
        dense: an array that is dense in some order of its axes, computed elementwise from
            ``operands``, which broadcast to it.
        operands: arrays.

    Returns:
        Arrays of the view's shape (or the operands themselves where it is ``dense``); None if no
        strides say that.
    """
    if same_view(view, dense):
        return list(operands)
    if 0 in view.shape or view.dtype is not dense.dtype:
        return None
    steps = [broadcast_strides(x.shape, x.strides, dense.shape) for x in operands]
    order = dense.order
    shape, *steps = (
        tuple(each[axis] for axis in order) for each in (dense.shape, dense.strides, *steps)
    )
    sizes, (outer, *inner) = collapse(shape, steps)
    start = _index_of(view.offset - dense.offset, sizes, outer)
    walks = _walks(view, outer)
    if start is None or walks is None:
        return None
    last = list(start)
    for size, (axis, times) in zip(view.shape, walks, strict=True):
        last[axis] += (size - 1) * times
    if any(at >= size for at, size in zip(last, sizes, strict=True)):
        return None
    return [
        x.view(
            view.shape,
            tuple(times * step[axis] for axis, times in walks),
            x.offset + sum(at * s for at, s in zip(start, step, strict=True)),
        )
        for x, step in zip(operands, inner, strict=True)
    ]


def _index_of(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """The indices of the element at an offset into a dense array; None if it lies outside."""
    found: list[int] = []
    for size, stride in zip(sizes, strides, strict=True):
        at, offset = divmod(offset, stride) if stride else (0, offset)
        if at >= size:
            return None
        found.append(at)
    return None if offset else found


def _walks(view: Array, strides: Sequence[int]) -> list[tuple[int, int]] | None:
    """For each axis of a view, along which axis of these strides it runs, and in which steps.

    None if one runs along none of them.
    """
    found: list[tuple[int, int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1 or stride == 0:
            found.append((0, 0))
            continue
        axis = next((a for a, s in enumerate(strides) if s and stride % s == 0), None)
        if axis is None:
            return None
        found.append((axis, stride // strides[axis]))
    return found


def same_view(a: Array, b: Array) -> bool:
    """Whether two arrays show the same elements in the same order."""
    return _view(a) == _view(b)


def _constant(
    name: tuple[str, ...],
    function: Full,
    changed: tuple[Array, ...],
    outputs: tuple[Array, ...],
) -> PointwiseStep | None:
    value, dtype = function.value, function.dtype
    if isinstance(value, HostScalar):
        return PointwiseStep(
            name, (Scalar(0),), (value,), from_name(dtype.compute), (), changed, outputs
        )
    number = np.array(value, dtype.numpy).item()
    if isinstance(number, bool) or (number in (0, 1, -1) and str(number) != "-0.0"):
        return PointwiseStep(name, (Const(number),), (), None, (), changed, outputs)
    if not dtype.is_floating_point:
        return None
    return PointwiseStep(
        name, (Scalar(0),), (number,), from_name(dtype.compute), (), changed, outputs
    )


def _raises(form: PointwiseStep) -> bool:
    """Whether a constant might become an exponent, which is computed otherwise than a variable."""
    nodes = topological(form.exprs)
    return any(isinstance(n, Call) and n.primitive.name == "pow" for n in nodes)


def _added(form: PointwiseStep, operands: Sequence[Array], reads: list[Array]) -> dict[Expr, Expr]:
    """Where a form's inputs are among ``reads``, which grow by those that are not."""
    places = {_view(a): k for k, a in enumerate(reads)}
    leaves: dict[Expr, Expr] = {}
    for leaf in inputs_of(*form.exprs):
        array = operands[leaf.index]
        at = places.setdefault(_view(array), len(reads))
        if at == len(reads):
            reads.append(array)
        leaves[leaf] = Input(at, leaf.boolean)
    return leaves


def _view(array: Array) -> tuple[object, ...]:
    """What two arrays share that show the same elements in the same order."""
    strides = array.strides
    if 1 in array.shape:
        strides = tuple(s if n != 1 else 0 for n, s in zip(array.shape, strides, strict=True))
    return (array.storage, array.offset, array.shape, strides, array.dtype)
