"""Attention that is written out, as two products around a softmax, becomes the op's kernels.

A program's own attention stores the scores, often several times: scaled, masked, normalised, with
weights dropped; and so do the gradients. The kernels store none of them, and drop the same weights.
"""

from __future__ import annotations

import itertools
from math import isclose
from typing import Any, cast

from ..array import Array
from ..device import Target
from ..expr import Const, Expr, Input, Scalar, logical_not, where
from ..kernels.grid import in_groups
from ..kernels.reduce import Reduction
from ..kernels.softmax import Scores, drops_weights, in_runs, read_views
from ..ops.attention import Attention, AttentionBackward, AttentionDelta
from ..ops.machinery.function import Function
from ..ops.machinery.pointwise import Pointwise
from ..ops.matmul import MatMul, rounds_to_tf32
from ..ops.random import Dropout
from ..ops.reduce import Reduce
from ..ops.shape import Copy
from ..ops.softmax import Softmax, SoftmaxBackward
from ..values.dtypes import bool_, float32
from ..values.record import NamedTuple
from ..values.shapes import broadcast_strides, contiguous_strides
from .trace import Trace
from .tracer import Action, Step

# Scores that a mask overwrites are told from others by their value.
_LEAST_FILL = -1e3
# CPUs' kernels copy rows and keep them in vectors, which takes many keys to pay, of long rows more.
_LEAST_KEYS, _KEYS_OF_AN_ELEMENT = 128, 2
_LEAST_HEAD, _MOST_HEAD = 16, 128
# Of longer rows GPUs multiply stored scores faster, unless there are neither gradients nor a mask,
# which tiles read byte by byte; to drop weights of all of them costs more than that.
_SHORT_HEAD = 32

_X, _NUMBER = Input(0), Scalar(0)
_TIMES = (_X * _NUMBER, _NUMBER * _X)
_OVER = _X / _NUMBER
_NOT = logical_not(Input(0, boolean=True))


def fuse_attention(trace: Trace) -> Trace:
    """The trace with such parts as one step forward and one backward."""
    if rounds_to_tf32():  # matrix units multiply the scores, and there are none with masks
        return trace
    left: set[int] = set()
    found: dict[int, list[Step]] = {}
    for position, step in trace.ops:
        if type(step.function) is not Softmax or step.function.log:
            continue
        forward = _forward(trace, position, step)
        if forward is None:
            continue
        made = _Made(trace, forward)
        if forward.others:
            backward = _backward(trace, forward)
            if backward is None:
                continue
            left.update(backward.steps)
            found.setdefault(min(backward.steps), []).extend(made.backward(backward))
        left.update(forward.steps)
        found.setdefault(forward.at, []).extend(made.forward())
    if not found:
        return trace
    steps: list[Step | Action] = []
    for position, step in enumerate(trace.steps):
        steps += found.get(position, ())
        if position not in left:
            steps.append(step)
    return trace.with_steps(steps)


class _Mask(NamedTuple):
    """What overwrites scores.

    Attributes:
        array: a boolean for each.
        fill: the score where it says so.
        on: what a boolean is there.
        read: the position of the step that reads it.
    """

    array: Array
    fill: float
    on: bool
    read: int


class _Forward(NamedTuple):
    """A part of a trace that attends.

    Attributes:
        at: the position of its last step.
        steps: positions of its steps.
        others: of further steps that read the weights.
        q, k, v, y: operands and result, ``(..., rows, size)``.
        scale: of the products.
        mask: or None.
        drop: the step that drops weights, or None.
        weights: what the softmax makes.
        dropped: what is left of them.
    """

    at: int
    steps: list[int]
    others: set[int]
    q: Array
    k: Array
    v: Array
    y: Array
    scale: float
    mask: _Mask | None
    drop: Dropout | None
    weights: Array
    dropped: Array


