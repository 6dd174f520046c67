"""Philox against its published vectors and an independent NumPy implementation."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import HostScalar, device
from clnet.errors import ArgumentError
from clnet.kernels.pointwise.random_numbers import (
    bernoulli,
    dropout,
    integers,
    normal,
    random_bits,
    uniform,
)
from tests import philox
from tests.kernels.launching import both_shapes, offset, on_device, poisoned, run

SEED = 0xF123456789ABCDEF
OFFSET = 2**32 - 3  # the counter's low word runs over within the test
SIZES = [0, 1, 3, 4, 5, 1023]


def words(n: int) -> np.ndarray:
    return philox.words(SEED, OFFSET, n)


def doubles(n: int) -> np.ndarray:
    return philox.long_words(SEED, OFFSET, n)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Random123's kat_vectors for philox4x32 with 10 rounds
        ("00000000" * 4, "00000000" * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff" * 4, "ffffffff" * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            "243f6a8885a308d313198a2e03707344",
            "a4093822299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_reference_gives_the_published_words(counter, key, expected):
    def split(text: str) -> list[int]:
        return [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]

    assert philox.philox_block(split(counter), split(key)) == split(expected.replace(" ", ""))


def test_kernel_gives_the_published_words():
    y = poisoned((4,), np.int32)
    run(random_bits(device().target, y, seed=0, offset=0))
    assert [f"{word:08x}" for word in y.numpy().view(np.uint32)] == [
        "6627e8d5",
        "e169c58d",
        "bc57ac4c",
        "9b00dbd8",
    ]


@both_shapes
@pytest.mark.parametrize("n", SIZES)
def test_bits_are_the_references(n, shaped):
    y = poisoned((n,), np.int32)
    run(random_bits(shaped(device()), y, seed=SEED, offset=OFFSET))
    np.testing.assert_array_equal(y.numpy().view(np.uint32), words(n))


@both_shapes
@pytest.mark.parametrize("n", SIZES)
def test_uniforms_are_the_references_bit_for_bit(n, shaped):
    y = poisoned((n,))
    run(uniform(shaped(device()), y, seed=SEED, offset=OFFSET))
    np.testing.assert_array_equal(y.numpy(), philox.uniforms(SEED, OFFSET, n))


@pytest.mark.parametrize("n", SIZES)
def test_double_uniforms_take_53_bits(n):
    y = poisoned((n,), np.float64)
    run(uniform(device().target, y, seed=SEED, offset=OFFSET))
    np.testing.assert_array_equal(y.numpy(), (doubles(n) >> np.uint64(11)) * 2.0**-53)


def test_uniforms_never_reach_high():
    y = poisoned((100_000,))
    low, high = 1.0, float(np.nextafter(np.float32(1), np.float32(2)))
    run(uniform(device().target, y, seed=SEED, offset=0, low=low, high=high))
    assert (y.numpy() == np.float32(low)).all()
    run(uniform(device().target, y, seed=SEED, offset=0, low=-3.0, high=5.0))
    values = y.numpy()
    assert values.min() < -2.99
    assert 4.99 < values.max() < 5


@both_shapes
@pytest.mark.parametrize(
    ("dtype", "n"), [(np.float32, 1001), (np.float32, 1), (np.float64, 1001), (np.float64, 0)]
)
def test_normals_are_box_and_mullers(dtype, n, shaped):
    y = poisoned((n,), dtype)
    run(normal(shaped(device()), y, seed=SEED, offset=OFFSET, mean=0.5, std=2.0))
    if dtype is np.float32:
        standard = philox.normals(SEED, OFFSET, n)
    else:
        pairs = doubles(n + n % 2).reshape(-1, 2) >> np.uint64(11)
        standard = philox.box_muller((pairs[:, 0] + 0.5) * 2.0**-53, pairs[:, 1] * 2.0**-53)[:n]
    tolerance = 32 * np.finfo(dtype).eps
    np.testing.assert_allclose(y.numpy(), 0.5 + 2 * standard, rtol=tolerance, atol=tolerance)


def test_normals_are_within_units_in_the_last_place_of_the_radius():
    n = 1_000_000
    y, drawn = poisoned((n,)), poisoned((n,), np.int32)
    run(normal(device().target, y, seed=SEED, offset=OFFSET))
    run(random_bits(device().target, drawn, seed=SEED, offset=OFFSET))
    pairs = drawn.numpy().view(np.uint32).reshape(-1, 2)
    u = (pairs[:, 0].astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)).astype(
        np.float64
    )
    expected = philox.box_muller(u, (pairs[:, 1] >> 8) * 2.0**-24)
    radius = np.sqrt(-2 * np.log(u)).repeat(2)
    assert (abs(y.numpy() - expected) / radius).max() < 3e-7


def test_normals_have_the_moments_of_normals():
    n = 200_000
    y = poisoned((n,))
    run(normal(device().target, y, seed=7, offset=0))
    values = y.numpy().astype(np.float64)
    assert abs(values.mean()) < 4 / np.sqrt(n)
    assert abs(values.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((values**4).mean() - 3) < 4 * np.sqrt(96 / n)
    assert abs(np.corrcoef(values[::2], values[1::2])[0, 1]) < 4 / np.sqrt(n / 2)


@both_shapes
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64])
def test_bernoulli_compares_uniforms_with_p(dtype, shaped):
    y = poisoned((1001,), dtype)
    run(bernoulli(shaped(device()), y, seed=SEED, offset=OFFSET, p=0.3))
    expected = (words(1001) >> 8) * 2.0**-24 < np.float32(0.3)
    np.testing.assert_array_equal(y.numpy(), expected.astype(dtype))


@both_shapes
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        (np.int64, -7, 5),
        (np.int64, 1 - 2**32, 0),
        (np.int64, -(2**62), 2**62 - 1),
        (np.int32, 0, 1),
        (np.float32, 3, 9),
    ],
)
def test_integers_are_the_high_product(dtype, low, high, shaped):
    y = poisoned((1001,), dtype)
    run(integers(shaped(device()), y, seed=SEED, offset=OFFSET, low=low, high=high))
    expected = [low + (int(word) * (high - low) >> 64) for word in doubles(1001)]
    np.testing.assert_array_equal(y.numpy(), np.array(expected, dtype))


def test_integers_of_an_empty_range_are_refused():
    with pytest.raises(ArgumentError, match="high - low lies in"):
        integers(device().target, poisoned((3,), np.int64), seed=0, offset=0, low=4, high=4)


@both_shapes
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_drops_the_same_elements_again(dtype, shaped):
    n, p = 1001, 0.25
    values = np.random.default_rng(2).normal(size=n).astype(dtype)
    y, again = poisoned((n,), dtype), poisoned((n,), dtype)
    run(dropout(shaped(device()), y, offset(values), seed=SEED, offset=OFFSET, p=p))
    kept = (words(n) >> 8) * 2.0**-24 >= np.float32(p)
    np.testing.assert_allclose(
        y.numpy(), np.where(kept, values / (1 - p), 0), rtol=2 * np.finfo(dtype).eps
    )
    run(dropout(shaped(device()), again, on_device(values), seed=SEED, offset=OFFSET, p=p))
    assert again.numpy().tobytes() == y.numpy().tobytes()


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_of_nothing_and_of_all(p):
    values = np.array([1.0, -np.inf, np.nan, 3.0], np.float32)
    y = poisoned((4,))
    run(dropout(device().target, y, on_device(values), seed=1, offset=0, p=p))
    np.testing.assert_array_equal(y.numpy(), values if p == 0 else np.zeros(4))


def test_offset_in_a_cell_is_read_at_every_launch():
    cell, y = HostScalar(0), poisoned((8,))
    launches = uniform(device().target, y, seed=3, offset=cell)
    run(launches)
    first = y.numpy()
    cell.value = 1
    run(launches)
    np.testing.assert_array_equal(y.numpy()[:4], first[4:])
