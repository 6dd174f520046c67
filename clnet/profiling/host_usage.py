"""What the process used of the host: seconds of the processor, pages that were not there."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows has none
    resource = None


class HostUsage(NamedTuple):
    """Sums over all threads of the process.

    Attributes:
        user: processor seconds in its own code and drivers.
        system: processor seconds in the kernel on its behalf.
        minor_faults: pages that were given to it at their first touch; None where the system does
            not say (Windows).
        major_faults: pages that were read from a disk; None as above.
    """

    user: float = 0.0
    system: float = 0.0
    minor_faults: int | None = 0
    major_faults: int | None = 0

    @staticmethod
    def now() -> HostUsage:
        """Since the process began."""
        if resource is None:
            times = os.times()
            return HostUsage(times.user, times.system, None, None)
        used = resource.getrusage(resource.RUSAGE_SELF)
        return HostUsage(used.ru_utime, used.ru_stime, used.ru_minflt, used.ru_majflt)

    def since(self, earlier: HostUsage) -> HostUsage:
        """What was used since then."""
        return HostUsage(
            self.user - earlier.user,
            self.system - earlier.system,
            _since(self.minor_faults, earlier.minor_faults),
            _since(self.major_faults, earlier.major_faults),
        )


def _since(now: int | None, earlier: int | None) -> int | None:
    return None if now is None or earlier is None else now - earlier


def peak_resident_bytes() -> int | None:
    """The most memory this process has had resident so far; None where the system does not say."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
