"""Results of a compiled function that stay on the tape: their backward is a trace of its own.

The function is recorded once, and so is the walk back from its results. The forward trace ends
where the walk begins; values that the walk reads leave it as further results, and come into the
backward trace as arguments, beside the results' gradients. So the line between the two is the
tape's: what an op saves in eager execution is saved here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ..array import Array
from ..autodiff.custom import Function
from ..autodiff.tape import Node
from ..autodiff.walk import run_backward
from ..device import HostScalar, Storage
from ..errors import GradientError, TraceError
from ..ops import contiguous
from ..tensor import Tensor
from ..values import mode
from ..values.record import NamedTuple
from .arguments import given_flat
from .plan import Plan
from .simplify import without_dead_steps
from .spanning import SpanningPlan
from .trace import Trace
from .tracer import Action, Step, Tracer


@dataclass(frozen=True)
class Backward:
    """How gradients of results become gradients of arguments and of tensors outside.

    Attributes:
        trace: its arguments are the gradients of the roots, what is saved, and what is read of the
            call's tensors; its results the gradients of ``leaves``, ``wanted`` and ``inner``.
        roots: positions of the results that are on the tape.
        saved: further results of the forward trace.
        read: positions of the call's tensors that it reads.
        leaves: tensors outside of the function, parameters above all.
        wanted: positions of the call's tensors that get a gradient.
        inner: positions of results that are leaves which the function made.
        fault: why there is no backward; who walks back is told, as op by op.
    """

    trace: Trace
    roots: tuple[int, ...]
    saved: tuple[Array, ...]
    read: tuple[int, ...]
    leaves: tuple[Tensor, ...]
    wanted: tuple[int, ...]
    inner: tuple[int, ...] = ()
    fault: GradientError | None = None


class Joint(NamedTuple):
    """How a function and its backward are rewritten together.

    Attributes:
        rewriting: a pass.
        ends: what others than these two read, the gradients apart.
    """

    rewriting: Callable[[Trace], Trace]
    ends: tuple[Tensor, ...]

    def apply(
        self, tracer: Tracer, first: int, memory: Sequence[Array], gradients: Sequence[Array]
    ) -> int:
        """Rewrite what was recorded.

        Args:
            tracer: the recording.
            first: the position of backward's first step.
            memory: where arguments lie.
            gradients: what backward gives.

        Returns:
            That position now.
        """
        between = Action(_nothing)
        steps = (*tracer.steps[:first], between, *tracer.steps[first:])
        results = (*(t.array for t in self.ends), *gradients)
        kept = (g.array.storage for _, g in tracer.grads_after.values() if g is not None)
        own = tuple(s for s in kept if s not in tracer.hidden)
        # A view is a step here, which reads what it looks at; none is needed.
        whole = without_dead_steps(Trace(steps, tuple(memory), results, own, self.ends[0].device))
        rewritten = self.rewriting(whole)
        if rewritten is whole:
            return first
        at = rewritten.steps.index(between)
        tracer.steps[:] = [*rewritten.steps[:at], *rewritten.steps[at + 1 :]]
        return at


def _nothing() -> None:
    pass


def is_whole(node: Any) -> bool:
    """Whether no backward inside the function has freed a part of a graph.

    A state of a network that trains while it is read is such a result: who goes on from it
    detaches it.
    """
    return not any(each.released for each in _nodes([node]))


def record_backward(
    tracer: Tracer,
    results: Sequence[Tensor],
    arguments: Sequence[Tensor],
    memory: Sequence[Array],
    start: int,
    overwritten: Mapping[Storage, Tensor],
    joint: Joint | None = None,
) -> Backward | None:
    """Walk back from a function's results, while it is traced.

    Args:
        tracer: the recording; the walk's steps are put behind the function's.
        results: what the function returned.
        arguments: the placeholders it was called with.
        memory: where these lie.
        start: a sequence number older than the function's nodes.
        overwritten: tensors outside that the function will have overwritten by then; where the
            walk reads one, a copy is saved.
        joint: rewrites both; None: nothing does.

    Returns:
        The backward, or None if no result is on the tape.

    Raises:
        TraceError: if a result was made of a tensor outside that has a graph of its own, or a value
            to be saved has gaps.
    """
    roots = tuple(k for k, t in enumerate(results) if t.node is not None and is_whole(t.node))
    if not roots:
        return None
    chosen = [results[k] for k in roots]
    _refuse_outer_graphs(chosen, start)
    first = len(tracer.steps)
    grads = [Tensor(Array.abstract(t.shape, t.dtype, t.device)) for t in chosen]
    place = {id(t): i for i, t in enumerate(arguments)}
    try:
        # Hooks of leaves are called by the walk that this becomes part of.
        walked = {"retain_graph": False, "create_graph": False, "stop_at_targets": True}
        found = run_backward(chosen, grads, targets=None, **walked)
    except GradientError as fault:
        del tracer.steps[first:]
        return _without_backward(roots, chosen, place, fault)
    leaves = [t for t, _ in found.values() if t.array.storage.buffer is not None]
    wanted = [place[key] for key in found if key in place]
    inner = _inner(results, found, place)
    ends = (*leaves, *(arguments[i] for i in wanted), *(results[k] for k in inner))
    gradients = [found[id(t)][1].array for t in ends]
    if joint is not None:
        first = joint.apply(tracer, first, memory, gradients)
    forward, steps = tracer.steps[:first], tracer.steps[first:]
    crossing = _crossing(forward, steps, gradients, arguments, overwritten)
    trace = _backward_trace(steps, grads, crossing, memory, gradients)
    del tracer.steps[first:]
    with mode.using(grad=False):
        copies = tuple(x.detach().clone().array for x in crossing.lost)
    saved = (*crossing.saved, *copies)
    return Backward(trace, roots, saved, crossing.read, tuple(leaves), tuple(wanted), inner)


class _Crossing(NamedTuple):
    """What a walk reads that it does not make itself, nor finds outside as it was.

    Attributes:
        saved: what the function made, each all that lies in its memory.
        lost: tensors outside that the function will have overwritten.
        read: positions of the call's tensors.
    """

    saved: tuple[Array, ...]
    lost: tuple[Tensor, ...]
    read: tuple[int, ...]


def _crossing(
    forward: Sequence[Step | Action],
    steps: Sequence[Step | Action],
    gradients: Sequence[Array],
    arguments: Sequence[Tensor],
    overwritten: Mapping[Storage, Tensor],
) -> _Crossing:
    """What comes from a function's steps to those of the walk back, in the order of its reads."""
    needed = [s for step in steps if isinstance(step, Step) for s in step.reads]
    needed = list(dict.fromkeys([*needed, *(a.storage for a in gradients)]))
    made = _made_by(forward)
    position = {t.array.storage: i for i, t in enumerate(arguments)}
    return _Crossing(
        saved=tuple(_dense(made[s]) for s in needed if s in made and s not in position),
        lost=tuple(overwritten[s] for s in needed if s in overwritten),
        read=tuple(position[s] for s in needed if s in position),
    )


