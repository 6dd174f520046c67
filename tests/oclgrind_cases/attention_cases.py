"""Attention and its gradients, with masks of both kinds and without one."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from clnet.array import Array
from clnet.device import Target
from clnet.kernels.gemm import gemm_tiled
from clnet.kernels.grid import lanes_of
from clnet.kernels.pointwise import dropout
from clnet.kernels.softmax import attention_delta
from clnet.kernels.softmax.attention import Drop, Scores, attention, attention_grad
from clnet.kernels.softmax.attention_tiles import Tiling

from .harness import REALS, RNG, SMALLEST_TILE, case, constants, given, near, normal, output, run

attention_module = import_module("clnet.kernels.softmax.attention")

tiles_module = import_module("clnet.kernels.softmax.attention_tiles")

grad_q_module = import_module("clnet.kernels.softmax.attention_tiles_grad_q")
grad_kv_module = import_module("clnet.kernels.softmax.attention_tiles_grad_kv")

on_units = tuple(
    import_module(f"clnet.kernels.softmax.attention_{name}")
    for name in ("delta", "tiles_sum", "matrix", "matrix_grad", "warpgroup", "warpgroup_grad")
)

warpgroup_module = on_units[4]

MODULES = (attention_module, tiles_module, grad_q_module, grad_kv_module, *on_units)

BATCH, HEADS, HEAD, VALUE_HEAD = 2, 2, 3, 2  # without a mask, which one may share, one batch
# More rows than a group has, more keys than a tile has, neither a multiple of a block; and fewer.
SIZES = ((11, 13), (19, 5))


def mask_of(kind: str | None, rows: int, keys: int, dtype: Any) -> tuple[Array | None, np.ndarray]:
    """A mask, and what it adds to the scores; row 2 takes no key.

    Of the masks that are added, all batches share one; of the booleans, all heads do.
    """
    if kind is None:
        return None, np.zeros((1, HEADS, rows, keys))
    shape = (BATCH, HEADS, rows, keys)
    if kind == "add":
        mask = normal(rows, keys, dtype=dtype)
        mask[2] = -np.inf
        return given(mask, before=1).view(shape, (0, 0, keys, 1)), np.broadcast_to(mask, shape)
    keep = RNG.random((BATCH, keys, rows)) < 0.6
    keep[:, :, 2] = False
    added = np.where(keep.transpose(0, 2, 1)[:, None], 0, -np.inf)
    stored = given(keep, before=3)
    return stored.view(shape, (rows * keys, 0, 1, rows)), np.broadcast_to(added, shape)


def check(
    target: Target,
    rows: int,
    keys: int,
    dtype: Any,
    *,
    causal: bool,
    kind: str | None,
    heads: tuple[int, int] = (HEAD, VALUE_HEAD),
    before: int = 1,
    drop: Drop | None = None,
) -> None:
    scores, (head, value_head) = Scores(0.7, causal), heads
    batch = 1 if kind is None else BATCH
    q = normal(batch, HEADS, rows, head, dtype=dtype)
    k = normal(batch, HEADS, keys, head, dtype=dtype)
    v = normal(batch, HEADS, keys, value_head, dtype=dtype)
    mask, added = mask_of(kind, rows, keys, dtype)

    s = scores.scale * np.einsum("nhre,nhke->nhrk", *(x.astype(np.float64) for x in (q, k))) + added
    if causal:
        s = np.where(np.tri(rows, keys, dtype=bool), s, -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(top == -np.inf, 0, top))
    total = p.sum(-1, keepdims=True)
    some = total > 0
    p = np.divide(p, total, out=np.zeros_like(p), where=some)
    lse = np.where(some, top + np.log(np.where(some, total, 1)), 0)[..., 0]
    factors = np.ones(p.shape)
    if drop is not None:
        weights = output(p.shape, dtype)
        ones = given(np.ones(p.shape, dtype))
        run(dropout(target, weights, ones, seed=drop.seed, offset=drop.offset, p=drop.p))
        factors = weights.numpy().astype(np.float64)
    y = (p * factors) @ v.astype(np.float64)

    inputs = (given(q, before=before), given(k, before=2 * before), given(v, before=before), mask)
    y_, lse_ = output(y.shape, dtype), output(lse.shape, dtype)
    run(attention(target, y_, lse_, *inputs, scores=scores, drop=drop))
    near(y_, y, terms=128)
    near(lse_, lse, terms=128)

    gy = normal(*y.shape, dtype=dtype)
    delta = (gy * y).sum(-1)
    slope = p * (factors * (gy @ v.swapaxes(-1, -2)) - delta[..., None]) * scores.scale
    grads = (output(q.shape, dtype), output(k.shape, dtype), output(v.shape, dtype))
    gy_, delta_ = given(gy, before=before), given(delta.astype(dtype))
    run(attention_grad(target, grads, gy_, lse_, delta_, *inputs, scores=scores, drop=drop))
    near(grads[0], slope @ k, terms=512)
    near(grads[1], slope.swapaxes(-1, -2) @ q, terms=512)
    near(grads[2], (p * factors).swapaxes(-1, -2) @ gy, terms=512)


@case()
def attentions(target: Target) -> None:
    # So many units that heads alone do not keep a processor's busy.
    small = replace(target, traits=replace(target.traits, max_group_size=8, compute_units=64))
    with constants(attention_module, _TILE=8):
        for kind, causal in product((None, "add", "keep"), (False, True)):
            check(small, *SIZES[0], np.float32, causal=causal, kind=kind)
        check(small, *SIZES[1], np.float32, causal=True, kind=None)
        check(small, *SIZES[1], np.float64, causal=True, kind="add")
        check(small, *SIZES[1], np.float64, causal=False, kind="keep")
        check(small, *SIZES[1], np.float64, causal=True, kind=None)


@case("cpu")
def attentions_by_heads(target: Target) -> None:
    """Rows of several vectors and more, of one and of none; vectors of a row alone and in pairs."""
    one = replace(target, traits=replace(target.traits, compute_units=1))
    lanes = lanes_of(target, 4)
    for kind, causal in ((None, True), ("add", False), ("keep", True)):
        check(one, *SIZES[0], np.float32, causal=causal, kind=kind, heads=(3 * lanes + 1, lanes))
    check(one, *SIZES[1], np.float64, causal=False, kind=None, heads=(2 * lanes, 3))
    wide = replace(one, traits=replace(one.traits, simd_width=16))
    check(wide, *SIZES[1], np.float32, causal=False, kind="keep", heads=(51, 16))


@case("cpu")
def attentions_that_drop_weights(target: Target) -> None:
    """Lines of whole fours of weights and others, by heads and in parts, the last lanes empty."""
    for units, dtype in ((1, np.float32), (64, np.float64)):
        one = replace(target, traits=replace(target.traits, compute_units=units))
        for keys in (13, 12):
            check(one, 11, keys, dtype, causal=units > 1, kind=None, drop=Drop(0.3, 5, 7))


@case("gpu")
def attentions_with_little_local_memory(target: Target) -> None:
    """Tiles of one block, and rows too long for any."""
    for dtype, blocks in product(REALS, (1, 0)):
        nbytes = 4 * blocks * (HEAD + VALUE_HEAD) * np.dtype(dtype).itemsize
        traits = replace(target.traits, max_group_size=4, local_memory_bytes=nbytes)
        check(replace(target, traits=traits), 6, 9, dtype, causal=blocks == 0, kind=None)


@case("gpu")
def attentions_in_tiles(target: Target) -> None:
    """Tiles so small that the sizes take several, and rows that are no whole fours, in parts."""
    small = {kernel: {8: (Tiling(4, 2, 4, 16),)} for kernel in tiles_module.TILINGS}
    parts = {kernel: {8: (Tiling(4, 2, 4, 16, 4),)} for kernel in tiles_module.TILINGS}
    with constants(tiles_module, TILINGS=parts):
        check(target, 11, 21, np.float32, causal=False, kind=None)
        check(target, *SIZES[0], np.float32, causal=True, kind="keep")
        check(target, *SIZES[1], np.float64, causal=True, kind="add")
        check(target, *SIZES[1], np.float32, causal=True, kind=None, heads=(4, 8), before=4)
        check(target, *SIZES[1], np.float32, causal=False, kind=None, drop=Drop(0.3, 5, 7))
    # Gradients of the scores stored, of two parts of the heads, and of causal ones by blocks.
    stored = {"_SLOPE_FLOPS": 0, "_PRODUCT_FLOPS": 0}
    by_blocks = {"TILINGS": small, **stored, "causal_block": lambda rows: 8}
    few = replace(target, traits=replace(target.traits, compute_units=1), workspace_limit=2**14)
    one = constants(gemm_tiled, TILINGS=((SMALLEST_TILE, 1.0),))
    with constants(tiles_module, **by_blocks), one:
        check(few, *SIZES[0], np.float32, causal=True, kind="keep")
        check(target, *SIZES[0], np.float32, causal=True, kind=None, drop=Drop(0.3, 5, 7))
        check(few, *SIZES[1], np.float64, causal=False, kind=None)
    # Pieces of the queries' gradient.
    narrow = {kernel: {8: (Tiling(4, 1, 4, 32),)} for kernel in tiles_module.TILINGS}
    by_pieces = {"TILINGS": small, "saved_by_pieces": lambda *_, **__: 1.0}
    with constants(tiles_module, **by_pieces):
        check(few, *SIZES[0], np.float32, causal=True, kind="keep")
        check(target, *SIZES[0], np.float64, causal=False, kind=None, heads=(4, 8))
        check(target, *SIZES[1], np.float32, causal=True, kind=None, drop=Drop(0.3, 5, 7))
    # Fewer items than blocks of four rows, which add up eight at once.
    with constants(tiles_module, **by_pieces | {"TILINGS": narrow}):
        check(target, *SIZES[1], np.float32, causal=False, kind=None)


@case("gpu")
def attentions_on_emulated_units(target: Target) -> None:
    """Tiles of 16 rows, of which rows and keys take several and end in one."""
    units = replace(target, traits=replace(target.traits, matrix_units="emulated ptx"))
    on_units_of(
        units,
        (np.float16, 2, 9, 21, 16, 8, False),
        (np.float16, 1, 18, 37, 24, 16, True),
        (np.float32, 1, 18, 21, 20, 12, False),
    )


@case("gpu")
def attentions_by_128_emulated_items(target: Target) -> None:
    """Rows that fill no team's; a tile of keys takes Oclgrind some seconds."""
    numbers = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
    numbers["max_group_size"] = max(target.traits.max_group_size, 128)
    traits = replace(target.traits, matrix_units="emulated ptx", **numbers)
    units = replace(target, traits=traits)
    on_units_of(units, (np.float16, 1, 21, 9, 16, 16, True))
    # These keys fill their tile; one team, not two of which one has no rows, takes two heads.
    with constants(warpgroup_module, SMALL=warpgroup_module.SMALL._replace(teams=1)):
        on_units_of(units, (np.float16, 2, 9, 16, 16, 16, False))


