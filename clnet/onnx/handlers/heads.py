"""Attention as onnxruntime's optimisers and exporters of transformers write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError, ShapeError
from ...nn import functional
from ...tensor import Tensor
from ...values.dtypes import bool_, float32, int64
from ..registry import Host, handler
from .attention import packed, repeated_heads, rotary_embedding, split_heads
from .fused import DOMAIN
from .quantised import matmul_integer

_MASKED = -10000.0  # what is added to the scores of keys that a mask leaves out
_SCORES, _WEIGHTS = 1, 2  # of qk_output


def _refused(op: str, **settings: Any) -> None:
    """Refuse settings of ways to run that clnet does not have.

    Raises:
        ArgumentError: if one is set.
    """
    given = {name: value for name, value in settings.items() if value not in (None, 0, "NONE")}
    if given:
        raise ArgumentError("onnx", f"{op} has none of these settings", **given)


def _bias_of(mask: Tensor, rows: int, steps: int, count: int, low: float, dtype: Any) -> Tensor:
    """What a mask adds to scores ``(n, heads, steps, count)``.

    Args:
        mask: of whole numbers: ``(n)`` keys that count, ``(2 n)`` their ends and then their starts,
            ``(3 n + 2)`` their counts and what is not looked at; 1 for those that count and 0 for
            others: ``(n, count)``, ``(n, steps, count)`` or ``(n, 1, longest, longest)``.
        rows: ``n``.
        steps: of queries.
        count: of keys.
        low: of those that do not count.
        dtype: of the scores.
    """
    if mask.ndim == 1:
        places = mask.new_tensor(np.arange(count, dtype=np.int32)).to(mask.dtype)
        ends = ops.narrow(mask, 0, 0, rows).unsqueeze(-1)
        seen = ops.lt(places, ends)
        if mask.shape[0] == 2 * rows:
            seen = ops.logical_and(seen, ops.ge(places, ops.narrow(mask, 0, rows, rows)[:, None]))
        seen = seen.reshape((rows, 1, 1, count))
    elif mask.ndim == 2:
        seen = ops.ne(mask, 0).reshape((mask.shape[0], 1, 1, mask.shape[1]))
    elif mask.ndim == 3:
        seen = ops.ne(mask, 0).unsqueeze(1)
    else:
        whole = ops.narrow(ops.narrow(mask, 2, count - steps, steps), 3, 0, count)
        seen = ops.ne(whole, 0)
    zero = ops.zeros_like(seen).to(dtype)
    return ops.where(seen, zero, ops.full_like(zero, low))


def _causal(q: Tensor, count: int) -> Tensor:
    """What keys behind a query add to its score: the last query is at the last key's place."""
    steps = q.shape[2]
    places = np.arange(count) - np.arange(count - steps, count).reshape(-1, 1)
    seen = np.where(places > 0, -np.inf, 0).astype(np.float32)
    return q.new_tensor(seen).to(q.dtype)


def _sum(parts: Sequence[Tensor | None]) -> Tensor | None:
    """What of some is there, added."""
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def _attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    *,
    scale: float | None,
    low: float,
    causal: bool,
    shown: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Heads ``(n, heads, t, d)`` attended, packed; and the scores, if they are shown."""
    rows, _, steps, size = q.shape
    count = k.shape[2]
    seen = None if mask is None else _bias_of(mask, rows, steps, count, low, q.dtype)
    added = _sum([bias, seen, _causal(q, count) if causal else None])
    factor = scale or size**-0.5
    if not shown:
        return packed(functional.scaled_dot_product_attention(q, k, v, added, scale=factor)), None
    scores = ops.matmul(q * factor, ops.transpose(k, -1, -2))
    scores = scores if added is None else scores + added
    return packed(ops.matmul(ops.softmax(scores, -1), v)), scores


def _from_projected(
    projected: Tensor,
    mask: Tensor | None,
    past: Tensor | None,
    bias: Tensor | None,
    *,
    heads: int,
    sizes: Sequence[int] | None,
    scale: float | None,
    low: float,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Attention of queries, keys and values side by side; and keys and values, stacked."""
    wide = projected.shape[-1] // 3
    q, k, v = (split_heads(t, heads) for t in ops.split(projected, list(sizes or [wide] * 3), -1))
    if past is not None:
        k, v = (ops.cat([ops.select(past, 0, i), t], 2) for i, t in enumerate((k, v)))
    y, _ = _attended(q, k, v, mask, bias, scale=scale, low=low, causal=causal)
    return y, ops.stack([k, v], 0) if k.shape == v.shape else k


