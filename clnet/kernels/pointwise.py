"""Launches of pointwise expressions over broadcast, strided arrays. It knows no op by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..array import Array
from ..device import HostScalar, Launch, Target
from ..dtypes import DType, bfloat16, bool_, from_name
from ..expr import Expr, flops, print_c
from ..shapes import Shape, Strides, broadcast_strides, ceil_div, collapse, round_up
from .kernel import Kernel

_INT_ELEMENTS = 2**31 - 1
_MOST_OUTER = 8
_FLAT_GROUP = 1024


class PointwiseParams(NamedTuple):
    """Arguments of the template's def; see its header."""

    statements: tuple[str, ...]
    results: tuple[str, ...]
    compute: str
    outputs: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str, bool], ...]
    scalars: int
    outer: int
    index: str


class Geometry(NamedTuple):
    """What follows from shapes and strides alone."""

    sizes: Shape
    steps: tuple[Strides, ...]
    inner: tuple[str, ...]
    index: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]


POINTWISE = Kernel("pointwise", "pointwise.mako")


def pointwise(
    target: Target,
    outputs: Sequence[Array],
    inputs: Sequence[Array],
    exprs: tuple[Expr, ...],
    *,
    scalars: Sequence[float | HostScalar] = (),
    compute: DType,
) -> list[Launch]:
    """One launch that writes ``outputs[j] = exprs[j](inputs, scalars)`` in a single pass.

    An output may be an input: each element is read before it is written.

    Args:
        target: the device's numbers.
        outputs: arrays of one shape.
        inputs: arrays that broadcast to that shape; ``Input(i)`` of the expressions.
        exprs: an expression for each output.
        scalars: ``Scalar(i)`` of the expressions, read at the enqueue.
        compute: the dtype of the arithmetic.

    Returns:
        One launch, or none if the outputs are empty.
    """
    shape = outputs[0].shape
    if outputs[0].size == 0:
        return []
    operands = (*outputs, *inputs)
    strides = tuple(
        a.strides if a.shape == shape else broadcast_strides(a.shape, a.strides, shape)
        for a in operands
    )
    geometry = _geometry(
        shape, strides, target.traits.dedicated_local_memory, target.traits.max_group_size
    )
    params, operations = _params(
        exprs,
        compute.name,
        tuple(a.dtype for a in outputs),
        tuple(a.dtype for a in inputs),
        len(scalars),
        geometry.inner,
        geometry.index,
        len(geometry.sizes) - 1,
    )
    args: list[Any] = []
    for array, steps, inner in zip(operands, geometry.steps, geometry.inner, strict=True):
        args.append(array)
        if inner == "any":
            args.append(steps[-1])
        args.extend(steps[:-1])
    count = outputs[0].size
    args.extend(geometry.sizes[:-1])
    args.extend(scalars)
    args.append(geometry.sizes[-1])
    moved = sum(a.nbytes for a in operands)
    return [
        POINTWISE.launch(
            params,
            tuple(args),
            global_size=geometry.global_size,
            local_size=geometry.local_size,
            flops=count * operations,
            bytes=moved,
        )
    ]


@lru_cache(maxsize=4096)
def _geometry(
    shape: Shape,
    strides: tuple[Strides, ...],
    gpu_shaped: bool,  # noqa: FBT001 - lru_cache keys
    max_group: int,
) -> Geometry:
    sizes, steps = collapse(shape, strides)
    span = max(sum((n - 1) * s for n, s in zip(sizes, step, strict=True)) for step in steps)
    index = "int" if span < _INT_ELEMENTS else "long"
    inner = tuple({1: "unit", 0: "none"}.get(step[-1], "any") for step in steps)
    n, outer = sizes[-1], 1
    for size in sizes[:-1]:
        outer *= size
    if len(sizes) == 1:
        group = (min(max_group, 256 if gpu_shaped else _FLAT_GROUP),)
        return Geometry(sizes, steps, inner, index, (round_up(n, group[0]),), group)
    # Three fixed group shapes, since PoCL compiles a kernel again for each.
    most = min(max_group, 256)
    wide = most if n >= 128 else most // 8 if n >= 16 else most // 32
    local = (max(wide, 1), most // max(wide, 1))
    return Geometry(
        sizes,
        steps,
        inner,
        index,
        (round_up(n, local[0]), ceil_div(outer, local[1]) * local[1]),
        local,
    )


@lru_cache(maxsize=4096)
def _params(
    exprs: tuple[Expr, ...],
    compute: str,
    outputs: tuple[DType, ...],
    inputs: tuple[DType, ...],
    scalars: int,
    inner: tuple[str, ...],
    index: str,
    outer: int,
) -> tuple[PointwiseParams, int]:
    ctype = from_name(compute).ctype
    printed = print_c(
        exprs,
        ctype,
        inputs=[f"v_{j}" for j in range(len(inputs))],
        scalars=[f"s_{j}" for j in range(scalars)],
    )
    split = len(outputs)
    params = PointwiseParams(
        printed.statements,
        printed.results,
        ctype,
        tuple((_stored(d), s) for d, s in zip(outputs, inner[:split], strict=True)),
        tuple((_stored(d), s, d is bool_) for d, s in zip(inputs, inner[split:], strict=True)),
        scalars,
        outer,
        index,
    )
    return params, flops(*exprs)


def _stored(dtype: DType) -> str:
    return "bfloat16" if dtype is bfloat16 else dtype.ctype
