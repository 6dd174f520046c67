"""What is left out of a device whose driver is wrong about it: kernels that need it are not chosen.

``clnet doctor --mend`` looks for the least that must be left out until numbers are right, and keeps
it beside the compiled kernels of that driver; a device that is opened later is opened without, and
says so. A driver that was never found wrong costs the look at one file.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..values.cache import Shelf, shelf
from ..values.settings import SETTINGS
from .traits import DeviceIdentity, DeviceTraits

_KEY = "guard 1"
Changes = dict[str, Any]
# By what it is called: traits without it. Later ones cost more speed.
_LEVERS: tuple[tuple[str, Changes], ...] = (
    ("products of 128 items at once", {"warpgroup_units": False}),
    ("matrix units", {"matrix_units": ""}),
    ("asynchronous copies", {"asynchronous_copies": False}),
    ("more local memory than is stated", {"large_local_memory_bytes": 0}),
    ("arithmetic of 16 bits", {"float16": False}),
    ("vectors of 16 floats", {"simd_width": 8}),
    ("vectors of 8 floats", {"simd_width": 4}),
    ("vectors", {"simd_width": 1}),
)


def plainer(traits: DeviceTraits) -> Iterator[tuple[str, Changes]]:
    """Ways to leave something out: each alone, then more and more of them together.

    Args:
        traits: of the device.

    Yields:
        What is left out, and the traits that say so.
    """
    levers = [
        (name, changes)
        for name, changes in _LEVERS
        if all(_less(getattr(traits, key), value) for key, value in changes.items())
    ]
    yield from levers
    for count in range(2, len(levers) + 1):
        together: Changes = {}
        for _, changes in levers[:count]:
            together |= changes
        yield " and ".join(name for name, _ in levers[:count]), together


def _less(now: Any, plain: Any) -> bool:
    """Whether a value is plainer than the one there is."""
    return bool(now) and now != plain and (not isinstance(plain, int) or now > plain)


def keep(identity: DeviceIdentity, name: str, changes: Changes) -> None:
    """Have devices of this driver be opened without something from now on.

    Args:
        identity: the device's.
        name: what is left out.
        changes: the traits that say so; {}: nothing is left out any more.
    """
    _shelf(identity).write(_KEY, json.dumps([name, changes]).encode())


def left_out(identity: DeviceIdentity) -> tuple[str, Changes]:
    """What :func:`keep` was told: what is left out, and the traits that say so; "" and {}: nothing.

    Args:
        identity: the device's.
    """
    kept = _shelf(identity).read(_KEY)
    name, changes = ("", {}) if kept is None else json.loads(kept)
    return name, changes


def guarded(traits: DeviceTraits, identity: DeviceIdentity, selector: str) -> DeviceTraits:
    """Traits without what was found to be wrong.

    Args:
        traits: of the device.
        identity: the device's.
        selector: its name, for the warning.
    """
    name, changes = left_out(identity)
    if not changes:
        return traits
    warnings.warn(
        f"device {selector!r}: clnet doctor found that its driver is wrong about {name}; kernels "
        "that need them are not used. Behind another driver, or with another CLNET_CACHE_DIR, they "
        "are",
        RuntimeWarning,
        stacklevel=3,
    )
    return replace(traits, **changes)


def _shelf(identity: DeviceIdentity) -> Shelf:
    return shelf(SETTINGS.cache_dir, *identity.kernels_folder)
