"""Attention with several heads as one function of the projections' parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, ShapeError
from ..values.dtypes import DType, Kind
from ..values.record import NamedTuple
from .arithmetic import where
from .attention import scaled_dot_product_attention
from .create import zeros_like
from .join import cat
from .machinery.function import Face, op
from .matmul import linear
from .random import dropout
from .softmax import softmax

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["multi_head_attention_forward"]


class Heads(NamedTuple):
    """What the heads of an attention have.

    Attributes:
        count: how many heads.
        matrices: of queries, keys and values, ``(size, features)`` each; or one above the other.
        bias: ``(3 * size,)`` or None.
        bias_k, bias_v: a key and a value that are appended, ``(1, 1, size)``, or None.
        zeros: whether a key and a value of zeros are appended.
    """

    count: int
    matrices: tuple[Tensor, ...]
    bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None
    zeros: bool


def attended(
    operands: tuple[Tensor, Tensor, Tensor],
    heads: Heads,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    *,
    share: float,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The joined heads, ``(n, length, size)``, and the weights, ``(n, heads, length, keys)``.

    Args:
        operands: queries, keys and values, ``(n, length, features)``.
        heads: what projects them.
        key_padding_mask: as :func:`multi_head_attention_forward`'s.
        attn_mask: the same.
        share: of the weights, that is dropped.
        need_weights: whether to give the weights; else they are never stored.
    """
    q, k, v = _projected(operands, heads)
    k, v, added = _extended(k, v, heads)
    q, k, v = (_split(x, heads.count) for x in (q, k, v))
    mask = _mask(q, k.shape[-2] - added, key_padding_mask, attn_mask, added)
    weights = None
    if need_weights:
        scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        weights = softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, share) if share else weights
        y = weights @ v
    else:
        y = scaled_dot_product_attention(q, k, v, mask, share)
    n, count, length, size = y.shape
    return y.transpose(1, 2).reshape(n, length, count * size), weights


def _projected(operands: tuple[Tensor, Tensor, Tensor], heads: Heads) -> tuple[Tensor, ...]:
    query, key, value = operands
    matrices = heads.matrices
    if len(matrices) == 1:
        size = matrices[0].shape[0] // 3
        if query is key and key is value:
            joined = linear(query, matrices[0], heads.bias)
            return tuple(joined.narrow(-1, i * size, size) for i in range(3))
        matrices = tuple(matrices[0].narrow(0, i * size, size) for i in range(3))
    size, bias = matrices[0].shape[0], heads.bias
    biases = [None if bias is None else bias.narrow(0, i * size, size) for i in range(3)]
    return tuple(
        linear(x, matrix, one) for x, matrix, one in zip(operands, matrices, biases, strict=True)
    )


def _extended(k: Tensor, v: Tensor, heads: Heads) -> tuple[Tensor, Tensor, int]:
    """Keys and values with the appended ones, and how many these are."""
    n, size, added = k.shape[0], k.shape[-1], 0
    if heads.bias_k is not None and heads.bias_v is not None:
        k = cat([k, heads.bias_k.expand(n, 1, size)], 1)
        v = cat([v, heads.bias_v.expand(n, 1, size)], 1)
        added += 1
    if heads.zeros:
        zeros = zeros_like(k.detach()[:, :1])
        k, v = cat([k, zeros], 1), cat([v, zeros], 1)
        added += 1
    return k, v, added