@handler("Attention", domain=DOMAIN)
def attention(
    x: Tensor,
    weight: Tensor,
    projected_bias: Tensor | None = None,
    mask: Tensor | None = None,
    past: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = _MASKED,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attention of a tensor to itself, projected by one matrix.

    Inputs:
        x: ``(n, t, size)``.
        weight: of queries, keys and values side by side.
        projected_bias: of the same.
        mask: see :func:`_bias_of`.
        past: keys and values before, ``(2, n, heads, t, d)``.
        bias: added to the scores.

    Returns:
        The result and ``past`` with what was added to it.
    """
    _refused("Attention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    y = ops.matmul(x, weight)
    return _from_projected(
        *(y if projected_bias is None else y + projected_bias, mask, past, bias),
        heads=num_heads,
        sizes=qkv_hidden_sizes,
        scale=scale,
        low=mask_filter_value,
        causal=bool(unidirectional),
    )


@handler("QAttention", domain=DOMAIN)
def quantised_attention(
    x: Tensor,
    weight: Tensor,
    projected_bias: Tensor,
    x_scale: Tensor,
    scale_of_weight: Tensor,
    mask: Tensor | None = None,
    x_zero: Tensor | None = None,
    zero_of_weight: Tensor | None = None,
    past: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = _MASKED,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor]:
    """:func:`attention` whose projection is of integers."""
    _refused("QAttention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    sums = matmul_integer(x, weight, x_zero, zero_of_weight).to(float32)
    return _from_projected(
        *(sums * (x_scale * scale_of_weight) + projected_bias, mask, past, None),
        heads=num_heads,
        sizes=None,
        scale=scale,
        low=mask_filter_value,
        causal=bool(unidirectional),
    )


def _unpacked(
    query: Tensor, key: Tensor | None, value: Tensor | None, bias: Tensor | None, heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as heads ``(n, heads, t, d)``, with their biases.

    Inputs:
        query: ``(n, t, size)``; or all three, ``(n, t, heads, 3, d)``.
        key: ``(n, t, size)``; heads, which have their bias; or both, ``(n, t, heads, 2, d)``.
        value: ``(n, t, size)``, or heads.
        bias: of all three, side by side.
    """
    if query.ndim == 5:
        parts = [ops.select(query, 3, i) for i in range(3)]
    elif key is not None and key.ndim == 5:
        parts = [query, *(ops.select(key, 3, i) for i in range(2))]
    elif key is not None and value is not None:
        parts = [query, key, value]
    else:
        raise ShapeError("onnx", "MultiHeadAttention has keys and values", query=query.shape)
    start = 0
    made: list[Tensor] = []
    for part in parts:
        if part is not query and part.ndim == 4 and (part is key or part is value):
            made.append(part)
            continue
        flat = part.flatten(2)
        wide = flat.shape[-1]
        if bias is not None:
            flat = flat + ops.narrow(bias, 0, start, wide)
        start += wide
        made.append(split_heads(flat, heads))
    return made[0], made[1], made[2]


@handler("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    projected_bias: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    mask_filter_value: float = _MASKED,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
    outputs: int = 1,
) -> Any:
    """Attention of projected heads; with keys and values, and the scores, on demand."""
    q, k, v = _unpacked(query, key, value, projected_bias, num_heads)
    if past_key is not None and past_value is not None:
        k, v = ops.cat([past_key, k], 2), ops.cat([past_value, v], 2)
    y, scores = _attended(
        *(q, k, v, mask, bias),
        scale=scale,
        low=mask_filter_value,
        causal=bool(unidirectional),
        shown=outputs > 3,
    )
    return y if outputs == 1 else (y, k, v, scores)[:outputs]


@handler("RotaryEmbedding", domain=DOMAIN)
def rotary(
    x: Tensor,
    positions: Tensor,
    cosine: Tensor,
    sine: Tensor,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """Pairs of a head's elements turned by angles that grow with the position.

    Inputs:
        x: ``(n, t, size)`` or ``(n, heads, t, d)``.
        positions: ``(n, t)``, or that of the first step, ``(1)``.
        cosine: ``(positions, d / 2)``.
        sine: the same.
    """
    _refused("RotaryEmbedding", is_packed_batching=is_packed_batching)
    steps = x.shape[-2]
    if positions.numel() == 1:
        places = positions.new_tensor(np.arange(steps)).to(int64)
        positions = (positions.reshape((1, 1)).to(int64) + places).expand((x.shape[0], steps))
    size = rotary_embedding_dim or 2 * cosine.shape[-1]
    if x.ndim == 3 and not num_heads:
        num_heads = x.shape[-1] // size
    return rotary_embedding(
        *(x, cosine, sine, positions),
        interleaved=interleaved,
        num_heads=num_heads,
        rotary_embedding_dim=rotary_embedding_dim,
    )


def _written(past: Tensor, new: Tensor, before: Tensor, longest: int) -> Tensor:
    """New keys behind those of a cache of which each row has ``before`` ones.

    Args:
        past: ``(n, heads, p, d)``.
        new: ``(n, heads, t, d)``.
        before: ``(n)``.
        longest: of the cache with the new ones; what no row has reached yet is not told.
    """
    held, steps = past.shape[2], new.shape[2]
    both = ops.cat([past, new], 2)
    places = before.new_tensor(np.arange(longest)).to(int64)
    ahead = places - before.unsqueeze(-1)
    fresh = ops.logical_and(ops.ge(ahead, 0), ops.lt(ahead, steps))
    kept = ops.clamp(places, 0, max(held - 1, 0)).expand(ahead.shape)
    index = ops.where(fresh, ahead + held, kept)[:, None, :, None]
    shape = (*both.shape[:2], longest, both.shape[3])
    return ops.gather(both, 2, index.expand(shape).contiguous())


def _weighed(
    scores: Tensor, v: Tensor, sink: Tensor | None, qk_output: int
) -> tuple[Tensor, Tensor | None]:
    """Values by the softmax of scores, of which a sink takes a share that is lost."""
    if sink is not None:
        column = sink.to(scores.dtype).reshape((1, -1, 1, 1)).expand((*scores.shape[:3], 1))
        weights = ops.softmax(ops.cat([scores, column], -1), -1)
        weights = ops.narrow(weights, -1, 0, scores.shape[-1])
    else:
        weights = ops.softmax(scores, -1)
    shown = {_SCORES: scores, _WEIGHTS: weights}.get(qk_output)
    return ops.matmul(weights.to(v.dtype), v), shown


@handler("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    past_key: Tensor | None,
    past_value: Tensor | None,
    lengths: Tensor,
    total: Host,
    cosine: Tensor | None = None,
    sine: Tensor | None = None,
    positions: Tensor | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
    *,
    causal: int = 1,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
) -> Any:
    """Attention whose heads of queries share keys, with a cache, positions turned on demand.

    Inputs:
        query: ``(n, t, heads d)``; or queries, keys and values side by side.
        key: ``(n, t, shared d)``.
        value: the same.
        past_key: the cache, ``(n, shared, p, d)``.
        past_value: the same.
        lengths: of each row, with what is new, less 1.
        total: the longest.
        cosine: ``(positions, d / 2)``.
        sine: the same.
        positions: ``(n, t)``; those behind the cache, if none are given.
        bias: added to the scores.
        sink: of each head what is added to the sum of its powers, as a logarithm.

    Returns:
        The result, both caches, and what ``qk_output`` asks for.
    """
    _refused(
        "GroupQueryAttention",
        k_quant_type=k_quant_type,
        kv_cache_bit_width=kv_cache_bit_width,
        sliding_window_cache=sliding_window_cache,
        v_quant_type=v_quant_type,
    )
    q, k, v = _shared_heads(query, key, value, num_heads, kv_num_heads)
    steps, count = q.shape[2], int(np.asarray(total).reshape(-1)[0])
    lengths = lengths.reshape(-1).to(int64)
    # The first call of a prompt starts at 0, however long its rows are.
    before = ops.zeros_like(lengths) if steps == count else lengths + (1 - steps)
    places = before.unsqueeze(-1) + before.new_tensor(np.arange(steps)).to(int64)
    if do_rotary and cosine is not None and sine is not None:
        at = places if positions is None else positions
        q, k = (_at_places(t, cosine, sine, at, rotary_interleaved) for t in (q, k))
    if past_key is not None and past_value is not None and past_key.shape[2]:
        longest = max(count, past_key.shape[2])
        k, v = (_written(held, t, before, longest) for held, t in ((past_key, k), (past_value, v)))
    seen = _within(q, places, count, causal=bool(causal), window=local_window_size)
    keys, values = (
        repeated_heads(ops.narrow(t, 2, 0, min(count, t.shape[2])), num_heads) for t in (k, v)
    )
    if smooth_softmax == 1 and sink is None:
        sink = q.new_zeros((num_heads,))
    factor = scale or q.shape[-1] ** -0.5
    y, shown = _grouped(q, keys, values, _sum([seen, bias]), sink, factor, softcap, qk_output)
    return packed(y), k, v, shown


def _at_places(x: Tensor, cosine: Tensor, sine: Tensor, at: Tensor, interleaved: int) -> Tensor:
    """Heads whose elements are turned by the angles of places, of which some may lie outside."""
    return rotary_embedding(
        *(x, cosine, sine, ops.clamp(at, 0, cosine.shape[0] - 1)),
        interleaved=interleaved,
        rotary_embedding_dim=2 * cosine.shape[-1],
    )


def _shared_heads(
    query: Tensor, key: Tensor | None, value: Tensor | None, heads: int, shared: int
) -> list[Tensor]:
    """Queries of some heads, and keys and values of fewer, which may lie beside the queries."""
    parts = [query, key, value]
    if key is None or value is None:
        size = query.shape[-1] // (heads + 2 * shared)
        parts = list(ops.split(query, [heads * size, shared * size, shared * size], -1))
    counts = (heads, shared, shared)
    return [split_heads(t, n) for t, n in zip(parts, counts, strict=True) if t is not None]


def _grouped(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    added: Tensor | None,
    sink: Tensor | None,
    scale: float,
    softcap: float,
    qk_output: int,
) -> tuple[Tensor, Tensor | None]:
    """Values by scores, to which something is added behind the bound; and what is asked for."""
    if sink is None and not softcap and not qk_output:
        return functional.scaled_dot_product_attention(q, k, v, added, scale=scale), None
    scores = ops.matmul(q * scale, ops.transpose(k, -1, -2))
    scores = ops.tanh(scores / softcap) * softcap if softcap else scores
    return _weighed(scores if added is None else scores + added, v, sink, qk_output)


def _within(q: Tensor, places: Tensor, count: int, *, causal: bool, window: int) -> Tensor | None:
    """What keys that a query may not see add to its scores.

    Args:
        q: the queries.
        places: of them among the keys, ``(n, t)``.
        count: of the keys.
        causal: whether keys behind a query are not seen.
        window: how many keys up to a query's own are seen; 0 or less: all.
    """
    if not causal:
        return None
    keys = places.new_tensor(np.arange(count)).to(int64)
    ahead = keys - places.unsqueeze(-1)
    seen = ops.le(ahead, 0)
    if window > 0:
        seen = ops.logical_and(seen, ops.gt(ahead, -window))
    zero = ops.zeros_like(seen).to(q.dtype)
    return ops.where(seen.to(bool_), zero, ops.full_like(zero, -np.inf)).unsqueeze(1)
