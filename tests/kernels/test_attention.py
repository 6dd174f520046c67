"""Attention in tiles and its gradients, of operands where they lie, against NumPy in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target, device
from clnet.errors import ArgumentError
from clnet.kernels.pointwise import dropout
from clnet.kernels.softmax import (
    Drop,
    Scores,
    attention_delta,
    attention_tiles,
    in_runs,
    read_views,
)
from clnet.kernels.softmax.attention import attention, attention_grad
from clnet.kernels.softmax.attention_tiles import Tiling
from clnet.values.dtypes import float32
from tests.kernels.launching import (
    compiled_rightly,
    cpu_shaped,
    gpu_shaped,
    normal,
    on_device,
    poisoned,
    run,
)

pytestmark = pytest.mark.device

BATCH, HEADS, ROWS, KEYS = 2, 3, 19, 21
# Of so many items each copies few elements, all of which are written out.
SMALL = Tiling(4, 4, 4, 16)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A GPU with tiles of which the sizes take several, none of them whole."""
    tilings = {kernel: {32: (SMALL,)} for kernel in attention_tiles.TILINGS}
    monkeypatch.setattr(attention_tiles, "TILINGS", tilings)
    return compiled_rightly(gpu_shaped(device()), device())


def between(values: np.ndarray) -> Array:
    """``(n, heads, rows, head)`` as a part of ``(n, rows, three parts, heads, head)``."""
    n, heads, rows, head = values.shape
    whole = np.full((n, rows, 3, heads, head), np.nan, np.float32)
    whole[:, :, 1] = values.transpose(0, 2, 1, 3)
    row = 3 * heads * head
    strides = (rows * row, head, row, 1)
    return on_device(whole).view(values.shape, strides, heads * head)


def beside(x: Array) -> set[str]:
    """What lies where :func:`between` leaves room."""
    n, heads, rows, head = x.shape
    strides = (x.strides[0], x.strides[2], heads * head, head, 1)
    whole = x.view((n, rows, 3, heads, head), strides, 0)
    numbers = np.delete(whole.numpy(), 1, 2)
    return {"nan" if number != number else "number" for number in numbers.ravel()}


