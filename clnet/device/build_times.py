"""What a kernel took before its first launch, by stage: seconds of a core, and waiting for one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class BuildTimes:
    """Seconds that one kernel took, of a core but for the last.

    Attributes:
        name: the kernel.
        rendering: its text, from the template.
        front: ``clBuildProgram``: on PoCL clang's front end alone.
        code: asking for the binary: on PoCL all passes and the code generation.
        loading: from a binary to what can be launched.
        waiting: in all of these, while the thread that did them had no core; with what other
            processes did for it, PoCL's linker.
    """

    name: str
    rendering: float = 0.0
    front: float = 0.0
    code: float = 0.0
    loading: float = 0.0
    waiting: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what is done here to a stage; ``builder.py`` does it for other processes.

        Args:
            name: a field.
        """
        wall, used = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            used = time.thread_time() - used
            setattr(self, name, getattr(self, name) + used)
            self.waiting += max(time.perf_counter() - wall - used, 0.0)
