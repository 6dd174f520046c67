"""Processes that tests start for what they compute, not for how they end, end soon.

Python looks three times through all objects for circular garbage before a process ends, and frees
clnet's thousands one by one: 0.4 of the 1.05 s of a core that ``import clnet`` takes then. Here
they are set aside first. What is asked of a process's end is asked of one that ends as users' do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_TESTS = Path(__file__).parent


def ending_soon(*folders: str) -> str:
    """What ``PYTHONPATH`` is for such a process: this checkout and other folders.

    Args:
        *folders: if there are none, those that this process looks in.
    """
    return os.pathsep.join([str(_TESTS / "ends_soon"), str(_TESTS.parent), *(folders or sys.path)])
