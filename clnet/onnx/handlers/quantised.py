"""Quantised numbers: integers with a scale and a zero point.

Products of small integers are sums of exact float32 products as long as they stay below 2^24, and
of float64 beyond; so they are the integers that ONNX asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ...values.dtypes import Kind, float32, float64, int32, uint8
from ..elements import Carried, Element, by_name, by_number
from ..registry import handler
from .cast import element_of, plain, small_float
from .conv import CONVS, chosen_pads, in_space

RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "uint4": (0, 15),
    "int4": (-8, 7),
    "uint2": (0, 3),
    "int2": (-2, 1),
}


def spread(value: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """A scale or a zero point beside what it belongs to: of all, of an axis, or of blocks."""
    if value.numel() == 1:
        return value.reshape(())
    if block_size and value.ndim == x.ndim:
        each = ops.repeat_interleave(value, block_size, axis)
        return ops.narrow(each, axis, 0, x.shape[axis])
    if value.ndim != 1 or not x.ndim:
        return value
    shape = [1] * x.ndim
    shape[axis % x.ndim] = -1
    return value.reshape(shape)


def stored(y: Tensor, element: Element) -> Any:
    """Whole numbers kept within a type's range, in that type."""
    low, high = RANGES[element.name]
    kept = ops.clamp(y, low, high).to(element.dtype)
    return Carried(kept, element) if element.carried else kept


@handler("QuantizeLinear", since=10)
def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    device: Any = None,
) -> Any:
    """``round(x / scale) + zero``, kept within the type's range."""
    element = by_name("uint8")
    if zero is not None:
        element = element_of(zero)
    elif output_dtype:
        element = by_number(output_dtype)
    wide = x if x.dtype.kind is Kind.FLOATING else x.to(float32)
    if precision:
        wide, scale = (t.to(by_number(precision).dtype) for t in (wide, scale))
    divided = wide / spread(scale, x, axis, block_size)
    if element.is_small_float:
        divided = divided.to(float32)
        return Carried(small_float(divided, element, saturate=bool(saturate)), element)
    rounded = ops.round(divided).to(float32)
    if zero is not None:
        rounded = rounded + spread(plain(zero, device).to(float32), x, axis, block_size)
    return stored(rounded, element)


@handler("DequantizeLinear", since=10)
def dequantize_linear(
    x: Any,
    scale: Tensor,
    zero: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    device: Any = None,
) -> Tensor:
    """``(x - zero) scale``."""
    y = plain(x, device)
    y = y.to(float32)
    if zero is not None:
        y = y - spread(plain(zero, device).to(float32), y, axis, block_size)
    y = y * spread(scale, y, axis, block_size).to(float32)
    return y.to(by_number(output_dtype).dtype if output_dtype else scale.dtype)


@handler("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """8 bits by the tensor's own range: the numbers, their scale and zero point."""
    scale, point = dynamic_range(x)
    y = ops.clamp(ops.round(x / scale) + point, 0, 255)
    return y.to(uint8), scale, point.to(uint8)


def dynamic_range(x: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and zero point of a tensor's range, which 0 is within; both floats."""
    x = x if x.numel() else ops.new_zeros(x, (1,))
    zero = ops.zeros_like(x.reshape(-1)[:1]).reshape(())
    low, high = ops.minimum(ops.amin(x), zero), ops.maximum(ops.amax(x), zero)
    span = ops.where(ops.eq(high, low), ops.ones_like(high), high - low)
    scale = span / 255
    return scale, ops.round(ops.clamp(-low / scale, 0, 255))


def in_8_bits(x: Tensor) -> Tensor:
    """What is left of floats as whole numbers of 8 bits of their own range."""
    scale, point = dynamic_range(x)
    return (ops.clamp(ops.round(x / scale) + point, 0, 255) - point) * scale


def _lowered(x: Tensor, zero: Tensor | None, axis: int | None, wide: Any) -> Tensor:
    """Integers without their zero point, as floating numbers that hold them exactly."""
    y = x.to(wide)
    if zero is None:
        return y
    point = zero.to(wide)
    if point.numel() == 1:
        return y - point.reshape(())
    if axis is not None and point.ndim == 1:
        shape = [1] * x.ndim
        shape[axis] = -1
        point = point.reshape(shape)
    return y - point


@handler("MatMulInteger", since=10)
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """The product of small integers, in 32 bits."""
    wide = float32 if a.shape[-1] < 2**8 else float64
    rows = a.ndim - 2 if a.ndim > 1 else None
    x = _lowered(a, a_zero, rows, wide)
    return ops.matmul(x, _lowered(b, b_zero, b.ndim - 1, wide)).to(int32)


@handler("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
) -> Any:
    """The product of quantised matrices, quantised."""
    sums = matmul_integer(a, b, a_zero, b_zero).to(float32)
    factor = a_scale.to(float32) * b_scale.to(float32) / y_scale.to(float32)
    y = ops.round(sums * factor) + y_zero.to(float32)
    return stored(y, element_of(y_zero))


@handler("ConvInteger", since=10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The convolution of small integers, in 32 bits; what is padded is the zero point."""
    axes = x.ndim - 2
    wide = float32 if np.prod(w.shape[1:]) < 2**8 else float64
    strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
    chosen = chosen_pads(auto_pad, pads, x.shape[2:], w.shape[2:], strides, dilations)
    given = in_space(_lowered(x, x_zero, None, wide), chosen)
    y = CONVS[axes](given, _lowered(w, w_zero, 0, wide), None, strides, 0, dilations, group)
    return ops.round(y).to(int32)


@handler("QLinearConv", since=10)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Any:
    """The convolution of quantised numbers, quantised."""
    sums = conv_integer(
        x,
        w,
        x_zero,
        w_zero,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    shape = (-1,) + (1,) * (x.ndim - 2)
    if bias is not None:
        sums = sums + bias.reshape(shape)
    factor = x_scale * (w_scale.reshape(shape) if w_scale.numel() > 1 else w_scale) / y_scale
    y = ops.round(sums.to(float32) * factor) + y_zero.to(float32)
    return stored(y, element_of(y_zero))
