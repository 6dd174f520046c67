"""What the process used of the host: seconds of the processor, pages that were not there."""

from __future__ import annotations

import resource
from typing import NamedTuple


class HostUsage(NamedTuple):
    """Sums over all threads of the process.

    Attributes:
        user: processor seconds in its own code and drivers.
        system: processor seconds in the kernel on its behalf.
        minor_faults: pages that were given to it at their first touch.
        major_faults: pages that were read from a disk.
    """

    user: float = 0.0
    system: float = 0.0
    minor_faults: int = 0
    major_faults: int = 0

    @staticmethod
    def now() -> HostUsage:
        """Since the process began."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return HostUsage(used.ru_utime, used.ru_stime, used.ru_minflt, used.ru_majflt)

    def since(self, earlier: HostUsage) -> HostUsage:
        """What was used since then."""
        return HostUsage(
            self.user - earlier.user,
            self.system - earlier.system,
            self.minor_faults - earlier.minor_faults,
            self.major_faults - earlier.major_faults,
        )
