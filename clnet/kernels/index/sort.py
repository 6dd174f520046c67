"""Stable sort of small non-negative keys with their positions: a digit a pass, few by one group."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import int32
from ...values.record import NamedTuple
from ...values.shapes import ceil_div
from ..grid import in_groups
from ..kernel import Constraint, Kernel, by_name, joined

_CPU_BITS = 8
_CPU_LEAST_BLOCK = 4096
_GPU_BITS = 4
_GPU_GROUP = 256
_GPU_PER_ITEM = 8
# Keys that a group of a GPU sorts in its local memory, and its items: 91 steps of a barrier each
# are less than a dozen launches.
_MOST_NEAR, _NEAR_GROUP = 8192, 1024
_POWER_OF_2 = Constraint("radix & (radix - 1) == 0", "a digit is a whole number of bits")


class _Pass(NamedTuple):
    """Which kernels a pass takes and how blocks are laid over the keys."""

    bits: int
    per_block: int
    blocks: int
    group: int
    count: tuple[Kernel, dict[str, int]]
    scan: tuple[Kernel, dict[str, int]]
    scatter: tuple[Kernel, dict[str, int]]


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
_SCAN_LOCAL = Kernel("radix_scan_local", "index/sort.mako")
_SCATTER_LOCAL = Kernel("radix_scatter_local", "index/sort.mako", constraints=(_POWER_OF_2,))
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
    how = _plan(target, n)
    counts = Array.scratch(memory, (how.blocks << how.bits,), int32)
    other = (Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32))
    launches: list[Launch] = []
    for shift in range(0, limit.bit_length(), how.bits):
        launches += _one_pass(how, n, shift, counts, (keys, order), other)
        (keys, order), other = other, (keys, order)
    return Sorted(keys, order, launches)


def _near(target: Target, n: int, limit: int) -> tuple[str, int] | None:
    """The type that holds a key and its position, and how many a group sorts; None: too many."""
    if not in_groups(target.traits) or not 1 < n <= _MOST_NEAR or not limit:
        return None
    room = 1 << (n - 1).bit_length()
    word, size = ("uint", 4) if limit.bit_length() + room.bit_length() <= 32 else ("ulong", 8)
    return (word, room) if room * size <= target.traits.local_memory_bytes else None


def _plan(target: Target, n: int) -> _Pass:
    if in_groups(target.traits):
        group = min(_GPU_GROUP, target.traits.max_group_size)
        per_block = group * _GPU_PER_ITEM
        radix = 1 << _GPU_BITS
        return _Pass(
            _GPU_BITS,
            per_block,
            ceil_div(n, per_block),
            group,
            (_COUNT_LOCAL, {"radix": radix, "group": group}),
            (_SCAN_LOCAL, {"group": group}),
            (_SCATTER_LOCAL, {"radix": radix, "group": group, "per_item": _GPU_PER_ITEM}),
        )
    params = {"radix": 1 << _CPU_BITS}
    per_block = max(_CPU_LEAST_BLOCK, ceil_div(n, 2 * target.traits.compute_units))
    blocks = ceil_div(n, per_block)
    parts = (_COUNT, params), (_SCAN, {}), (_SCATTER, params)
    return _Pass(_CPU_BITS, per_block, blocks, 1, *parts)


def _one_pass(
    how: _Pass,
    n: int,
    shift: int,
    counts: Array,
    given: tuple[Array, Array],
    result: tuple[Array, Array],
) -> list[Launch]:
    count, count_params = how.count
    scan, scan_params = how.scan
    scatter, scatter_params = how.scatter
    blocks = {"global_size": (how.blocks * how.group,), "local_size": (how.group,)}
    args = joined(
        by_name("n per_block shift counts", n, how.per_block, shift, counts),
        by_name("keys", given[0]),
    )
    return [
        count.launch(
            count_params,
            args,
            **blocks,
            flops=0,
            bytes=4 * n + counts.nbytes,
        ),
        scan.launch(
            scan_params,
            {"n": counts.size, "counts": counts},
            global_size=(how.group,),
            local_size=(how.group,),
            flops=0,
            bytes=2 * counts.nbytes,
        ),
        scatter.launch(
            scatter_params,
            joined(args, by_name("sorted_keys sorted_order order", *result, given[1])),
            **blocks,
            flops=0,
            bytes=16 * n + counts.nbytes,
        ),
    ]
