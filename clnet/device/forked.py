"""What a process inherits that was forked after OpenCL was used: nothing that works.

A driver's threads and locks, or its ties to a GPU, are not carried along: calls would wait for
ever. So the child calls nothing of the parent's, not even to release it, and says so when asked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import DeviceError

if TYPE_CHECKING:
    from .device import Device


class Inheritance:
    """Whether this process, or the one that it was forked from, has used OpenCL.

    Attributes:
        used: whether a driver was asked for anything.
        lost: whether that was the parent, so that OpenCL cannot be used here.
    """

    def __init__(self) -> None:
        self.used = self.lost = False

    def use(self) -> None:
        """Called before a driver is asked for anything.

        Raises:
            DeviceError: if the parent did so before this process was forked.
        """
        if self.lost:
            raise inherited_error("OpenCL")
        self.used = True

    def forked(self, devices: Iterable[Device]) -> None:
        """Called in the child: devices of the parent refuse everything from now on."""
        self.lost = self.lost or self.used
        for device in devices:
            _keep(device)
            for bound in device.queue.bound:
                _keep(bound)
            lock = _LostLock(device.name)
            device.lock = device.queue.lock = device.pool.lock = lock
            device.inherited = True


INHERITANCE = Inheritance()


def inherited_error(subject: str) -> DeviceError:
    """The error for a use of what the parent had."""
    return DeviceError(
        subject,
        "it was used before this process was forked, and cannot be used in both",
        remedy="Start processes with multiprocessing.get_context('spawn') or 'forkserver', or fork "
        "before clnet first uses a device; what uses no device may be forked at any time",
    )


class _LostLock:
    """In the place of a device's lock, which everything takes that uses the device."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        raise inherited_error(f"device {self._name!r}")

    def __exit__(self, *exc: object) -> None:
        """Never entered."""


def _keep(thing: Any) -> None:
    """Never let go of an object, so that no destructor calls the driver, at exit neither.

    Buffers of tensors that go come to the pool, as ever, and stay there.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
