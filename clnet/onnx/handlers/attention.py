"""Attention and what goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import bool_, float32
from ..elements import by_number
from ..registry import Host, handler
from .cast import plain

Branch = Callable[..., list[Any]]


@handler("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    score_mod: Branch | None = None,
    prob_mod: Branch | None = None,
    softmax_precision: int | None = None,
) -> Tensor:
    """Attention whose scores and weights graphs change."""
    from_16 = q.dtype.itemsize == 2
    k, v = (repeated_heads(t, q.shape[1]) for t in (k, v))
    root = float(np.sqrt(np.float32(scale if scale is not None else q.shape[-1] ** -0.5)))
    scores = ops.matmul(q * root, ops.transpose(k * root, -1, -2))
    scores = in_precision(scores, softmax_precision, wide=from_16)
    if score_mod is not None:
        scores = plain(score_mod(scores)[0])
    weights = ops.softmax(scores, -1)
    if prob_mod is not None:
        weights = plain(prob_mod(weights)[0])
    return ops.matmul(weights, v.to(weights.dtype)).to(v.dtype)


def repeated_heads(x: Tensor, heads: int) -> Tensor:
    """Each head as often as query heads share it."""
    times = heads // x.shape[1]
    return x if times <= 1 else ops.repeat_interleave(x, times, 1)


def in_precision(x: Tensor, number: int | None, *, wide: bool = False) -> Tensor:
    """A tensor in the type that a node asks for, or in float32 if it is to be wide."""
    if number:
        return x.to(by_number(number).dtype)
    return x.float() if wide else x


def split_heads(x: Tensor, heads: int | None) -> Tensor:
    """Packed heads ``(n, t, heads d)`` as ``(n, heads, t, d)``."""
    if heads is None or not heads:
        raise ArgumentError("onnx", "packed heads are counted by an attribute", shape=x.shape)
    n, t, wide = x.shape
    return ops.permute(x.reshape((n, t, heads, wide // heads)), (0, 2, 1, 3))


def packed(x: Tensor) -> Tensor:
    """Heads side by side in the last axis."""
    n, heads, t, d = x.shape
    return ops.permute(x, (0, 2, 1, 3)).reshape((n, t, heads * d))


def _allowed(
    q_len: int,
    kv_len: int,
    offset: Any,
    *,
    causal: bool,
    left: int,
    right: int,
    lengths: np.ndarray | None,
) -> np.ndarray | None:
    """Which keys each query may see by their places: ``(q, k)`` or ``(n, 1, q, k)``, or None."""
    if not causal and left < 0 and right < 0 and lengths is None:
        return None
    places = np.arange(kv_len)
    queries = np.arange(q_len).reshape(-1, 1) + np.asarray(offset).reshape(-1, 1, 1, 1)
    seen = np.ones((queries.shape[0], 1, q_len, kv_len), dtype=bool)
    if causal:
        seen &= places <= queries
    if left >= 0:
        seen &= queries - places <= left
    if right >= 0:
        seen &= places - queries <= right
    if lengths is not None:
        seen = seen & (places < lengths.reshape(-1, 1, 1, 1))
    return seen


def _bias(q: Tensor, mask: Tensor | None, allowed: np.ndarray | None, kv_len: int) -> Any:
    """What is added to scores, or None."""
    bias = None
    if mask is not None:
        bias = mask
        if mask.dtype is bool_:
            zero = ops.zeros_like(mask).to(q.dtype)
            bias = ops.where(mask, zero, ops.full_like(zero, -np.inf))
        short = kv_len - bias.shape[-1]
        if short > 0:
            bias = functional.pad(bias, (0, short), value=-np.inf)
    if allowed is not None:
        seen = q.new_tensor(np.where(allowed, 0, -np.inf).astype(np.float32)).to(q.dtype)
        bias = seen if bias is None else bias + seen
    return bias


@handler("Attention", since=23)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Host | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> Any:
    """Scaled dot-product attention, with a cache of keys and values; scores on demand."""
    flat = q.ndim == 3
    if flat:
        q = split_heads(q, q_num_heads)
        k, v = split_heads(k, kv_num_heads), split_heads(v, kv_num_heads)
    before = 0
    if past_key is not None and past_value is not None:
        before = past_key.shape[2]
        k, v = ops.cat([past_key, k], 2), ops.cat([past_value, v], 2)
    q_len, kv_len = q.shape[2], k.shape[2]
    offset = before if lengths is None else np.asarray(lengths).reshape(-1) - q_len
    allowed = _allowed(
        q_len,
        kv_len,
        offset,
        causal=bool(is_causal),
        left=left_window_size,
        right=right_window_size,
        lengths=None if lengths is None else np.asarray(lengths).reshape(-1),
    )
    bias = _bias(q, mask, allowed, kv_len)
    keys, values = (repeated_heads(t, q.shape[1]) for t in (k, v))
    factor = scale if scale is not None else q.shape[-1] ** -0.5
    if outputs < 4 and not softcap and not softmax_precision:
        y = functional.scaled_dot_product_attention(q, keys, values, bias, scale=factor)
        return (packed(y) if flat else y), k, v
    root = factor**0.5
    scores = ops.matmul(q * root, ops.transpose(keys * root, -1, -2))
    if softcap:
        scores = ops.tanh(scores / softcap) * softcap
    biased = scores if bias is None else scores + bias
    weights = ops.softmax(in_precision(biased, softmax_precision), -1)
    if bias is not None:
        hidden = ops.eq(ops.amax(bias, -1, keepdim=True), -np.inf)
        weights = ops.where(hidden, ops.zeros_like(weights), weights)
    shown = {2: biased, 3: weights}.get(qk_matmul_output_mode, scores)
    y = ops.matmul(weights.to(q.dtype), values)
    return (packed(y) if flat else y), k, v, shown.to(q.dtype)


@handler("RotaryEmbedding", since=23)
def rotary_embedding(
    x: Tensor,
    cosine: Tensor,
    sine: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of a head's elements turned by angles that grow with the position."""
    flat = x.ndim == 3
    heads = split_heads(x, num_heads) if flat else x
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = (
        ops.narrow(heads, -1, 0, size),
        ops.narrow(heads, -1, size, heads.shape[-1] - size),
    )
    if positions is not None:
        index = positions.long().reshape(-1)
        shape = (*positions.shape, cosine.shape[-1])
        cosine = ops.index_select(cosine, 0, index).reshape(shape)
        sine = ops.index_select(sine, 0, index).reshape(shape)
    cosine, sine = cosine.unsqueeze(1), sine.unsqueeze(1)
    half = size // 2
    if interleaved:
        pairs = turned.reshape((*turned.shape[:-1], half, 2))
        a, b = ops.unbind(pairs, -1)
    else:
        a, b = ops.narrow(turned, -1, 0, half), ops.narrow(turned, -1, half, half)
    real, imaginary = cosine * a - sine * b, sine * a + cosine * b
    if interleaved:
        joined = ops.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        joined = ops.cat([real, imaginary], -1)
    y = ops.cat([joined, rest], -1) if rest.shape[-1] else joined
    return packed(y) if flat else y


