"""Cheap values that backward reads are computed once more there, instead of held until then."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..array import Array
from ..device import Storage
from ..ops.machinery.fused import Fused
from ..ops.machinery.pointwise import Pointwise
from .fuse import NEAR, fuse
from .pointwise_step import PointwiseStep, as_pointwise
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
    return _Again(trace).run()


def recompute_beside(trace: Trace) -> Trace:
    """The trace with those made again that a step of backward can make in its own pass.

    A GELU's gradient reads what the GELU was of: beside the gradient it gives the GELU's result,
    which the gradient of the weight behind it reads next. So one write takes the place of memory
    that is held from forward on. That is so on GPUs; on CPUs ``prologue`` has such steps computed
    by the sums that read them.
    """
    if not trace.device.target.traits.dedicated_local_memory:
        return trace
    left: set[Storage] = set()
    while (again := _Again(trace, left, guests=True)).copies:
        changed = again.run()
        copies = {id(c.step): c for each in again.copies.values() for c in each}
        at = [i for i, step in changed.ops if id(step) in copies]
        fused = fuse(changed, at)
        alone = [copies[id(step)] for _, step in fused.ops if id(step) in copies]
        if not alone:
            return fused
        left.update(first for copy in alone for first in copy.first)
    return trace


@dataclass(frozen=True)
class _Copy:
    """A step that is done again before a position, and what later steps read instead.

    Attributes:
        step: what is done.
        old: what it made before.
        new: what it makes now.
        first: those of the old that are read at that position.
    """

    step: Step
    old: tuple[Storage, ...]
    new: tuple[Storage, ...]
    first: tuple[Storage, ...]


class _Again:
    """Which steps are done twice.

    Args:
        trace: what they are steps of.
        left: values that are left as they are.
        guests: take only those that a step of backward nearby can do in its own pass.

    Attributes:
        copies: by the position in front of which they are done again.
    """

    def __init__(
        self, trace: Trace, left: Collection[Storage] = (), *, guests: bool = False
    ) -> None:
        self._trace = trace
        self._left = left
        self._gone: set[Storage] = set()
        self._hosts: Sequence[tuple[int, PointwiseStep]] | None = None
        if guests:
            backward = ((i, step) for i, step in trace.ops if step.phase == "backward")
            forms = ((i, as_pointwise(step)) for i, step in backward)
            self._hosts = [(i, form) for i, form in forms if form is not None]
        self.copies: dict[int, list[_Copy]] = {}
        for position, step in trace.ops:
            self._consider(position, step)

    def _consider(self, position: int, step: Step) -> None:
        """Do a step again if it is cheap and frees memory in between."""
        if step.phase != "forward" or not isinstance(step.function, Pointwise | Fused):
            return
        form = as_pointwise(step)
        if form is None or form.changed or form.cells:
            return
        wanted = [y for y in form.made if self._frees(y, position)]
        late = min((self._late(y.storage)[0] for y in wanted), default=0)
        if not wanted or not self._has_host(form, late):
            return
        nbytes = wanted[0].nbytes
        if all(self._is_there(x, position, late, nbytes) for x in form.reads):
            again = [Array.abstract(y.shape, y.dtype, y.device) for y in wanted]
            exprs = tuple(form.exprs[form.made.index(y)] for y in wanted)
            part = replace(form, exprs=exprs, made=tuple(again)).trimmed()
            done = replace(part.step(step), phase="backward")
            old = tuple(y.storage for y in wanted)
            first = tuple(s for s in old if self._late(s)[0] == late)
            copy = _Copy(done, old, tuple(y.storage for y in again), first)
            self.copies.setdefault(late, []).append(copy)
            self._gone.update(old)

    def _frees(self, y: Array, position: int) -> bool:
        """Whether a result is large, and held for backward alone for a while."""
        trace, storage = self._trace, y.storage
        if storage in self._left or not trace.is_value(storage) or trace.outlives(storage):
            return False
        late = self._late(storage)
        if not late or y.nbytes < _LEAST_BYTES:
            return False
        before = (r for r in trace.readers[storage] if r not in late)
        early = max(before, default=position)
        return early <= late[0] and late[0] - early >= _LEAST_STEPS

    def _late(self, storage: Storage) -> list[int]:
        """Where backward reads a value."""
        readers = self._trace.readers.get(storage, ())
        return [r for r in readers if self._phase(r) == "backward"]

    def _has_host(self, form: PointwiseStep, late: int) -> bool:
        """Whether a step that reads its result, or what it reads, can do it beside its own work."""
        if self._hosts is None:
            return True
        near = self._hosts[bisect_left(self._hosts, late, key=lambda host: host[0]) :]
        read = {a.storage for a in (*form.made, *form.reads) if a.shape == form.shape}
        return any(
            at <= late + NEAR
            and host.shape == form.shape
            and not read.isdisjoint(x.storage for x in host.reads)
            for at, host in near
        )

    def run(self) -> Trace:
        """The trace with the steps that are done again."""
        current: dict[Storage, Storage] = {}
        steps: list[Step | Action] = []
        for position, step in enumerate(self._trace.steps):
            for copy in self.copies.get(position, ()):
                steps.append(copy.step)
                current.update(zip(copy.old, copy.new, strict=True))
            now = step if isinstance(step, Action) else self._without_gone(_reading(step, current))
            if now is not None:
                steps.append(now)
        return self._trace.with_steps(steps)

    def _without_gone(self, step: Step) -> Step | None:
        """A step without results that only backward read, which makes them again."""
        readers = self._trace.readers

        def stays(y: Array) -> bool:
            return y.storage not in self._gone or len(readers[y.storage]) > len(
                self._late(y.storage)
            )

        if all(map(stays, step.outputs)):
            return step
        form = as_pointwise(step)
        if form is None:
            return step
        made = tuple(filter(stays, form.made))
        exprs = tuple(form.exprs[form.made.index(y)] for y in made)
        return replace(form, exprs=exprs, made=made).trimmed().step(step) if made else None

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
