"""Where the time before the first result goes: imports, the context, building kernels."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ..device import Device

_STARTTIME = 19  # of the fields of /proc/self/stat that follow the command's name


@dataclass
class StartUp:
    """Seconds and counts of what happens once.

    Attributes:
        process: from the start of the process to the start of the profile: Python and imports;
            None where the system does not say, or the profile did not cover the whole program.
        context: creating contexts.
        build: rendering, compiling and loading kernels before their first launch.
        first_launch: enqueueing kernels for the first time, where some drivers compile.
        built: kernels compiled from source.
        loaded: kernels taken from the cache on disk (cache hits).
    """

    process: float | None = None
    context: float = 0.0
    build: float = 0.0
    first_launch: float = 0.0
    built: int = 0
    loaded: int = 0

    def add(self, device: Device, sign: int = 1) -> None:
        """Add what building has cost on a device so far; ``sign=-1``: subtract it."""
        programs = device.programs.statistics
        self.build += sign * programs.seconds
        self.first_launch += sign * programs.first_launch_seconds
        self.built += sign * programs.built
        self.loaded += sign * programs.loaded

    def text(self) -> str:
        """One line."""
        parts = [] if self.process is None else [f"Python and imports {self.process:.2f} s"]
        parts.append(f"context {self.context:.2f} s")
        parts.append(
            f"{self.built} kernels built and {self.loaded} from the cache {self.build:.2f} s"
        )
        parts.append(f"first launches {self.first_launch:.2f} s")
        return ", ".join(parts)

    def fields(self) -> dict[str, float | None]:
        """As JSON has it."""
        return asdict(self)


def seconds_since_process_start() -> float | None:
    """How long this process has been running, where Linux tells."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        started = int(fields[_STARTTIME]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, AttributeError, ValueError, IndexError):
        return None
