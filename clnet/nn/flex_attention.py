"""``nn.attention.flex_attention``: attention whose scores, or mask, a function of places makes.

Scores are computed whole, ``(B, H, L, S)``, by products and softmax of other ops; a mask's blocks
are not skipped. Functions are called once, with places that broadcast, instead of once a score.
"""

# ruff: noqa: N803 - PyTorch's names

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import ops
from ..creation import arange
from ..errors import ShapeError
from ..ops.reduce import widened
from ..tensor import Tensor, full
from ..values.dtypes import int32

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_Mod = Callable[..., Any]


class AuxRequest(NamedTuple):
    """What :func:`flex_attention` gives beside: the log of each row's sum, its largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What it gave: ``(B, Hq, L)`` each, or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that hides nothing."""
    return (token_q >= 0) & (token_kv >= 0)


def and_masks(*mask_mods: _Mod) -> _Mod:
    """A mask that hides what one of several hides."""

    def joined(*places: Any) -> Any:
        found = noop_mask(*places)
        for mask in mask_mods:
            found = found & mask(*places)
        return found

    return joined


def or_masks(*mask_mods: _Mod) -> _Mod:
    """A mask that hides what all of several hide."""

    def joined(*places: Any) -> Any:
        found = ~noop_mask(*places)
        for mask in mask_mods:
            found = found | mask(*places)
        return found

    return joined


def _places(b: int, h: int, q_len: int, kv_len: int, device: Any) -> list[Tensor]:
    """Batch, head, query and key of each score, as int32 that broadcast."""
    sizes = (b, h, q_len, kv_len)
    return [
        arange(size, dtype=int32, device=device).reshape(*(-1 if i == k else 1 for i in range(4)))
        for k, size in enumerate(sizes)
    ]


def create_mask(
    mod_fn: _Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """What a mask says of each place.

    Args:
        mod_fn: called with batch, head, query and key; True: the score counts.
        B: size of the batch; None: 1, for all.
        H: number of heads; None: 1, for all.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: where.

    Returns:
        ``(B, H, Q_LEN, KV_LEN)``, bool.
    """
    b, h = 1 if B is None else B, 1 if H is None else H
    said = mod_fn(*_places(b, h, Q_LEN, KV_LEN, device))
    return ops.contiguous(ops.broadcast_to(said, (b, h, Q_LEN, KV_LEN)))


class BlockMask:
    """A mask of places, for :func:`flex_attention`.

    Args:
        mask: ``(B, H, Q_LEN, KV_LEN)``, bool.
        mask_mod: what made it.
        block: sizes of blocks, of queries and keys.

    Attributes:
        shape: of the mask.
        BLOCK_SIZE: sizes of blocks.
        mask_mod: the function.
    """

    def __init__(self, mask: Tensor, mask_mod: _Mod, block: tuple[int, int]) -> None:
        self._mask = mask
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = block
        self.shape = tuple(mask.shape)
        self.seq_lengths = self.shape[-2:]

    def __getitem__(self, index: Any) -> BlockMask:
        return BlockMask(self._mask[index], self.mask_mod, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    def numel(self) -> int:
        """How many places there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Percentage of blocks in which nothing counts."""
        blocks = self.to_dense()
        return 100.0 * (1.0 - float(blocks.float().mean()))

    def to_dense(self) -> Tensor:
        """``(B, H, blocks of queries, blocks of keys)``, int32: 1 where something counts."""
        q, k = self.BLOCK_SIZE
        length, keys = self.shape[-2:]
        padded = ops.pad(self._mask.to(int32), (0, -keys % k, 0, -length % q))
        blocks = padded.reshape(*self.shape[:2], (length + q - 1) // q, q, (keys + k - 1) // k, k)
        return ops.amax(blocks, (-3, -1))

    def to(self, device: Any) -> BlockMask:
        """The same on a device."""
        return BlockMask(self._mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def dense_mask(self) -> Tensor:
        """The mask itself, ``(B, H, Q_LEN, KV_LEN)``, bool."""
        return self._mask


def create_block_mask(
    mask_mod: _Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
) -> BlockMask:
    """A mask for :func:`flex_attention`; arguments as :func:`create_mask`'s.

    Args:
        mask_mod: the function.
        B: size of the batch.
        H: number of heads.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: where.
        BLOCK_SIZE: of queries and keys; it changes what ``to_dense`` shows alone.
        _compile: taken.
    """
    block = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, block)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: _Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    return_lse: bool = False,  # noqa: FBT001, FBT002 - PyTorch's
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(scale query key^T, b, h, q, k)) value``, of the places of a mask.

    Args:
        query: ``(B, Hq, L, E)``, floating.
        key: ``(B, Hkv, S, E)``.
        value: ``(B, Hkv, S, Ev)``.
        score_mod: called with scores, batch, head, query and key.
        block_mask: of :func:`create_block_mask`; what it hides weighs 0, as does a whole row.
        scale: ``1 / sqrt(E)`` if None.
        enable_gqa: whether ``Hq`` may be a multiple of ``Hkv``.
        return_lse: also give the log of each row's sum, ``(B, Hq, L)``.
        kernel_options: taken: of PyTorch's kernels.
        return_aux: what else is wanted.

    Returns:
        ``(B, Hq, L, Ev)``; with ``return_lse`` or ``return_aux`` a pair.

    Raises:
        ShapeError: if the numbers of heads do not fit.
    """
    heads, shared = query.shape[1], key.shape[1]
    if heads != shared:
        if not enable_gqa or heads % shared:
            law = "query has as many heads as key, or with enable_gqa a multiple"
            raise ShapeError("flex_attention", law, query=query.shape, key=key.shape)
        key, value = (ops.repeat_interleave(x, heads // shared, 1) for x in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = widened(ops.matmul(query, ops.transpose(key, -2, -1))) * factor
    batch, _, length, size = scores.shape
    if score_mod is not None:
        scores = score_mod(scores, *_places(batch, heads, length, size, query.device))
    if block_mask is not None:
        hidden = full((), -math.inf, dtype=scores.dtype, device=query.device)
        scores = ops.where(block_mask.dense_mask()[..., :length, :size], scores, hidden)
    total = ops.logsumexp(scores, -1)
    weights = ops.exp(scores - ops.where(ops.isinf(total), 0.0, total)[..., None])
    out = ops.matmul(weights.to(value.dtype), value)
    if return_aux is not None:
        largest = ops.amax(scores, -1) if return_aux.max_scores else None
        return out, AuxOutput(total if return_aux.lse else None, largest)
    return (out, total) if return_lse else out
