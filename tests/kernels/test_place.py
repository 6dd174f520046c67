"""Arrays laid into dense ones, against NumPy."""

from __future__ import annotations

from importlib import import_module
from math import prod

import numpy as np
import pytest

from clnet.device import device
from clnet.kernels import streaming
from clnet.kernels.grid import lanes_of
from clnet.kernels.moving.around import around
from clnet.kernels.moving.copy import copy
from clnet.kernels.moving.place import place
from tests.kernels.launching import cpu_shaped, gpu_shaped, on_device, poisoned, run

place_module = import_module("clnet.kernels.moving.place")

RNG = np.random.default_rng(3)


@pytest.fixture(params=[False, True], ids=["", "past the caches"])
def past(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
        lanes = lanes_of(cpu_shaped(device()), 4)
        monkeypatch.setattr(streaming, "LINE_BYTES", 4 * lanes)
    return request.param


@pytest.mark.parametrize(
    ("shape", "x_shape", "starts"),
    [
        ((13, 7, 9, 58), (13, 7, 7, 56), (0, 0, 1, 1)),
        ((9, 33, 41), (8, 30, 20), (1, 0, 17)),
        ((5, 24, 7, 7), (5, 8, 7, 7), (0, 8, 0, 0)),  # channels
        ((12_345,), (9_876,), (77,)),
        ((3, 5_001), (3, 5_000), (0, 1)),
        ((3, 1, 5_001), (1, 1, 5_001), (1, 0, 0)),
        ((300, 17), (300, 1), (0, 16)),
        ((70, 65), (70, 65), (0, 0)),
        ((6, 4, 3, 100), (6, 4, 3, 0), (0, 0, 0, 50)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.float16, np.uint8])
def test_an_array_among_elements_of_one_value(shape, x_shape, starts, dtype, past):
    values = RNG.integers(0, 99, x_shape).astype(dtype)
    x, y = on_device(values), poisoned(shape, dtype)
    target = cpu_shaped(device())
    launches = place(target, y, x, x.shape, x.strides, starts=starts, value=7)
    name = launches[0].kernel.name
    assert [name] == ["place" if 0 in x_shape or (past and dtype == np.float32) else name]
    if dtype == np.float32 and name == "place":
        assert launches[0].kernel.params["stream"] == past
    run(launches)
    expected = np.full(shape, 7, dtype)
    expected[tuple(slice(a, a + n) for a, n in zip(starts, x_shape, strict=True))] = values
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("n", [5, 16, 37])
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8])
def test_an_array_among_elements_of_its_own(dtype, mode, n):
    numpys = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    values = RNG.integers(0, 99, (5, 2, 3, 4, n)).astype(dtype)
    ends = ((0, 0), (0, 0), (2, 1), (0, 0), (3, 4))
    expected = np.pad(values, ends, numpys[mode])
    y = poisoned(expected.shape, dtype)
    starts = tuple(before for before, _ in ends)
    run([around(cpu_shaped(device()), y, on_device(values), starts=starts, mode=mode)])
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize(
    ("shape", "at"),
    [
        ((9, 11, 90), (slice(1, 8), slice(None), slice(3, 80))),
        ((40, 8, 9, 20), (slice(None), slice(2, 7), slice(1, 9), slice(None))),
        ((60, 300), (slice(None), slice(150, 300))),
        ((9, 3_000), (slice(0, 9, 2), slice(1, 2_999))),
    ],
    ids=str,
)
def test_a_part_becomes_dense(shape, at, past):
    values = RNG.normal(size=shape).astype(np.float32)
    part = values[at]
    whole, y = on_device(values), poisoned(part.shape)
    offset = sum((s.start or 0) * n for s, n in zip(at, whole.strides, strict=True))
    steps = tuple((s.step or 1) * n for s, n in zip(at, whole.strides, strict=True))
    launches = copy(cpu_shaped(device()), y, whole.view(part.shape, steps, offset))
    assert [each.kernel.name for each in launches] == ["place" if past else "copy_by_lines"]
    run(launches)
    np.testing.assert_array_equal(y.numpy(), part)


def test_rows_are_repeated():
    row, y = on_device(np.arange(100, dtype=np.float32)), poisoned((50, 100))
    run(copy(cpu_shaped(device()), y, row.view((50, 100), (0, 1))))
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(np.arange(100), (50, 100)))


@pytest.mark.parametrize(
    ("shape", "strides", "shaped"),
    [
        ((70, 65), (130, 2), cpu_shaped),
        ((700, 7), (10, 1), cpu_shaped),
        ((7, 65), (100, 1), cpu_shaped),
        ((70, 65), (100, 1), gpu_shaped),
    ],
    ids=["no neighbours", "short rows", "small", "on a GPU"],
)
def test_what_is_left_to_other_kernels(shape, strides, shaped):
    x = on_device(np.zeros(prod(shape) * 3, np.float32)).view(shape, strides)
    y = poisoned(shape)
    assert place(shaped(device()), y, x, shape, strides, starts=(0, 0)) == []
