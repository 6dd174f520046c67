"""Sums of parts of channels by groups of work-items, where registers do not hold a part."""

from __future__ import annotations

from typing import Any

from ...array import Array
from ...device import DeviceTraits, Launch
from ...values.dtypes import from_name
from ...values.shapes import ceil_div
from ..kernel import Kernel, by_name, joined, nbytes_of

PARTS_GROUP = Kernel("norm_parts_group", "norm/norm_parts_group.mako")
_GROUP = 256


def parts_by_groups(traits: DeviceTraits, args: dict[str, Any], *, columns: bool) -> Launch:
    """The launch that takes two sums of every part of every channel.

    Args:
        traits: the device's numbers.
        args: the kernel's arguments by name; without ``gy`` and ``mean`` the sums of ``x`` alone.
        columns: whether channels lie side by side.
    """
    x = args["x"]
    group = min(_GROUP, traits.max_group_size)
    kept = min(32, group) if columns else 1
    groups = ceil_div(args["channels"], kept) * args["parts"]
    acc = from_name(x.dtype.compute).ctype
    of_arrays = by_name("grad ctype acc", "gy" in args, x.dtype.stored, acc)
    return PARTS_GROUP.launch(
        joined(of_arrays, by_name("columns group reduce_items", columns, group, group // kept)),
        args,
        global_size=(groups * group,),
        local_size=(group,),
        flops=4 * x.size,
        bytes=nbytes_of(a for a in args.values() if isinstance(a, Array)),
    )
