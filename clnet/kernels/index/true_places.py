"""Where the true elements of a mask are: counted by blocks, then written by blocks."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import int32
from ...values.shapes import Shape, ceil_div
from ..grid import in_groups, items
from ..kernel import Constraint, Kernel, by_name, ints, joined

_POWER_OF_2 = Constraint("group & (group - 1) == 0", "a binary tree")
_COUNT = Kernel("true_count", "index/true_places.mako")
_SCAN = Kernel("true_scan", "index/true_places.mako")
_PLACES = Kernel("true_places", "index/true_places.mako")
_COUNT_LOCAL = Kernel("true_count_local", "index/true_places.mako", (_POWER_OF_2,))
_SCAN_LOCAL = Kernel("true_scan_local", "index/true_places.mako")
_PLACES_LOCAL = Kernel("true_places_local", "index/true_places.mako")
_UNRAVEL = Kernel("unravel", "index/true_places.mako")

_CPU_PER_ITEM = 256
_CPU_LEAST_BLOCK = 4096
_CPU_BLOCKS = 4  # for each unit
_GPU_GROUP = 256
_GPU_PER_ITEM = 8
MOST_AXES = 16
"""Axes that :func:`unravel` knows."""


def true_places(target: Target, places: Array, total: Array, mask: Array) -> list[Launch]:
    """``places[:total]``: where a mask is true, ascending; what is behind is not written.

    Args:
        target: what to choose the kernels for.
        places: ``(n,)``, dense int32.
        total: ``(1,)``, int32.
        mask: ``(n,)``, dense bool, not empty.
    """
    n = mask.size
    if in_groups(target.traits):
        group = 1 << (min(_GPU_GROUP, target.traits.max_group_size).bit_length() - 1)
        per_block = group * _GPU_PER_ITEM
        count, count_params = _COUNT_LOCAL, {"group": group}
        scan, scan_params = _SCAN_LOCAL, {"group": group}
        write, params = _PLACES_LOCAL, {"group": group, "per_item": _GPU_PER_ITEM}
    else:
        group = 1
        blocks = _CPU_BLOCKS * target.traits.compute_units
        per_block = max(_CPU_LEAST_BLOCK, ceil_div(n, blocks))
        count, count_params = _COUNT, {}
        scan, scan_params = _SCAN, {}
        write, params = _PLACES, {"per_item": _CPU_PER_ITEM}
    blocks = ceil_div(n, per_block)
    counts = Array.scratch(Scratch(mask.device), (blocks,), int32)
    sizes = {"global_size": (blocks * group,), "local_size": (group,)}
    one = {"global_size": (group,), "local_size": (group,)}
    args = by_name("n per_block counts mask", n, per_block, counts, mask)
    return [
        count.launch(count_params, args, **sizes, flops=n, bytes=mask.nbytes + counts.nbytes),
        scan.launch(
            scan_params,
            by_name("n counts total", blocks, counts, total),
            **one,
            flops=blocks,
            bytes=2 * counts.nbytes,
        ),
        write.launch(
            params,
            joined(args, {"places": places}),
            **sizes,
            flops=0,
            bytes=mask.nbytes + counts.nbytes + places.nbytes,
        ),
    ]


def unravel(target: Target, y: Array, places: Array, shape: Shape) -> list[Launch]:
    """Row-major places in a shape as coordinates.

    Args:
        target: what to choose the kernel for.
        y: ``(n, axes)``, dense int64.
        places: ``(n,)``, dense int32, within the shape.
        shape: of 1 to :data:`MOST_AXES` axes.
    """
    if y.size == 0:
        return []
    n, ndim = y.shape
    return [
        _UNRAVEL.launch(
            {"ndim": ndim},
            by_name("n y places sizes", n, y, places, ints(*shape)),
            **items(target, n),
            flops=2 * y.size,
            bytes=y.nbytes + places.nbytes,
        )
    ]
