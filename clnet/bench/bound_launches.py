"""Launches bound once, as a compiled plan has them: timed is enqueueing and running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..device import Device, Launch, Scratch, Storage


def placed(launches: list[Launch], where: Device) -> list[Launch]:
    """The launches with memory of their own for what they keep between them.

    Args:
        launches: changed, if they need scratch memory.
        where: the device.
    """
    needed = [arg.nbytes for launch in launches for arg in launch.args if type(arg) is Scratch]
    if needed:
        memory = Storage(where, max(needed))
        memory.materialize()
        for launch in launches:
            launch.args = tuple(memory if type(arg) is Scratch else arg for arg in launch.args)
    return launches


def replaying(launches: Sequence[Launch], where: Device) -> Callable[[], None]:
    """What enqueues the launches.

    Args:
        launches: in order, scratch memory :func:`placed`.
        where: the device.
    """
    bound = where.queue.bind(launches)
    return lambda: where.queue.replay(bound)
