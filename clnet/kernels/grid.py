"""Sizes of grids of kernels with one work-item an element, and lanes of a vector."""

from __future__ import annotations

from typing import Any

from ..device import Target
from ..values.shapes import round_up

_GPU_GROUP = 256
_CPU_GROUPS = (64, 1024)


def items(target: Target, count: int) -> dict[str, Any]:
    """Sizes for ``count`` work-items in one dimension, rounded up: the kernel guards its tail.

    PoCL compiles a kernel anew for every local size, so there are only two of them on a CPU: a long
    one that costs little to schedule, and a short one that still gives work to every core.

    Args:
        target: whose limits hold.
        count: work-items needed.

    Returns:
        ``global_size`` and ``local_size``, as a launch takes them.
    """
    if target.traits.dedicated_local_memory:
        wanted = _GPU_GROUP
    else:
        short, long = _CPU_GROUPS
        wanted = long if count >= long * target.traits.compute_units else short
    group = min(wanted, target.traits.max_group_size)
    return {"global_size": (round_up(count, group),), "local_size": (group,)}


def lanes_of(target: Target, itemsize: int) -> int:
    """Lanes of a vector of ``itemsize`` bytes an element: a power of two from 2 to 16."""
    wanted = max(2, min(16, target.traits.simd_width * 4 // itemsize))
    return 1 << (wanted.bit_length() - 1)