class _Backward(NamedTuple):
    """The steps of its gradients.

    Attributes:
        steps: their positions.
        gy: the result's gradient.
        gq, gk_turned, gv: what they make; of the keys ``(..., head, keys)``.
    """

    steps: list[int]
    gy: Array
    gq: Array
    gk_turned: Array
    gv: Array


def _forward(trace: Trace, position: int, step: Step) -> _Forward | None:
    """The attention whose weights a softmax makes; None where a step is missing or disturbed."""
    (x,), (weights,) = step.inputs, step.outputs
    function = cast("Softmax", step.function)
    if function.dim != x.ndim - 1 or not 2 <= x.ndim <= 4 or 0 in x.shape:
        return None
    scores = _scores(trace, x, position)
    if scores is None or not _stays(trace, weights):
        return None
    steps, product, scale, mask = scores
    drop, dropped = None, weights
    readers = _readers(trace, weights)
    if readers and type(_op(trace, readers[0]).function) is Dropout:
        dropping = _op(trace, readers[0])
        drop, dropped = cast("Dropout", dropping.function), dropping.outputs[0]
        if not _same(dropping.inputs[0], weights) or not _stays(trace, dropped):
            return None
        steps.append(readers[0])
    readers += [] if drop is None else _readers(trace, dropped)
    products = [i for i in readers if _is_product(_op(trace, i))]
    if not products or not _same(_op(trace, products[0]).inputs[0], dropped):
        return None
    at = products[0]
    (v, y), (q, turned) = _ends(_op(trace, at)), product.inputs
    if trace.is_disturbed(min(steps), at, reads=(q, turned)) or not trace.is_value(y.storage):
        return None
    if mask is not None and trace.is_disturbed(mask.read, at, reads=(mask.array,)):
        return None
    steps += [position, at]
    others = {*readers} - {*steps}
    plain, dropped_some = not others and mask is None, drop is not None
    if not _suits(trace.device.target, q, v, plain=plain, dropped=dropped_some):
        return None
    return _Forward(
        at, steps, others, q, _turned(turned), v, y, scale, mask, drop, weights, dropped
    )


def _ends(step: Step) -> tuple[Array, Array]:
    """A product's second operand, and its result."""
    return step.inputs[1], step.outputs[0]


def _scores(
    trace: Trace, x: Array, reader: int
) -> tuple[list[int], Step, float, _Mask | None] | None:
    """From a softmax back to the product: positions, the product, its scale, and the mask."""
    steps: list[int] = []
    scale, mask = 1.0, None
    while True:
        at = trace.producer(x.storage)
        if at is None or not _stays(trace, x) or _readers(trace, x) != [reader]:
            return None
        step = _op(trace, at)
        steps.append(at)
        if not _same(step.outputs[0], x):
            return None
        if _is_product(step):
            return steps, step, scale, mask
        factor = _factor(step)
        if factor is not None:
            scale *= factor
            x = step.inputs[0]
        else:
            if mask is not None:
                return None
            found = _mask(trace, step, at)
            if found is None:
                return None
            mask, x = found
            mask = mask._replace(fill=mask.fill * scale)
            if not mask.fill <= _LEAST_FILL:
                return None
        if x.shape != step.outputs[0].shape:
            return None
        reader = at


def _factor(step: Step) -> float | None:
    """By what a step multiplies its only operand, if that is all it does."""
    function = step.function
    if type(function) is not Pointwise or len(step.inputs) != 1 or len(function.exprs) != 1:
        return None
    if len(function.scalars) != 1 or not isinstance(function.scalars[0], int | float):
        return None
    expr, number = function.exprs[0], float(function.scalars[0])
    if expr in _TIMES:
        return number
    return 1 / number if expr == _OVER and number else None


