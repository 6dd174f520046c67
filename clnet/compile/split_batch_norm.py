"""Batch norms become statistics and a pointwise step, which others can be fused with."""

from __future__ import annotations

from typing import Any

from ..array import Array
from ..expr import Expr
from ..kernels.norm import normalized, slope, spread
from ..ops.machinery.pointwise import Pointwise
from ..ops.norm import BatchNorm, BatchNormBackward, BatchNormStatistics
from ..values.dtypes import from_name
from .trace import Trace
from .tracer import Action, Step


def split(trace: Trace) -> Trace:
    """The trace with batch norms in two steps each; they launch the same kernels as before."""
    steps: list[Step | Action] = []
    for step in trace.steps:
        if isinstance(step, Action):
            steps.append(step)
        elif isinstance(step.function, BatchNorm):
            steps += _norm(step, step.function)
        elif isinstance(step.function, BatchNormBackward) and step.function.wanted:
            steps += _gradient(step, step.function)
        else:
            steps.append(step)
    return trace.with_steps(steps)


def _norm(step: Step, function: BatchNorm) -> tuple[Step, Step]:
    x, *affine = step.inputs
    y, *statistics = step.outputs
    mean, invstd, _ = statistics
    expr = normalized(weighted=function.weighted, biased=function.biased)
    return (
        _step(step, BatchNormStatistics(function.eps), (x,), tuple(statistics)),
        _pointwise(step, expr, (x, *(spread(a, x) for a in (mean, invstd, *affine))), y),
    )


def _gradient(step: Step, function: BatchNormBackward) -> tuple[Step, Step]:
    gy, x, mean, invstd, *weight = step.inputs
    gweight, gbias, gx = step.outputs
    sums = BatchNormBackward(function.weighted, wanted=False)
    share = 1 / max(x.size // max(x.shape[1], 1), 1)
    values = (mean, invstd, gweight, gbias, *weight)
    expr = slope(weighted=function.weighted)
    return (
        _step(step, sums, step.inputs, (gweight, gbias)),
        _pointwise(step, expr, (gy, x, *(spread(a, x) for a in values)), gx, share),
    )


def _pointwise(
    step: Step, expr: Expr, inputs: tuple[Array, ...], output: Array, *scalars: float
) -> Step:
    compute = from_name(output.dtype.compute)
    function = Pointwise(step.function.name, (expr,), scalars, compute, (output.dtype,))
    return _step(step, function, inputs, (output,))


def _step(step: Step, function: Any, inputs: tuple[Array, ...], outputs: tuple[Array, ...]) -> Step:
    return Step(function, inputs, outputs, step.module_path, step.phase)
