"""A process that evaluates calls one after another, so that a crash or hang takes it alone.

It reads a call a line and answers ``phase`` lines and one ``end`` line, as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import warnings
from typing import Any

MEMORY = 14 * 2**30
"""Bytes of address space: an allocation beyond is refused, not swapped."""
WIDTH = "FUZZ_WIDTH"
"""Names the vector's width to choose kernels for, instead of the device's."""
LIMIT = 2**29
"""Bytes of device memory."""


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what compilers print is no answer
    warnings.simplefilter("ignore")
    oracle: Any = None
    if "--alone" not in sys.argv:
        try:
            oracle = importlib.import_module("torch")
            oracle.set_num_threads(1)
        except ImportError:
            oracle = None
    import clnet  # noqa: PLC0415 - after the limits

    from .evaluate import settled  # noqa: PLC0415

    clnet.set_memory_limit(LIMIT)
    if width := int(os.environ.get(WIDTH, "0")):
        clnet.device().narrow(width)

    def say(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")

    say(ready=True)
    for line in sys.stdin:
        asked = json.loads(line)
        outcome = settled(asked["text"], oracle, lambda phase: say(phase=phase), grad=asked["grad"])
        say(kind=outcome.kind, detail=outcome.detail[:600])


if __name__ == "__main__":
    main()