def _backward_trace(
    steps: Sequence[Step | Action],
    grads: Sequence[Tensor],
    crossing: _Crossing,
    memory: Sequence[Array],
    gradients: Sequence[Array],
) -> Trace:
    """The walk's steps as a trace of their own: what crosses comes in behind the roots' gradients.

    The forward plan gives that memory of its own; here it lies elsewhere.
    """
    arrived = (*crossing.saved, *(x.array for x in crossing.lost))
    given = tuple(memory[i] for i in crossing.read)
    moved = {a.storage: Storage(a.device, a.storage.nbytes) for a in (*arrived, *given)}
    return Trace(
        tuple(_moved_step(step, moved) for step in steps),
        (*(g.array for g in grads), *(_moved(a, moved) for a in (*arrived, *given))),
        tuple(_moved(a, moved) for a in gradients),
        (),
        grads[0].device,
    )


def _inner(
    results: Sequence[Tensor], found: Mapping[int, Any], place: Mapping[int, int]
) -> tuple[int, ...]:
    """The first positions of results where a walk ends, that nobody else has."""
    own = {id(t): k for k, t in reversed([*enumerate(results)]) if id(t) not in place}
    ends = (k for key, k in own.items() if key in found)
    return tuple(sorted(k for k in ends if results[k].array.storage.buffer is None))


def _without_backward(
    roots: tuple[int, ...], chosen: list[Tensor], place: Mapping[int, int], fault: GradientError
) -> Backward:
    """The backward of results through which no walk goes: who never asks for one is right."""
    edges = [edge for node in _nodes([t.node for t in chosen]) for edge in node.edges]
    ends = [*{id(e.leaf): e.leaf for e in edges if e and e.leaf is not None}.values()]
    return Backward(
        trace=Trace((), (), (), (), chosen[0].device),
        roots=roots,
        saved=(),
        read=(),
        leaves=tuple(t for t in ends if t.array.storage.buffer is not None),
        wanted=tuple(place[id(t)] for t in ends if id(t) in place),
        fault=copy(fault),  # without what it was raised in
    )


def _made_by(steps: Sequence[Step | Action]) -> dict[Storage, Array]:
    """What steps make, by where it lies: their outputs may also be views of what others made."""
    made: dict[Storage, Array] = {}
    for step in steps:
        if isinstance(step, Step):
            for y in step.outputs:
                if y.storage in step.made:
                    made.setdefault(y.storage, y)
    return made


