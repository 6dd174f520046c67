"""Ops that onnxruntime's optimisers make of several: with what stood before or behind an op.

They are of the domain ``com.microsoft``, but for one that onnxruntime counts among ONNX's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...errors import ArgumentError
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import float32, int32, int64
from ..registry import handler
from .activation import SELU_ALPHA, SELU_GAMMA
from .conv import conv
from .norm import layer_norm, rms_norm
from .product import gemm, matmul

DOMAIN = "com.microsoft"
_SILU = 1  # what GroupNorm calls it


@handler("Gelu", domain=DOMAIN)
def gelu(x: Tensor) -> Tensor:
    """``x`` times the normal distribution's share below it."""
    return functional.gelu(x)


@handler("BiasGelu", domain=DOMAIN)
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """A GELU of a sum."""
    return functional.gelu(x + bias)


@handler("FastGelu", domain=DOMAIN)
def fast_gelu(x: Tensor, bias: Tensor | None = None) -> Tensor:
    """A GELU by the hyperbolic tangent, perhaps of a sum."""
    return functional.gelu(x if bias is None else x + bias, approximate="tanh")


@handler("QuickGelu", domain=DOMAIN)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """``x sigmoid(alpha x)``."""
    return functional.silu(x) if alpha == 1 else x * ops.sigmoid(x * alpha)


@handler("BiasSplitGelu", domain=DOMAIN)
def bias_split_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """The first half of a sum times the GELU of the second."""
    left, right = ops.chunk(x + bias, 2, -1)
    return left * functional.gelu(right)


