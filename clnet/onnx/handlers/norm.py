"""Norms of batches, layers, groups, channels and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import float32
from ..elements import by_number
from ..registry import handler


def _by_channel(x: Tensor, value: Tensor) -> Tensor:
    return value.reshape((-1,) + (1,) * (x.ndim - 2))


@handler("BatchNormalization")
def batch_norm_old(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    is_test: int = 1,
    spatial: int = 1,
    consumed_inputs: Any = None,
    named: int = 1,
) -> Any:
    """Standardised by statistics that the model has; by the batch's, if it asks for those, too.

    Opset 13 and older train where a node has more than one output: new running statistics, then
    the batch's own. Without ``spatial`` each element of a plane has its own statistics.
    """
    if named > 1 and spatial:
        made = batch_norm(
            x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum, training_mode=1
        )
        return (*made, *_of_batch(x))
    if spatial:
        return functional.batch_norm(x, mean, var, scale, bias, eps=epsilon)
    return (x - mean) * (scale * ops.rsqrt(var + epsilon)) + bias


def _of_batch(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each channel."""
    axes = [i for i in range(x.ndim) if i != 1]
    return ops.mean(x, axes), ops.var(x, axes, correction=0)


@handler("BatchNormalization", since=14)
def batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Any:
    """Standardised by the model's statistics; in training by the batch's, which are given, too."""
    if not training_mode:
        if x.ndim > 1 and x.dtype is scale.dtype is mean.dtype:
            return functional.batch_norm(x, mean, var, scale, bias, eps=epsilon)
        wide = x.to(mean.dtype)
        factor = scale.to(mean.dtype) * ops.rsqrt(var + epsilon)
        y = (wide - _by_channel(x, mean)) * _by_channel(x, factor) + _by_channel(x, bias)
        return y.to(x.dtype)
    of_batch, spread = _of_batch(x)
    centred = x - _by_channel(x, of_batch)
    y = centred * _by_channel(x, scale * ops.rsqrt(spread + epsilon)) + _by_channel(x, bias)
    kept = 1 - momentum
    return y, mean * momentum + of_batch * kept, var * momentum + spread * kept


def _alone(x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Numbers that are each standardised alone, which the layers refuse: the biases are left."""
    return (x - x) * _by_channel(x, scale) + _by_channel(x, bias)


@handler("InstanceNormalization")
def instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, consumed_inputs: Any = None
) -> Tensor:
    """Standardised for each plane."""
    if x.ndim > 2 and all(size == 1 for size in x.shape[2:]):
        return _alone(x, scale, bias)
    return functional.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@handler("GroupNormalization")
def group_norm_old(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Standardised for each group of channels; scale and bias by group."""
    each = x.shape[1] // num_groups
    scale, bias = (ops.repeat_interleave(v, each) for v in (scale, bias))
    return group_norm(x, scale, bias, epsilon=epsilon, num_groups=num_groups)


@handler("GroupNormalization", since=21)
def group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    """Standardised for each group of channels; scale and bias by channel."""
    if x.shape[1] == num_groups and all(size == 1 for size in x.shape[2:]):
        return _alone(x, scale, bias)
    return functional.group_norm(x, num_groups, scale, bias, epsilon)


@handler("LayerNormalization")
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Any:
    """Standardised over all axes from ``axis`` on; with its means and inverse deviations."""
    axis %= x.ndim
    shape = tuple(x.shape[axis:])
    fits = tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape)
    if fits:
        y = functional.layer_norm(x, shape, scale, bias, epsilon)
    else:
        y = functional.layer_norm(x, shape, eps=epsilon) * scale
        y = y if bias is None else y + bias
    if outputs == 1:
        return y
    axes = list(range(axis, x.ndim))
    wide = x.to(float32)
    mean = ops.mean(wide, axes, keepdim=True)
    return y, mean, ops.rsqrt(ops.var(wide, axes, correction=0, keepdim=True) + epsilon)


@handler("RMSNormalization")
def rms_norm(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Divided by the root of the mean square over all axes from ``axis`` on."""
    shape = tuple(x.shape[axis % x.ndim :])
    if tuple(scale.shape) == shape:
        return functional.rms_norm(x, shape, scale, epsilon)
    return functional.rms_norm(x, shape, eps=epsilon) * scale


@handler("LRN")
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Divided by a power of the squares of neighbouring channels; of even sizes one more behind."""
    if size % 2:
        return functional.local_response_norm(x, size, alpha, beta, bias)
    # PyTorch's has the one more before.
    turned = functional.local_response_norm(ops.flip(x, [1]), size, alpha, beta, bias)
    return ops.flip(turned, [1])


@handler("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divided by the norm along an axis; 0 where that is 0."""
    size = ops.abs(x) if p == 1 else x * x
    total = ops.sum(size, [axis], keepdim=True)
    total = total if p == 1 else ops.sqrt(total)
    return ops.where(ops.eq(total, 0), ops.zeros_like(x), x / total)


@handler("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Standardised over some axes."""
    centred = x - ops.mean(x, list(axes), keepdim=True)
    return centred / (ops.sqrt(ops.mean(centred * centred, list(axes), keepdim=True)) + 1e-9)


def wider(x: Tensor, number: int | None) -> Tensor:
    """A tensor in the type that a node asks to compute in."""
    dtype = None if not number else by_number(number).dtype
    return x if dtype is None else x.to(dtype)
