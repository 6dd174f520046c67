"""Fourier transforms of many lines, one in each lane: against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.kernels.fourier import transform_lines
from clnet.kernels.fourier.stockham_lanes import lanes_of

DTYPES = [(np.float32, 1e-6), (np.float64, 1e-14)]


def transformed(device, x, shape, dtype, n, sign):
    """The transform, computed twice: the same bits."""
    found = []
    for _ in range(2):
        y = Array.from_numpy(np.full(shape, np.nan, dtype), device)
        (launch,) = transform_lines(device.target, y, Array.from_numpy(x, device), n=n, sign=sign)
        assert launch.kernel.name == "stockham_lanes"
        device.queue.launch(launch)
        found.append(y.numpy())
    np.testing.assert_array_equal(*found)
    return found[0]


def near(found, wanted, limit):
    """Within a fraction of the largest."""
    assert np.abs(found - wanted).max() <= limit * np.abs(wanted).max()


@pytest.mark.parametrize(("real", "limit"), DTYPES, ids=["float32", "float64"])
# One radix, two and three, alone and repeated, of even and odd lengths: a kernel for each set.
@pytest.mark.parametrize("n", [2, 7, 8, 12, 30, 49, 105, 150, 256, 2048])
def test_each_line_is_transformed(device, n, real, limit):
    rng = np.random.default_rng(n)
    for lines in (9, 16, 61):
        if lanes_of(device.target, lines, n, np.dtype(real).itemsize) is None:
            pytest.skip("lines are taken one by one here")
        x = rng.standard_normal((lines, n)).astype(real)
        z = (x + 1j * rng.standard_normal((lines, n))).astype(np.result_type(real, np.complex64))
        exact = z.astype(np.complex128)
        near(transformed(device, z, z.shape, z.dtype, n, -1), np.fft.fft(exact), limit)
        near(transformed(device, z, z.shape, z.dtype, n, 1), np.fft.ifft(exact) * n, limit)
        half = np.fft.rfft(x.astype(np.float64))
        near(transformed(device, x, half.shape, z.dtype, n, -1), half, limit)
        given = half.astype(z.dtype)
        near(transformed(device, given, x.shape, real, n, 1), x.astype(np.float64) * n, limit)


def test_what_is_not_finite_stays_in_its_line(device):
    if lanes_of(device.target, 20, 12, 4) is None:
        pytest.skip("lines are taken one by one here")
    x = np.ones((20, 12), np.complex64)
    x[3, 5], x[17, 0] = np.nan, np.inf
    y = transformed(device, x, x.shape, x.dtype, 12, -1)
    others = [i for i in range(20) if i not in (3, 17)]
    np.testing.assert_allclose(y[others, 0], 12)
    assert np.isfinite(y[others]).all()
    assert not np.isfinite(y[[3, 17]]).any()
