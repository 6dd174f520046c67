"""Steps that nobody needs, that were done before, or that can be done once for all replays.

A view needs no step at all, since arrays name what they look at: it goes as dead code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ..array import Array
from ..device import HostScalar, Storage
from ..expr import Input
from ..ops.machinery.pointwise import Pointwise
from ..ops.shape import Copy
from .trace import Trace
from .tracer import Action, Step

_MOST_CONSTANT_BYTES = 1 << 20

Places = dict[Storage, tuple[Storage, int]]
"""For storages that are gone: the storage that holds their elements, and where, in bytes."""


def simplify(trace: Trace) -> Trace:
    """Without copies of what stays as it is, repeated steps and dead ones."""
    return without_dead_steps(without_repeated_steps(without_copies(trace)))


def without_dead_steps(trace: Trace) -> Trace:
    """Only steps that lead to a result, a kept gradient or a change of something outside.

    Checks of data and actions on the host stay, and so do setup steps whose values are read.
    """
    needed = set(trace.lasting)
    kept: list[Step | Action] = []
    for step in reversed(trace.steps):
        if isinstance(step, Step):
            written = any(s in needed or s in trace.outside for s in step.writes)
            if not written and not step.function.reports:
                continue
            needed.update(x.storage for x in step.inputs)
        kept.append(step)
    setup: list[Step] = []
    for step in reversed(trace.setup):
        if needed.intersection(step.made):
            needed.update(x.storage for x in step.inputs)
            setup.append(step)
    return replace(trace, steps=tuple(reversed(kept)), setup=tuple(reversed(setup)))


def without_repeated_steps(trace: Trace) -> Trace:
    """Every value computed once, where the same op on the same elements is recorded again.

    What backward computes anew (a checkpoint) is not taken from forward: it would have to be held
    in between.
    """
    places: Places = {}
    callers = set(trace.callers)
    known: dict[Any, Step] = {}
    versions: dict[Storage, int] = {}
    actions = 0
    steps: list[Step | Action] = []
    for step in trace.steps:
        if isinstance(step, Action):
            actions += 1
            steps.append(step)
            continue
        step = moved(step, places)
        key = _identity(trace, step, versions, actions)
        before = None if key is None else known.setdefault(key, step)
        pairs = [] if before is None else zip(step.outputs, before.outputs, strict=True)
        same = [(old.storage, new.storage) for old, new in pairs]
        if before is None or before is step or _meet(same, callers):
            steps.append(step)
            for storage in step.writes:
                versions[storage] = versions.get(storage, 0) + 1
            continue
        places.update((old, (new, 0)) for old, new in same)
    return with_places(trace, steps, places)


def without_copies(trace: Trace) -> Trace:
    """Copies of dense elements that do not change while the copy is used: one memory for both.

    A gradient that a leaf keeps, as a copy of another, is written in its place at once.
    """
    trace = trace.with_steps([part for step in trace.steps for part in _copies_apart(step)])
    places: Places = {}
    lasting = set(trace.callers | trace.lasting)
    for position, step in trace.ops:
        if not _is_copy(step):
            continue
        (x,), (y,) = step.inputs, step.outputs
        source = places.get(x.storage, (x.storage, 0))
        if not x.contiguous or not trace.is_value(y.storage):
            continue
        if y.storage not in trace.kept:
            written = max(trace.writers.get(x.storage, (-1,)))
            if written < position and not _meet([(y.storage, source[0])], lasting):
                places[y.storage] = (source[0], source[1] + x.offset * x.dtype.itemsize)
        elif (
            trace.is_value(x.storage)
            and not trace.outlives(x.storage)
            and source == (x.storage, 0)
            and (x.offset, x.storage.nbytes) == (y.offset, y.storage.nbytes)
        ):
            places[x.storage] = (y.storage, 0)
            places = {
                s: (y.storage, o) if t is x.storage else (t, o) for s, (t, o) in places.items()
            }
    steps = [s if isinstance(s, Action) else moved(s, places) for s in trace.steps]
    return with_places(trace, [s for s in steps if not _copies_itself(s)], places)


def _meet(pairs: Sequence[tuple[Storage, Storage]], callers: set[Storage]) -> bool:
    """Whether two storages would be one that the caller may write each for itself.

    If not, the second of a pair is his from now on where the first was.
    """
    if any(old is not new and old in callers and new in callers for old, new in pairs):
        return True
    callers.update(new for old, new in pairs if old in callers)
    return False


def with_constants(trace: Trace) -> Trace:
    """Values that depend on no argument, random number or cell are computed once.

    Those of parameters that no step changes are computed again when somebody else changed one.
    """
    constant: set[Storage] = set(trace.constants)
    read = {x.storage for _, step in trace.ops for x in step.inputs}
    constant |= {s for s in read if s in trace.outside and s not in trace.writers}
    setup, steps = list(trace.setup), list[Step | Action]()
    for step in trace.steps:
        if isinstance(step, Step) and _is_constant(trace, step, constant):
            constant.update(step.made)
            setup.append(step)
        else:
            steps.append(step)
    return without_dead_steps(replace(trace, steps=tuple(steps), setup=tuple(setup)))


def cells_of(value: Any) -> tuple[HostScalar, ...]:
    """The cells among an op's settings, whose numbers may differ whenever they are read."""
    if isinstance(value, HostScalar):
        return (value,)
    if isinstance(value, tuple | list):
        inside: Sequence[Any] = value
    elif is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, f.name) for f in fields(value)]
    else:
        return ()
    return tuple(cell for part in inside for cell in cells_of(part))


