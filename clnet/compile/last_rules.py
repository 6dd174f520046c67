"""What each op becomes between images with their channels last: one rule a kind of op.

As :mod:`.layout_rules`: a rule adds what stands in the step's place and returns True, or leaves all
as it is and returns False; then the step runs on plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..array import Array
from ..expr import Expr
from ..kernels.norm import normalized, slope
from ..ops.conv import Conv2d, ConvInputGrad, ConvWeightGrad
from ..ops.join import Cat
from ..ops.machinery.function import Function
from ..ops.machinery.pointwise import Pointwise
from ..ops.norm import BatchNorm, BatchNormBackward, BatchNormStatistics
from ..ops.pool import MaxPool, MaxPoolBackward
from ..ops.reduce import Reduce
from ..ops.rewritten.last import (
    LastConv2d,
    LastConvInputGrad,
    LastConvWeightGrad,
    LastMaxPool,
    LastMaxPoolBackward,
)
from ..ops.shape import Copy
from ..values.dtypes import bfloat16, float16, float32, from_name, int32
from ..values.shapes import Shape, contiguous_strides
from .convolution import on_units
from .forms import registering
from .tracer import Step

if TYPE_CHECKING:
    from .channels_last import LastForms

Rule = Callable[["LastForms", Step], bool]
RULES: dict[type[Function], Rule] = {}
"""For each class of op that has one, its rule."""

_FOUR = 4  # channels of a read of a pool's kernels
_LAST_AXIS = {0: 0, 1: 3, 2: 1, 3: 2}


_rule = registering(RULES)


@_rule(Conv2d)
def _conv(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    x, *others = step.inputs
    if not (on_units(forms.target, step) and forms.replaceable(*step.outputs)):
        return False
    for array in others:
        forms.plain(array)
    x, plain = _images(forms, x)
    found = LastConv2d(function.settings, plain, function.activation)
    forms.emit(found, (x, *others), (forms.output(step.outputs[0]),))
    return True


@_rule(ConvInputGrad)
def _conv_input_grad(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    gy, weight = step.inputs
    if not (on_units(forms.target, step) and forms.replaceable(*step.outputs)):
        return False
    forms.plain(weight)
    found = LastConvInputGrad(function.settings, function.x_shape)
    forms.emit(found, (forms.last(gy), weight), (forms.output(step.outputs[0]),))
    return True


@_rule(ConvWeightGrad)
def _conv_weight_grad(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    if not on_units(forms.target, step):
        return False
    gy = forms.last(step.inputs[0])
    x, plain = _images(forms, step.inputs[1])
    found = LastConvWeightGrad(function.settings, function.weight_shape, plain)
    forms.emit(found, (gy, x), step.outputs)
    return True


@_rule(BatchNorm)
def _batch_norm(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    x, *affine = step.inputs
    y, *statistics = step.outputs
    if not (forms.is_last(x) and forms.replaceable(y)):
        return False
    inside = forms.last(x)
    forms.emit(BatchNormStatistics(function.eps), (_rows(inside),), tuple(statistics))
    values = [_by_channel(forms, a) for a in (*statistics[:2], *affine)]
    expr = normalized(weighted=function.weighted, biased=function.biased)
    forms.emit(_pointwise(step, expr, y), (inside, *values), (forms.output(y),))
    return True


@_rule(BatchNormBackward)
def _batch_norm_backward(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    gy, x, mean, invstd, *weight = step.inputs
    gweight, gbias, *gx = step.outputs
    if not (forms.is_last(x) and forms.replaceable(*gx)):
        return False
    gy, x = forms.last(gy), forms.last(x)
    sums = BatchNormBackward(function.weighted, wanted=False)
    for array in (mean, invstd, *weight):
        forms.plain(array)
    rows = (_rows(gy), _rows(x), mean, invstd, *weight)
    forms.emit(sums, rows, (gweight, gbias))
    if gx:
        values = [_by_channel(forms, a) for a in (mean, invstd, gweight, gbias, *weight)]
        share = 1 / (x.size // x.shape[3])
        found = _pointwise(step, slope(weighted=function.weighted), gx[0], share)
        forms.emit(found, (gy, x, *values), (forms.output(gx[0]),))
    return True


@_rule(Pointwise)
def _pointwise_op(forms: LastForms, step: Step) -> bool:
    shape = step.outputs[0].shape
    full = [a for a in step.inputs if a.shape == shape]
    if not (any(map(forms.is_last, full)) and forms.replaceable(*step.outputs)):
        return False
    inputs = tuple(_operand(forms, a, shape) for a in step.inputs)
    forms.emit(step.function, inputs, tuple(map(forms.output, step.outputs)))
    return True


@_rule(Copy)
def _copy(forms: LastForms, step: Step) -> bool:
    (x,), (y,) = step.inputs, step.outputs
    if forms.is_last(x) and forms.replaceable(y):
        forms.emit(step.function, (forms.last(x, dense=False),), (forms.output(y),))
        return True
    found = forms.walks(x)
    if found is None:
        return False
    forms.emit(step.function, (found,), (y,))
    return True


@_rule(Cat)
def _cat(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    if not (forms.replaceable(*step.outputs) and all(map(forms.is_last, step.inputs))):
        return False
    inputs = tuple(forms.last(a, dense=False) for a in step.inputs)
    forms.emit(Cat(_LAST_AXIS[function.dim]), inputs, (forms.output(step.outputs[0]),))
    return True


@_rule(MaxPool)
def _max_pool(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    (x,) = step.inputs
    if not (forms.is_last(x) and forms.replaceable(*step.outputs) and _in_fours(x)):
        return False
    if function.index_dtype not in (None, int32):
        return False
    found = LastMaxPool(function.window, function.size, function.index_dtype is not None)
    forms.emit(found, (forms.last(x),), tuple(map(forms.output, step.outputs)))
    return True


@_rule(MaxPoolBackward)
def _max_pool_backward(forms: LastForms, step: Step) -> bool:
    function: Any = step.function
    gy, index = step.inputs
    if not (forms.is_last(index) and forms.replaceable(*step.outputs) and _in_fours(gy)):
        return False
    found = LastMaxPoolBackward(function.window, function.shape[-2:])
    forms.emit(found, (forms.last(gy), forms.last(index)), (forms.output(step.outputs[0]),))
    return True


@_rule(Reduce)
def _reduce(forms: LastForms, step: Step) -> bool:
    """Where the axes that are kept stay in order: all, of channels, of images, of both."""
    function: Any = step.function
    (x,), (y,) = step.inputs, step.outputs
    if not (forms.is_last(x) and y.contiguous):
        return False
    dims = tuple(sorted(_LAST_AXIS[d] for d in function.dims))
    inside = forms.last(x, dense=False)
    if not {1, 2} <= set(dims):
        return False
    shape = tuple(size for axis, size in enumerate(inside.shape) if axis not in dims)
    found = replace(function, dims=dims, keepdim=False)
    forms.emit(found, (inside,), (y.view(shape, contiguous_strides(shape)),))
    return True


def _images(forms: LastForms, x: Array) -> tuple[Array, bool]:
    """What a convolution reads, and whether its channels lie first."""
    if forms.is_last(x) or forms.turns(x):
        return forms.last(x), False
    forms.plain(x)
    return x, True


def _operand(forms: LastForms, array: Array, shape: Shape) -> Array:
    """An operand of a pointwise op, in last form or as one that is broadcast."""
    if array.shape == shape and (forms.is_last(array) or 0 not in array.strides):
        return forms.last(array, dense=False)
    return forms.spread(array) if array.ndim else array


def _by_channel(forms: LastForms, values: Array) -> Array:
    """A value for each channel as an operand of images."""
    forms.plain(values)
    return values.view((1, 1, 1, values.size), (0, 0, 0, values.strides[0]))


def _rows(images: Array) -> Array:
    """Pixels as rows of channels."""
    channels = images.shape[3]
    return images.view((images.size // channels, channels), (channels, 1))


def _in_fours(x: Array) -> bool:
    return x.dtype in (float32, float16, bfloat16) and x.shape[1] % _FOUR == 0


def _pointwise(step: Step, expr: Expr, output: Array, *scalars: float) -> Pointwise:
    compute = from_name(output.dtype.compute)
    return Pointwise(step.function.name, (expr,), scalars, compute, (output.dtype,))
