"""Stable sort of small non-negative keys with their positions: a digit a pass, few by one group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..grid import in_groups
from ..kernel import Constraint, Kernel, by_name, joined

_CPU_BITS = 8
_CPU_LEAST_BLOCK = 4096
_GPU_BITS = 8
_GPU_GROUP = 256
_GPU_PER_ITEM = 8
# Keys that a group of a GPU sorts in its local memory, and its items: 91 steps of a barrier each
# are less than a dozen launches.
_MOST_NEAR, _NEAR_GROUP = 8192, 1024
_Pair = tuple[Array, Array]
_OnePass = Callable[[int, _Pair, _Pair], list[Launch]]
_POWER_OF_2 = Constraint("radix & (radix - 1) == 0", "a digit is a whole number of bits")


class Sorted(NamedTuple):
    """Keys in order, and where each was.

    Attributes:
        keys: ``(n,)``, int32, ascending.
        order: ``(n,)``, int32; equal keys keep the order of their positions.
        launches: what computes them.
    """

    keys: Array
    order: Array
    launches: list[Launch]


_COUNT = Kernel("radix_count", "index/sort.mako", constraints=(_POWER_OF_2,))
_SCAN = Kernel("radix_scan", "index/sort.mako")
_SCATTER = Kernel("radix_scatter", "index/sort.mako", constraints=(_POWER_OF_2,))
_COUNT_LOCAL = Kernel("radix_count_local", "index/sort.mako", constraints=(_POWER_OF_2,))
_SCAN_ROWS = Kernel("radix_scan_rows", "index/sort.mako")
_SCATTER_LOCAL = Kernel(
    "radix_scatter_local",
    "index/sort.mako",
    constraints=(Constraint("half * half == radix", "a digit has two halves"),),
)
_NEAR = Kernel("sort_near", "index/sort.mako")


def sort(target: Target, memory: Scratch, keys: Array, order: Array, *, limit: int) -> Sorted:
    """Sort keys, and carry ``order`` along; both inputs are overwritten.

    Takes 8 bytes of scratch memory for a key.

    Args:
        target: what to choose the kernels for.
        memory: the op's scratch memory.
        keys: ``(n,)``, dense int32, in ``[0, limit]``.
        order: ``(n,)``, dense int32.
        limit: the largest key; only its bits are looked at.

    Returns:
        The sorted keys; they may be the arrays given.
    """
    n = keys.size
    if n == 0:
        return Sorted(keys, order, [])
    near = _near(target, n, limit)
    if near is not None:
        word, room = near
        result = (Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32))
        group = min(_NEAR_GROUP, target.traits.max_group_size, room // 2)
        launch = _NEAR.launch(
            by_name("word room group", word, room, group),
            by_name("n sorted_keys sorted_order keys order", n, *result, keys, order),
            global_size=(group,),
            local_size=(group,),
            flops=0,
            bytes=16 * n,
        )
        return Sorted(*result, [launch])
    launches: list[Launch] = []
    other = (Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32))
    one_pass, bits = _passes(target, memory, n)
    for shift in range(0, limit.bit_length(), bits):
        launches += one_pass(shift, (keys, order), other)
        (keys, order), other = other, (keys, order)
    return Sorted(keys, order, launches)


def _near(target: Target, n: int, limit: int) -> tuple[str, int] | None:
    """The type that holds a key and its position, and how many a group sorts; None: too many."""
    if not in_groups(target.traits) or not 1 < n <= _MOST_NEAR or not limit:
        return None
    room = 1 << (n - 1).bit_length()
    word, size = ("uint", 4) if limit.bit_length() + room.bit_length() <= 32 else ("ulong", 8)
    return (word, room) if room * size <= target.traits.local_memory_bytes else None


def _passes(target: Target, memory: Scratch, n: int) -> tuple[_OnePass, int]:
    """What gives the launches of a pass, and how many bits it takes."""
    if not in_groups(target.traits):
        per_block = max(_CPU_LEAST_BLOCK, ceil_div(n, 2 * target.traits.compute_units))
        counts = Array.scratch(memory, (ceil_div(n, per_block) << _CPU_BITS,), int32)
        return partial(_by_items, per_block, counts), _CPU_BITS
    group = min(_GPU_GROUP, target.traits.max_group_size)
    blocks = ceil_div(n, group * _GPU_PER_ITEM)
    counts = Array.scratch(memory, (1 << _GPU_BITS, blocks), int32)
    totals = Array.scratch(memory, (1 << _GPU_BITS,), int32)
    return partial(_by_groups, group, counts, totals), _GPU_BITS


def _by_items(
    per_block: int, counts: Array, shift: int, given: _Pair, result: _Pair
) -> list[Launch]:
    """A pass in which an item has a block."""
    n = given[0].size
    params, one = {"radix": 1 << _CPU_BITS}, {"global_size": (1,), "local_size": (1,)}
    blocks = {"global_size": (ceil_div(n, per_block),), "local_size": (1,)}
    args = by_name("n per_block shift counts keys", n, per_block, shift, counts, given[0])
    moved = counts.nbytes
    return [
        _COUNT.launch(params, args, **blocks, flops=0, bytes=4 * n + moved),
        _SCAN.launch({}, {"n": counts.size, "counts": counts}, **one, flops=0, bytes=2 * moved),
        _SCATTER.launch(
            params,
            joined(args, by_name("sorted_keys sorted_order order", *result, given[1])),
            **blocks,
            flops=0,
            bytes=16 * n + moved,
        ),
    ]


def _by_groups(
    group: int, counts: Array, totals: Array, shift: int, given: _Pair, result: _Pair
) -> list[Launch]:
    """A pass in which a group has a block, and another a digit's counts of all blocks."""
    n, (radix, blocks) = given[0].size, counts.shape
    sizes = {"global_size": (blocks * group,), "local_size": (group,)}
    params, per_block = {"radix": radix, "group": group}, group * _GPU_PER_ITEM
    args = by_name("n per_block shift counts keys", n, per_block, shift, counts, given[0])
    moved = counts.nbytes
    return [
        _COUNT_LOCAL.launch(params, args, **sizes, flops=0, bytes=4 * n + moved),
        _SCAN_ROWS.launch(
            {"group": group},
            by_name("n counts totals", blocks, counts, totals),
            global_size=(radix * group,),
            local_size=(group,),
            flops=0,
            bytes=2 * moved,
        ),
        _SCATTER_LOCAL.launch(
            {**params, "half": 1 << _GPU_BITS // 2, "per_item": _GPU_PER_ITEM},
            joined(
                args,
                by_name("sorted_keys sorted_order order totals", *result, given[1], totals),
            ),
            **sizes,
            flops=0,
            bytes=16 * n + moved,
        ),
    ]
