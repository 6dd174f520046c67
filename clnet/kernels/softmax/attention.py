"""Attention and its gradients in one pass each: scores live in registers and are never stored."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...array import Array
from ...device import Launch, Target
from ...errors import ArgumentError
from ...values.dtypes import Kind, from_name
from ...values.shapes import ceil_div, round_up
from ..grid import lanes_of
from ..kernel import Constraint, Kernel, longs
from . import attention_tiles
from .attention_tiles import TilesParams, Tiling


class AttentionParams(NamedTuple):
    """Parameters of every def; the template's header says what they are."""

    ctype: str
    acc: str
    lanes: int
    head: int
    value_head: int
    tile: int
    shared: bool
    group: int
    causal: bool
    mask: str | None
    mask_ctype: str


_LAWS = (
    Constraint("tile % 4 == 0", "keys are taken four at a time"),
    Constraint("lanes == 1 or not shared", "work-items with vectors run alone"),
)
FORWARD = Kernel("attention", "softmax/attention.mako", constraints=_LAWS)
GRAD_Q = Kernel("attention_grad_q", "softmax/attention.mako", constraints=_LAWS)
GRAD_KV = Kernel("attention_grad_kv", "softmax/attention.mako", constraints=_LAWS)

_GROUP = 64
_TILE = 32
_BLOCK = 4
# An exponential counts as this many operations.
_EXP_FLOPS = 10


class Scores(NamedTuple):
    """What the scores are made of beside queries and keys.

    Attributes:
        scale: factor of the products.
        causal: whether a key counts only for rows from its own number on.
    """

    scale: float
    causal: bool


def attention(
    target: Target,
    y: Array,
    lse: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    scores: Scores,
) -> list[Launch]:
    """``y = softmax(scale q k^T + mask) v`` for each of a batch of heads.

    Args:
        target: the device's traits.
        y: dense ``(n, heads, rows, value_head)``.
        lse: dense ``(n, heads, rows)``, of the compute dtype: the logarithms of the sums.
        q: ``(n, heads, rows, head)``, dense; in tiles its rows are.
        k: ``(n, heads, keys, head)``, the same.
        v: ``(n, heads, keys, value_head)``, the same.
        mask: ``(n, heads, rows, keys)`` with any strides: added to the scores, or, of booleans,
            which of them count; or None.
        scores: the other settings.

    Returns:
        One launch, none if there are no outputs.

    Raises:
        ArgumentError: if an array but the mask is not as dense.
    """
    _require_dense(y, lse)
    if y.size == 0:
        return []
    work = _Work(target, _Shape.of(q, k, v), (q, k, v), mask, scores)
    kernels = (FORWARD, attention_tiles.FORWARD)
    return [work.launch(kernels, (y, lse, q, k, v), over=work.shape.rows, products=2)]


def attention_grad(
    target: Target,
    grads: tuple[Array, Array, Array],
    gy: Array,
    lse: Array,
    delta: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    scores: Scores,
) -> list[Launch]:
    """The gradients to queries, keys and values; the scores are computed again.

    Args:
        target: the device's traits.
        grads: written, dense, shaped as ``q``, ``k`` and ``v``.
        gy: the result's gradient, dense as q.
        lse: as :func:`attention` gave it.
        delta: dense ``(n, heads, rows)``, of the compute dtype: ``sum(gy y)`` of each row.
        q: as :func:`attention` got it.
        k: the same.
        v: the same.
        mask: the same.
        scores: the same.

    Returns:
        A launch for the queries' gradient and one for the keys' and values'.

    Raises:
        ArgumentError: if an array but the mask is not as dense.
    """
    _require_dense(*grads, lse, delta)
    gq, gk, gv = grads
    work = _Work(target, _Shape.of(q, k, v), (q, k, v, gy), mask, scores)
    inputs = (gy, lse, delta, q, k, v)
    launches: list[Launch] = []
    if gq.size:
        kernels = (GRAD_Q, attention_tiles.GRAD_Q)
        launches.append(work.launch(kernels, (gq, *inputs), over=work.shape.rows, products=3))
    if gk.size or gv.size:
        kernels = (GRAD_KV, attention_tiles.GRAD_KV)
        launches.append(work.launch(kernels, (gk, gv, *inputs), over=work.shape.keys, products=4))
    return launches


