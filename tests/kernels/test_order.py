"""Sorted lines of every dtype: by rank and by radix."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.kernels.index.order import sort_lines
from clnet.values.dtypes import from_numpy
from tests.kernels.launching import both_shapes, offset, poisoned, run

RNG = np.random.default_rng(5)


def reference(x: np.ndarray, *, descending: bool) -> np.ndarray:
    """Stable order of the lines; NaN is the largest, which NumPy gives it when ascending."""
    if not descending:
        return np.argsort(x, axis=1, kind="stable")
    backwards = np.argsort(x[:, ::-1], axis=1, kind="stable")
    return x.shape[1] - 1 - backwards[:, ::-1]


def drawn(shape: tuple[int, int], dtype: str) -> np.ndarray:
    x = (RNG.normal(size=shape) * 40).astype(dtype)
    if x.dtype.kind == "f":
        flat = x.reshape(-1)
        flat[::5], flat[1::7], flat[3::7] = np.nan, 0.0, -0.0
        flat[2::11], flat[4::11], flat[::13] = np.inf, -np.inf, -np.nan
    return x


def check(x: np.ndarray, shaped, *, descending: bool) -> None:
    values, indices = poisoned(x.shape, x.dtype), poisoned(x.shape, np.int64)
    target = shaped(device())
    run(sort_lines(target, values, indices, offset(x), descending=descending))
    order = reference(x, descending=descending)
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 1))


@both_shapes
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
)
@pytest.mark.parametrize("shape", [(3, 20), (2, 600)])
def test_lines_are_sorted_as_numpys(shape, dtype, descending, shaped):
    if dtype == "float64" and not device().traits.float64:
        pytest.skip("the device has no double precision")
    check(drawn(shape, dtype), shaped, descending=descending)


@both_shapes
@pytest.mark.parametrize(
    "shape", [(1, 1), (4, 1), (3, 48), (3, 49), (2, 512), (2, 513), (1, 5000), (300, 70)]
)
def test_sizes_around_the_kernels_limits(shape, shaped):
    check(RNG.integers(-9, 9, shape).astype(np.float32), shaped, descending=False)


@both_shapes
def test_whole_numbers_of_64_bits_are_told_apart(shaped):
    base = RNG.choice([2**40, -(2**40), 0], 700).astype(np.int64)
    check((base + RNG.integers(-2, 2, 700))[None], shaped, descending=False)


@both_shapes
@pytest.mark.parametrize("n", [30, 700])
def test_16_bit_floats_are_moved_as_they_are(n, shaped):
    check(drawn((2, n), "float16"), shaped, descending=True)


def test_nothing_launches_nothing():
    empty = Array.abstract((0, 5), from_numpy(np.dtype(np.float32)), device())
    assert sort_lines(device().target, empty, empty, empty) == []
