"""The same pointwise expressions over many small arrays in one launch: updates of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from ...array import Array
from ...device import HostScalar, Launch, Target
from ...expr import Expr, Printed, flops, print_c
from ...values.dtypes import DType, bool_
from ...values.shapes import ceil_div
from ..grid import in_groups
from ..kernel import Kernel

_ARGUMENT_BYTES = 1024
"""What OpenCL promises a kernel's arguments may take."""

_BLOCK = 1024
_GROUP = 256
_NO_GROUP = 2**31 - 1
_MOST_SEGMENTS = 32
MOST_ELEMENTS = 1 << 16
"""A segment that is larger is worth a launch of its own."""


POINTWISE_MANY = Kernel("pointwise_many", "pointwise/pointwise_many.mako")


def most_segments(operands: int, shared: int, scalars: int) -> int:
    """How many segments one launch may have.

    Args:
        operands: arrays of each segment.
        shared: arrays that all read.
        scalars: run-time numbers.
    """
    left = _ARGUMENT_BYTES - 16 * shared - 8 * scalars - 8
    return min(_MOST_SEGMENTS, left // (16 * operands + 8))


def pointwise_many(
    target: Target,
    segments: Sequence[Sequence[Array]],
    shared: Sequence[Array],
    exprs: tuple[Expr, ...],
    *,
    scalars: Sequence[float | HostScalar] = (),
    compute: DType,
) -> list[Launch]:
    """One launch that overwrites the first arrays of every segment with expressions of all.

    Args:
        target: the device's numbers.
        segments: for each its arrays, dense and of one size; ``Input(i)`` of the expressions. At
            most :func:`most_segments`, alike in dtypes, of less than 2**30 elements together.
        shared: arrays of one element, the next inputs of the expressions.
        exprs: the new values of a segment's first arrays.
        scalars: ``Scalar(i)`` of the expressions, read at the enqueue.
        compute: the dtype of the arithmetic.

    Returns:
        The launch.
    """
    own = [array.dtype for array in segments[0]]
    split = len(exprs)
    firsts = [0, *accumulate(ceil_div(arrays[0].size, _BLOCK) for arrays in segments)]
    groups = firsts.pop()
    most = most_segments(len(own), len(shared), len(scalars))
    count = min(most, 1 << (len(segments) - 1).bit_length())  # few kernels for all numbers of them
    none = count - len(segments)
    every = [*segments, *[segments[-1]] * none]
    args = {
        "y_{k}_{j}": [array for arrays in every for array in arrays[:split]],
        "x_{k}_{j}": [array for arrays in every for array in arrays[split:]],
        "n_{k}": [*(arrays[0].size for arrays in segments), *[0] * none],
        "first_{k}": [*firsts, *[_NO_GROUP] * none],
        "u_{j}": shared,
        "s_{j}": scalars,
        "block": _BLOCK,
    }
    printed = _printed(exprs, compute.ctype, len(own) + len(shared), len(scalars))
    params = {
        **printed._asdict(),
        "compute": compute.ctype,
        "changed": tuple(map(_kind, own[:split])),
        "inputs": tuple(map(_kind, own[split:])),
        "shared": tuple(_kind(array.dtype) for array in shared),
        "scalars": len(scalars),
        "segments": count,
    }
    group = min(_GROUP, target.traits.max_group_size)
    local = group if in_groups(target.traits) else 1
    elements = sum(arrays[0].size for arrays in segments)
    moved = sum(d.itemsize for d in own) + sum(d.itemsize for d in own[:split])
    return [
        POINTWISE_MANY.launch(
            params,
            args,
            global_size=(groups * local,),
            local_size=(local,),
            flops=elements * flops(*exprs),
            bytes=elements * moved,
        )
    ]


@lru_cache(maxsize=256)
def _printed(exprs: tuple[Expr, ...], ctype: str, inputs: int, scalars: int) -> Printed:
    """The expressions as C, of so many inputs and scalars."""
    return print_c(
        exprs,
        ctype,
        inputs=[f"v_{j}" for j in range(inputs)],
        scalars=[f"s_{j}" for j in range(scalars)],
    )


def _kind(dtype: DType) -> tuple[str, bool]:
    return (dtype.stored, dtype is bool_)
