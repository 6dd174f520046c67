"""What training steps of today's networks need of a device's memory; nothing is computed.

Each network's step is planned as ``clnet bench zoo`` runs it, on a device that has the traits of
the one asked for: with all passes, and without those that make values of forward again.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import NamedTuple

from ..compile.passes import PASSES, Pass
from ..compile.rematerialize import recompute_beside
from ..device import AbsentDevice, DeviceTraits
from ..profiling.table import aligned
from ..values import mode
from .side import Ours
from .zoo_networks import workload

_MIB = 2**20


class Peak(NamedTuple):
    """What a network's step needs.

    Attributes:
        name: the network.
        nbytes: in use at the peak, parameters, momenta, gradients and the batch included.
        held: the same if backward makes nothing again.
    """

    name: str
    nbytes: int
    held: int


def peak(name: str, batch: int, traits: DeviceTraits) -> Peak:
    """The peaks of a network's training step.

    Args:
        name: of :data:`.zoo_networks.NAMES`.
        batch: as :func:`.zoo_networks.workload` takes it.
        traits: of the device.
    """
    held = tuple(p for p in PASSES if p is not recompute_beside)
    return Peak(name, *(_planned(name, batch, traits, passes) for passes in (PASSES, held)))


def report(peaks: Sequence[Peak]) -> str:
    """A table in MiB, and the geometric mean of the ratios.

    Args:
        peaks: of networks, one or more.
    """
    rows = [("MiB", "nothing made again", "ratio", "network")]
    rows += [
        (f"{p.nbytes / _MIB:,.0f}", f"{p.held / _MIB:,.0f}", f"{p.nbytes / p.held:.2f}", p.name)
        for p in peaks
    ]
    mean = geometric_mean(p.nbytes / p.held for p in peaks)
    return f"{aligned(rows)}\ngeometric mean {mean:.3f} of {len(peaks)}"


def _planned(name: str, batch: int, traits: DeviceTraits, passes: Sequence[Pass]) -> int:
    absent = AbsentDevice(traits)
    absent.pool.limit = None  # so that the figure is known, too, where it does not fit
    with mode.using(device=absent):
        ours = Ours(workload(name, batch, training=True), absent, passes=passes)
        ours.step()
        return ours.plan.peak_bytes
