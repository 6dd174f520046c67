"""Launches of ops that come again are looked up, and not chosen anew; it decides nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...device import Launch, Scratch, Storage, Target
from ...values import mode
from .function import Arrays, Function

_MOST_KEPT = 2048


def launches_of(
    function: Function, target: Target, outputs: Arrays, inputs: Arrays
) -> list[Launch]:
    """The launches that compute ``outputs``: what ``lower`` gives, or gave for such arrays before.

    What ``lower`` gives follows from the target, how the arrays lie, and the one setting of the
    mode that it asks for, float32's precision. So launches are kept in ``target`` without the
    memory they name, and get that of these arrays.

    Args:
        function: the op; its ``repeats`` says whether its launches are kept.
        target: the device's numbers.
        outputs: its arrays; ``infer`` gave them.
        inputs: its arrays.
    """
    if not function.repeats:
        return function.lower(target, outputs, inputs)
    arrays = (*outputs, *inputs)
    storages = [a.storage for a in arrays]
    one_each = len({*storages}) == len(storages)
    lies = [(a.dtype, a.shape, a.strides, a.offset, a.storage.nbytes) for a in arrays]
    shared = None if one_each else tuple(map(storages.index, storages))
    key = function, tuple(lies), shared, mode.current().float32_precision
    kept = target.launches.get(key)
    if kept is not None:
        return _of_these(kept, storages)
    launches = function.lower(target, outputs, inputs)
    kept = _without_memory(launches, storages)
    if kept is not None:
        if len(target.launches) >= _MOST_KEPT:
            target.launches.clear()
        target.launches[key] = kept
    return launches


class _Kept(NamedTuple):
    """A launch without its memory.

    Attributes:
        launch: with None for memory.
        storages: the places of storages among its arguments, and which of the arrays' each is.
        scratch: the places of scratch memory, which of the op's it is, and its bytes.
    """

    launch: Launch
    storages: tuple[tuple[int, int], ...]
    scratch: tuple[tuple[int, int, int], ...]


def _without_memory(launches: Sequence[Launch], storages: list[Storage]) -> list[_Kept] | None:
    """What is kept of launches; None if one names memory that is not the arrays'."""
    numbers = {storage: number for number, storage in enumerate(storages)}
    lent: dict[Scratch, int] = {}
    kept: list[_Kept] = []
    for launch in launches:
        args: list[Any] = list(launch.args)
        own: list[tuple[int, int]] = []
        scratch: list[tuple[int, int, int]] = []
        for place, arg in enumerate(launch.args):
            if isinstance(arg, Storage):
                if arg not in numbers:
                    return None
                own.append((place, numbers[arg]))
                args[place] = None
            elif isinstance(arg, Scratch):
                scratch.append((place, lent.setdefault(arg, len(lent)), arg.nbytes))
                args[place] = None
        kept.append(_Kept(launch.with_args(tuple(args)), tuple(own), tuple(scratch)))
    return kept


def _of_these(kept: Sequence[_Kept], storages: list[Storage]) -> list[Launch]:
    """Kept launches with memory: the storages of these arrays, and scratch memory of their own."""
    lent: dict[int, Scratch] = {}
    made: list[Launch] = []
    for launch, own, scratch in kept:
        args = list(launch.args)
        for place, number in own:
            args[place] = storages[number]
        for place, number, nbytes in scratch:
            memory = lent.get(number)
            if memory is None:
                memory = lent[number] = Scratch(storages[0].device)
                memory.nbytes = nbytes
            args[place] = memory
        made.append(launch.with_args(tuple(args)))
    return made
