"""Pooling against loops over windows written from the definition."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import device
from clnet.errors import TemplateError
from clnet.kernels.avg_pool import (
    adaptive_avg_pool,
    adaptive_avg_pool_gradient,
    avg_pool,
)
from clnet.kernels.avg_pool_grad import avg_pool_gradient
from clnet.kernels.max_pool import max_pool, max_pool_gradient
from clnet.kernels.window import Window
from tests.kernels.launching import both_shapes, offset, on_device, poisoned, run

RNG = np.random.default_rng(5)
EPS = float(np.finfo(np.float32).eps)

WINDOWS = pytest.mark.parametrize(
    ("window", "shape", "out"),
    [
        (Window(2, 2, 2, 2), (2, 3, 8, 6), (4, 3)),
        (Window(2, 2, 2, 2), (1, 2, 7, 5), (3, 2)),
        (Window(2, 2, 2, 2), (1, 2, 7, 5), (4, 3)),  # ceil_mode
        (Window(3, 3, 2, 2, 1, 1), (2, 2, 9, 17), (5, 9)),
        (Window(3, 3, 1, 1, 1, 1), (1, 1, 4, 5), (4, 5)),
        (Window(3, 3, 2, 2, 1, 1), (1, 2, 5, 41), (3, 21)),  # whole vectors
        (Window(3, 3, 1, 1, 1, 1), (1, 1, 4, 29), (4, 29)),
        (Window(9, 8, 3, 2, 4, 4), (1, 1, 11, 13), (4, 7)),  # not written out
        (Window(3, 2, 1, 3, 0, 1), (3, 1, 5, 8), (3, 3)),
        (Window(1, 1, 3, 3), (1, 2, 7, 7), (3, 3)),
        (Window(5, 4, 2, 1, 2, 2), (1, 2, 1, 1), (1, 2)),
        (Window(2, 2, 2, 2), (0, 3, 8, 6), (4, 3)),
    ],
    ids=str,
)
DILATED = pytest.mark.parametrize(
    ("window", "shape", "out"),
    [
        (Window(3, 2, 1, 2, 1, 1, 2, 3), (2, 1, 7, 9), (5, 4)),
        (Window(2, 2, 2, 2, 0, 0, 3, 3), (1, 2, 9, 8), (3, 3)),
    ],
    ids=str,
)


def taken(window: Window, shape: tuple[int, ...], oy: int, ox: int) -> list[tuple[int, int]]:
    """Positions inside the plane that a window looks at, in row-major order."""
    rows = [oy * window.sh - window.ph + i * window.dh for i in range(window.kh)]
    columns = [ox * window.sw - window.pw + j * window.dw for j in range(window.kw)]
    h, w = shape[-2:]
    return [(r, c) for r in rows for c in columns if 0 <= r < h and 0 <= c < w]


def max_reference(x: np.ndarray, window: Window, out: tuple[int, int]):
    y = np.empty((*x.shape[:2], *out), x.dtype)
    index = np.empty(y.shape, np.int64)
    for n, c, oy, ox in np.ndindex(y.shape):
        places = taken(window, x.shape, oy, ox)
        values = [x[n, c, r, k] for r, k in places]
        best = int(np.argmax(values))  # the first of equal ones; NaN counts as the largest
        y[n, c, oy, ox] = values[best]
        index[n, c, oy, ox] = places[best][0] * x.shape[3] + places[best][1]
    return y, index


def max_gradient(gy: np.ndarray, index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    gx = np.zeros((*shape[:2], shape[2] * shape[3]))
    for n, c in np.ndindex(shape[:2]):
        np.add.at(gx[n, c], index[n, c].ravel(), gy[n, c].ravel())
    return gx.reshape(shape)


def avg_matrix(
    window: Window, shape: tuple[int, ...], out: tuple[int, int], *, include_pad: bool, divisor: int
) -> np.ndarray:
    """The linear map from an input plane to an output plane."""
    h, w = shape[-2:]
    matrix = np.zeros((out[0] * out[1], h * w))
    for oy, ox in np.ndindex(out):
        places = taken(window, shape, oy, ox)
        top, left = oy * window.sh - window.ph, ox * window.sw - window.pw
        padded = (min(top + window.kh, h + window.ph) - top) * (
            min(left + window.kw, w + window.pw) - left
        )
        count = divisor or (padded if include_pad else len(places))
        for r, c in places:
            matrix[oy * out[1] + ox, r * w + c] = 1 / count
    return matrix


def planes(matrix: np.ndarray, x: np.ndarray, out: tuple[int, int]) -> np.ndarray:
    flat = x.reshape(*x.shape[:2], matrix.shape[1]).astype(np.float64)
    return (flat @ matrix.T).reshape(*x.shape[:2], *out)


def check_max(window, shape, out, index_dtype, shaped, x):
    target = shaped(device())
    expected, where = max_reference(x, window, out)
    y, index = poisoned(expected.shape), poisoned(expected.shape, index_dtype)
    run(max_pool(target, y, offset(x), window=window, index=index))
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(index.numpy(), where)
    alone = poisoned(expected.shape)
    run(max_pool(target, alone, on_device(x), window=window))
    np.testing.assert_array_equal(alone.numpy(), expected)
    gy, gx = RNG.normal(size=expected.shape).astype(np.float32), poisoned(shape)
    run(max_pool_gradient(target, gx, offset(gy), index, window=window))
    count = window.kh * window.kw
    np.testing.assert_allclose(
        gx.numpy(), max_gradient(gy, where, shape), rtol=EPS * count, atol=4 * EPS * count
    )


@both_shapes
@WINDOWS
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_max_pool_and_its_gradient(window, shape, out, index_dtype, shaped):
    check_max(window, shape, out, index_dtype, shaped, RNG.normal(size=shape).astype(np.float32))


@both_shapes
@DILATED
def test_max_pool_with_dilation(window, shape, out, shaped):
    check_max(window, shape, out, np.int64, shaped, RNG.normal(size=shape).astype(np.float32))


@both_shapes
def test_max_pool_takes_the_first_of_ties(shaped):
    x = RNG.integers(0, 2, (2, 2, 9, 17)).astype(np.float32)
    check_max(Window(3, 3, 2, 2, 1, 1), x.shape, (5, 9), np.int32, shaped, x)


@both_shapes
def test_max_pool_keeps_nan_and_minus_infinity(shaped):
    x = np.full((1, 1, 4, 4), -np.inf, np.float32)
    x[0, 0, 1, 0], x[0, 0, 2, 3] = np.nan, 3
    check_max(Window(2, 2, 2, 2), x.shape, (2, 2), np.int64, shaped, x)


@both_shapes
@WINDOWS
@pytest.mark.parametrize(("include_pad", "divisor"), [(True, 0), (False, 0), (True, 5)])
def test_avg_pool_and_its_gradient(window, shape, out, include_pad, divisor, shaped):
    target = shaped(device())
    how = {"include_pad": include_pad, "divisor": divisor}
    matrix = avg_matrix(window, shape, out, **how)
    x = RNG.normal(size=shape).astype(np.float32)
    y, gx = poisoned((*shape[:2], *out)), poisoned(shape)
    run(avg_pool(target, y, offset(x), window=window, **how))
    tolerance = 4 * EPS * window.kh * window.kw
    np.testing.assert_allclose(y.numpy(), planes(matrix, x, out), rtol=tolerance, atol=tolerance)
    gy = RNG.normal(size=y.shape).astype(np.float32)
    run(avg_pool_gradient(target, gx, offset(gy), window=window, **how))
    expected = planes(matrix.T, gy, shape[2:])
    np.testing.assert_allclose(gx.numpy(), expected, rtol=tolerance, atol=tolerance)


@both_shapes
@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((2, 3, 8, 6), (4, 3)),
        ((1, 2, 7, 5), (3, 2)),
        ((1, 2, 3, 4), (5, 7)),
        ((2, 3, 7, 9), (1, 1)),
        ((2, 2, 1, 1), (1, 1)),
        ((1, 1, 40, 33), (1, 1)),
        ((0, 2, 3, 3), (2, 2)),
    ],
    ids=str,
)
def test_adaptive_avg_pool_and_its_gradient(shape, out, shaped):
    target, (h, w) = shaped(device()), shape[2:]
    matrix = np.zeros((out[0] * out[1], h * w))
    for oy, ox in np.ndindex(out):
        part = np.zeros((h, w))
        rows = slice(oy * h // out[0], -(-(oy + 1) * h // out[0]))
        columns = slice(ox * w // out[1], -(-(ox + 1) * w // out[1]))
        part[rows, columns] = 1 / part[rows, columns].size
        matrix[oy * out[1] + ox] = part.ravel()
    x = RNG.normal(size=shape).astype(np.float32)
    y, gx = poisoned((*shape[:2], *out)), poisoned(shape)
    run(adaptive_avg_pool(target, y, offset(x)))
    tolerance = 4 * EPS * max(h * w, 4) ** 0.5
    np.testing.assert_allclose(y.numpy(), planes(matrix, x, out), rtol=tolerance, atol=tolerance)
    gy = RNG.normal(size=y.shape).astype(np.float32)
    run(adaptive_avg_pool_gradient(target, gx, offset(gy)))
    expected = planes(matrix.T, gy, (h, w))
    np.testing.assert_allclose(gx.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_double_precision_pools_in_double():
    if not device().traits.float64:
        pytest.skip("the device has no double precision")
    x = RNG.normal(size=(1, 2, 7, 6))
    y, mean = poisoned((1, 2, 3, 3), np.float64), poisoned((1, 2, 1, 1), np.float64)
    run(max_pool(device().target, y, on_device(x), window=Window(2, 2, 2, 2)))
    np.testing.assert_array_equal(y.numpy(), max_reference(x, Window(2, 2, 2, 2), (3, 3))[0])
    run(adaptive_avg_pool(device().target, mean, on_device(x)))
    np.testing.assert_allclose(mean.numpy(), x.mean((2, 3), keepdims=True), rtol=1e-14)


def test_padding_beyond_half_the_window_breaks_a_constraint():
    with pytest.raises(TemplateError, match="every window holds an element"):
        max_pool(
            device().target,
            poisoned((1, 3, 3)),
            poisoned((1, 4, 4)),
            window=Window(2, 2, 2, 2, 2, 0),
        )