def _mask(trace: Trace, step: Step, at: int) -> tuple[_Mask, Array] | None:
    """The mask that a step applies, and the scores before."""
    function = step.function
    if type(function) is not Pointwise or len(step.inputs) != 2 or len(function.exprs) != 1:
        return None
    chosen = _chosen(function.exprs[0], function)
    if chosen is None or not _is_score(trace, step.inputs[chosen[1]], step.outputs[0]):
        return None
    condition, own, on, fill = chosen
    return _Mask(step.inputs[condition], fill, on, at), step.inputs[own]


def _chosen(expr: Expr, function: Pointwise) -> tuple[int, int, bool, float] | None:
    """Of a choice between elements and a number: their operands, when it is taken, which it is."""
    for condition, number, on in itertools.product((0, 1), (Scalar(0), Const(0)), (True, False)):
        mask, own = Input(condition, boolean=True), 1 - condition
        pair = (number, Input(own)) if on else (Input(own), number)
        if expr == where(mask, *pair):
            value = function.scalars[0] if number is Scalar(0) else 0.0
            if isinstance(value, int | float):
                return condition, own, on, float(value)
    return None


def _backward(trace: Trace, forward: _Forward) -> _Backward | None:
    """The gradients' steps; None where other steps read the weights, or one is missing."""
    others = {i: _op(trace, i) for i in forward.others}
    slopes = [i for i, step in others.items() if type(step.function) is SoftmaxBackward]
    products = [i for i, step in others.items() if _is_product(step)]
    if len(others) != 2 or len(slopes) != 1 or len(products) != 1:
        return None
    slope, by_values = others[slopes[0]], others[products[0]]
    before = _before_softmax(trace, forward, slope, slopes[0])
    behind = _behind_softmax(trace, forward, slope)
    if before is None or behind is None or cast("SoftmaxBackward", slope.function).log:
        return None
    (gy, more), (gq, gk_turned, rest) = before, behind
    if not _same(by_values.inputs[0], _turned(forward.dropped)):
        return None
    gv = by_values.outputs[0]
    values = all(trace.is_value(x.storage) for x in (gq, gk_turned, gv))
    if not values or not _same(by_values.inputs[1], gy):
        return None
    steps = [*others, *more, *rest]
    moved = [forward.q, forward.k, forward.v]
    moved += [] if forward.mask is None else [forward.mask.array]
    if trace.is_disturbed(forward.at, max(steps), reads=moved):
        return None
    return _Backward(steps, gy, gq, gk_turned, gv)


def _before_softmax(
    trace: Trace, forward: _Forward, slope: Step, position: int
) -> tuple[Array, list[int]] | None:
    """The result's gradient, and the steps from it to the softmax's gradient."""
    gw, weights = slope.inputs
    if not _same(weights, forward.weights):
        return None
    steps: list[int] = []
    for wanted in (Dropout, MatMul) if forward.drop is not None else (MatMul,):
        at = trace.producer(gw.storage)
        if at is None or not _stays(trace, gw) or _readers(trace, gw) != [position]:
            return None
        step = _op(trace, at)
        if type(step.function) is not wanted or not _same(step.outputs[0], gw):
            return None
        if wanted is Dropout and step.function != forward.drop:
            return None
        steps.append(at)
        if wanted is MatMul:
            gy, turned = step.inputs
            return (gy, steps) if _same(turned, _turned(forward.v)) else None
        position, gw = at, step.inputs[0]
    return None