def _split(x: Tensor, count: int) -> Tensor:
    n, length, size = x.shape
    return x.reshape(n, length, count, size // count).transpose(1, 2)


def _mask(
    q: Tensor, keys: int, padding: Tensor | None, attn_mask: Tensor | None, added: int
) -> Tensor | None:
    """Both masks as one that is added to ``(n, heads, length, keys)`` scores."""
    masks: list[Tensor] = []
    n, heads, length, _ = q.shape
    if attn_mask is not None:
        if attn_mask.shape not in ((length, keys), (n * heads, length, keys)):
            law = "attn_mask is (length, keys) or (n * heads, length, keys)"
            sizes = {"n": n, "heads": heads, "length": length, "keys": keys}
            raise ShapeError("MultiheadAttention", law, attn_mask=attn_mask.shape, **sizes)
        mask = additive_mask(attn_mask, q.dtype)
        if mask.ndim == 3:
            mask = mask.reshape(q.shape[0], q.shape[1], *mask.shape[1:])
        masks.append(mask)
    if padding is not None:
        if padding.shape != (n, keys):
            law = "key_padding_mask is (n, keys)"
            given = {"key_padding_mask": padding.shape, "n": n, "keys": keys}
            raise ShapeError("MultiheadAttention", law, **given)
        mask = additive_mask(padding, q.dtype)
        masks.append(mask.reshape(n, 1, 1, keys))
    if not masks:
        return None
    if added:
        masks = [
            cat([m, zeros_like(m.detach()[..., :1].expand(*m.shape[:-1], added))], -1)
            for m in masks
        ]
    return masks[0] if len(masks) == 1 else masks[0] + masks[1]


def additive_mask(mask: Tensor, dtype: DType) -> Tensor:
    """Minus infinity where a boolean mask is true, else 0; a floating mask as it is."""
    if mask.dtype.kind is not Kind.BOOL:
        return mask.to(dtype)
    nothing = zeros_like(mask, dtype=dtype)
    return where(mask, float("-inf"), nothing)


@op(Face.FUNCTIONAL)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,  # noqa: FBT001 - PyTorch's
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,  # noqa: FBT001, FBT002
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,  # noqa: FBT001, FBT002
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,  # noqa: FBT001, FBT002
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,  # noqa: FBT001, FBT002
    is_causal: bool = False,  # noqa: FBT001, FBT002
) -> tuple[Tensor, Tensor | None]:
    """What :class:`~clnet.nn.MultiheadAttention` computes, of parameters that are given.

    Args:
        query: ``(length, n, size)``, or without ``n``.
        key: the same, of keys.
        value: the same, of values.
        embed_dim_to_check: ``size``.
        num_heads: divides it.
        in_proj_weight: ``(3 * size, size)``.
        in_proj_bias: ``(3 * size,)`` or None.
        bias_k: a key that is appended, ``(1, 1, size)``, or None.
        bias_v: a value, with ``bias_k``.
        add_zero_attn: append a key and a value of zeros.
        dropout_p: of the weights, while training.
        out_proj_weight: ``(size, size)``, over the joined heads.
        out_proj_bias: ``(size,)`` or None.
        training: whether weights are dropped.
        key_padding_mask: ``(n, keys)``: true where a key does not count, or added to scores.
        need_weights: give the weights, too.
        attn_mask: ``(length, keys)`` or ``(n * heads, length, keys)``: the same.
        use_separate_proj_weight: take the next three instead of ``in_proj_weight``.
        q_proj_weight: ``(size, size)``.
        k_proj_weight: ``(size, features of keys)``.
        v_proj_weight: ``(size, features of values)``.
        static_k: refused; so is ``static_v``.
        static_v: the same.
        average_attn_weights: of all heads.
        is_causal: that ``attn_mask`` is causal: a hint, which needs the mask.

    Returns:
        The shape of ``query``; the weights, ``(n, length, keys)``, or with an axis of heads behind
        ``n``, or None.

    Raises:
        ArgumentError: if ``is_causal`` comes without its mask, weights are missing, or keys are
            static.
        ShapeError: if a shape does not fit.
    """
    name = "multi_head_attention_forward"
    if is_causal and attn_mask is None:
        raise ArgumentError(name, "is_causal is a hint about attn_mask", attn_mask=None)
    if static_k is not None or static_v is not None:
        raise ArgumentError(name, "keys and values are projected here", static_k="given")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    given = separate if use_separate_proj_weight else (in_proj_weight,)
    if any(w is None for w in given):
        raise ArgumentError(
            name, "there are weights", use_separate_proj_weight=use_separate_proj_weight
        )
    sizes: dict[str, Any] = {"query": query.shape, "key": key.shape, "value": value.shape}
    batched, size = query.ndim == 3, embed_dim_to_check
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        raise ShapeError(name, "operands have two or three axes, all as many", **sizes)
    if query.shape[-1] != size or size % num_heads:
        wrong: dict[str, Any] = {"embed_dim_to_check": size, "num_heads": num_heads, **sizes}
        raise ShapeError(name, "queries have embed_dim_to_check, which heads divide", **wrong)
    batch = [x.transpose(0, 1) if batched else x.unsqueeze(0) for x in (query, key, value)]
    operands: Any = [batch[0]] * 3 if query is key and key is value else batch
    if key_padding_mask is not None and not batched:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    matrices: Any = given
    heads = Heads(num_heads, tuple(matrices), in_proj_bias, bias_k, bias_v, add_zero_attn)
    share = dropout_p if training else 0.0
    y, weights = attended(
        tuple(operands), heads, key_padding_mask, attn_mask, share=share, need_weights=need_weights
    )
    y = linear(y, out_proj_weight, out_proj_bias)
    if weights is not None:
        weights = weights.mean(1) if average_attn_weights else weights
        weights = weights if batched else weights.squeeze(0)
    return (y.transpose(0, 1) if batched else y.squeeze(0)), weights
