"""The ops below PyTorch's functions that programs call themselves: norms with their statistics."""

# ruff: noqa: A002, FBT001, N803 - PyTorch's signatures

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import ops
from ..ops.arithmetic import Number
from ..values.dtypes import bool_

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__: list[str] = []


def _moments(x: Tensor, axes: Sequence[int], eps: float, *, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The mean and ``1 / sqrt(var + eps)`` over axes."""
    x = x.detach()
    var = x.var(tuple(axes), correction=0, keepdim=keepdim)
    return x.mean(tuple(axes), keepdim=keepdim), (var + eps).rsqrt()


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``layer_norm``, the mean and ``1 / sqrt(var + eps)``, their normalised axes of size 1.

    Gradients go through the first result alone, as in PyTorch's two functions beside it.
    """
    y = ops.layer_norm(input, normalized_shape, weight, bias, eps)
    first = input.ndim - len(normalized_shape)
    return y, *_moments(input, range(first, input.ndim), eps, keepdim=True)


def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``group_norm``; the groups' means and ``1 / sqrt(var + eps)``, ``(N, group)``."""
    y = ops.group_norm(input, group, weight, bias, eps)
    return y, *_moments(input.reshape((N, group, C // group * HxW)), [2], eps, keepdim=False)


def native_batch_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``batch_norm``; of a batch in training means and ``1 / sqrt(var + eps)``, ``(c,)``."""
    y = ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return y, input.new_empty((0,)), input.new_empty((0,))
    axes = [d for d in range(input.ndim) if d != 1]
    return y, *_moments(input, axes, eps, keepdim=False)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``dropout`` and the mask of what it kept; without ``train`` a copy and ones."""
    ones = input.new_ones(input.shape, dtype=input.detach().dtype)
    if train is False:
        return input.clone(), ones.to(bool_)
    kept = ops.dropout(ones, p, training=True) != 0
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * kept * scale, kept


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """``pad`` with a number."""
    return ops.pad(input, pad, "constant", value)


_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``grid_sample`` with its modes as numbers, in the order of ``_MODES`` and ``_PADDINGS``."""
    modes = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    return ops.grid_sample(input, grid, *modes, align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler
