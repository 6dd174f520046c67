"""Updates in place of many small arrays become one launch: optimisers, running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..array import Array
from ..device import HostScalar, Storage
from ..expr import Expr, Input, inputs_of, substitute
from ..kernels.pointwise import MOST_ELEMENTS, most_segments
from ..ops.machinery.fused import Fused, UpdateMany
from .pointwise_step import as_pointwise
from .trace import Trace
from .tracer import Action, Step


def merge_updates(trace: Trace) -> Trace:
    """The trace with updates that differ in their arrays alone done in one launch.

    Each moves down to the last of its kind, unless something in between reads what it changes or
    writes what it reads; a large one keeps a launch of its own.
    """
    steps: list[Step | Action | None] = list(trace.steps)
    waiting: dict[Any, _Group] = {}

    def finish(key: Any) -> None:
        group = waiting.pop(key)
        if len(group.positions) > 1:
            for position in group.positions:
                steps[position] = None
            steps[group.positions[-1]] = group.step()

    for position, step in enumerate(trace.steps):
        member = _member(step) if isinstance(step, Step) else None
        key = None if member is None else member.key
        for other in [k for k, g in waiting.items() if k != key and g.disturbed_by(step)]:
            finish(other)
        if member is None:
            continue
        group = waiting.get(key)
        if group is not None and (group.full or group.disturbed_by(step)):
            finish(key)
            group = None
        if group is None:
            group = waiting[key] = _Group(member)
        group.take(position, member)
    for key in list(waiting):
        finish(key)
    return trace.with_steps([s for s in steps if s is not None])


def alone(trace: Trace) -> Iterator[int]:
    """Where updates are that keep a launch of their own because they are large."""
    for position, step in trace.ops:
        form = as_pointwise(step)
        if form is not None and not form.made and form.changed[0].size > MOST_ELEMENTS:
            yield position


@dataclass(frozen=True)
class _Member:
    """One update, as a part of a larger one.

    Attributes:
        step: where it comes from.
        function: what it computes, over its own arrays and then the shared ones.
        own: its arrays, those it changes first.
        shared: arrays of one element.
    """

    step: Step
    function: Fused
    own: tuple[Array, ...]
    shared: tuple[Array, ...]

    @property
    def key(self) -> Any:
        """What members of one launch have in common."""
        scalars = tuple(
            id(s) if isinstance(s, HostScalar) else repr(s) for s in self.function.scalars
        )
        shared = tuple((a.storage, a.offset, a.dtype) for a in self.shared)
        dtypes = tuple(a.dtype for a in self.own)
        return (self.function.exprs, scalars, self.function.compute, dtypes, shared)


@dataclass
class _Group:
    """Updates that are waiting for more of their kind."""

    first: _Member
    positions: list[int] = field(default_factory=list[int])
    members: list[_Member] = field(default_factory=list[_Member])
    read: set[Storage] = field(default_factory=set[Storage])
    changed: set[Storage] = field(default_factory=set[Storage])

    @property
    def full(self) -> bool:
        """Whether a launch takes no more."""
        function = self.first.function
        most = most_segments(len(self.first.own), len(self.first.shared), len(function.scalars))
        return len(self.members) >= most

    def take(self, position: int, member: _Member) -> None:
        """One more."""
        self.positions.append(position)
        self.members.append(member)
        self.read.update(x.storage for x in member.step.inputs)
        self.changed.update(member.step.mutated)

    def disturbed_by(self, step: Step | Action) -> bool:
        """Whether the updates may not wait until after a step."""
        if isinstance(step, Action):
            return any(isinstance(s, HostScalar) for s in self.first.function.scalars)
        touched = {x.storage for x in (*step.inputs, *step.outputs)}
        return bool(touched & self.changed) or bool(self.read.intersection(step.writes))

    def step(self) -> Step:
        """All of them as one step."""
        function, last = self.first.function, self.members[-1].step
        paths = {m.step.module_path for m in self.members}
        many = UpdateMany(
            function.name,
            function.exprs,
            function.scalars,
            function.compute,
            len(self.members),
            len(self.first.own),
        )
        inputs = [array for member in self.members for array in member.own]
        path = last.module_path if len(paths) == 1 else ""
        return Step(many, (*inputs, *self.first.shared), (), path, last.phase)


def _member(step: Step) -> _Member | None:
    """A step as a member, if it only overwrites small dense arrays from others of their size.

    Its inputs are put in the order of ``UpdateMany``: its own first, and then those of one element
    that all members may share.
    """
    form = as_pointwise(step)
    if form is None or form.made or not form.changed:
        return None
    size = form.changed[0].size
    if not 0 < size <= MOST_ELEMENTS:
        return None
    whole = form.step(step)
    own = [x for x in whole.inputs if x.contiguous and x.size == size]
    shared = [x for x in whole.inputs if not any(x is y for y in own) and _is_one(x)]
    if len(own) + len(shared) < len(whole.inputs) or len(own) < len(form.changed):
        return None
    if len({x.storage for x in own}) < len(own):
        return None
    places = {id(x): k for k, x in enumerate((*own, *shared))}
    function: Any = whole.function
    leaves: dict[Expr, Expr] = {
        leaf: Input(places[id(whole.inputs[leaf.index])], leaf.boolean)
        for leaf in inputs_of(*function.exprs)
    }
    exprs = tuple(substitute(e, leaves) for e in function.exprs)
    return _Member(step, replace(function, exprs=exprs), tuple(own), tuple(shared))


def _is_one(array: Array) -> bool:
    """Whether all its elements are one in memory."""
    return all(n == 1 or s == 0 for n, s in zip(array.shape, array.strides, strict=True))
