"""``nn.utils.fusion``: batch norms of evaluation folded into the layer before them."""

# ruff: noqa: FBT001, FBT002 - PyTorch's signatures

from __future__ import annotations

import copy
from typing import Any

from .. import ops
from ..autograd import no_grad
from ..errors import ArgumentError
from ..tensor import Tensor
from .module import Module, Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]


@no_grad()
def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Filters and bias of a convolution that does the batch norm behind it, too.

    Args:
        conv_w: the filters.
        conv_b: the bias, or None for 0.
        bn_rm: running mean, ``(channels,)``.
        bn_rv: running variance, the same.
        bn_eps: added to the variance.
        bn_w: the norm's weight, or None for 1.
        bn_b: its bias, or None for 0.
        transpose: whether the channels are axis 1 of the filters, and not 0.

    Returns:
        Both, of the convolution's dtypes; each requires a gradient if the convolution's does.
    """
    scale = ops.rsqrt(bn_rv + bn_eps)
    scale = scale if bn_w is None else scale * bn_w
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    shift = -bn_rm * scale if conv_b is None else (conv_b - bn_rm) * scale
    shift = shift if bn_b is None else shift + bn_b
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    shift = shift.to(conv_w.dtype if conv_b is None else conv_b.dtype)
    needed = conv_b is not None and conv_b.requires_grad
    return Parameter(weight, conv_w.requires_grad), Parameter(shift, needed)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """As :func:`fuse_conv_bn_weights`, of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _fused(name: str, layer: Any, bn: Any, *, transpose: bool = False) -> Any:
    if layer.training or bn.training or bn.running_mean is None:
        raise ArgumentError(
            name, "both are in evaluation, and the norm has kept statistics", remedy="Call eval()"
        )
    made = copy.deepcopy(layer)
    made.weight, made.bias = fuse_conv_bn_weights(
        *(made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias),
        transpose=transpose,
    )
    return made


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A convolution that gives what ``bn(conv(x))`` gives in evaluation.

    Raises:
        ArgumentError: if one is in training, or the norm keeps no statistics.
    """
    return _fused("fuse_conv_bn_eval", conv, bn, transpose=transpose)


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Module:
    """As :func:`fuse_conv_bn_eval`, of a linear layer."""
    return _fused("fuse_linear_bn_eval", linear, bn)
