"""Where values lie among sorted ones, and how often whole numbers occur."""

from __future__ import annotations

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import int32
from ...values.shapes import ceil_div
from ..grid import in_groups, items
from ..kernel import Kernel, by_name
from ..moving import fill
from ..reduce import Reduction, reduce

_SEARCH = Kernel("search_rows", "index/count.mako")
_PARTS = Kernel("tally_parts", "index/count.mako")
_TALLY = Kernel("tally", "index/count.mako")
_NEAR = Kernel("tally_near", "index/count.mako")

_GROUP = 256
# Counts that a group keeps to itself, and keys of an item: fewer would be added up more often.
_NEAR_NUMBERS = 2048
_ITEM_KEYS = 16
_CPU_VALUES = 16
# Fewer keys are not worth another core's counts.
_PART_KEYS = 4096


def search_rows(target: Target, y: Array, rows: Array, values: Array, *, or_equal: bool) -> Launch:
    """How many elements of an ascending row are less than each value.

    Args:
        target: what to choose the kernel for.
        y: as many as ``values``, dense int64.
        rows: ``(n,)`` for all, or ``(rows, n)``, dense.
        values: dense; ``(rows, m)`` beside ``(rows, n)``; of the same dtype.
        or_equal: whether equal elements count, too.
    """
    n, several = rows.shape[-1], rows.ndim > 1
    m = values.shape[-1] if several else max(values.size, 1)
    step = n if several else 0
    many = 1 if in_groups(target.traits) else _CPU_VALUES
    return _SEARCH.launch(
        {"ctype": values.dtype.ctype, "or_equal": or_equal, "many": many},
        by_name("count m n step y rows values", values.size, m, n, step, y, rows, values),
        **items(target, ceil_div(values.size, many)),
        flops=values.size * n.bit_length(),
        bytes=y.nbytes + values.nbytes + min(rows.nbytes, values.nbytes * n.bit_length()),
    )


def tally(target: Target, counts: Array, keys: Array) -> list[Launch]:
    """How often each number occurs.

    Args:
        target: what to choose the kernels for.
        counts: ``(numbers,)``, dense int32.
        keys: dense int64; what is no such number is left out.
    """
    numbers = counts.size
    cost = {"flops": keys.size, "bytes": keys.nbytes + counts.nbytes}
    if numbers == 0:
        return []
    if not in_groups(target.traits):
        parts = max(1, min(target.traits.compute_units, keys.size // _PART_KEYS))
        memory = Scratch(keys.device)
        own = counts if parts == 1 else Array.scratch(memory, (parts, numbers), int32)
        part = max(ceil_div(keys.size, parts), 1)
        launch = _PARTS.launch(
            {},
            by_name("n numbers part counts keys", keys.size, numbers, part, own, keys),
            global_size=(parts,),
            local_size=(1,),
            **cost,
        )
        if parts == 1:
            return [launch]
        return [launch, *reduce(target, counts, own, dims=(0,), kind=Reduction.SUM, memory=memory)]
    group = min(_GROUP, target.traits.max_group_size)
    groups = max(1, ceil_div(keys.size, group * _ITEM_KEYS))
    near = numbers <= _NEAR_NUMBERS
    launch = (_NEAR if near else _TALLY).launch(
        {"group": group, "size": _NEAR_NUMBERS} if near else {},
        by_name("n numbers counts keys", keys.size, numbers, counts, keys),
        global_size=(groups * group,),
        local_size=(group,),
        **cost,
    )
    return [*fill(target, counts, 0), launch]
