"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from ... import ops
from ...errors import ArgumentError
from ...nn import functional
from ...tensor import Tensor
from ..registry import handler
from .layout import padded

CONVS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}


def same_pads(
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    upper: bool,
) -> list[int]:
    """Paddings with which the result has ``size / stride`` elements, rounded up."""
    before: list[int] = []
    after: list[int] = []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
        less = total // 2
        before.append(less if upper else total - less)
        after.append(total - less if upper else less)
    return before + after


def chosen_pads(
    auto_pad: str,
    pads: Sequence[int] | None,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """The paddings that a node asks for, before and then behind all axes.

    Raises:
        ArgumentError: if it asks in a way that ONNX does not have.
    """
    if auto_pad in {"SAME_UPPER", "SAME_LOWER"}:
        return same_pads(sizes, kernel, strides, dilations, upper=auto_pad == "SAME_UPPER")
    if auto_pad not in {"NOTSET", "VALID", ""}:
        raise ArgumentError("onnx", "auto_pad is NOTSET, VALID or SAME_...", auto_pad=auto_pad)
    return list(pads) if pads is not None and auto_pad != "VALID" else [0] * (2 * len(kernel))


def in_space(x: Tensor, pads: Sequence[int]) -> Tensor:
    """Zeros around the axes behind the second."""
    half = len(pads) // 2
    return padded(x, [0, 0, *pads[:half], 0, 0, *pads[half:]], "constant", 0)


@handler("Conv")
def conv(
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
    """A convolution over one, two or three axes."""
    axes = x.ndim - 2
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    if axes not in CONVS:
        raise ArgumentError("onnx", "a convolution has one to three axes", shape=x.shape)
    kernel = list(weight.shape[2:])
    chosen = chosen_pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    if chosen[:axes] != chosen[axes:]:
        x, chosen = in_space(x, chosen), [0] * (2 * axes)
    return CONVS[axes](x, weight, bias, strides, chosen[:axes], dilations, group)


@handler("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The gradient of a convolution, taken forward: windows are added to the result."""
    axes = x.ndim - 2
    if axes not in TRANSPOSED:
        raise ArgumentError("onnx", "a convolution has one to three axes", shape=x.shape)
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    extra = list(output_padding or [0] * axes)
    kernel = list(weight.shape[2:])
    # All of it, with the rows that output_padding adds: paddings cut what is too much.
    whole = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], strides, kernel, dilations, extra, strict=True)
    ]
    wanted = list(output_shape)[-axes:] if output_shape else None
    if auto_pad.startswith("SAME") and wanted is None:
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is None:
        cut = list(pads) if pads is not None and auto_pad == "NOTSET" else [0] * (2 * axes)
    else:
        before, after = [], []
        for full, n in zip(whole, wanted, strict=True):
            total = max(0, full - n)
            first = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
            before.append(first)
            after.append(full - n - first)
        cut = before + after
    y = TRANSPOSED[axes](x, weight, None, strides, 0, 0, group, dilations)
    behind = [e - n for e, n in zip(extra, cut[axes:], strict=True)]
    y = in_space(y, [-n for n in cut[:axes]] + behind)
    return y if bias is None else ops.add(y, bias.reshape((-1,) + (1,) * axes))


@handler("CausalConvWithState")
def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past: Tensor | None = None,
    *,
    activation: str = "none",
    ndim: int = 1,
) -> tuple[Tensor, Tensor]:
    """A convolution of each channel that looks back only, and the last inputs as state."""
    before = weight.shape[-1] - 1
    joined = (
        in_space(x, [*[0] * (x.ndim - 3), before, *[0] * (x.ndim - 2)])
        if past is None
        else ops.cat([past, x], -1)
    )
    y = CONVS[x.ndim - 2](joined, weight, bias, groups=x.shape[1])
    if activation in {"silu", "swish"}:
        y = functional.silu(y)
    elif activation != "none":
        raise ArgumentError("onnx", "activation is none, silu or swish", activation=activation)
    return y, ops.narrow(joined, -1, joined.shape[-1] - before, before)


@handler("DeformConv", since=19)
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
) -> Tensor:
    """A convolution whose window's elements lie at offsets of their own, between the grid's."""
    n, c, h, w = x.shape
    oc, _, kh, kw = weight.shape
    oh, ow = offset.shape[2:]
    taps = kh * kw
    moved = offset.reshape((n * offset_group, taps, 2, oh, ow))
    rows = _places(x, oh, strides[0], pads[0], kh, dilations[0])
    columns = _places(x, ow, strides[1], pads[1], kw, dilations[1])
    ys = moved[:, :, 0] + ops.broadcast_to(rows.reshape((kh, 1, oh, 1)), (kh, kw, oh, ow)).reshape(
        (taps, oh, ow)
    )
    xs = moved[:, :, 1] + ops.broadcast_to(
        columns.reshape((1, kw, 1, ow)), (kh, kw, oh, ow)
    ).reshape((taps, oh, ow))
    grid = ops.stack([(xs * 2 + 1) / w - 1, (ys * 2 + 1) / h - 1], -1)
    grid = grid.reshape((n * offset_group, taps * oh, ow, 2))
    planes = x.reshape((n * offset_group, c // offset_group, h, w))
    found = functional.grid_sample(planes, grid, align_corners=False)
    found = found.reshape((n, offset_group, c // offset_group, taps, oh, ow))
    if mask is not None:
        found = found * mask.reshape((n, offset_group, 1, taps, oh, ow))
    columns_of = found.reshape((n, group, c // group * taps, oh * ow))
    filters = weight.reshape((group, oc // group, c // group * taps))
    y = ops.matmul(filters, columns_of).reshape((n, oc, oh, ow))
    return y if bias is None else y + bias.reshape((-1, 1, 1))


def _places(x: Tensor, count: int, stride: int, pad: int, taps: int, dilation: int) -> Tensor:
    """Of each tap and window where it lies in the image."""
    starts = ops.full_like(x.reshape(-1)[:1], stride).broadcast_to((count,))
    windows = ops.cumsum(starts, 0) - stride - pad
    steps = ops.full_like(x.reshape(-1)[:1], dilation).broadcast_to((taps,))
    return (ops.cumsum(steps, 0) - dilation).reshape((taps, 1)) + windows
