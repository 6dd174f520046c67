"""What steps of today's networks need of a device's memory; nothing is computed.

Each network's step is planned as ``clnet bench zoo`` runs it, on a device that has the traits of
the one asked for. Trained: with all passes, and without those that make values of forward again.
Asked: with the last answer still there, as PyTorch's is when its peak is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
_PARTS = ("arenas", "parameters and state", "constants", "arguments", "results")
_HEADS = ("arenas", "weights", "made once", "batch", "answer")
_MOST_HELD = 3


class Peak(NamedTuple):
    """What a network's training step needs.

    Attributes:
        name: the network.
        nbytes: in use at the peak, parameters, momenta, gradients and the batch included.
        held: the same if backward makes nothing again.
    """

    name: str
    nbytes: int
    held: int


class Asked(NamedTuple):
    """What a network that is asked needs.

    Attributes:
        name: the network.
        nbytes: in use at the peak, parameters, the batch and the last answer included.
        parts: what a plan's peak is the sum of: all but the last answer.
        held: bytes of the arenas that are alive at the busiest step, by who made them.
        launches: of a step.
    """

    name: str
    nbytes: int
    parts: Mapping[str, int]
    held: Mapping[str, int]
    launches: int


def peak(name: str, batch: int, traits: DeviceTraits) -> Peak:
    """The peaks of a network's training step.

    Args:
        name: of :data:`.zoo_networks.NAMES`.
        batch: as :func:`.zoo_networks.workload` takes it.
        traits: of the device.
    """
    held = tuple(p for p in PASSES if p is not recompute_beside)
    found = (_stepped(name, batch, traits, training=True, passes=p) for p in (PASSES, held))
    return Peak(name, *(ours.plan.peak_bytes for ours in found))


def asked(name: str, batch: int, traits: DeviceTraits) -> Asked:
    """What a network needs that is asked, in a step that is not the first.

    Args:
        name: of :data:`.zoo_networks.NAMES`.
        batch: as :func:`.zoo_networks.workload` takes it.
        traits: of the device.
    """
    ours = _stepped(name, batch, traits, training=False)
    pool = ours.where.pool
    ours.step()  # which is traced again where the first left something behind
    pool.reset_peak()
    with mode.using(device=ours.where):
        ours.step()
    nbytes, plan = pool.statistics().peak_allocated, ours.plan
    return Asked(name, nbytes, plan.peak_parts, plan.held_at_peak, plan.num_launches)


def report(peaks: Sequence[Peak]) -> str:
    """A table in MiB, and the geometric mean of the ratios.

    Args:
        peaks: of networks, one or more.
    """
    rows = [("MiB", "nothing made again", "ratio", "network, trained")]
    rows += [
        (f"{p.nbytes / _MIB:,.0f}", f"{p.held / _MIB:,.0f}", f"{p.nbytes / p.held:.2f}", p.name)
        for p in peaks
    ]
    mean = geometric_mean(p.nbytes / p.held for p in peaks)
    return f"{aligned(rows)}\ngeometric mean {mean:.3f} of {len(peaks)}"


def report_asked(found: Sequence[Asked]) -> str:
    """A table in MiB, with what the peak is made of, and whose values the arenas hold then.

    Args:
        found: of networks.
    """
    rows = [("MiB", *_HEADS, "launches", "network, asked", "held in the arenas at the peak")]
    rows += [
        (
            _mib(each.nbytes),
            *(_mib(each.parts[part]) for part in _PARTS),
            f"{each.launches}",
            each.name,
            ", ".join(f"{who} {_mib(n)}" for who, n in [*each.held.items()][:_MOST_HELD]),
        )
        for each in found
    ]
    return aligned(rows)


def _mib(nbytes: int) -> str:
    return f"{nbytes / _MIB:,.1f}"


def _stepped(
    name: str,
    batch: int,
    traits: DeviceTraits,
    *,
    training: bool,
    passes: Sequence[Pass] = PASSES,
) -> Ours:
    """A network that took one step on a device with these traits that is not here."""
    absent = AbsentDevice(traits)
    absent.pool.limit = None  # so that the figure is known, too, where it does not fit
    with mode.using(device=absent):
        ours = Ours(workload(name, batch, training=training), absent, passes=passes)
        ours.step()
    return ours
