"""A driver's errors in clnet's words: commands that it refuses, and devices that are lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import pyopencl as cl

from ..errors import ClnetError, DeviceError, OutOfDeviceMemory

_Method = TypeVar("_Method", bound=Callable[..., Any])


def told(method: _Method) -> _Method:
    """A method of the queue that raises clnet's errors where the driver refuses a command."""

    @wraps(method)
    def telling(self: Any, *args: Any, **given: Any) -> Any:
        try:
            return method(self, *args, **given)
        except cl.Error as error:
            raise refusal(method.__name__, error) from error

    return telling  # pyrefly: ignore[bad-return] - called as the method is


@contextmanager
def failing() -> Iterator[None]:
    """Waiting for the device, with clnet's error where a kernel failed meanwhile."""
    try:
        yield
    except cl.RuntimeError as error:
        raise DeviceError(
            "queue",
            "a kernel failed on the device; the context may be lost",
            status=str(error),
            remedy="Run under clnet.profile() to see which, and start a new process",
        ) from error


def refusal(name: str, error: Any) -> ClnetError:
    """What a driver's error means.

    Args:
        name: what was asked of the queue.
        error: a ``pyopencl.Error``.
    """
    if isinstance(error, cl.MemoryError):
        return OutOfDeviceMemory(
            "out of device memory",
            "the driver has no memory left for a command",
            command=name,
            status=str(error),
            remedy="Use a smaller batch, or free tensors you keep",
        )
    return DeviceError(
        "queue",
        "the driver refused a command; the device may be lost",
        command=name,
        status=str(error),
        remedy="Save what the host has and start a new process; clnet doctor examines the device",
    )
