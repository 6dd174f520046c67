"""Statistics of channels that lie side by side, on devices whose items run together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...array import Array
from ...device import DeviceTraits, Launch
from ...values.dtypes import bfloat16, float16, float32
from ...values.shapes import ceil_div
from ..kernel import Kernel

COLUMNS = Kernel("norm_columns", "norm/norm_columns.mako")
_GROUP = 256
_ACROSS = 16  # 128 bytes of 16-bit channels
_WIDTH = 4


def columns_fit(inputs: Sequence[Array], channels: int) -> bool:
    """Whether items can read four neighbours at once.

    Args:
        inputs: ``x``, or ``x``, ``gy`` and the mean.
        channels: in a row.
    """
    read = inputs[:2]
    known = all(a.dtype in (float32, float16, bfloat16) for a in read)
    alike = all(a.dtype is read[0].dtype for a in read)
    whole = channels % _WIDTH == 0 and all(a.offset % _WIDTH == 0 for a in read)
    return known and alike and whole and inputs[0].size > 0


def columns(traits: DeviceTraits, args: dict[str, Any]) -> Launch:
    """The launch that takes two sums of every part of every channel.

    Args:
        traits: the device's numbers.
        args: as :func:`.norm_in_registers.runs` has them.

    Returns:
        The launch.
    """
    x, gy, channels = args["x"], args.get("gy"), args["channels"]
    group = min(_GROUP, traits.max_group_size)
    quads = channels // _WIDTH
    across = min(_ACROSS, group, 1 << (quads - 1).bit_length())
    read = [array for array in (x, gy) if array is not None]
    return COLUMNS.launch(
        {"grad": gy is not None, "ctype": x.dtype.stored, "group": group, "across": across},
        {name: value for name, value in args.items() if name != "inner"},
        global_size=(ceil_div(quads, across) * args["parts"] * group,),
        local_size=(group,),
        flops=4 * x.size,
        bytes=sum(a.nbytes for a in (*read, args["first"], args["second"])),
    )
