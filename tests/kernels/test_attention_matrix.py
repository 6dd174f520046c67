"""Attention on matrix units: kernels with emulated units, what chooses them, and who uses them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.device import Target, device, matrix_units
from clnet.errors import ArgumentError
from clnet.kernels.softmax import (
    Scores,
    attends_on_units,
    attention_delta,
    attention_matrix,
    attention_warpgroup,
)
from clnet.kernels.softmax.attention import attention, attention_grad
from clnet.kernels.softmax.attention_matrix import Sizes
from clnet.nn import functional as F
from clnet.values import mode
from tests.groups import are_compiled_wrongly
from tests.kernels.launching import gpu_shaped, names_launched, normal, run
from tests.kernels.test_attention import expected

pytestmark = pytest.mark.device

ROUNDING = {clnet.float16: 2e-3, clnet.bfloat16: 1.2e-2, clnet.float32: 2e-3}


@pytest.fixture
def target() -> Target:
    """A GPU with emulated units."""
    here = gpu_shaped(device())
    return replace(here, traits=replace(here.traits, matrix_units="emulated ptx"))


def between(values: np.ndarray, dtype: clnet.dtype) -> Array:
    """``(n, heads, rows, head)`` as a part of ``(n, rows, two parts, heads, head)``."""
    n, heads, rows, head = values.shape
    whole = np.full((n, rows, 2, heads, head), np.nan, np.float32)
    whole[:, :, 1] = values.transpose(0, 2, 1, 3)
    row = 2 * heads * head
    strides = (rows * row, head, row, 1)
    return clnet.tensor(whole).to(dtype).array.view(values.shape, strides, heads * head)


def drawn(dtype: clnet.dtype, *shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers that the dtype holds."""
    return clnet.tensor(normal(*shape, seed=seed)).to(dtype).float().numpy()


def summed(grad: np.ndarray, heads: int) -> np.ndarray:
    """Over the heads of queries that share keys."""
    n, _, keys, size = grad.shape
    return grad.reshape(n, heads, -1, keys, size).sum(2)


# dtype, heads of queries and keys, rows, keys, head, head of the values, causal
CASES = [
    (clnet.bfloat16, 4, 2, 37, 29, 16, 8, False),
    (clnet.float16, 1, 1, 21, 45, 40, 16, True),
    (clnet.float32, 2, 1, 21, 29, 20, 12, True),
]


@pytest.mark.parametrize("given", CASES, ids=str)
def test_emulated_units_attend(given, target):
    """The result and its gradients, of parts of arrays, are near NumPy's in float64."""
    dtype, heads, shared, rows, keys, head, value_head, causal = given
    shapes = ((heads, rows, head), (shared, keys, head), (shared, keys, value_head))
    q, k, v = (drawn(dtype, 2, *shape, seed=i) for i, shape in enumerate(shapes))
    gy = drawn(dtype, 2, heads, rows, value_head, seed=3)
    keep = np.ones((2, heads, rows, keys), bool)
    if causal:
        keep &= np.tri(rows, keys, dtype=bool)
    times = heads // shared
    repeated = (np.repeat(x, times, 1) for x in (k, v))
    y, lse, delta, gq, gk, gv = expected(q, *repeated, gy, keep, 0.3)
    inputs = [between(x, dtype) for x in (q, k, v)]
    gy_ = between(gy, dtype)
    assert attends_on_units(target, (*inputs, gy_), 0.3, tf32=True)
    made = [clnet.full(x.shape, np.nan, dtype=dtype) for x in (y, q, k, v)]
    lse_, delta_ = (clnet.full(lse.shape, np.nan) for _ in range(2))
    ways = {"scores": Scores(0.3, causal), "tf32": True}
    run(attention(target, made[0].array, lse_.array, *inputs, None, **ways))
    if dtype is clnet.float32:
        delta_ = clnet.tensor(delta.astype(np.float32))
    else:
        run(attention_delta(target, delta_.array, gy_, made[0].array))
    grads = (made[1].array, made[2].array, made[3].array)
    run(attention_grad(target, grads, gy_, lse_.array, delta_.array, *inputs, None, **ways))
    np.testing.assert_allclose(lse_.numpy(), lse, atol=5e-3 if dtype is clnet.float32 else 5e-6)
    wanted = (y, gq, summed(gk, shared), summed(gv, shared))
    for got, right in zip((*made, delta_), (*wanted, delta), strict=True):
        assert np.abs(got.double().numpy() - right).max() < ROUNDING[dtype] * np.abs(right).max()


# dtype, heads of queries and keys, rows, keys, head, causal
BY_128 = [
    (clnet.bfloat16, 4, 2, 37, 29, 16, False),
    (clnet.float16, 1, 1, 150, 53, 40, True),
    (clnet.bfloat16, 1, 1, 21, 32, 72, False),
    (clnet.bfloat16, 1, 1, 21, 150, 16, True),
]


