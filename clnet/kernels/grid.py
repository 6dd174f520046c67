"""Sizes of grids of kernels with one work-item an element, and lanes of a vector."""

from __future__ import annotations

from typing import Any

from ..device import DeviceTraits, Target
from ..values.dtypes import DType, from_name
from ..values.shapes import ceil_div, round_up

_GPU_GROUP = 256
_CPU_GROUPS = (64, 1024)
# A CPU's unit takes several work-items, so that one that is late is waited for less; but an item
# takes so many elements that its start costs little.
_ITEMS_PER_UNIT = 16
_ITEM_ELEMENTS = 4096
# Work-items step past the end by less than this before they stop.
_INT_HOLDS = 2**31 - 2**16


def in_groups(traits: DeviceTraits) -> bool:
    """Whether the work-items of a group make a result together, as on GPUs.

    Elsewhere a work-item makes it alone, with vectors: local memory is no faster than other
    memory, and a barrier cuts a kernel in two.
    """
    return traits.dedicated_local_memory


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
    if in_groups(target.traits):
        wanted = _GPU_GROUP
    else:
        short, long = _CPU_GROUPS
        wanted = long if count >= long * target.traits.compute_units else short
    group = min(wanted, target.traits.max_group_size)
    return {"global_size": (round_up(count, group),), "local_size": (group,)}


def flat_type(count: int) -> str:
    """The type by which kernels count so many elements: ``int`` wherever that holds them."""
    return "int" if count < _INT_HOLDS else "long"


def group_of_line(target: Target, size: int) -> int:
    """Work-items of a group that has a line of so many elements: a power of two."""
    most = min(_GPU_GROUP, target.traits.max_group_size, 1 << (size - 1).bit_length())
    return 1 << (most.bit_length() - 1)


def lanes_of(target: Target, itemsize: int) -> int:
    """Lanes of a vector of ``itemsize`` bytes an element: a power of two from 2 to 16."""
    wanted = max(2, min(16, target.traits.simd_width * 4 // itemsize))
    return 1 << (wanted.bit_length() - 1)


def lanes_of_stored(target: Target, dtype: DType) -> int:
    """Lanes of a vector of what a dtype's arithmetic is done in."""
    return lanes_of(target, from_name(dtype.compute).itemsize)


def filled(lanes: int, n: int) -> int:
    """Lanes of vectors, of at most ``lanes``, that rows of ``n`` fill.

    What is left of a row is loaded and stored one by one, which takes five times as long.
    """
    return max(2, min(lanes, 1 << (max(n, 1).bit_length() - 1)))


def jobs_per_item(
    target: Target,
    jobs: int,
    elements: int,
    *,
    per_unit: int = _ITEMS_PER_UNIT,
    least: int = _ITEM_ELEMENTS,
    most: int | None = None,
) -> int:
    """Jobs that a work-item of a CPU does, one after the other.

    Args:
        target: of which the units count.
        jobs: all, at least one.
        elements: of all jobs.
        per_unit: work-items of a unit, at most.
        least: elements of a work-item, unless the jobs are that many.
        most: work-items in all, in place of ``per_unit``.
    """
    most = target.traits.compute_units * per_unit if most is None else most
    return ceil_div(jobs, max(1, min(jobs, most, elements // least)))
