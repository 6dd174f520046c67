"""The stable radix sort, and sums over its runs."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Scratch, device
from clnet.kernels.index.segment import segment_last, segment_sum
from clnet.kernels.index.sort import Sorted, sort
from clnet.kernels.moving.copy import copy
from clnet.values.dtypes import int32
from tests.kernels.launching import both_shapes, gpu_shaped, on_device, poisoned, run

sort_module = import_module("clnet.kernels.index.sort")

RNG = np.random.default_rng(3)


def numbered(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def by_key(keys: np.ndarray) -> Sorted:
    order = np.argsort(keys, kind="stable").astype(np.int32)
    return Sorted(on_device(keys[order]), on_device(order), [])


@both_shapes
@pytest.mark.parametrize("near", [0, 8192])
@pytest.mark.parametrize("limit", [0, 1, 9, 255, 256, 70_000, 2**31 - 1])
@pytest.mark.parametrize("n", [1, 2, 255, 2047, 2048, 2049, 8192, 9000])
def test_sort_is_numpys_stable_sort(n, limit, near, shaped, monkeypatch):
    monkeypatch.setattr(sort_module, "_MOST_NEAR", near)
    keys = RNG.integers(0, limit, n, endpoint=True).astype(np.int32)
    memory = Scratch(device())
    result = sort(shaped(device()), memory, on_device(keys), on_device(numbered(n)), limit=limit)
    run(result.launches)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(_read(result.order), order)
    np.testing.assert_array_equal(_read(result.keys), keys[order])


def _read(array: Array) -> np.ndarray:
    """A copy of an array that may lie in the workspace, which only launches can read."""
    y = poisoned(array.shape, np.int32)
    run(copy(device().target, y, array))
    return y.numpy()


def test_a_group_of_a_gpu_sorts_few_keys_in_one_launch():
    keys, order = (on_device(numbered(4000)) for _ in range(2))
    target = gpu_shaped(device())
    (launch,) = sort(target, Scratch(device()), keys, order, limit=4000).launches
    assert (launch.kernel.name, launch.kernel.params["word"]) == ("sort_near", "uint")
    (launch,) = sort(target, Scratch(device()), keys, order, limit=2**25).launches
    assert launch.kernel.params["word"] == "ulong"


@both_shapes
def test_sort_of_nothing_launches_nothing(shaped):
    empty = Array.abstract((0,), int32, device())
    assert sort(shaped(device()), Scratch(device()), empty, empty, limit=7).launches == []


@both_shapes
@pytest.mark.parametrize("inner", [1, 5, 16, 31, 33, 100])
@pytest.mark.parametrize(
    ("outer", "rows", "n"), [(1, 1, 1), (1, 7, 300), (3, 50, 20), (2, 9, 0), (1, 1, 1000)]
)
def test_segment_sum_adds_the_rows_of_a_key(outer, rows, n, inner, shaped):
    keys = RNG.integers(0, rows + 1, n).astype(np.int32)  # `rows` itself is left out
    x = RNG.normal(size=(outer, n, inner)).astype(np.float32)
    y = poisoned((outer, rows, inner))
    memory = Scratch(device())
    run(segment_sum(shaped(device()), memory, y, on_device(x), by_key(keys)))
    expected = np.zeros((outer, rows + 1, inner))
    np.add.at(expected, (slice(None), keys), x.astype(np.float64))
    tolerance = 4 * np.finfo(np.float32).eps * max(n, 1) ** 0.5
    np.testing.assert_allclose(y.numpy(), expected[:, :rows], rtol=tolerance, atol=4 * tolerance)


@both_shapes
def test_segment_sum_gives_the_same_bits_again(shaped):
    keys = RNG.integers(0, 3, 2000).astype(np.int32)
    x, runs = on_device(RNG.normal(size=(1, 2000, 40)).astype(np.float32)), by_key(keys)
    results = []
    for _ in range(3):
        y = poisoned((1, 3, 40))
        run(segment_sum(shaped(device()), Scratch(device()), y, x, runs))
        results.append(y.numpy().tobytes())
    assert len(set(results)) == 1


@both_shapes
@pytest.mark.parametrize("inner", [3, 45])
def test_segment_last_leaves_rows_without_a_key(shaped, inner):
    keys = np.array([2, 0, 2, 4, 5], np.int32)  # 5 is out of range
    x = RNG.normal(size=(2, 5, inner)).astype(np.float32)
    before = RNG.normal(size=(2, 5, inner)).astype(np.float32)
    y = on_device(before)
    run(segment_last(shaped(device()), Scratch(device()), y, on_device(x), by_key(keys)))
    expected = before.copy()
    expected[:, 0], expected[:, 2], expected[:, 4] = x[:, 1], x[:, 2], x[:, 3]
    np.testing.assert_array_equal(y.numpy(), expected)
