"""float's powers: accuracy, specials, the same bits wherever an element lies.

The reference is NumPy's in long doubles; the bound is what was measured, rounded up.
"""

from __future__ import annotations

import numpy as np
import pytest

import clnet

pytestmark = pytest.mark.device

ULP = 1.4
COUNT = 100_000
TINY = np.finfo(np.float32).tiny


def uniform(low, high, seed=0):
    return np.random.default_rng(seed).uniform(low, high, COUNT)


OPERANDS = {
    "near 1": (uniform(0.999, 1.001), uniform(-1e5, 1e5, 1)),
    # Exponents so large that the logarithm's error counts most.
    "near a root of 2": (uniform(1.3, 1.5), uniform(-256, 256, 1)),
    "near a root of a half": (uniform(0.65, 0.95), uniform(-150, 150, 1)),
    "far from 1": (np.exp(uniform(-80, 80)), uniform(-1.2, 1.2, 1)),
    "whole numbers": (uniform(-40, 40).round(), uniform(-20, 20, 1).round()),
    "subnormal": (np.exp(uniform(-103, -80)), uniform(-1.2, 1.2, 1)),
}
SPECIAL = np.array(
    [
        *(0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3, -3, 1e-30, -1e-30),
        *(2.5, -2.5, 2**23, 2**23 + 1, 2**24, 1 - 2**24, 3e38, -3e38, 1.0000001, 0.99999994),
    ],
    np.float32,
)


def power(x, y):
    return (clnet.tensor(x) ** clnet.tensor(y)).numpy()


def flushes():
    return (clnet.tensor([1e-40]) * 2).item() == 0


@pytest.mark.parametrize("name", OPERANDS)
def test_accuracy(name):
    x, y = (operand.astype(np.float32) for operand in OPERANDS[name])
    if flushes():
        x = np.where(np.abs(x) < TINY, np.float32(TINY), x)
    got = power(x, y)
    with np.errstate(all="ignore"):
        want = x.astype(np.longdouble) ** y.astype(np.longdouble)
        rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    if flushes():
        finite &= np.abs(rounded) >= TINY
    ulps = np.abs(got[finite] - want[finite]) / np.spacing(np.abs(rounded[finite]))
    worst = ulps.argmax()
    assert ulps[worst] <= ULP, f"{x[finite][worst]!r} ** {y[finite][worst]!r}"


def test_specials():
    """All pairs; signs of zeros and infinities, and what is NaN, are exact."""
    x, y = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    got = power(x, y)
    with np.errstate(all="ignore"):
        want = np.float_power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=2**-22, atol=TINY)
    there = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[there]), np.signbit(want[there]))


@pytest.mark.parametrize("size", [1, 7, 1023, 1025])
def test_bits_do_not_depend_on_the_place(size):
    x, y = (operand.astype(np.float32) for operand in OPERANDS["far from 1"])
    whole = power(x, y)[:size]
    strided = clnet.tensor(np.repeat(x[:size], 3))[::3] ** clnet.tensor(np.repeat(y[:size], 2))[::2]
    for got in (power(x[:size], y[:size]), strided.numpy()):
        np.testing.assert_array_equal(got.view(np.uint32), whole.view(np.uint32))