def _identity(trace: Trace, step: Step, versions: dict[Storage, int], actions: int) -> Any:
    """What two steps share that compute the same; None for one that has to stay."""
    replaceable = all(trace.is_value(s) and s not in trace.kept for s in step.made)
    if step.mutated or not replaceable or len(step.made) != len(step.outputs):
        return None
    operands = tuple(
        (x.storage, versions.get(x.storage, 0), x.offset, x.shape, x.strides, x.dtype)
        for x in step.inputs
    )
    read_at = actions if cells_of(step.function) else None
    # Equal settings may yet differ: 0.0 and -0.0, 1 and True.
    key = (step.function, repr(step.function), step.phase, operands, read_at)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _is_copy(step: Step) -> bool:
    function = step.function
    if isinstance(function, Copy):
        return True
    return (
        isinstance(function, Pointwise)
        and function.exprs == (Input(0),)
        and function.dtypes[0] is step.inputs[0].dtype
        and step.inputs[0].shape == step.outputs[0].shape
    )


def _copies_apart(step: Step | Action) -> list[Step | Action]:
    """A pointwise step without those outputs that are copies of inputs, and a step for each."""
    if not isinstance(step, Step) or not isinstance(step.function, Pointwise):
        return [step]
    function, rest = step.function, list[int]()
    parts: list[Step | Action] = []
    for k, (expr, y) in enumerate(zip(function.exprs, step.outputs, strict=True)):
        alone = replace(function, exprs=(Input(0),), dtypes=(y.dtype,), scalars=())
        copied = step.inputs[expr.index] if isinstance(expr, Input) else None
        part = (
            None
            if copied is None
            else replace(step, function=alone, inputs=(copied,), outputs=(y,))
        )
        if part is not None and _is_copy(part):
            parts.append(part)
        else:
            rest.append(k)
    if not parts or len(step.outputs) == 1:
        return [step]
    if rest:
        exprs, dtypes = zip(*((function.exprs[k], function.dtypes[k]) for k in rest), strict=True)
        left = replace(function, exprs=exprs, dtypes=dtypes)
        parts.append(replace(step, function=left, outputs=tuple(step.outputs[k] for k in rest)))
    return parts


def _copies_itself(step: Step | Action) -> bool:
    return (
        isinstance(step, Step)
        and _is_copy(step)
        and step.inputs[0].storage is step.outputs[0].storage
    )


def _is_constant(trace: Trace, step: Step, constant: set[Storage]) -> bool:
    most = max(_MOST_CONSTANT_BYTES, 4 * sum(x.storage.nbytes for x in step.inputs))
    return (
        not step.mutated
        and not step.function.reports
        and bool(step.made)
        and all(x.storage in constant for x in step.inputs)
        and all(trace.is_value(s) and s not in trace.kept for s in step.made)
        and sum(s.nbytes for s in step.made) <= most
        and not cells_of(step.function)
    )


def moved(step: Step, places: Places) -> Step:
    """A step on what took the place of storages that are gone."""
    if not any(a.storage in places for a in (*step.inputs, *step.outputs)):
        return step
    return replace(
        step,
        inputs=tuple(_placed(x, places) for x in step.inputs),
        outputs=tuple(_placed(y, places) for y in step.outputs),
    )


def _placed(array: Array, places: Places) -> Array:
    if array.storage not in places:
        return array
    storage, start = places[array.storage]
    offset = array.offset + start // array.dtype.itemsize
    return Array(storage, array.shape, array.strides, offset, array.dtype)


def with_places(trace: Trace, steps: Sequence[Step | Action], places: Places) -> Trace:
    """The trace with other steps, and its results where they lie now."""
    results = tuple(_placed(r, places) for r in trace.results)
    return replace(trace, steps=tuple(steps), results=results)