@pytest.mark.parametrize("given", BY_128, ids=str)
def test_128_items_attend_at_once(given, target):
    """Emulated copies and products: the result and its gradients are near NumPy's in float64."""
    if are_compiled_wrongly(clnet.device()):
        pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
    dtype, heads, shared, rows, keys, head, causal = given
    numbers = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
    by_128 = replace(target, traits=replace(target.traits, **numbers))
    shapes = ((heads, rows, head), (shared, keys, head), (shared, keys, head))
    q, k, v = (drawn(dtype, 2, *shape, seed=i) for i, shape in enumerate(shapes))
    keep = np.ones((2, heads, rows, keys), bool)
    if causal:
        keep &= np.tri(rows, keys, dtype=bool)
    gy = drawn(dtype, 2, heads, rows, head, seed=3)
    repeated = (np.repeat(x, heads // shared, 1) for x in (k, v))
    y, lse, delta, gq, gk, gv = expected(q, *repeated, gy, keep, 0.3)
    inputs = [between(x, dtype) for x in (q, k, v)]
    made = [clnet.full(x.shape, np.nan, dtype=dtype) for x in (y, q, k, v)]
    lse_, delta_ = clnet.full(lse.shape, np.nan), clnet.tensor(delta.astype(np.float32))
    ways = {"scores": Scores(0.3, causal)}
    launches = attention(by_128, made[0].array, lse_.array, *inputs, None, **ways)
    grads = (made[1].array, made[2].array, made[3].array)
    known = (between(gy, dtype), lse_.array, delta_.array)
    launches += attention_grad(by_128, grads, *known, *inputs, None, **ways)
    names = [launch.kernel.name.removeprefix("attention_") for launch in launches]
    assert names == ["warpgroup", "warpgroup_grad_q", "matrix_grad_kv"]
    run(launches)
    np.testing.assert_allclose(lse_.numpy(), lse, atol=5e-6)
    wanted = (y, gq, summed(gk, shared), summed(gv, shared))
    for got, right in zip(made, wanted, strict=True):
        assert np.abs(got.double().numpy() - right).max() < ROUNDING[dtype] * np.abs(right).max()


def test_where_128_items_attend_at_once(target):
    """On a card that can, heads that fill lines of 64, of operands that maps describe."""
    numbers = {
        "matrix_units": "ptx",
        "warpgroup_units": True,
        "max_group_size": 1024,
        "large_local_memory_bytes": 232_000,
    }
    card = replace(target, traits=replace(target.traits, **numbers))

    forward = attention_warpgroup.FORWARD

    def found(
        rows, head, value_head=None, dtype=clnet.bfloat16, on=card, strides=None, kernel=forward
    ):
        q = Array.abstract((2, 3, rows, head), dtype, device())
        k = q if strides is None else q.view(q.shape, strides, 0)
        v = Array.abstract((2, 3, rows, value_head or head), dtype, device())
        moved = (q, k, v)
        return attention_warpgroup.teams_for(on, kernel, Sizes.of(*moved), moved)

    for kernel, tiles in attention_warpgroup.TILES.items():
        for size, tile in tiles.items():
            assert found(500, size, kernel=kernel) is tile
        assert found(500, 96, kernel=kernel) is tiles[128]
    assert found(500, 80) is found(500, 32) is found(500, 136) is None
    assert found(500, 128, 64) is found(20, 128) is None
    assert found(500, 64, dtype=clnet.float32) is None
    assert found(500, 64, strides=(0, 500 * 64, 64, 1)) is None  # repeated
    without = replace(card, traits=replace(card.traits, warpgroup_units=False))
    assert found(500, 64, on=without) is None
    little = replace(card, traits=replace(card.traits, large_local_memory_bytes=0))
    assert found(500, 128, on=little) is None


@pytest.mark.parametrize("head", [64, 128])
def test_what_128_items_declare_fits_into_local_memory(head, target):
    """By the kernels' text, and by one byte less."""
    numbers = {"matrix_units": "ptx", "warpgroup_units": True, "max_group_size": 1024}
    q = Array.abstract((2, 3, 500, head), clnet.bfloat16, device())
    lse = Array.abstract((2, 3, 500), clnet.float32, device())
    known = {"q": q, "k": q, "v": q, "lse": lse}
    for kernel, operands in [
        (attention_warpgroup.FORWARD, {**known, "y": q}),
        (attention_warpgroup.GRAD_Q, {**known, "gy": q, "gq": q, "delta": lse}),
    ]:

        def made(nbytes, kernel=kernel, operands=operands):
            traits = replace(target.traits, **numbers, large_local_memory_bytes=nbytes)
            settings = {"scale": 0.3, "causal": False, "cost": {"flops": 1, "bytes": 1}}
            on = replace(target, traits=traits)
            return attention_warpgroup.attention_by_warpgroups(on, kernel, operands, **settings)

        text = made(232_000).kernel.text()
        sizes = {"uint4 tiles": 16, "ulong bars": 8}
        arrays = re.findall(r"__local (\w+ \w+)\[(\d+)\]", text)
        assert [name for name, _ in arrays] == list(sizes)
        # The driver's compiler adds what an array may have to move by to be aligned.
        needed = sum(sizes[name] * int(count) for name, count in arrays) + 1024
        assert made(needed) is not None
        assert made(needed - 1) is None


def test_only_what_units_attend_to_goes_there(target):
    def asked(*shapes, dtype=clnet.bfloat16, scale=1.0, offset=0, on=target, tf32=False):
        arrays = [Array.abstract(shape, dtype, device()) for shape in shapes]
        moved = [x.view(x.shape, x.strides, offset) for x in arrays]
        return attends_on_units(on, tuple(moved), scale, tf32=tf32)

    whole = (2, 3, 5, 16)
    assert asked(whole, whole, whole)
    assert asked(whole, (2, 1, 7, 16), (2, 1, 7, 40), dtype=clnet.float16)
    assert not asked(whole, whole, whole, dtype=clnet.float32)
    assert asked(whole, whole, (2, 3, 5, 12), dtype=clnet.float32, tf32=True)
    assert not asked(whole, whole, whole, scale=-1.0)  # the largest score is the least product
    assert not asked(whole, whole, whole, offset=4)  # not a whole run
    assert not asked(whole, whole, (2, 3, 5, 12))
    assert not asked(whole, whole, (2, 3, 5, 0))
    assert not asked((1, 1, 5, 136), (1, 1, 5, 136), whole)
    none = replace(target, traits=replace(target.traits, matrix_units=""))
    assert not asked(whole, whole, whole, on=none)
    # Those of other makers hold sums in another way than operands.
    others = replace(target, traits=replace(target.traits, matrix_units="emulated wmma"))
    assert not asked(whole, whole, whole, on=others)


def test_tiles_suit_local_memory(target):
    """The first on large cards; on those with little something smaller, or nothing."""

    def found(kernel, dtype, head, nbytes):
        unit = matrix_units("ptx")[dtype.stored]
        traits = replace(target.traits, local_memory_bytes=nbytes, max_group_size=1024)
        q = Array.abstract((1, 1, 5, head), dtype, device())
        return attention_matrix.tile_for(replace(target, traits=traits), kernel, unit, q, q)

    for (kernel, itemsize), by_size in attention_matrix.TILES.items():
        dtype = clnet.bfloat16 if itemsize == 2 else clnet.float32
        for head, tiles in by_size.items():
            assert found(kernel, dtype, head, 232_000) == tiles[0]
            assert all(t.others % t.chunk == t.chunk % 16 == 0 for t in tiles)
            assert found(kernel, dtype, head, 8192) is None
        assert found(kernel, dtype, 64, 49_152 if itemsize == 2 else 54_000) == by_size[64][1]


def test_heads_that_fit_nowhere_are_refused(target):
    x = clnet.zeros(1, 1, 4, 136, dtype=clnet.bfloat16).array
    lse = clnet.zeros(1, 1, 4).array
    with pytest.raises(ArgumentError, match=r"^attention: heads fit local memory; got head=136"):
        attention(target, x, lse, x, x, x, None, scores=Scores(1.0, causal=False))


def test_the_op_uses_them(target, monkeypatch):
    """Of 16 bits without conversions, gradients, too; with a mask by the other kernels."""
    monkeypatch.setattr(clnet.device(), "target", target)
    names = names_launched(clnet.device(), monkeypatch)
    dtype = clnet.bfloat16
    host = [drawn(dtype, 2, 2, 5, size, seed=i) for i, size in enumerate((16, 16, 8, 8))]
    q, k, v, gy = (clnet.tensor(x).to(dtype) for x in host)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    names.clear()
    y = F.scaled_dot_product_attention(*leaves)
    y.backward(gy)
    grads = {"attention_matrix_grad_q", "attention_matrix_grad_kv"}
    assert {*names} == {"attention_matrix", "attention_delta", *grads}
    wanted = expected(*host, np.ones((2, 2, 5, 5), bool), 0.25)
    for got, right in zip((y, *(x.grad for x in leaves)), (wanted[0], *wanted[3:]), strict=True):
        found = got.detach().double().numpy()
        assert np.abs(found - right).max() < ROUNDING[dtype] * np.abs(right).max()
    names.clear()
    tf32 = [x.detach().float().requires_grad_() for x in leaves]
    with mode.using():
        clnet.set_float32_matmul_precision("high")
        F.scaled_dot_product_attention(*tf32).backward(gy.float())
    assert {"attention_matrix", *grads} <= {*names}
    names.clear()
    masked = F.scaled_dot_product_attention(q, k, v, clnet.zeros(5, 5, dtype=dtype))
    assert "attention_matrix" not in names
    np.testing.assert_allclose(
        masked.detach().float().numpy(), y.detach().float().numpy(), atol=0.02
    )
