"""Cheap values that backward reads are computed once more there, instead of held until then."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..array import Array
from ..device import Storage
from ..ops.machinery.fused import Fused
from ..ops.machinery.pointwise import Pointwise
from .simplify import cells_of
from .trace import Trace
from .tracer import Action, Step

_LEAST_BYTES = 1 << 16
_LEAST_STEPS = 8
_SMALL = 16


def recompute(trace: Trace) -> Trace:
    """The trace with pointwise values of forward made a second time for backward.

    That is done where all they are made of is held until then anyway (a norm's input, for the
    ReLU of its result), so that it lowers the peak and costs one pass over the elements.
    """
    again = _Again(trace)
    for position, step in trace.ops:
        again.consider(position, step)
    return again.run()


@dataclass(frozen=True)
class _Copy:
    """A step that is done again before a position, and what later steps read instead."""

    step: Step
    old: Storage
    new: Storage


class _Again:
    """Which steps are done twice."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._copies: dict[int, list[_Copy]] = {}
        self._gone: set[Storage] = set()

    def consider(self, position: int, step: Step) -> None:
        """Do a step again if it is cheap and frees memory in between."""
        trace = self._trace
        if step.phase != "forward" or not isinstance(step.function, Pointwise | Fused):
            return
        if step.mutated or len(step.outputs) != 1 or cells_of(step.function):
            return
        (y,) = step.outputs
        old = y.storage
        if not trace.is_value(old) or trace.outlives(old) or y.nbytes < _LEAST_BYTES:
            return
        readers = trace.readers.get(old, ())
        late = [r for r in readers if self._phase(r) == "backward"]
        if not late:
            return
        early = max((r for r in readers if r not in late), default=position)
        if late[0] - early < _LEAST_STEPS or early > late[0]:
            return
        if all(self._is_there(x, position, late[0], y.nbytes) for x in step.inputs):
            array = Array.abstract(y.shape, y.dtype, y.device)
            done = replace(step, outputs=(array,), phase="backward")
            self._copies.setdefault(late[0], []).append(_Copy(done, old, array.storage))
            self._gone.add(old)

    def run(self) -> Trace:
        """The trace with the steps that are done again."""
        current: dict[Storage, Storage] = {}
        steps: list[Step | Action] = []
        for position, step in enumerate(self._trace.steps):
            for copy in self._copies.get(position, ()):
                steps.append(copy.step)
                current[copy.old] = copy.new
            steps.append(step if isinstance(step, Action) else _reading(step, current))
        return self._trace.with_steps(steps)

    def _is_there(self, x: Array, position: int, until: int, nbytes: int) -> bool:
        """Whether an operand is unchanged then, and held anyway or small."""
        storage, trace = x.storage, self._trace
        if storage in self._gone or any(
            position < w < until for w in trace.writers.get(storage, ())
        ):
            return False
        if not trace.is_value(storage) or trace.outlives(storage):
            return True
        return trace.last_use[storage] >= until or storage.nbytes * _SMALL <= nbytes

    def _phase(self, position: int) -> str:
        step = self._trace.steps[position]
        return "" if isinstance(step, Action) else step.phase


def _reading(step: Step, current: dict[Storage, Storage]) -> Step:
    if not any(x.storage in current for x in step.inputs):
        return step
    inputs = tuple(
        Array(current[x.storage], x.shape, x.strides, x.offset, x.dtype)
        if x.storage in current
        else x
        for x in step.inputs
    )
    return replace(step, inputs=inputs)
