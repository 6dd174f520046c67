"""Memory figures and limits of a device, in PyTorch's names; the pool does the work."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from ..values.arguments import integer
from .device import Device, current_device
from .device import device as open_device


def memory_allocated(device: Any = None) -> int:
    """Bytes in blocks that tensors use just now.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    return _device(device).pool.statistics().allocated


def memory_reserved(device: Any = None) -> int:
    """Bytes the pool holds, in use or free.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    return _device(device).pool.statistics().reserved


def max_memory_allocated(device: Any = None) -> int:
    """The highest :func:`memory_allocated` since the last :func:`reset_peak_memory_stats`.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    return _device(device).pool.statistics().peak_allocated


def max_memory_reserved(device: Any = None) -> int:
    """The highest :func:`memory_reserved` since the last :func:`reset_peak_memory_stats`.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    return _device(device).pool.statistics().peak_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks start again from what is held now.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    _device(device).pool.reset_peak()


def empty_cache(device: Any = None) -> None:
    """Give the memory that nobody uses, the workspace included, back to the device.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    opened = _device(device)
    with opened.lock:
        opened.queue.workspace.release()
        opened.pool.empty_cache()


def set_memory_limit(nbytes: int | None, device: Any = None) -> None:
    """Let the pool take at most ``nbytes`` from the device; None lifts the limit.

    Args:
        nbytes: the limit; what is held already stays.
        device: as :func:`clnet.device` takes it; None: the current one.

    Raises:
        ArgumentError: if it is negative.
        DtypeError: if it is no whole number.
    """
    limit = None if nbytes is None else integer("set_memory_limit", "nbytes", nbytes)
    if limit is not None and limit < 0:
        raise ArgumentError("set_memory_limit", "nbytes is 0 or more", nbytes=limit)
    _device(device).pool.limit = limit


def synchronize(device: Any = None) -> None:
    """Wait until all that was asked of the device is done.

    Args:
        device: as :func:`clnet.device` takes it; None: the current one.
    """
    _device(device).synchronize()


def _device(device: Any) -> Device:
    return current_device() if device is None else open_device(device)
