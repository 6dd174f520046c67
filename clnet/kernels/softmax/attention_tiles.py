"""Attention and its gradients on GPUs: tiles in local memory, scores in registers."""

from __future__ import annotations

from typing import NamedTuple

from ...array import Array
from ...device import Target
from ..kernel import Constraint, Kernel


class Tiling(NamedTuple):
    """How a kernel cuts up its work.

    Attributes:
        item: own rows of a work-item.
        lanes: work-items below each other.
        columns: work-items beside each other.
        tile: rows of the others at once.
    """

    item: int
    lanes: int
    columns: int
    tile: int

    @property
    def own(self) -> int:
        """Rows of a group."""
        return self.item * self.lanes

    @property
    def group(self) -> int:
        """Work-items of a group."""
        return self.lanes * self.columns


_LAWS = (
    Constraint("item % 4 == 0 and columns % 4 == 0", "local memory is read in fours"),
    Constraint("tile % columns == 0", "items have as many of the others each"),
)
FORWARD = Kernel("attention_tiles", "softmax/attention_tiles.mako", constraints=_LAWS)
GRAD_Q = Kernel("attention_tiles_grad_q", "softmax/attention_tiles.mako", constraints=_LAWS)
GRAD_KV = Kernel("attention_tiles_grad_kv", "softmax/attention_tiles.mako", constraints=_LAWS)

# By kernel, and heads up to a size, in the order in which they are tried; the first was the fastest
# on an H200 (docs/notes/attention.md), the last are for little local memory.
_LESS = (Tiling(4, 8, 16, 32), Tiling(4, 8, 8, 16), Tiling(4, 4, 4, 16))
TILINGS = {
    FORWARD: {
        32: (Tiling(8, 16, 8, 64), Tiling(8, 8, 16, 32), *_LESS),
        64: (Tiling(8, 16, 8, 32), Tiling(8, 8, 16, 32), *_LESS),
        128: (Tiling(8, 16, 8, 32), Tiling(4, 16, 16, 32), *_LESS),
        256: (Tiling(8, 16, 16, 32), Tiling(4, 16, 16, 32), *_LESS),
    },
    GRAD_Q: {
        32: (Tiling(8, 16, 8, 64), Tiling(8, 8, 16, 32), *_LESS),
        64: (Tiling(8, 16, 8, 32), Tiling(8, 8, 16, 32), *_LESS),
        128: (Tiling(8, 16, 16, 32), Tiling(4, 16, 16, 32), *_LESS),
        256: (Tiling(4, 16, 16, 32), *_LESS),
    },
    GRAD_KV: {
        32: (Tiling(8, 16, 16, 32), Tiling(8, 8, 16, 32), *_LESS),
        64: (Tiling(8, 16, 8, 32), Tiling(8, 8, 16, 32), *_LESS),
        128: (Tiling(8, 16, 16, 32), Tiling(4, 16, 16, 32), *_LESS),
        256: (Tiling(4, 16, 16, 32), *_LESS),
    },
}


def tiling(target: Target, kernel: Kernel, q: Array, v: Array) -> Tiling | None:
    """How a kernel is to cut up its work; None: it is not for the device, or for heads as large.

    Args:
        target: the device's traits.
        kernel: one of this module's.
        q: the queries.
        v: the values.
    """
    traits, head, value_head = target.traits, q.shape[-1], v.shape[-1]
    sizes = [size for size in TILINGS[kernel] if max(head, value_head) <= size]
    if not traits.dedicated_local_memory or not sizes or min(head, value_head) == 0:
        return None
    room = traits.static_local_bytes // q.dtype.itemsize
    for found in TILINGS[kernel][sizes[0]]:
        fits = _elements(kernel, found, head, value_head) <= room
        if found.group <= traits.max_group_size and fits:
            return found
    return None


def in_fours(x: Array) -> bool:
    """Whether all rows are whole fours and begin at one.

    Args:
        x: of four axes, its rows dense.
    """
    return all(number % 4 == 0 for number in (x.shape[-1], x.offset, *x.strides[:-1]))


def read_views(target: Target, q: Array, v: Array) -> bool:
    """Whether the kernels for queries and values like these read rows that lie anywhere.

    Args:
        target: the device's traits.
        q: the queries.
        v: the values.
    """
    return all(tiling(target, kernel, q, v) for kernel in TILINGS)


def _elements(kernel: Kernel, by: Tiling, head: int, value_head: int) -> int:
    """Elements of the kernel's local memory."""
    step, value_step = ((size + 3) // 4 * 4 + 4 for size in (head, value_head))
    weights = by.tile * (by.own + 4)
    if kernel is FORWARD:
        others = max(by.tile * step, weights) + by.tile * value_step
        return by.own * step + others + by.own * (by.columns + 4)
    if kernel is GRAD_Q:
        others = by.tile * step + max(by.tile * value_step, weights)
        return by.own * (step + value_step) + others
    return (by.own + by.tile) * (step + value_step) + weights
