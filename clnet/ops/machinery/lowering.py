"""What ops that come again make and launch is looked up, and not found out anew.

What ``infer`` and ``lower`` give follows from the op's settings, the device, how the inputs lie,
and the one setting of the mode that they ask for, float32's precision. So both are kept in the
device's target, without memory and without the numbers that differ each time, for ops that say that
they repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ...array import Form
from ...device import HostScalar, KeptLaunches, Launch, Storage, Target
from ...values import mode
from ...values.dtypes import ALL, float32
from ...values.record import NamedTuple
from .function import Arrays, Function

_MOST_KEPT = 8192
_FORM, _DTYPE = attrgetter("form"), attrgetter("array.dtype")
_NARROW = frozenset(x for x in ALL if x.is_floating_point and x.itemsize < float32.itemsize)


class Kept(NamedTuple):
    """What an op makes and launches for inputs that lie so.

    Attributes:
        outputs: how they lie, each in memory of its own.
        launches: without memory.
        mutates: positions of inputs that are written.
    """

    outputs: tuple[Form, ...]
    launches: KeptLaunches
    mutates: tuple[int, ...]


def launches_of(
    function: Function, target: Target, outputs: Arrays, inputs: Arrays
) -> list[Launch]:
    """The launches that compute ``outputs``: what ``lower`` gives, or gave for such arrays before.

    Args:
        function: the op; its ``repeats`` says whether what it does is kept.
        target: the device's numbers.
        outputs: its arrays; ``infer`` gave them.
        inputs: its arrays.
    """
    if not function.repeats:
        return function.lower(target, outputs, inputs)
    storages = [a.storage for a in (*outputs, *inputs)]
    precision = mode.current().float32_precision
    key = key_of(function, inputs, storages[len(outputs) :], precision)
    kept: Kept | None = target.launches.get(key)
    if kept is None:
        kept = _found(function, target, outputs, inputs)
        if kept is None:
            return function.lower(target, outputs, inputs)
        if len(target.launches) >= _MOST_KEPT:
            target.launches.clear()
        target.launches[key] = kept
    return kept.launches.launches(storages[0].device, storages, function.varying)


def key_of(function: Function, inputs: Arrays, storages: list[Storage], precision: str) -> Any:
    """By what the target of the inputs' device keeps what an op does.

    Args:
        function: the op.
        inputs: its arrays; if they are of several devices, nothing is kept.
        storages: of the inputs.
        precision: of float32, as the mode has it.
    """
    if len(storages) == 1:
        return type(function), function.repeat_key, inputs[0].form, precision
    shared = None
    if len({*storages}) < len(storages):
        shared = tuple(map(storages.index, storages))
    return type(function), function.repeat_key, tuple(map(_FORM, inputs)), shared, precision


def kind_of(function: Function, inputs: Sequence[Any], outputs: Arrays) -> Any:
    """One object for each op, with its settings but the numbers, and each way its inputs lie.

    That is the form of its first output, which is kept with the op; but what runs between
    conversions has the form of what these make. None of an op that does not repeat.

    Args:
        function: the op.
        inputs: its tensors.
        outputs: what it has just made.
    """
    if not function.repeats:
        return None
    if function.sixteen_bit or _NARROW.isdisjoint(map(_DTYPE, inputs)):
        return outputs[0].form
    return _kind_by("between conversions", function, inputs)


def kind_in_place(function: Function, inputs: Sequence[Any]) -> Any:
    """As :func:`kind_of`, of an op whose result was written where something else lay."""
    return _kind_by("in place", function, inputs) if function.repeats else None


def _kind_by(how: str, function: Function, inputs: Sequence[Any]) -> Any:
    arrays = tuple(x.array for x in inputs)
    storages, precision = [x.storage for x in arrays], mode.current().float32_precision
    key = (how, *key_of(function, arrays, storages, precision))
    return storages[0].device.target.launches.setdefault(key, object())


def _found(function: Function, target: Target, outputs: Arrays, inputs: Arrays) -> Kept | None:
    """What is kept of an op; None if it makes views, or names memory that is not the arrays'."""
    made, read = [y.storage for y in outputs], [x.storage for x in inputs]
    if len({*made}) < len(made) or not {*made}.isdisjoint(read):
        return None
    cells = [HostScalar(0.0) for _ in function.varying]
    twin = function.with_varying(tuple(cells)) if cells else function
    launches = KeptLaunches.of(twin.lower(target, outputs, inputs), (*made, *read), cells)
    if launches is None:
        return None
    return Kept(tuple([y.form for y in outputs]), launches, function.mutates)
