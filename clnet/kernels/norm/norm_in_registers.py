"""Statistics of channels on devices whose items run together: parts that fit in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...device import DeviceTraits, Launch
from ...values.dtypes import bfloat16, float16, float32, float64, from_name
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel, by_name, joined

RUNS = Kernel(
    "norm_in_registers",
    "norm/norm_in_registers.mako",
    constraints=(Constraint("width in (1, 4)", "elements, or aligned runs of four"),),
)
# Elements that an item keeps, of x and of gy.
_KEPT = 32
_GROUPS = (256, 128, 64)
# A part of no more elements for an item than this takes a smaller group, of which more run at once.
_FEW = 4


def part_fits(traits: DeviceTraits, part_size: int, inputs: Sequence[Array]) -> bool:
    """Whether the items of a group can keep a part.

    Args:
        traits: the device's numbers.
        part_size: elements of a part.
        inputs: ``x``, or ``x``, ``gy`` and the mean.
    """
    group = min(_GROUPS[0], traits.max_group_size)
    alike = inputs[0].dtype in (float16, bfloat16, float32, float64)
    filled = inputs[0].size > 0 and part_size <= group * _KEPT
    return group in _GROUPS and alike and filled


def runs(traits: DeviceTraits, args: dict[str, Any], *, whole: bool, track: str = "") -> Launch:
    """The launch that takes two sums of every part of every channel.

    Args:
        traits: the device's numbers; :func:`part_fits`.
        args: the kernel's arguments by name; without ``gy`` the sums of ``x`` alone.
        whole: whether channels have one part each, and what follows from the sums is stored.
        track: in what, as :mod:`.running` says.

    Returns:
        The launch.
    """
    x, gy, part_size = args["x"], args.get("gy"), args["part_size"]
    part = min(part_size, args["total"])
    group = min(_GROUPS[0], traits.max_group_size)
    group = min(n for n in _GROUPS if n == group or (n < group and part <= _FEW * n))
    starts = [array.offset for array in (x, gy) if array is not None]
    dense = all(n % 4 == 0 for n in (args["inner"], part_size, *starts))
    width = 4 if dense else 1
    reads = max(1, ceil_div(part, group * width))
    # Three numbers of reads, so that there are few kernels.
    most = _KEPT // width
    reads = next(r for r in (most // 8, most // 4, most) if r >= reads)
    acc = from_name(x.dtype.compute).ctype
    shape = by_name("group width reads", group, width, reads)
    how = by_name("grad whole track", gy is not None, whole, track)
    return RUNS.launch(
        joined(how, by_name("ctype acc", x.dtype.stored, acc), shape),
        args,
        global_size=(args["channels"] * args["parts"] * group,),
        local_size=(group,),
        flops=4 * x.size,
        bytes=sum(array.nbytes for array in args.values() if isinstance(array, Array)),
    )
