"""Ops of onnxruntime's quantisers whose weights are integers and which compute in floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError
from ...tensor import Tensor
from ...values.dtypes import float32, int32, int64
from ..registry import handler
from .cast import element_of, plain
from .fused import DOMAIN, embed_layer_norm
from .gather import gather

# Values of 4 bits that bitsandbytes has: of floats with one bit of fraction, and of a normal
# distribution.
_TINY = (
    *(0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25),
    *(-0.0, -0.0052083333, -0.66666667, -1.0, -0.33333333, -0.5, -0.16666667, -0.25),
)
_NORMAL = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)


def _digits(x: Tensor, bits: int) -> Tensor:
    """Numbers of a few bits that lie in the last axis of bytes, the lowest first, as int32.

    Raises:
        ArgumentError: if they are not 2, 4 or 8 bits wide.
    """
    if bits not in (2, 4, 8):
        raise ArgumentError("onnx", "packed numbers have 2, 4 or 8 bits", bits=bits)
    whole = x.to(int32)
    parts = [
        ops.bitwise_and(ops.bitwise_right_shift(whole, shift), (1 << bits) - 1)
        for shift in range(0, 8, bits)
    ]
    return ops.stack(parts, -1).flatten(-2)


@handler("MatMulNBits", domain=DOMAIN)
def matmul_bits(
    x: Tensor,
    weight: Tensor,
    scales: Tensor,
    zeros: Tensor | None = None,
    groups: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,  # noqa: N803 - ONNX's names
    N: int,  # noqa: N803
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Tensor:
    """A dense layer whose weights are numbers of a few bits, with a scale for each block.

    Inputs:
        x: ``(..., K)``.
        weight: ``(N, blocks, block_size bits / 8)``, bytes.
        scales: of each block.
        zeros: zero points of blocks: packed as the weights of a row are, or of ``x``'s dtype.
        groups: the block of each column of the weights.
        bias: ``(N)``.
    """
    if weight_prepacked:
        law = "weights lie as they were quantised"
        raise ArgumentError("onnx", law, weight_prepacked=weight_prepacked)
    blocks = -(-K // block_size)
    scale = scales.reshape((N, blocks))
    whole = _digits(weight.reshape((N, -1)), bits).reshape((N, blocks, block_size))
    if zeros is None:
        point: Any = float(1 << (bits - 1))
    elif zeros.dtype.is_floating_point:
        point = zeros.reshape((N, blocks))
    else:
        point = ops.narrow(_digits(zeros.reshape((N, -1)), bits), 1, 0, blocks).to(scale.dtype)
    if groups is None:
        point = point if isinstance(point, float) else point.unsqueeze(-1)
        filters = ((whole.to(scale.dtype) - point) * scale.unsqueeze(-1)).flatten(1)
        filters = ops.narrow(filters, 1, 0, K)
    else:
        block = groups.to(int64)
        columns = ops.narrow(whole.flatten(1), 1, 0, K).to(scale.dtype)
        point = point if isinstance(point, float) else ops.index_select(point, 1, block)
        filters = (columns - point) * ops.index_select(scale, 1, block)
    y = ops.matmul(x, ops.transpose(filters.to(x.dtype), 0, 1))
    return y if bias is None else y + bias


@handler("MatMulBnb4", domain=DOMAIN)
def matmul_bnb4(
    x: Tensor,
    weight: Tensor,
    largest: Tensor,
    *,
    K: int,  # noqa: N803 - ONNX's names
    N: int,  # noqa: N803
    block_size: int,
    quant_type: int,
    training_mode: int = 0,
    transB: int = 1,  # noqa: N803
) -> Tensor:
    """A dense layer whose weights are shares of the largest number of their block.

    Inputs:
        x: ``(..., K)``.
        weight: ``(N K / 2)``, bytes, the first number in the high bits.
        largest: of each block of the weights, one row behind the other.
    """
    table = x.new_tensor(np.array(_NORMAL if quant_type else _TINY, np.float32))
    whole = weight.reshape(-1).to(int32)
    high = ops.bitwise_right_shift(whole, 4)
    codes = ops.stack([high, ops.bitwise_and(whole, 15)], -1).reshape(-1).to(int64)
    shares = ops.index_select(table, 0, ops.narrow(codes, 0, 0, N * K))
    factor = ops.repeat_interleave(largest.to(float32).reshape(-1), block_size)
    filters = (shares * ops.narrow(factor, 0, 0, N * K)).reshape((N, K)).to(x.dtype)
    return ops.matmul(x, ops.transpose(filters, 0, 1) if transB else filters)


@handler("GatherBlockQuantized", domain=DOMAIN)
def gather_quantised(
    table: Any,
    indices: Tensor,
    scales: Tensor,
    zeros: Any = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
    device: Any = None,
) -> Tensor:
    """Slices of a table of numbers of a few bits, with a scale for each block.

    Inputs:
        table: bytes in which such numbers lie along the last axis, or numbers of 4 bits.
        indices: along ``gather_axis``.
        scales: as the table, with one for each block along ``quantize_axis``.
        zeros: as the scales, packed as the table.
    """
    in_bytes = element_of(table).name == "uint8"
    whole = plain(table, device)
    whole = _digits(whole, bits) if in_bytes else whole
    point: Any = float(1 << (bits - 1)) if in_bytes else 0.0
    parts = [scales]
    if zeros is not None:
        held = plain(zeros, device)
        held = ops.narrow(_digits(held, bits), -1, 0, scales.shape[-1]) if in_bytes else held
        parts.append(held.to(scales.dtype))
    axis, along = quantize_axis % whole.ndim, gather_axis % whole.ndim
    if axis == along:
        parts = [_each(p, whole.shape[axis], axis, block_size) for p in parts]
    rows, *parts = (gather(t, indices, axis=along) for t in (whole, *parts))
    if axis != along:
        # The gathered axis became as many as the indices have.
        behind = axis + indices.ndim - 1 if axis > along else axis
        parts = [_each(p, rows.shape[behind], behind, block_size) for p in parts]
    return (rows.to(scales.dtype) - (parts[1] if len(parts) > 1 else point)) * parts[0]


def _each(value: Tensor, count: int, axis: int, size: int) -> Tensor:
    """What blocks have, of each of their elements."""
    return ops.narrow(ops.repeat_interleave(value, size, axis), axis, 0, count)


def _floats(x: Any, scale: Tensor, zero: Any, device: Any) -> Tensor:
    """What numbers of one scale stand for."""
    y = plain(x, device).to(float32)
    return (y if zero is None else y - plain(zero, device).to(float32)) * scale


@handler("QEmbedLayerNormalization", domain=DOMAIN)
def quantised_embed_layer_norm(
    words: Tensor,
    segments: Tensor | None,
    of_words: Tensor,
    of_places: Tensor,
    of_segments: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mask: Tensor | None,
    *numbers: Tensor | None,
    epsilon: float = 1e-12,
    device: Any = None,
) -> Any:
    """Embeddings of 8 bits, summed and standardised; ``numbers`` are five scales, five zeros."""
    tables = (of_words, of_places, of_segments, gamma, beta)
    scales, zeros = numbers[:5], (*numbers[5:], *[None] * 5)[:5]
    floats = [
        None if t is None or s is None else _floats(t, s, z, device)
        for t, s, z in zip(tables, scales, zeros, strict=True)
    ]
    made: Any = (words, segments, *floats, mask)
    return embed_layer_norm(*made, epsilon=epsilon)[:2]
