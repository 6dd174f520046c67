"""What each op becomes between blocked arrays: one rule a kind of op, for the layout pass.

A rule takes the pass's state and a step. It adds what stands in the step's place and returns True,
or leaves all as it is and returns False: then the step runs on plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..expr import Expr, Input
from ..kernels.norm import normalized, slope
from ..kernels.pool import Means
from ..kernels.reduce import Reduction
from ..ops.conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..ops.join import Cat
from ..ops.machinery.function import Function
from ..ops.machinery.pointwise import Pointwise
from ..ops.norm import BatchNorm, BatchNormBackward
from ..ops.padding import ConstantPad
from ..ops.pool import (
    AdaptiveAvgPool,
    AdaptiveAvgPoolBackward,
    AvgPool,
    AvgPoolBackward,
    MaxPool,
    MaxPoolBackward,
)
from ..ops.reduce import Reduce
from ..ops.rewritten.blocked import (
    BlockedConv2d,
    BlockedConvInputGrad,
    BlockedConvWeightGrad,
    BlockedForm,
    Direction,
    PackFilters,
)
from ..ops.rewritten.blocked_layers import (
    BlockedAvgPool,
    BlockedAvgPoolBackward,
    BlockedMaxPool,
    BlockedMaxPoolBackward,
    BlockedMoments,
    BlockedSums,
)
from ..ops.shape import Copy, SliceBackward
from ..values.dtypes import float32, int32
from .convolution import convolution_of
from .forms import registering
from .tracer import Step

if TYPE_CHECKING:
    from .layout import Layouts

_ALL = (0, 1, 2, 3)
_PIXELS_OF_IMAGES = (0, 2, 3)
_PIXELS = (2, 3)

Rule = Callable[["Layouts", Step], bool]
RULES: dict[type[Function], Rule] = {}
"""For each class of op that has one, its rule."""


_rule = registering(RULES)


@_rule(Conv2d)
def _conv(layouts: Layouts, step: Step) -> bool:
    x, weight, *bias = step.inputs
    g, form = _geometry_and_form(layouts, step)
    if form is None or not layouts.replaceable(*step.outputs):
        return False
    if form.plain_x:
        layouts.plain(x)
    else:
        x = layouts.blocked(x)
    for array in (weight, *bias):
        layouts.plain(array)
    packed = layouts.make(PackFilters(g, Direction.FORWARD, form), weight)
    layouts.emit(BlockedConv2d(g, form), (x, packed, *bias), (layouts.output(step.outputs[0]),))
    return True


@_rule(ConvInputGrad)
def _conv_input_grad(layouts: Layouts, step: Step) -> bool:
    gy, weight = step.inputs
    g, form = _geometry_and_form(layouts, step)
    (gx,) = step.outputs
    if form is None or not (form.plain_x or layouts.replaceable(gx)):
        return False
    layouts.plain(weight)
    gy = layouts.blocked(gy)
    packed = layouts.make(PackFilters(g, Direction.INPUT_GRAD, form), weight)
    result = gx if form.plain_x else layouts.output(gx)
    layouts.emit(BlockedConvInputGrad(g, form), (gy, packed), (result,))
    return True


@_rule(ConvWeightGrad)
def _conv_weight_grad(layouts: Layouts, step: Step) -> bool:
    gy, x = step.inputs
    g, form = _geometry_and_form(layouts, step)
    if form is None:
        return False
    gy = layouts.blocked(gy)
    if form.plain_x:
        layouts.plain(x)
    else:
        x = layouts.blocked(x)
    layouts.emit(BlockedConvWeightGrad(g, form), (gy, x), step.outputs)
    return True


@_rule(BatchNorm)
def _batch_norm(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    x, *affine = step.inputs
    y, *statistics = step.outputs
    if not (layouts.is_blocked(x) and layouts.replaceable(y) and _floats(step)):
        return False
    inside = layouts.blocked(x)
    layouts.emit(BlockedMoments(function.eps), (inside,), tuple(statistics))
    values = [layouts.channels(a) for a in (*statistics[:2], *affine)]
    expr = normalized(weighted=function.weighted, biased=function.biased)
    layouts.emit(_pointwise(step, expr), (inside, *values), (layouts.output(y),))
    return True


@_rule(BatchNormBackward)
def _batch_norm_backward(layouts: Layouts, step: Step) -> bool:
    gy, x, mean, invstd, *weight = step.inputs
    gweight, gbias, *gx = step.outputs
    if not (layouts.is_blocked(x) and layouts.replaceable(*gx) and _floats(step)):
        return False
    gy, x = layouts.blocked(gy), layouts.blocked(x)
    layouts.emit(
        BlockedSums(step.function.name, _slope_sums()), (gy, x, mean, invstd), (gweight, gbias)
    )
    if gx:
        values = [layouts.channels(a) for a in (mean, invstd, gweight, gbias, *weight)]
        share = 1 / (gx[0].size // gx[0].shape[1])
        pointwise = _pointwise(step, slope(weighted=bool(weight)), share)
        layouts.emit(pointwise, (gy, x, *values), (layouts.output(gx[0]),))
    return True


@_rule(Pointwise)
def _pointwise_op(layouts: Layouts, step: Step) -> bool:
    shape = step.outputs[0].shape
    full = [a for a in step.inputs if a.shape == shape]
    if not (any(map(layouts.is_blocked, full)) and layouts.replaceable(*step.outputs)):
        return False
    if not all(map(layouts.changeable, full)) or any(a.ndim > 4 for a in step.inputs):
        return False
    inputs = tuple(_operand(layouts, a, a.shape == shape) for a in step.inputs)
    layouts.emit(step.function, inputs, tuple(map(layouts.output, step.outputs)))
    return True


@_rule(Copy)
def _copy(layouts: Layouts, step: Step) -> bool:
    (x,), (y,) = step.inputs, step.outputs
    if not (layouts.is_blocked(x) and layouts.replaceable(y)):
        return False
    layouts.emit(step.function, (layouts.blocked(x, dense=False),), (layouts.output(y),))
    return True


@_rule(ConstantPad, SliceBackward)
def _among_others(layouts: Layouts, step: Step) -> bool:
    """What is put among zeros, or other constants: blocks of channels stay together."""
    function: Any = step.function
    (x,), (y,) = step.inputs, step.outputs
    lanes, first = layouts.lanes, function.starts[1] if x.ndim == 4 else 0
    steps = getattr(function, "steps", (1, 1, 1, 1))
    if not (layouts.is_blocked(x) and layouts.replaceable(y)) or first % lanes or steps[1] != 1:
        return False
    inside, starts = layouts.output(y), (*function.starts, 0)
    found = replace(function, starts=(starts[0], first // lanes, *starts[2:]), shape=inside.shape)
    if isinstance(function, SliceBackward):
        found = replace(found, steps=(*steps, 1))
    layouts.emit(found, (layouts.blocked(x, dense=False),), (inside,))
    return True


@_rule(Cat)
def _cat(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    if function.dim not in (0, 1) or not layouts.replaceable(*step.outputs):
        return False
    if not all(map(layouts.is_blocked, step.inputs)):
        return False
    inputs = tuple(layouts.blocked(a, dense=False) for a in step.inputs)
    layouts.emit(function, inputs, (layouts.output(step.outputs[0]),))
    return True


@_rule(MaxPool)
def _max_pool(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    (x,) = step.inputs
    if not (layouts.is_blocked(x) and layouts.replaceable(*step.outputs) and _floats(step)):
        return False
    if function.index_dtype not in (None, int32):
        return False
    pool = BlockedMaxPool(function.window, function.size, function.index_dtype is not None)
    layouts.emit(pool, (layouts.blocked(x),), tuple(map(layouts.output, step.outputs)))
    return True


@_rule(MaxPoolBackward)
def _max_pool_backward(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    gy, index = step.inputs
    if not (layouts.is_blocked(index) and layouts.replaceable(*step.outputs) and _floats(step)):
        return False
    inputs = (layouts.blocked(gy), layouts.blocked(index))
    pool = BlockedMaxPoolBackward(function.window, function.shape[-2:])
    layouts.emit(pool, inputs, (layouts.output(step.outputs[0]),))
    return True


@_rule(AvgPool, AdaptiveAvgPool)
def _avg_pool(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    (x,) = step.inputs
    if not (layouts.is_blocked(x) and layouts.replaceable(*step.outputs) and _floats(step)):
        return False
    pool = BlockedAvgPool(_means(function), function.size)
    layouts.emit(pool, (layouts.blocked(x),), (layouts.output(step.outputs[0]),))
    return True


@_rule(AvgPoolBackward, AdaptiveAvgPoolBackward)
def _avg_pool_backward(layouts: Layouts, step: Step) -> bool:
    """Its output goes where the pooled values came from, so blocked where blocks of it are."""
    function: Any = step.function
    (gy,) = step.inputs
    if not (layouts.replaceable(*step.outputs) and layouts.changeable(gy) and _floats(step)):
        return False
    if not (layouts.is_blocked(gy) or layouts.wanted(step.outputs[0])):
        return False
    pool = BlockedAvgPoolBackward(_means(function), function.size)
    inside = layouts.blocked(gy)
    layouts.emit(pool, (inside,), (layouts.output(step.outputs[0]),))
    return True


@_rule(Reduce)
def _reduce(layouts: Layouts, step: Step) -> bool:
    function: Any = step.function
    (x,), (y,) = step.inputs, step.outputs
    if not (layouts.is_blocked(x) and _floats(step) and y.contiguous):
        return False
    dims = tuple(sorted(function.dims))
    if dims == _ALL and not function.keepdim:
        layouts.emit(replace(function, dims=(*_ALL, 4)), (layouts.blocked(x),), (y,))
        return True
    if function.kind is Reduction.SUM and dims == _PIXELS_OF_IMAGES:
        sums = BlockedSums(function.name, (Input(0),))
        layouts.emit(sums, (layouts.blocked(x),), (y.view((y.size,), (1,)),))
        return True
    if function.kind in (Reduction.MEAN, Reduction.SUM) and dims == _PIXELS:
        n, c = x.shape[:2]
        lanes = layouts.lanes
        place = y.view((n, c // lanes, 1, 1, lanes), (c, lanes, lanes, lanes, 1))
        means = Means(None, divisor=int(function.kind is Reduction.SUM))
        layouts.emit(BlockedAvgPool(means, (1, 1)), (layouts.blocked(x),), (place,))
        return True
    return False


def _operand(layouts: Layouts, array: Array, full: bool) -> Array:  # noqa: FBT001 - two kinds
    """An operand of a pointwise op, in blocked form or as one that is broadcast."""
    if full and (layouts.is_blocked(array) or 0 not in array.strides):
        return layouts.blocked(array, dense=False)
    return layouts.spread(array) if array.ndim else array


def _geometry_and_form(layouts: Layouts, step: Step) -> tuple[Any, BlockedForm | None]:
    """Of a step that is a convolution; no form if it stays plain."""
    found = convolution_of(step)
    if found is None:
        return None, None
    return found.geometry, found.form(layouts.target, packing=layouts.learns)


def _floats(step: Step) -> bool:
    return step.inputs[0].dtype is float32


def _pointwise(step: Step, expr: Expr, *scalars: float) -> Pointwise:
    return Pointwise(step.function.name, (expr,), scalars, float32, (float32,))


def _means(function: Any) -> Means:
    if isinstance(function, AdaptiveAvgPool | AdaptiveAvgPoolBackward):
        return Means(None)
    return Means(function.window, function.include_pad, function.divisor)


@cache
def _slope_sums() -> tuple[Expr, ...]:
    """The gradients of a batch norm's weight and bias, from gy, x, mean and invstd."""
    gy, x, mean, invstd = (Input(i) for i in range(4))
    return gy * ((x - mean) * invstd), gy