@handler("SwiGLU", since=28)
def swiglu(gate: Tensor, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """The gate's Swish times ``x``."""
    return gate * ops.sigmoid(gate * alpha) * x


@handler("LinearAttention", since=27)
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:
    """Attention by a state that each key and value is written into, decayed and corrected."""
    gated, corrected = update_rule.startswith("gated"), update_rule.endswith("delta")
    if (gated and decay is None) or (corrected and beta is None):
        raise ArgumentError("onnx", "the update rule has its inputs", update_rule=update_rule)
    heads_q = split_heads(q, q_num_heads).to(float32)
    heads_k, heads_v = (split_heads(t, kv_num_heads).to(float32) for t in (k, v))
    n, _, steps, size = heads_k.shape
    shape = (n, kv_num_heads, size, heads_v.shape[-1])
    state = ops.new_zeros(heads_k, shape) if past is None else past.to(float32)
    faded = (
        None if decay is None or not gated else ops.exp(split_heads(decay, kv_num_heads).float())
    )
    rates = None if beta is None or not corrected else split_heads(beta, beta.shape[-1]).float()
    factor = scale or heads_q.shape[-1] ** -0.5
    rows: list[Tensor] = []
    for i in range(steps):
        key, value = ops.select(heads_k, 2, i), ops.select(heads_v, 2, i)
        if faded is not None:
            state = state * ops.select(faded, 2, i).unsqueeze(-1)
        if rates is not None:
            known = ops.matmul(key.unsqueeze(-2), state).squeeze(-2)
            value = ops.select(rates, 2, i) * (value - known)
        state = state + key.unsqueeze(-1) * value.unsqueeze(-2)
        read = repeated_heads(state, q_num_heads)
        rows.append(ops.matmul(ops.select(heads_q, 2, i).unsqueeze(-2), read).squeeze(-2) * factor)
    y = packed(ops.stack(rows, 2)).to(q.dtype)
    return y, state.to(q.dtype if past is None else past.dtype)
