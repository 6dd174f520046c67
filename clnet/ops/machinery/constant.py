"""Arrays that follow from an op's settings alone: made once on the host, and never written."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from ...array import Array

if TYPE_CHECKING:
    import numpy as np

    from ...device import Device, Storage

_CONSTANTS: WeakSet[Storage] = WeakSet()


def constant(values: np.ndarray, device: Device) -> Array:
    """A table of an op on a device, for whoever keeps it by the op's settings.

    Args:
        values: dense; any shape and dtype that the device has.
        device: where it lies.
    """
    made = Array.from_numpy(values, device)
    _CONSTANTS.add(made.storage)
    return made


def is_constant(storage: Storage) -> bool:
    """Whether it holds such a table: equal ops read the same from any of it."""
    return storage in _CONSTANTS