@handler("BiasAdd", domain=DOMAIN)
def bias_add(x: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """A sum of three."""
    return x + bias + skip


def _activated(name: str, given: Sequence[float]) -> Callable[[Tensor], Tensor]:
    """An activation by its name, with its parameters in order."""

    def number(place: int, default: float) -> float:
        return given[place] if place < len(given) else default

    made: dict[str, Callable[[Tensor], Tensor]] = {
        "": lambda y: y,
        "Relu": ops.relu,
        "Sigmoid": ops.sigmoid,
        "Tanh": ops.tanh,
        "Softplus": functional.softplus,
        "Softsign": functional.softsign,
        "LeakyRelu": lambda y: functional.leaky_relu(y, number(0, 0.01)),
        "Elu": lambda y: functional.elu(y, number(0, 1.0)),
        "Selu": lambda y: functional.elu(y, number(0, SELU_ALPHA)) * number(1, SELU_GAMMA),
        "HardSigmoid": lambda y: ops.clamp(y * number(0, 0.2) + number(1, 0.5), 0.0, 1.0),
        "ThresholdedRelu": lambda y: ops.where(ops.gt(y, number(0, 1.0)), y, ops.zeros_like(y)),
        "Clip": lambda y: ops.clamp(y, number(0, -float("inf")), number(1, float("inf"))),
    }
    if name not in made:
        raise ArgumentError("onnx", "an activation is one of these", activation=name, of=[*made])
    return made[name]


@handler("FusedConv", domain=DOMAIN)
def fused_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    more: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """A convolution, a sum and an activation."""
    y = conv(
        *(x, weight, bias),
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    return _activated(activation, activation_params)(y if more is None else y + more)


@handler("FusedGemm", domain=DOMAIN)
def fused_gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's names
    transB: int = 0,  # noqa: N803
) -> Tensor:
    """A dense layer and an activation."""
    y = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    given = (activation_alpha, activation_beta, activation_gamma)
    return _activated(activation, [n for n in given if n is not None])(y)


def _turned(x: Tensor, last: int, batch: int) -> Tensor:
    """An operand of a product: its first axis behind the others but one, its last two turned."""
    if batch and x.ndim > 2:
        x = ops.movedim(x, 0, -2)
    return ops.transpose(x, -1, -2) if last and x.ndim > 1 else x


@handler("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's names
    transB: int = 0,  # noqa: N803
    transBatchA: int = 0,  # noqa: N803
    transBatchB: int = 0,  # noqa: N803
) -> Tensor:
    """``alpha a b``, of operands whose axes are turned."""
    y = matmul(_turned(a, transA, transBatchA), _turned(b, transB, transBatchB))
    return y if alpha == 1 else y * alpha


@handler("SimplifiedLayerNormalization")
def simplified_layer_norm(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Any:
    """Divided by the root of the mean square; with the inverse of that."""
    y = rms_norm(x, scale, axis=axis, epsilon=epsilon)
    return y if outputs == 1 else (y, _inverse_root(x, epsilon, axis))


def _inverse_root(x: Tensor, epsilon: float, axis: int = -1) -> Tensor:
    wide = x.to(float32)
    axes = list(range(axis % x.ndim, x.ndim))
    return ops.rsqrt(ops.mean(wide * wide, axes, keepdim=True) + epsilon)


@handler("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_norm(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Any:
    """A sum standardised along the last axis; with means, inverse deviations and the sum."""
    total = x + skip if bias is None else x + skip + bias
    made = layer_norm(total, gamma, beta, epsilon=epsilon, outputs=min(outputs, 3))
    return (*made, total) if outputs > 1 else made


@handler("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_norm(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Any:
    """A sum divided by the root of its mean square; with the inverse of that, and the sum."""
    total = x + skip if bias is None else x + skip + bias
    y = rms_norm(total, gamma, epsilon=epsilon)
    if outputs == 1:
        return y
    root = _inverse_root(total, epsilon)
    return y, ops.zeros_like(root), root, total


@handler("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_norm(
    words: Tensor,
    segments: Tensor | None,
    of_words: Tensor,
    of_places: Tensor,
    of_segments: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None = None,
    places: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:
    """Embeddings of words, places and segments, summed and standardised.

    Returns:
        The result, of each row the number of words that its mask keeps (without a mask 0), and the
        sum.
    """
    rows, count = words.shape
    total = functional.embedding(words.to(int64), of_words)
    if places is None:
        total = total + ops.narrow(of_places, 0, 0, count)
    else:
        total = total + functional.embedding(places.to(int64), of_places)
    if segments is not None and of_segments is not None:
        total = total + functional.embedding(segments.to(int64), of_segments)
    y = functional.layer_norm(total, (total.shape[-1],), gamma, beta, epsilon)
    if mask is None:
        return y, ops.zeros_like(ops.select(words, 1, 0)).to(int32), total
    return y, ops.sum(ops.eq(mask, 1), [1]).to(int32).reshape((rows,)), total


@handler("GroupNorm", domain=DOMAIN)
def group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> Tensor:
    """Standardised for each group of channels, perhaps with a SiLU behind."""
    first = ops.movedim(x, -1, 1) if channels_last else x
    y = functional.group_norm(first, groups, gamma.to(x.dtype), beta.to(x.dtype), epsilon)
    y = functional.silu(y) if activation == _SILU else y
    return ops.movedim(y, 1, -1) if channels_last else y


@handler("SkipGroupNorm", domain=DOMAIN)
def skip_group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    skip: Tensor,
    bias: Tensor | None = None,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 1e-5,
    groups: int,
) -> tuple[Tensor, Tensor]:
    """A sum standardised for each group of channels; with the sum."""
    places = (1,) * (x.ndim - 2)
    around = (*places, x.shape[-1]) if channels_last else (x.shape[1], *places)
    if skip.ndim == 2:
        skip = skip.reshape((skip.shape[0], *around))
    total = x + skip
    total = total if bias is None else total + bias.reshape(around)
    y = group_norm(
        *(total, gamma, beta),
        activation=activation,
        channels_last=channels_last,
        epsilon=epsilon,
        groups=groups,
    )
    return y, total


@handler("NhwcConv", domain=DOMAIN)
def nhwc_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """A convolution of what has channels last; its filters have them there, too."""
    y = conv(
        *(ops.movedim(x, -1, 1), ops.movedim(weight, -1, 1), bias),
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    return ops.movedim(y, 1, -1)


@handler("CDist", domain=DOMAIN)
def cdist(a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    """Distances of rows, each with each.

    Raises:
        ArgumentError: if the metric is none that onnxruntime computes.
    """
    if metric not in {"euclidean", "sqeuclidean"}:
        raise ArgumentError("onnx", "a metric is euclidean or sqeuclidean", metric=metric)
    apart = a.unsqueeze(1) - b.unsqueeze(0)
    squares: Tensor = ops.sum(apart * apart, [-1])
    return squares.sqrt() if metric == "euclidean" else squares


@handler("Inverse", domain=DOMAIN)
def inverse(x: Tensor) -> Tensor:
    """Inverses of square matrices."""
    return ops.inverse(x)