class Differentiable:
    """A forward plan whose results are put on the tape, and the plan of their backward.

    Args:
        forward: the plan; its last results are what is saved.
        backward: what was recorded.
        make: gives the plan of a trace; called when a backward first comes.

    Attributes:
        cells: numbers on the host that the forward's kernels read at every replay.
    """

    def __init__(
        self,
        forward: Plan | SpanningPlan,
        backward: Backward,
        make: Callable[[Trace], Plan | SpanningPlan],
    ) -> None:
        self.forward = forward
        self.backward = backward
        self.cells: list[HostScalar] = forward.cells
        self._make = make
        self._plan: Plan | SpanningPlan | None = None

    @property
    def plan(self) -> Plan | SpanningPlan:
        """The plan of the backward."""
        with self.forward.lock:
            if self._plan is None:
                self._plan = self._make(self.backward.trace)
            return self._plan

    def results(self, arrays: Sequence[Array], tensors: Sequence[Tensor]) -> Iterator[Tensor]:
        """What the forward plan gave, on the tape.

        Args:
            arrays: all its results.
            tensors: those the function was called with.
        """
        made = {k: Tensor(arrays[k]).requires_grad_() for k in self.backward.inner}
        leaves = self.backward.leaves
        found = _Played.apply(self, tuple(arrays), *leaves, *tensors, *made.values())
        return iter(made.get(k, t) for k, t in enumerate(found))


class _Played(Function):
    """A call of a compiled function, on the tape."""

    @staticmethod
    def forward(
        ctx: Any, owner: Differentiable, arrays: tuple[Array, ...], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        backward = owner.backward
        count = len(arrays) - len(backward.saved)
        results = tuple(Tensor(a) for a in arrays[:count])
        saved = [contiguous(Tensor(a)) for a in arrays[count:]]
        given = tensors[len(backward.leaves) :]
        ctx.owner = owner
        ctx.tensors = len(tensors)
        # Numbers that kernels read from the host (where a dropout's random numbers begin) are those
        # of this call, whatever calls come before its backward.
        ctx.cells = [(cell, cell.value) for cell in owner.cells]
        ctx.save_for_backward(*saved, *(given[i] for i in backward.read), *backward.leaves)
        without = [r for k, r in enumerate(results) if k not in backward.roots]
        ctx.mark_non_differentiable(*without)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        now, backward = mode.current(), ctx.owner.backward
        if now.tracer is not None:
            raise TraceError(
                "compile",
                "backward runs through what a compiled function returned outside",
                remedy="Call the function inside as well",
            )
        if now.grad:
            raise GradientError(
                "backward of a compiled function",
                "its gradient is not differentiated once more",
                remedy="Compile a function in which the gradient and what is made of it stand, too "
                "(a penalty, its backward), or call the one that was compiled, its __wrapped__",
            )
        if backward.fault is not None:
            raise copy(backward.fault)
        count = len(backward.saved) + len(backward.read)
        arguments = [contiguous(grads[k].detach()).array for k in backward.roots]
        saved = ctx.saved_tensors[:count]
        arguments += [given_flat(t).array for t in saved]
        plan = ctx.owner.plan
        with plan.turn(), plan.lock:
            for cell, value in ctx.cells:
                cell.value = value
            found = iter(plan.run(arguments))
        gradients: list[Any] = [None] * ctx.tensors
        inside = len(backward.leaves)
        ends = range(ctx.tensors - len(backward.inner), ctx.tensors)
        for place in (*range(inside), *(inside + i for i in backward.wanted), *ends):
            gradients[place] = Tensor(next(found))
        return (None, None, *gradients)


def _refuse_outer_graphs(roots: Sequence[Tensor], start: int) -> None:
    """A walk would go on behind the function, into a graph that is not its own."""
    for node in _nodes([t.node for t in roots]):
        if node.sequence < start:
            raise TraceError(
                "compile",
                "the function reads a tensor from outside that has a graph",
                made_by=node.function.name,
                remedy="Pass it as an argument",
            )


def _nodes(first: Sequence[Node | None]) -> Iterator[Node]:
    """Nodes, and all those below them."""
    seen: set[Node] = set()
    waiting = [*first]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting += [edge.node for edge in node.edges if edge is not None]


def _dense(array: Array) -> Array:
    """All elements of an array's storage, as they lie.

    Raises:
        TraceError: if the array does not fill it.
    """
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    shape = tuple(array.shape[axis] for axis in order)
    dense = Array(
        array.storage, shape, tuple(array.strides[axis] for axis in order), 0, array.dtype
    )
    if array.offset or not dense.contiguous or dense.nbytes != array.storage.nbytes:
        raise TraceError(
            "compile",
            "a value that backward reads does not fill its memory, so it cannot leave a plan",
            shape=array.shape,
            strides=array.strides,
            remedy="Compile the whole step, backward included",
        )
    return dense


def _moved(array: Array, moved: dict[Storage, Storage]) -> Array:
    storage = moved.get(array.storage)
    if storage is None:
        return array
    return Array(storage, array.shape, array.strides, array.offset, array.dtype)


def _moved_step(step: Step | Action, moved: dict[Storage, Storage]) -> Step | Action:
    if isinstance(step, Action):
        return step
    return replace(
        step,
        inputs=tuple(_moved(x, moved) for x in step.inputs),
        outputs=tuple(_moved(y, moved) for y in step.outputs),
    )
