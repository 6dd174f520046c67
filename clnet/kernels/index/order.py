"""Lines of any dtype sorted: by counting what comes before, in local memory, or by radix."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.dtypes import DType, Kind, bool_, int32, uint8
from ..grid import in_groups, items
from ..kernel import Kernel, by_name
from .sort import Sorted, sort

_CPU_RANKED = 48
_GPU_RANKED = 512
_WORD = 32
# A CPU's unit takes so many shares of the lines; lines so short that all units would hardly sort
# them sooner are sorted by one.
_ITEMS, _ALONE = 4, 4096
# Elements of a line that a group sorts, and its items, each of which compares two at a time.
_MOST_NEAR = 4096
_MOST_ITEMS = 512
_RAW = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


_KEYS = Kernel("order_keys", "index/order.mako")
_LINES = Kernel("order_lines", "index/order.mako")
_TAKE = Kernel("order_take", "index/order.mako")
_RANK = Kernel("order_rank", "index/order.mako")
_GROUP = Kernel("order_group", "index/order.mako")
_LINE_ITEMS = Kernel("order_items", "index/order.mako")


def sort_lines(
    target: Target, values: Array, indices: Array, x: Array, *, descending: bool = False
) -> list[Launch]:
    """Each line of ``x`` in order, and where its elements lay; equal ones keep their order.

    A line that a group does not hold takes 8 bytes of scratch memory an element, and 8 more for
    every 32 bits of its type and for the lines' numbers.

    Args:
        target: what to choose the kernels for.
        values: ``(lines, n)``, dense.
        indices: the same shape, dense int64.
        x: the same shape, dense, of any dtype.
        descending: the largest first.
    """
    if x.size == 0:
        return []
    length = x.shape[1]
    how = ordering(x.dtype, descending=descending)
    shared = in_groups(target.traits)
    if length <= (_GPU_RANKED if shared else _CPU_RANKED):
        args = by_name("n length values indices x", x.size, length, values, indices, x)
        moved = x.nbytes + values.nbytes + indices.nbytes
        shape, flops = items(target, x.size), 2 * x.size * length
        return [_RANK.launch(how, args, **shape, flops=flops, bytes=moved)]
    room = 1 << (length - 1).bit_length()
    near = room <= _MOST_NEAR and room * (x.dtype.itemsize + 4) <= target.traits.static_local_bytes
    if shared and near:
        group = min(_MOST_ITEMS, target.traits.max_group_size, room // 2)
        return [
            _GROUP.launch(
                {**how, "group": group, "room": room},
                by_name("length values indices x", length, values, indices, x),
                global_size=(x.shape[0] * group,),
                local_size=(group,),
                flops=x.size * room.bit_length() ** 2 // 2,
                bytes=x.nbytes + values.nbytes + indices.nbytes,
            )
        ]
    if not shared and (x.shape[0] >= target.traits.compute_units or length <= _ALONE):
        return [_by_items(target, values, indices, x, how)]
    found = _by_radix(target, x, how)
    take = _TAKE.launch(
        by_name("raw", how["raw"]),
        by_name("n length values indices x order", x.size, length, values, indices, x, found.order),
        **items(target, x.size),
        flops=0,
        bytes=x.nbytes + values.nbytes + indices.nbytes + found.order.nbytes,
    )
    return [*found.launches, take]


def _by_items(
    target: Target, values: Array, indices: Array, x: Array, how: dict[str, Any]
) -> Launch:
    """Lines sorted by items, each of which has its own scratch memory for one."""
    (lines, length), memory = x.shape, Scratch(x.device)
    count = min(lines, _ITEMS * target.traits.compute_units)
    keys = Array.scratch(memory, (count, 2, length), x.dtype)
    places = Array.scratch(memory, (count, 2, length), int32)
    digits = x.dtype.itemsize
    args = by_name(
        "lines length values indices x keys places", lines, length, values, indices, x, keys, places
    )
    return _LINE_ITEMS.launch(
        {**how, "digits": digits},
        args,
        global_size=(count,),
        local_size=(1,),
        flops=0,
        bytes=(2 + 2 * digits) * x.nbytes + 8 * digits * x.size + indices.nbytes,
    )


def _by_radix(target: Target, x: Array, how: dict[str, Any]) -> Sorted:
    """All elements sorted by their keys, the lowest word first, and then by their lines."""
    memory, n = Scratch(x.device), x.size
    keys, order = Array.scratch(memory, (n,), int32), Array.scratch(memory, (n,), int32)
    bits = 8 * x.dtype.itemsize
    launches: list[Launch] = []
    for shift in range(0, bits, _WORD):
        launch = _KEYS.launch(
            {**how, "first": shift == 0},
            by_name("n shift keys order x", n, shift, keys, order, x),
            **items(target, n),
            flops=0,
            bytes=x.nbytes + keys.nbytes + order.nbytes,
        )
        launches.append(launch)
        keys, order, more = sort(target, memory, keys, order, limit=2 ** min(bits, _WORD) - 1)
        launches += more
    lines = x.shape[0]
    if lines > 1:
        args = by_name("n length keys order", n, x.shape[1], keys, order)
        launches.append(_LINES.launch({}, args, **items(target, n), flops=n, bytes=8 * n))
        keys, order, more = sort(target, memory, keys, order, limit=lines - 1)
        launches += more
    return Sorted(keys, order, launches)


def ordering(dtype: DType, *, descending: bool) -> dict[str, Any]:
    """What kernels that make keys of elements of a dtype are told of it."""
    raw = _RAW[dtype.itemsize]
    kind = "unsigned" if dtype in (bool_, uint8) else "signed"
    if dtype.kind is Kind.FLOATING:
        kind = "floating"
    suffix = "UL" if raw == "ulong" else "U"
    top = f"{1 << (8 * dtype.itemsize - 1):#x}{suffix}"
    infinity = f"{_INFINITY.get(dtype.name, 0):#x}{suffix}"
    return {
        "raw": raw,
        "kind": kind,
        "top": top,
        "infinity": infinity,
        "descending": descending,
    }