def _behind_softmax(
    trace: Trace, forward: _Forward, slope: Step
) -> tuple[Array, Array, list[int]] | None:
    """Gradients of queries and, turned, of keys, and the steps that lead to them."""
    scale, masked = 1.0, False
    steps: list[int] = []
    g = slope.outputs[0]
    while True:
        readers = _readers(trace, g)
        if not _stays(trace, g) or not 1 <= len(readers) <= 2:
            return None
        if len(readers) == 2:
            break
        step = _op(trace, readers[0])
        factor = _factor(step)
        if factor is not None:
            scale *= factor
        elif type(step.function) is Pointwise and len(step.inputs) == 2 and not masked:
            chosen = _chosen(step.function.exprs[0], step.function)
            mask = forward.mask
            if chosen is None or mask is None or chosen[2:] != (mask.on, 0.0):
                return None
            masked = _same(step.inputs[chosen[0]], mask.array)
            if not masked or not _same(step.inputs[chosen[1]], g):
                return None
        else:
            return None
        steps.append(readers[0])
        g = step.outputs[0]
    if masked != (forward.mask is not None):
        return None
    products = [_op(trace, i) for i in readers]
    to_q = [s for s in products if _is_product(s) and _same(s.inputs[0], g)]
    to_k = [s for s in products if _is_product(s) and _same(s.inputs[1], g)]
    if len(to_q) != 1 or len(to_k) != 1 or not isclose(scale, forward.scale, rel_tol=1e-6):
        return None
    if not _same(to_q[0].inputs[1], forward.k):
        return None
    if not _same(to_k[0].inputs[0], _turned(forward.q)):
        return None
    return to_q[0].outputs[0], to_k[0].outputs[0], [*steps, *readers]


class _Made:
    """The steps that take the place of a part.

    Args:
        trace: with the part.
        forward: the part.
    """

    def __init__(self, trace: Trace, forward: _Forward) -> None:
        self._last, self._part = _op(trace, forward.at), forward
        self._phase = self._last.phase
        self._before: list[Step] = []
        views = read_views(
            trace.device.target, forward.q, forward.v, dropped=forward.drop is not None
        )
        self._views = views
        self._operands = [self._read(x, self._before) for x in (forward.q, forward.k, forward.v)]
        mask, fill = forward.mask, {}
        if mask is not None:
            array, fill = mask.array, {"fill": mask.fill}
            if mask.on:
                keep = Array.abstract(array.shape, bool_, array.storage.device)
                function = Pointwise("attention", (_NOT,), (), forward.y.dtype, (bool_,))
                self._add(self._before, function, (array,), keep)
                array = keep
            shape = forward.weights.shape
            strides = broadcast_strides(array.shape, array.strides, shape)
            self._operands.append(_four(array.view(shape, strides)))
        counter = None if forward.drop is None else forward.drop.counter
        p = 0.0 if forward.drop is None else forward.drop.p
        scores = Scores(forward.scale, causal=False, hollow=True, **fill)
        self._settings: tuple[Any, ...] = (scores, p, counter)
        y = _four(forward.y)
        self._lse = Array.abstract(y.shape[:3], y.dtype, y.storage.device)

    def forward(self) -> list[Step]:
        """Copies where operands are to be dense, and the op."""
        outputs = (_four(self._part.y), self._lse)
        self._phase = self._last.phase
        steps = [*self._before]
        self._add(steps, Attention(*self._settings), self._operands, *outputs)
        return steps

    def backward(self, found: _Backward) -> list[Step]:
        """The sums of products of result and gradient, the op, and the keys' gradient turned."""
        self._phase = "backward"
        steps: list[Step] = []
        y, gy = _four(self._part.y), self._read(found.gy, steps)
        delta = Array.abstract(y.shape[:3], y.dtype, y.storage.device)
        if self._views and y.dtype is float32 and in_runs(gy) and in_runs(y):
            self._add(steps, AttentionDelta(), (gy, y), delta)
        else:
            each = Array.abstract(y.shape, y.dtype, y.storage.device)
            products = Pointwise("attention_backward", (_X * Input(1),), (), y.dtype, (y.dtype,))
            self._add(steps, products, (gy, y), each)
            self._add(steps, Reduce(Reduction.SUM, (3,), keepdim=False), (each,), delta)
        gq, gv, turned = map(_four, (found.gq, found.gv, found.gk_turned))
        gk = Array.abstract(self._operands[1].shape, y.dtype, y.storage.device)
        function = AttentionBackward(*self._settings)
        self._add(steps, function, (gy, self._lse, delta, *self._operands), gq, gk, gv)
        self._add(steps, Copy(), (_turned(gk),), turned)
        return steps

    def _read(self, x: Array, steps: list[Step]) -> Array:
        """Of four axes, and as the kernels read it: copied if need be."""
        x = _four(x)
        if x.contiguous or (self._views and (x.strides[-1] == 1 or x.shape[-1] == 1)):
            return x
        dense = Array.abstract(x.shape, x.dtype, x.storage.device)
        self._add(steps, Copy(), (x,), dense)
        return dense

    def _add(self, steps: list[Step], function: Function, inputs: Any, *outputs: Array) -> None:
        place = self._last.module_path, self._phase
        steps.append(Step(function, tuple(inputs), outputs, *place))