class _Shape(NamedTuple):
    batch: int
    heads: int
    rows: int
    keys: int
    head: int
    value_head: int

    @staticmethod
    def of(q: Array, k: Array, v: Array) -> _Shape:
        n, heads, rows, head = q.shape
        return _Shape(n * heads, heads, rows, k.shape[2], head, v.shape[3])


class _Work(NamedTuple):
    """What is computed, whichever kernel does it.

    Attributes:
        target: the device's traits.
        shape: the sizes.
        moved: q, k, v and, for gradients, gy.
        mask: the mask or None.
        scores: the other settings.
    """

    target: Target
    shape: _Shape
    moved: tuple[Array, ...]
    mask: Array | None
    scores: Scores

    def launch(
        self, kernels: tuple[Kernel, Kernel], operands: tuple[Any, ...], *, over: int, products: int
    ) -> Launch:
        """A launch: in tiles where they are for the device, else a row for a lane."""
        plain, in_tiles = kernels
        by = attention_tiles.tiling(self.target, in_tiles, self.moved[0], self.moved[2])
        shape, scores, mask = self.shape, self.scores, self.mask
        pairs = shape.batch * shape.rows * shape.keys // (1 + scores.causal)
        cost = {
            "flops": pairs * (products * (shape.head + shape.value_head) + _EXP_FLOPS),
            "bytes": sum(x.nbytes for x in operands) + (0 if mask is None else mask.nbytes),
        }
        numbers = (shape.rows, shape.keys, shape.heads)
        if by is None:
            _require_dense(*self.moved)
            params = _params(self.target, operands[0], shape, mask, causal=scores.causal)
            blocks = round_up(ceil_div(over, params.lanes), params.group)
            return plain.launch(
                params,
                (*numbers, scores.scale, *operands, *_masking(mask)),
                global_size=(blocks, shape.batch),
                local_size=(params.group, 1),
                **cost,
            )
        _require_dense_rows(*self.moved)
        return in_tiles.launch(
            self._tiles(by),
            (*numbers, self._strides(), scores.scale, *operands, *_masking(mask)[4:]),
            global_size=(ceil_div(over, by.own) * by.group, shape.batch),
            local_size=(by.group, 1),
            **cost,
        )

    def _tiles(self, by: Tiling) -> TilesParams:
        like, mask = self.moved[0], self.mask
        return TilesParams(
            like.dtype.ctype,
            self.shape.head,
            self.shape.value_head,
            *by,
            all(map(attention_tiles.in_fours, self.moved)),
            self.scores.causal,
            _kind(mask),
            like.dtype.ctype if mask is None else mask.dtype.ctype,
        )

    def _strides(self) -> bytes:
        steps = [step for x in self.moved for step in x.strides[:3]]
        steps += [0] * (12 - len(steps))
        return longs(*steps, *(() if self.mask is None else self.mask.strides))


def _params(
    target: Target, like: Array, shape: _Shape, mask: Array | None, *, causal: bool
) -> AttentionParams:
    acc = from_name(like.dtype.compute)
    traits = target.traits
    lanes, group, tile, shared = lanes_of(target, acc.itemsize), 1, _TILE, False
    if traits.dedicated_local_memory:
        lanes, group = 1, min(_GROUP, traits.max_group_size)
        row_bytes = max(1, (shape.head + shape.value_head) * acc.itemsize)
        fitting = traits.local_memory_bytes // row_bytes // _BLOCK * _BLOCK
        # Rows too long for local memory are read from where they are.
        shared, tile = fitting > 0, min(_TILE, fitting) or _TILE
    return AttentionParams(
        like.dtype.ctype,
        acc.ctype,
        lanes,
        shape.head,
        shape.value_head,
        tile,
        shared,
        group,
        causal,
        _kind(mask),
        like.dtype.ctype if mask is None else mask.dtype.ctype,
    )


def _kind(mask: Array | None) -> str | None:
    return None if mask is None else "keep" if mask.dtype.kind is Kind.BOOL else "add"


def _masking(mask: Array | None) -> tuple[Any, ...]:
    return () if mask is None else (*mask.strides, mask)


def _require_dense(*arrays: Array) -> None:
    for array in arrays:
        if not array.contiguous:
            raise ArgumentError(
                "attention", "arrays are dense", shape=array.shape, strides=array.strides
            )


def _require_dense_rows(*arrays: Array) -> None:
    for array in arrays:
        if array.shape[-1] > 1 and array.strides[-1] != 1:
            raise ArgumentError(
                "attention", "rows are dense", shape=array.shape, strides=array.strides
            )
