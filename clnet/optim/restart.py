"""Optimisers and schedulers that a traced function makes: at every call they begin anew.

What they count is on the host, where a replay goes on from the last one. So before their first step
a replay sets it as it was when that step was traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..ops.machinery.function import host_action
from ..values import mode

_MADE: WeakKeyDictionary[Any, ref[Any]] = WeakKeyDictionary()


def made(x: Any) -> None:
    """Remember that the function which is traced just now makes an optimiser or a scheduler."""
    tracer = mode.current().tracer
    if tracer is not None:
        _MADE[x] = ref(tracer)


def begun(x: Any, kept: Callable[[Any], Callable[[], None]]) -> None:
    """Before each step: at the first one of what the traced function made, let replays begin there.

    Args:
        x: the optimiser or the scheduler.
        kept: gives what sets it as it is now.
    """
    tracer = mode.current().tracer
    if tracer is not None and x in _MADE and _MADE[x]() is tracer:
        del _MADE[x]
        host_action(kept(x))


def optimiser_as_it_is(x: Any) -> Callable[[], None]:
    """What sets an optimiser's steps, settings and the numbers that kernels read as they are."""
    groups = [{**group} for group in x.param_groups]
    states = [(kept, x._kept(p)) for kept in groups for p in kept["params"]]
    counts = [own.count for _, own in states]

    def again() -> None:
        x._settled = x._unsettled = 0
        for group, kept in zip(x.param_groups, groups, strict=True):
            group.update(kept)
        for (group, own), count in zip(states, counts, strict=True):
            own.count = count
            for name, value in x._numbers(group, max(count, 1)).items() if own.cells else ():
                own.cells[name].value = value

    return again


def scheduler_as_it_is(x: Any) -> Callable[[], None]:
    """What sets a scheduler's attributes as they are, and those of its parts."""
    every = [x]
    for each in every:
        every += vars(each).get("schedulers", ())
    kept = [(each, _copied(vars(each))) for each in every]

    def again() -> None:
        for each, attributes in kept:
            vars(each).update(_copied(attributes))

    return again


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    return {k: v.copy() if type(v) in (list, dict) else v for k, v in attributes.items()}