def _suits(target: Target, q: Array, v: Array, *, plain: bool, dropped: bool) -> bool:
    """Whether the kernels are for such rows, and faster than products of stored scores.

    It is plain where there are neither a mask nor gradients.
    """
    head, longest = min(q.shape[-1], v.shape[-1]), max(q.shape[-1], v.shape[-1])
    if q.dtype.itemsize < 4 or not head or not v.shape[-2]:
        return False
    if dropped and not drops_weights(target, q, v):
        return False
    if in_groups(target.traits):
        pays = dropped or plain or longest <= _SHORT_HEAD
        return pays and read_views(target, q, v, dropped=dropped)
    many = v.shape[-2] >= max(_LEAST_KEYS, _KEYS_OF_AN_ELEMENT * longest)
    return many and head >= _LEAST_HEAD and longest <= _MOST_HEAD


def _op(trace: Trace, position: int) -> Step:
    """The op at a place that is known to have one."""
    return cast("Step", trace.steps[position])


def _is_product(step: Step) -> bool:
    """Whether a step is a product of stacks of matrices, one for one."""
    if type(step.function) is not MatMul:
        return False
    a, b = step.inputs
    return a.shape[:-2] == b.shape[:-2] and a.dtype is b.dtype and a.dtype.is_floating_point


def _is_score(trace: Trace, x: Array, made: Array) -> bool:
    """Whether an operand can be scores: one for each result, from a product or what followed it."""
    at = trace.producer(x.storage)
    if at is None or x.shape != made.shape or not x.contiguous or x.dtype is not made.dtype:
        return False
    return type(_op(trace, at).function) in (MatMul, Pointwise) and len(_readers(trace, x)) == 1


def _readers(trace: Trace, x: Array) -> list[int]:
    return list(trace.readers.get(x.storage, ()))


def _stays(trace: Trace, x: Array) -> bool:
    """Whether nobody sees an array but the steps that read it."""
    return trace.is_value(x.storage) and not trace.outlives(x.storage)


def _same(x: Array, y: Array) -> bool:
    """Whether two views are of the same elements."""
    places = [(a.storage, a.shape, a.offset, a.dtype) for a in (x, y)]
    steps = [
        [step for step, size in zip(a.strides, a.shape, strict=True) if size > 1] for a in (x, y)
    ]
    return places[0] == places[1] and steps[0] == steps[1]


def _turned(x: Array) -> Array:
    """Its matrices with their axes changed round."""
    *shape, m, n = x.shape
    *strides, row, column = x.strides
    return x.view((*shape, n, m), (*strides, column, row))


def _four(x: Array) -> Array:
    """Of four axes, as the kernels take it: a stack's number counts images."""
    missing = 4 - x.ndim
    if not missing:
        return x
    shape = (1,) * (missing - 1) + x.shape[:-2] + (1,) + x.shape[-2:]
    if x.contiguous:
        return x.view(shape, contiguous_strides(shape))
    return x.view(shape, (0,) * (missing - 1) + x.strides[:-2] + (0,) + x.strides[-2:])
