"""Running statistics of channels, which whoever finishes those of a batch moves towards them."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import HostScalar
from ...values.record import NamedTuple


class Running(NamedTuple):
    """What is written in place of a batch's variance.

    Attributes:
        mean, var: dense, ``(c,)`` each, of the sums' dtype.
        momentum: the batch's share in them; None: ``1 / count``.
        count: of batches, int64; where there is a momentum it becomes one more; None: none is kept.
    """

    mean: Array
    var: Array
    momentum: float | HostScalar | None
    count: Array | None

    @property
    def track(self) -> str:
        """The kernels' parameter."""
        if self.momentum is None:
            return "average"
        return "blend" if self.count is None else "count"


Statistics = tuple[Array, Array, Array | Running]
"""Of a batch's channels: the mean, ``1 / sqrt(variance + eps)``, and variance, or what moves."""


def track_of(statistics: Statistics) -> str:
    """The kernels' parameter: "" where the variance is stored."""
    last = statistics[2]
    return last.track if isinstance(last, Running) else ""


def written(statistics: Statistics) -> dict[str, Any]:
    """The kernels' arguments by name."""
    mean, invstd, last = statistics
    found: dict[str, Any] = {"mean": mean, "invstd": invstd}
    if not isinstance(last, Running):
        return {**found, "var": last}
    found |= {"running_mean": last.mean, "running_var": last.var}
    if last.count is not None:
        found["batches"] = last.count
    if last.momentum is not None:
        found["momentum"] = last.momentum
    return found
