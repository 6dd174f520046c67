"""What early release saves: the peak of a deep network's step, against holding everything."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from .. import nn
from ..creation import zeros
from ..device import (
    Device,
    Record,
    device,
    max_memory_allocated,
    memory_allocated,
    reset_peak_memory_stats,
)
from ..nn import functional as F
from ..tensor import full
from ..values.dtypes import int64

_DEPTH, _CHANNELS, _BATCH, _SIZE = 24, 16, 32, 32


def _network() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, _CHANNELS, 3, padding=1), nn.ReLU()]
    for _ in range(_DEPTH):
        layers += [
            nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1),
            nn.BatchNorm2d(_CHANNELS),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_CHANNELS, 10))


class _Holder:
    """An observer that keeps all that is written: activations, gradients and what lies between."""

    profiling = False

    def __init__(self) -> None:
        self._kept: list[object] = []

    def command(self, record: Record) -> None:
        """Called by the queue after every command."""
        self._kept.append(record.writes)


def peaks(where: Device) -> dict[str, int]:
    """Peak bytes of a step above what the model itself holds.

    Args:
        where: the device.

    Returns:
        With early release, and with everything held until the step's end.
    """
    model = _network().to(where)
    x = full((_BATCH, 3, _SIZE, _SIZE), 1.0, device=where)
    y = zeros(_BATCH, dtype=int64, device=where)

    def peak() -> int:
        model.zero_grad()
        before = memory_allocated(where)
        reset_peak_memory_stats(where)
        F.cross_entropy(model(x), y).backward()
        return max_memory_allocated(where) - before

    peak()  # the workspace grows to its size
    released = peak()
    with where.queue.observe(_Holder()):
        held = peak()
    return {"early release": released, "all held": held}


def main(argv: Sequence[str] | None = None) -> None:
    """Print the figures; ``--help`` lists the options."""
    parser = argparse.ArgumentParser(prog="clnet bench memory", description=__doc__)
    parser.add_argument("--device", help="as in clnet.device()")
    parser.add_argument("--json", action="store_true", help="one JSON line")
    options = parser.parse_args(argv)
    where = device(options.device)
    found = peaks(where)
    if options.json:
        print(json.dumps({"bench": "memory", "device": where.identity.key, **found}))
        return
    for name, value in found.items():
        print(f"{name:14} {value / 2**20:8.2f} MiB")
    print(f"early release / all held: {found['early release'] / found['all held']:.2f}")


if __name__ == "__main__":
    main()
