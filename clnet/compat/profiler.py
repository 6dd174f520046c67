"""``clnet.profiler``: PyTorch's marks in programs; tables come from ``clnet.profile()``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
]


class EventList(list[Any]):
    """What PyTorch's profiler returns; clnet's returns a table of its own."""


class ProfilerActivity(Enum):
    """What PyTorch's profiler looks at."""

    CPU, CUDA, XPU, MTIA, HPU, PrivateUse1 = 0, 2, 3, 4, 5, 6


class ProfilerAction(Enum):
    """What it does in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = 0, 1, 2, 3


@contextmanager
def record_function(name: str, args: str | None = None) -> Iterator[None]:
    """A block with a name, also a decorator: ``clnet.profile()`` names modules by itself."""
    yield


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps a profiler records, as PyTorch counts them."""

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        at, whole = step - skip_first, wait + warmup + active
        if repeat and at >= repeat * whole:
            return ProfilerAction.NONE
        at %= whole
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == whole - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def profile(*args: Any, **kwargs: Any) -> Any:
    """There are tables of another kind.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "profiler.profile",
        "profiles are made otherwise",
        remedy="Use `with clnet.profile() as p:` and print(p)",
    )
