"""One number of many arrays together: the parts of each in one launch, then their reduction."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import accumulate

from ...array import Array
from ...device import Launch, Scratch, Target
from ...values.shapes import ceil_div
from ..grid import in_groups, lanes_of
from ..kernel import Constraint, Kernel, by_name, joined
from .reduce import Reduction, reduce

_ARGUMENT_BYTES = 1024
"""What OpenCL promises a kernel's arguments may take."""

_BLOCK = 1 << 14
_GROUP = 256
_NO_GROUP = 2**31 - 1
_MOST_SEGMENTS = min(32, (_ARGUMENT_BYTES - 24) // 24)


class Measure(Enum):
    """What is measured, and how the parts are joined: ``(join, load)``."""

    SUM_SQUARES = ("sum", "square")
    SUM_MAGNITUDES = ("sum", "magnitude")
    MAX_MAGNITUDE = ("max", "magnitude")


REDUCE_MANY = Kernel(
    "reduce_many",
    "reduce/reduce_many.mako",
    (
        Constraint("lanes == 1 or group == 1", "vectors are for work-items that are alone"),
        Constraint("group & (group - 1) == 0", "the tree halves it"),
    ),
)


def reduce_many(target: Target, out: Array, arrays: Sequence[Array], kind: Measure) -> list[Launch]:
    """``out = kind`` of all elements of all arrays.

    Args:
        target: the device's numbers.
        out: one element, of the arrays' dtype.
        arrays: dense, of one dtype, float32 or float64, of less than 2**31 elements each; one at
            least.
        kind: what to compute.

    Returns:
        A launch for up to 32 arrays, and the reduction of what they leave.
    """
    join, load = kind.value
    blocks = [ceil_div(x.size, _BLOCK) for x in arrays]
    memory = Scratch(out.device)
    partial = Array.scratch(memory, (sum(blocks),), out.dtype)
    launches: list[Launch] = []
    done = 0
    for start in range(0, len(arrays), _MOST_SEGMENTS):
        segments = [x for x in arrays[start : start + _MOST_SEGMENTS] if x.size]
        if segments:
            part = partial.view((sum(blocks) - done,), (1,), partial.offset + done)
            launches.append(_launch(target, part, segments, join, load))
            done += sum(blocks[start : start + _MOST_SEGMENTS])
    total = Reduction.SUM if join == "sum" else Reduction.MAX
    return [*launches, *reduce(target, out, partial, dims=(0,), kind=total, memory=memory)]


def _launch(target: Target, partial: Array, segments: list[Array], join: str, load: str) -> Launch:
    alone = not in_groups(target.traits)
    group = 1 if alone else min(_GROUP, target.traits.max_group_size)
    lanes = lanes_of(target, partial.dtype.itemsize) if alone else 1
    firsts = [0, *accumulate(ceil_div(x.size, _BLOCK) for x in segments)]
    groups = firsts.pop()
    count = 1 << (len(segments) - 1).bit_length()  # few kernels for all numbers of them
    none = count - len(segments)
    params = joined(
        by_name("kind load ctype", join, load, partial.dtype.ctype),
        by_name("lanes group segments", lanes, group, count),
    )
    args = {
        "x_{k}": [*segments, *[segments[-1]] * none],
        "n_{k}": [*(x.size for x in segments), *[0] * none],
        "first_{k}": [*firsts, *[_NO_GROUP] * none],
        "partial": partial,
        "block": _BLOCK,
    }
    elements = sum(x.size for x in segments)
    return REDUCE_MANY.launch(
        params,
        args,
        global_size=(groups * group,),
        local_size=(group,),
        flops=2 * elements,
        bytes=(elements + groups) * partial.dtype.itemsize,
    )