def test_results_that_lie_anywhere_are_copied_there_by_kernels_that_write_densely() -> None:
    cpu = cpu_shaped(device())
    shapes = ((ROWS, 8), (KEYS, 8), (KEYS, 8), (ROWS, 8))
    values = [normal(1, 2, *size, seed=i) for i, size in enumerate(shapes)]
    want = expected(*values, np.ones((1, 2, ROWS, KEYS), bool), 0.3)
    q, k, v, gy = map(on_device, values)
    scores = Scores(0.3, causal=False)
    y, gq, gk, gv = (between(np.full(x.shape, np.nan, np.float32)) for x in (q, q, k, v))
    lse = poisoned((1, 2, ROWS))
    launches = attention(cpu, y, lse, q, k, v, None, scores=scores)
    assert [launch.kernel.name.split("_")[0] for launch in launches] == ["attention", "copy"]
    run(launches)
    delta = on_device(want[2].astype(np.float32))
    run(attention_grad(cpu, (gq, gk, gv), gy, lse, delta, q, k, v, None, scores=scores))
    for got, wanted in zip((y, lse, gq, gk, gv), (*want[:2], *want[3:]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=5e-6)
    assert beside(y) == beside(gq) == beside(gk) == beside(gv) == {"nan"}


@pytest.mark.parametrize(("rows", "size"), [(19, 64), (5, 8), (3, 72)])
def test_sums_of_rows_that_lie_anywhere(rows: int, size: int) -> None:
    values = [normal(BATCH, HEADS, rows, size, seed=i) for i in range(2)]
    gy, y = map(between, values)
    assert in_runs(gy)
    assert not in_runs(gy.view(gy.shape, gy.strides, 1))
    delta = poisoned((BATCH, HEADS, rows))
    run(attention_delta(gpu_shaped(device()), delta, gy, y))
    want = (values[0].astype(np.float64) * values[1]).sum(-1)
    np.testing.assert_allclose(delta.numpy(), want, atol=1e-5)


def expected(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    gy: np.ndarray,
    keep: np.ndarray,
    scale: float,
    factors: np.ndarray | float = 1.0,
) -> list[np.ndarray]:
    """The result, logarithms of sums, sums of ``gy y``, and the gradients; row 3 takes no key.

    factors: of the weights, as dropout has them.
    """
    q, k, v, gy = (x.astype(np.float64) for x in (q, k, v, gy))
    s = np.where(keep, scale * q @ k.swapaxes(-1, -2), -np.inf)
    p = np.exp(s - np.where(keep.any(-1, keepdims=True), s.max(-1, keepdims=True), 0))
    total = p.sum(-1, keepdims=True)
    lse = np.where(total > 0, s.max(-1, keepdims=True), 0) + np.log(np.where(total > 0, total, 1))
    p = p / np.where(total > 0, total, 1)
    y = (p * factors) @ v
    delta = (gy * y).sum(-1)
    slope = scale * p * (factors * (gy @ v.swapaxes(-1, -2)) - delta[..., None])
    grads = [slope @ k, slope.swapaxes(-1, -2) @ q, (p * factors).swapaxes(-1, -2) @ gy]
    return [y, lse[..., 0], delta, *grads]


def free(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Have gradients of scores cost nothing, or pieces of the queries' gradient; else too much."""
    monkeypatch.setattr(attention_tiles, "_SLOPE_FLOPS", 0 if way == "slopes" else 1e9)
    monkeypatch.setattr(attention_tiles, "_PIECE_FLOPS", 0 if way == "pieces" else 1e9)
    monkeypatch.setattr(attention_tiles, "_PRODUCT_FLOPS", 0)
    monkeypatch.setattr(attention_tiles, "_LAUNCH_FLOPS", 0)
    monkeypatch.setattr(attention_tiles, "causal_block", lambda rows: 8)


@pytest.mark.parametrize(
    ("head", "value_head", "causal", "masked"),
    [(8, 8, True, False), (8, 4, False, True), (6, 4, True, True)],
    ids=["causal", "mask", "both"],
)
@pytest.mark.parametrize("parts", [0, 1, 2, 4])
@pytest.mark.parametrize("way", ["slopes", "pieces"])
def test_tiles_match_reference(
    small: Target,
    head: int,
    value_head: int,
    parts: int,
    way: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    causal: bool,
    masked: bool,
) -> None:
    """Gradients by two kernels, and by stored gradients of scores, of so many parts of the heads.

    Of the causal ones the product with the keys takes blocks of rows. Or groups of keys leave
    pieces of the queries' gradient.
    """
    free(monkeypatch, way if parts else "neither")
    fitting = {0: 6, 1: 6, 2: 3, 4: 2}[parts]  # heads of the six
    room = 2 * fitting * KEYS * attention_tiles.slope_step(ROWS) * 4
    if way == "pieces":
        room = fitting * -(-KEYS // SMALL.own) * ROWS * head * 4
    traits = replace(small.traits, compute_units=1)
    small = replace(small, traits=traits, workspace_limit=room)
    shapes = ((ROWS, head), (KEYS, head), (KEYS, value_head), (ROWS, value_head))
    values = [normal(BATCH, HEADS, *s, seed=i) for i, s in enumerate(shapes)]
    keep = np.ones((BATCH, HEADS, ROWS, KEYS), bool)
    if causal:
        keep &= np.tri(ROWS, KEYS, dtype=bool)
    mask = None
    if masked:
        keep &= np.random.default_rng(5).random((HEADS, ROWS, KEYS)) < 0.5
        keep[:, :, 3] = False
        one = on_device(keep[0])
        mask = one.view(keep.shape, (0, *one.strides), 0)
    want = expected(*values, keep, 0.3)
    q, k, v, gy = (between(x) for x in values)
    scores = Scores(0.3, causal)
    assert read_views(small, q, v)
    found = attention_tiles.way_of_gradients(small, q, v, causal=causal)
    assert (len(found.parts), found.slopes) == (parts, way == "slopes" and parts > 0)

    y, lse = poisoned((BATCH, HEADS, ROWS, value_head)), poisoned((BATCH, HEADS, ROWS))
    run(attention(small, y, lse, q, k, v, mask, scores=scores))
    delta = on_device(want[2].astype(np.float32))
    gq, gk, gv = (poisoned(x.shape) for x in values[:3])
    run(attention_grad(small, (gq, gk, gv), gy, lse, delta, q, k, v, mask, scores=scores))
    for got, wanted in zip((y, lse, gq, gk, gv), (*want[:2], *want[3:]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=5e-6)
    anywhere = [between(np.full(x.shape, np.nan, np.float32)) for x in (y, gq, gk, gv)]
    run(attention(small, anywhere[0], lse, q, k, v, mask, scores=scores))
    grads = (anywhere[1], anywhere[2], anywhere[3])
    run(attention_grad(small, grads, gy, lse, delta, q, k, v, mask, scores=scores))
    for got, dense in zip(anywhere, (y, gq, gk, gv), strict=True):
        np.testing.assert_array_equal(got.numpy(), dense.numpy())
        assert beside(got) == {"nan"}


# What stored gradients of scores saved on an H200: ms of `clnet bench attention`, without them less
# with them (docs/notes/attention.md). Its kernels do about so many operations in one.
SAVED = {
    (12, 197, 64, False): -0.17,
    (12, 1024, 64, False): 0.28,
    (12, 1024, 64, True): -3.3,
    (16, 1024, 32, False): 0.08,
    (8, 1024, 128, False): 2.3,
    (4, 1024, 256, False): 3.2,
}
FLOPS_OF_A_MS = 24e9


@pytest.mark.parametrize(("heads", "rows", "head", "causal"), SAVED)
def test_gradients_of_scores_are_stored_where_that_was_faster(
    heads: int, rows: int, head: int, monkeypatch: pytest.MonkeyPatch, *, causal: bool
) -> None:
    saved, sizes = SAVED[heads, rows, head, causal], (16, heads, rows, head)
    target = gpu_shaped(device())
    local = {"local_memory_bytes": 49152, "large_local_memory_bytes": 227 * 1024}
    traits = replace(target.traits, compute_units=132, **local)
    target = replace(target, traits=traits, workspace_limit=512 * 2**20)
    q = on_device(np.zeros(1, np.float32)).view(sizes, (0, 0, 0, 0), 0)
    monkeypatch.setattr(attention_tiles, "_PIECE_FLOPS", 1e9)
    way = attention_tiles.way_of_gradients(target, q, q, causal=causal)
    assert way.slopes == (saved > 0)
    count = {(12, 1024): 4, (16, 1024): 4, (8, 1024): 2}.get((heads, rows), 1)
    assert len(way.parts) in (0, count)
    found = attention_tiles.saved_by_slopes(target, q, q, count, causal=causal) / FLOPS_OF_A_MS
    assert found == pytest.approx(saved, abs=0.8)


def test_the_way_is_that_of_the_tiles_that_dropped_weights_leave_room_for() -> None:
    """Groups of fewer keys leave more pieces, which cost more than two products here."""
    target = gpu_shaped(device())
    local = {"local_memory_bytes": 60 * 1024, "large_local_memory_bytes": 60 * 1024}
    traits = replace(target.traits, compute_units=132, **local)
    target = replace(target, traits=traits, workspace_limit=512 * 2**20)
    q = on_device(np.zeros(1, np.float32)).view((1, 4, 1024, 32), (0, 0, 0, 0), 0)
    ways = [attention_tiles.way_of_gradients(target, q, q, dropped=x) for x in (False, True)]
    assert [bool(way.parts) for way in ways] == [True, False]
    assert ways[0].keys > ways[1].keys


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("way", ["slopes", "pieces", "neither"])
def test_dropped_weights_and_keys_that_heads_share(
    small: Target, monkeypatch: pytest.MonkeyPatch, *, causal: bool, way: str
) -> None:
    """The weights that are dropped are those of the kernel that drops all of them."""
    free(monkeypatch, way)
    shapes = ((HEADS, ROWS, 8), (1, KEYS, 8), (1, KEYS, 4), (HEADS, ROWS, 4))
    values = [normal(BATCH, *s, seed=i) for i, s in enumerate(shapes)]
    keep = np.broadcast_to(np.tri(ROWS, KEYS, dtype=bool) | (not causal), (ROWS, KEYS))
    drop = Drop(0.3, 12345678901, 7)
    weights = poisoned((BATCH, HEADS, ROWS, KEYS))
    ones = on_device(np.ones(weights.shape, np.float32))
    run(dropout(small, weights, ones, seed=drop.seed, offset=drop.offset, p=drop.p))
    want = expected(*values, keep, 0.3, weights.numpy().astype(np.float64))
    q, k, v, gy = (between(x) for x in values)
    scores = Scores(0.3, causal)

    y, lse = poisoned(want[0].shape), poisoned(want[1].shape)
    run(attention(small, y, lse, q, k, v, None, scores=scores, drop=drop))
    delta = on_device(want[2].astype(np.float32))
    gq, gk, gv = (poisoned(x.shape) for x in values[:3])
    grads = attention_grad(
        small, (gq, gk, gv), gy, lse, delta, q, k, v, None, scores=scores, drop=drop
    )
    names = {launch.kernel.name for launch in grads}
    assert ("attention_tiles_sum" in names) == (way == "pieces")
    assert ("attention_tiles_grad_q" in names) == (way == "neither")
    run(grads)
    # The keys' gradients are sums over the heads that share them.
    want[4:] = [x.sum(1, keepdims=True) for x in want[4:]]
    for got, wanted in zip((y, lse, gq, gk, gv), (*want[:2], *want[3:]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=2e-5)

    dense = [on_device(x) for x in values]
    with pytest.raises(ArgumentError, match=r"^attention: shared keys are for tiles, dropout for"):
        attention(cpu_shaped(device()), y, lse, *dense[:3], None, scores=scores)


@pytest.mark.parametrize(
    ("keys", "dtype", "units"),
    [(21, np.float32, 64), (21, np.float64, 1), (20, np.float32, 1), (3, np.float32, 64)],
)
def test_vectors_drop_the_same_weights(
    keys: int, dtype: type[np.floating[Any]], units: int
) -> None:
    """Lines of whole fours of weights and others, gradients by heads and by two kernels."""
    cpu = cpu_shaped(device())
    cpu = replace(cpu, traits=replace(cpu.traits, compute_units=units))
    shapes = ((ROWS, 12), (keys, 12), (keys, 8), (ROWS, 8))
    values = [normal(BATCH, HEADS, *s, seed=i).astype(dtype) for i, s in enumerate(shapes)]
    keep = np.broadcast_to(np.tri(ROWS, keys, dtype=bool) | (units == 1), (ROWS, keys))
    drop, scores = Drop(0.3, 12345678901, 2**33 - 9), Scores(0.3, causal=units > 1)
    weights = poisoned((BATCH, HEADS, ROWS, keys))
    ones = on_device(np.ones(weights.shape, np.float32))
    run(dropout(cpu, weights, ones, seed=drop.seed, offset=drop.offset, p=drop.p))
    want = expected(*values, keep, 0.3, weights.numpy().astype(np.float64))
    q, k, v, gy = map(on_device, values)
    y, lse, gq, gk, gv = (poisoned(want[i].shape, dtype) for i in (0, 1, 3, 4, 5))
    run(attention(cpu, y, lse, q, k, v, None, scores=scores, drop=drop))
    delta = on_device(want[2].astype(dtype))
    run(attention_grad(cpu, (gq, gk, gv), gy, lse, delta, q, k, v, None, scores=scores, drop=drop))
    for got, wanted in zip((y, lse, gq, gk, gv), (*want[:2], *want[3:]), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=2e-5)


def test_every_tiling_keeps_the_laws_and_devices_with_little_have_one() -> None:
    """Where a GPU has 32 KB of local memory, heads of 128 elements still go in tiles, too."""
    target = gpu_shaped(device())
    for kernel, by_size in attention_tiles.TILINGS.items():
        for size, tilings in by_size.items():
            q = Array.abstract((50, 20, 640, size), poisoned((1,)).dtype, device())
            found = attention_tiles.tiling(target, kernel, q, q)
            assert (found is None) == (size > 128)
            assert all(t.tile % (4 * t.columns) == 0 and t.item % 4 == 0 for t in tilings)
            large = replace(target.traits, large_local_memory_bytes=232_000, max_group_size=1024)
            assert attention_tiles.tiling(replace(target, traits=large), kernel, q, q) == tilings[0]


def test_items_hold_what_registers_there_are_for() -> None:
    """Where nothing was measured, tilings whose items would spill take shorter parts, or others."""
    traits = replace(gpu_shaped(device()).traits, max_group_size=256, large_local_memory_bytes=0)
    chosen = {
        (attention_tiles.FORWARD, 2**16, 64, False): Tiling(8, 16, 8, 32),
        (attention_tiles.FORWARD, 2**16, 64, True): Tiling(8, 16, 8, 32, 16),
        (attention_tiles.GRAD_Q, 2**16, 256, False): Tiling(4, 4, 16, 64, 16),
        (attention_tiles.GRAD_KV, 2**15, 80, True): Tiling(4, 8, 8, 32, 16),
        (attention_tiles.GRAD_KV, 2**15, 128, True): Tiling(4, 4, 16, 64, 16),
    }
    for (kernel, nbytes, head, causal), by in chosen.items():
        target = Target(replace(traits, local_memory_bytes=nbytes), 2**29)
        q = Array.abstract((50, 20, 640, head), float32, device())
        assert attention_tiles.tiling(target, kernel, q, q, causal=causal) == by
    measured = Target(replace(traits, large_local_memory_bytes=2**16), 2**29)
    q = Array.abstract((50, 20, 640, 64), float32, device())
    found = attention_tiles.tiling(measured, attention_tiles.FORWARD, q, q, causal=True)
    assert found == Tiling(8, 16, 8, 32)


def test_tiles_are_smaller_where_the_last_would_be_idle() -> None:
    """Of 197 keys, 224 are gone through in tiles of 32, 256 in tiles of 64."""
    target = gpu_shaped(device())
    target = replace(target, traits=replace(target.traits, large_local_memory_bytes=232_000))
    one = on_device(np.zeros(1, np.float32))
    for keys, tile in ((197, 32), (256, 64), (1024, 64), (1000, 64)):
        x = one.view((64, 12, keys, 64), (0, 0, 0, 0), 0)
        found = attention_tiles.tiling(target, attention_tiles.FORWARD, x, x)
        assert found is not None
        assert found.tile == tile


def test_views_are_for_tiles_alone(small: Target) -> None:
    q, y, lse = between(normal(1, 2, 4, 8)), poisoned((1, 2, 4, 8)), poisoned((1, 2, 4))
    cpu = cpu_shaped(device())
    assert not read_views(cpu, q, q)
    with pytest.raises(ArgumentError, match=r"^attention: arrays are dense"):
        attention(cpu, y, lse, q, q, q, None, scores=Scores(1.0, causal=False))
    turned = on_device(normal(1, 2, 8, 4)).view((1, 2, 4, 8), (64, 32, 1, 4))
    with pytest.raises(ArgumentError, match=r"^attention: rows are dense"):
        attention(small, y, lse, turned, q, q, None, scores=Scores(1.0, causal=False))


def test_groups_that_would_be_alone_on_a_unit_have_half_the_rows() -> None:
    target = gpu_shaped(device())
    local = {"local_memory_bytes": 49152, "large_local_memory_bytes": 227 * 1024}
    target = replace(target, traits=replace(target.traits, compute_units=132, **local))
    one = on_device(np.zeros(1, np.float32))
    for kernel in attention_tiles.TILINGS:
        for heads, rows, own in ((64, 256, 64), (64, 300, 128), (67, 256, 128), (1, 20, 64)):
            x = one.view((1, heads, rows, 64), (0, 0, 0, 0), 0)
            found = attention_tiles.tiling(target, kernel, x, x)
            assert found is not None
            assert found.own == own
    few, many = (one.view((1, 2, rows, 64), (0, 0, 0, 0), 0) for rows in (100, 100_000))
    by_keys = attention_tiles.tiling(target, attention_tiles.GRAD_KV, few, many)
    by_rows = attention_tiles.tiling(target, attention_tiles.GRAD_Q, few, many)
    assert by_keys is not None
    assert by_rows is not None
    assert (by_keys.own, by_rows.own) == (128, 64)


@pytest.mark.parametrize("way", ["pieces", "neither"])
def test_causal_groups_of_several_rows_and_heads(
    small: Target, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Heads come first among groups; more keys than rows, and more rows than keys."""
    free(monkeypatch, way)
    for rows, keys in ((37, 21), (21, 37)):
        shapes = ((rows, 8), (keys, 8), (keys, 8), (rows, 8))
        values = [normal(3, 2, *s, seed=i) for i, s in enumerate(shapes)]
        want = expected(*values, np.broadcast_to(np.tri(rows, keys, dtype=bool), (rows, keys)), 0.3)
        q, k, v, gy = (on_device(x) for x in values)
        scores = Scores(0.3, causal=True)
        y, lse = poisoned(want[0].shape), poisoned(want[1].shape)
        (launch,) = attention(small, y, lse, q, k, v, None, scores=scores)
        assert launch.global_size == (6 * SMALL.group, -(-rows // SMALL.own))
        run([launch])
        delta = on_device(want[2].astype(np.float32))
        gq, gk, gv = (poisoned(x.shape) for x in values[:3])
        run(attention_grad(small, (gq, gk, gv), gy, lse, delta, q, k, v, None, scores=scores))
        for got, wanted in zip((y, lse, gq, gk, gv), (*want[:2], *want[3:]), strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, atol=5e-6)
