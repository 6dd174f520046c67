"""Which kernels of a driver were found to agree with plainer ones at their first use.

Kept beside the compiled kernels, so that a driver is asked once. Comparing is the work of
:mod:`clnet.ops.machinery.first_use`; here is whether it is wanted, and what is known already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ..values.cache import Shelf, shelf
from ..values.settings import SETTINGS
from .launch import KernelSource
from .traits import DeviceIdentity, DeviceTraits

_TRUSTED = "trusted 1"
_AGREED = "first use 1\0"
# Platforms on which clnet's whole test-suite is run before every release.
_TESTED = ("Portable Computing Language", "NVIDIA CUDA", "Intel(R) OpenCL", "Oclgrind")
# How names of kernels begin that changed since their numbers were last compared on a card with
# products of 128 items at once (docs/notes/products-gpu.md and attention.md say since when). There
# they are compared whatever the platform.
CHANGED: tuple[str, ...] = ()


class FirstUses:
    """Kernels that were compared on one driver.

    Args:
        kept: where that is kept.
        names: how names of the kernels begin that are compared; "": all are.

    Attributes:
        compared: ops that were computed both ways in this process.
        alone: ops without a plainer way in this process: their kernels are those of any device.
    """

    def __init__(self, kept: Shelf, names: tuple[str, ...] = ("",)) -> None:
        self._shelf, self._names = kept, names
        self._known: set[KernelSource] = set()
        self.compared = 0
        self.alone = 0

    def new(self, kernels: Iterable[KernelSource]) -> list[KernelSource]:
        """Those of some kernels that were not compared yet, here or by a process before."""
        names, known = self._names, self._known
        unknown = [k for k in kernels if k.name.startswith(names) and k not in known]
        if not unknown:
            return unknown
        found = [k for k in dict.fromkeys(unknown) if not self._shelf.holds(_AGREED + _digest(k))]
        known.update(set(unknown).difference(found))
        return found

    def agreed(self, kernels: Iterable[KernelSource]) -> None:
        """Keep that kernels compute what plainer ones do, or that there are none plainer."""
        for kernel in kernels:
            self._shelf.write(_AGREED + _digest(kernel), b"")
            self._known.add(kernel)


def first_uses(identity: DeviceIdentity, traits: DeviceTraits) -> FirstUses | None:
    """What is known of a driver's kernels; None: they are used without being compared.

    They are compared on platforms that clnet's tests do not run on, until ``clnet doctor`` has
    found all to be right; those in ``CHANGED`` wherever they may be chosen. ``CLNET_GUARD`` says
    otherwise.

    Args:
        identity: the device's.
        traits: the device's.
    """
    kept = _shelf(identity)
    wanted = SETTINGS.guard
    if wanted is None:
        wanted = identity.platform not in _TESTED and not kept.holds(_TRUSTED)
        if not wanted and CHANGED and traits.warpgroup_units:
            return FirstUses(kept, CHANGED)
    return FirstUses(kept) if wanted else None


def trust(identity: DeviceIdentity) -> None:
    """Keep that a driver was examined and found to be right.

    Args:
        identity: the device's.
    """
    _shelf(identity).write(_TRUSTED, b"")


def _shelf(identity: DeviceIdentity) -> Shelf:
    return shelf(SETTINGS.cache_dir, *identity.kernels_folder)


def _digest(kernel: KernelSource) -> str:
    return hashlib.sha256("\0".join((kernel.text(), *kernel.options)).encode()).hexdigest()
