"""Statistics of channels on devices whose items run together: parts that fit in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...array import Array
from ...device import DeviceTraits, Launch
from ...values.dtypes import float32, float64
from ...values.shapes import ceil_div
from ..kernel import Constraint, Kernel


class RunsParams(NamedTuple):
    """Parameters of ``norm_runs``; the template's header says what they are."""

    grad: bool
    ctype: str
    group: int
    width: int
    reads: int


RUNS = Kernel(
    "norm_runs",
    "norm/norm_runs.mako",
    constraints=(Constraint("width in (1, 4)", "elements, or aligned runs of four"),),
)
# Elements that an item keeps, of x and of gy.
_KEPT = 32
_GROUPS = (256, 128, 64)


def part_fits(traits: DeviceTraits, part_size: int, inputs: Sequence[Array]) -> bool:
    """Whether the items of a group can keep a part.

    Args:
        traits: the device's numbers.
        part_size: elements of a part.
        inputs: ``x``, or ``x``, ``gy`` and the mean.
    """
    group = min(_GROUPS[0], traits.max_group_size)
    alike = inputs[0].dtype in (float32, float64)
    filled = inputs[0].size > 0 and part_size <= group * _KEPT
    return group in _GROUPS and alike and filled


def runs(
    traits: DeviceTraits, sizes: tuple[int, ...], outputs: Sequence[Array], inputs: Sequence[Array]
) -> Launch:
    """The launch that takes two sums of every part of every channel.

    Args:
        traits: the device's numbers; :func:`part_fits`.
        sizes: channels, inner, elements of a channel, of a part, and parts.
        outputs: ``(channels, parts)`` each, as the template's header says.
        inputs: ``x``, or ``x``, ``gy`` and the mean.

    Returns:
        The launch.
    """
    channels, inner, total, part_size, parts = sizes
    group = min(_GROUPS[0], traits.max_group_size)
    moved = inputs[:2]
    dense = all(n % 4 == 0 for n in (inner, part_size, *(array.offset for array in moved)))
    width = 4 if dense else 1
    part = min(part_size, total)
    reads = max(1, ceil_div(part, group * width))
    # Three numbers of reads, so that there are few kernels.
    most = _KEPT // width
    reads = next(r for r in (most // 8, most // 4, most) if r >= reads)
    params = RunsParams(len(inputs) > 1, inputs[0].dtype.ctype, group, width, reads)
    return RUNS.launch(
        params,
        (*sizes, *outputs, *inputs),
        global_size=(channels * parts * group,),
        local_size=(group,),
        flops=4 * inputs[0].size,
        bytes=sum(array.nbytes for array in (*outputs, *inputs)),
    )
