"""``clnet.accelerator``: the current device, whatever it is."""

from __future__ import annotations

from typing import Any

from ..device import (
    Device,
    current_device,
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
    synchronize,
)
from ..device import device as open_device
from . import cuda

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """Whether the current device is none of the host's processors."""
    return current_device().type != "cpu"


def current_accelerator(check_available: bool = False) -> Device | None:  # noqa: FBT001, FBT002
    """The current device, if it is none of the host's processors."""
    return current_device() if is_available() else None


def device_count() -> int:
    """1 where the current device is none of the host's processors, else 0."""
    return int(is_available())


def current_device_index() -> int:
    """Which of its platform's devices the current one is."""
    return current_device().index


def set_device_index(device: Any) -> None:
    """Taken: devices are named where tensors are made, or by ``with clnet.device(...)``."""


def current_stream(device: Any = None) -> Any:
    """The stream that launches go to, as :mod:`clnet.cuda` has it."""
    return cuda.current_stream(device)


def device_index(device: Any) -> Device:
    """A device to enter: ``with clnet.accelerator.device_index(0):``."""
    return open_device(device)