def on_units_of(units: Target, *problems: tuple[Any, int, int, int, int, int, bool]) -> None:
    """Check a dtype, heads, rows, keys, two sizes of heads, and whether rows see their own keys."""
    for dtype, heads, rows, keys, head, value_head, causal in problems:
        sizes = ((rows, head), (keys, head), (keys, value_head), (rows, value_head))
        q, k, v, gy = (normal(1, heads, *size, dtype=dtype) for size in sizes)
        s = 0.25 * q.astype(np.float64) @ k.swapaxes(-1, -2)
        s = np.where(np.tri(rows, keys, dtype=bool), s, -np.inf) if causal else s
        lse = np.log(np.exp(s).sum(-1))
        p = np.exp(s - lse[..., None])
        y = p @ v
        terms = 16 if dtype == np.float16 else 2**16  # of TF32
        inputs = [given(x, before=8) for x in (q, k, v)]
        y_, lse_ = output(y.shape, dtype), output(lse.shape)
        ways: dict[str, Any] = {"scores": Scores(0.25, causal), "tf32": True}
        run(attention(units, y_, lse_, *inputs, None, **ways))
        near(y_, y, terms=terms)
        near(lse_, lse, terms=max(128, terms))
        gy_, delta = given(gy, before=8), (gy * y).sum(-1)
        delta_ = given(delta.astype(np.float32))
        if dtype == np.float16:
            delta_ = output(lse.shape)
            run(attention_delta(units, delta_, gy_, y_))
            near(delta_, delta, terms=2**16)  # of y in 16 bits
        elif value_head % 8 == 0:
            delta_ = output(lse.shape)
            run(attention_delta(units, delta_, gy_, y_))
            near(delta_, delta, terms=terms)
        slope = 0.25 * p * (gy @ v.swapaxes(-1, -2) - delta[..., None])
        grads = tuple(output(x.shape, dtype) for x in (q, k, v))
        run(attention_grad(units, grads, gy_, lse_, delta_, *inputs, None, **ways))
        wanted = (slope @ k, slope.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ gy)
        for got, expected in zip(grads, wanted, strict=True):
            near(got, expected, terms=2 * terms)
