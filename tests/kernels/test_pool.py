"""Pooling against loops over windows written from the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.errors import ArgumentError, TemplateError
from clnet.kernels import streaming
from clnet.kernels.grid import lanes_of
from clnet.kernels.pool import avg_pool_grad
from clnet.kernels.pool import window as window_module
from clnet.kernels.pool.avg_pool import adaptive_avg_pool, adaptive_avg_pool_gradient, avg_pool
from clnet.kernels.pool.avg_pool_grad import avg_pool_gradient
from clnet.kernels.pool.max_pool import ROOM_BYTES, max_pool, max_pool_gradient
from clnet.kernels.pool.window import Window
from clnet.values.dtypes import float32
from tests.kernels.launching import both_shapes, cpu_shaped, offset, on_device, poisoned, run

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
        (Window(4, 5, 1, 2, 2, 2), (2, 2, 3, 44), (4, 22)),
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


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_max_pool_in_vectors_keeps_ties_nan_and_infinities(lanes, index_dtype):
    def shaped(opened):
        target = cpu_shaped(opened)
        return replace(target, traits=replace(target.traits, simd_width=lanes))

    x = RNG.integers(0, 3, (2, 5, 9, 45)).astype(np.float32)
    x[0, 1:3] = np.where(RNG.random((2, 9, 45)) < 0.3, -np.inf, np.inf)
    x[0, 3] = -np.inf
    x[1, 0, RNG.integers(0, 9, 20), RNG.integers(0, 45, 20)] = np.nan
    x[1, 1, 0, :4] = x[1, 2, 8, 41:] = np.nan
    x[1, 3] *= np.float32(1e38)  # sums of which are infinite
    x[1, 4] = np.where(x[1, 4] > 0, np.float32(0), np.float32(-0.0))
    for window, out in (
        (Window(3, 3, 2, 2, 1, 1), (5, 23)),
        (Window(2, 2, 2, 2), (4, 22)),
        (Window(2, 2, 2, 2), (5, 23)),  # ceil_mode
        (Window(3, 4, 1, 1, 1, 2), (9, 46)),
        (Window(2, 3, 3, 2, 1, 2, 2, 2), (3, 23)),
    ):
        check_last_nan(window, out, index_dtype, shaped, x)


@pytest.mark.parametrize("size", [(16, 12), (130, 128)])
def test_gradient_past_the_caches_is_the_same(size, monkeypatch):
    """Planes that fit local memory, and those that do not."""
    shape, window = (2, 2, *size), Window(3, 3, 2, 2, 1, 1)
    gy = RNG.normal(size=(2, 2, size[0] // 2, size[1] // 2)).astype(np.float32)
    target, index = cpu_shaped(device()), poisoned(gy.shape, np.int32)
    values = on_device(RNG.normal(size=shape).astype(np.float32))
    run(max_pool(target, poisoned(gy.shape), values, window=window, index=index))
    expected, gx = poisoned(shape), poisoned(shape)
    run(max_pool_gradient(target, expected, on_device(gy), index, window=window))
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    monkeypatch.setattr(streaming, "LINE_BYTES", 4 * max(target.traits.simd_width, 2))
    launches = max_pool_gradient(target, gx, on_device(gy), index, window=window)
    room = target.traits.local_memory_bytes >= ROOM_BYTES
    assert (launches[0].kernel.params["room"] > 0) == (room and size == (16, 12))
    run(launches)
    np.testing.assert_array_equal(gx.numpy(), expected.numpy())


def check_last_nan(window, out, index_dtype, shaped, x):
    """Values, positions and the sign of zeros; of several NaNs the last counts, as in PyTorch."""
    expected, where = max_reference(x, window, out)
    for n, c, oy, ox in np.argwhere(np.isnan(expected)):
        row, column = [p for p in taken(window, x.shape, oy, ox) if np.isnan(x[n, c][p])][-1]
        where[n, c, oy, ox] = row * x.shape[3] + column
    y, index = poisoned(expected.shape), poisoned(expected.shape, index_dtype)
    run(max_pool(shaped(device()), y, on_device(x), window=window, index=index))
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(np.signbit(y.numpy()), np.signbit(expected))
    np.testing.assert_array_equal(index.numpy(), where)


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


@pytest.mark.parametrize("past", [False, True], ids=["", "past the caches"])
@pytest.mark.parametrize(("include_pad", "divisor"), [(True, 0), (False, 0), (True, 5)])
@pytest.mark.parametrize(
    ("window", "size", "out"),
    [
        (Window(3, 3, 2, 2, 1, 1), (21, 55), (11, 28)),
        (Window(3, 3, 2, 2), (20, 72), (10, 36)),  # ceil_mode
        (Window(2, 2, 2, 2), (24, 64), (12, 32)),
        (Window(3, 3, 1, 1, 1, 1), (9, 40), (9, 40)),
        (Window(5, 4, 3, 3, 2, 1), (17, 60), (6, 20)),
    ],
    ids=str,
)
def test_gradient_of_means_in_strips(window, size, out, include_pad, divisor, past, monkeypatch):
    """More planes than items, strips of any height, and the lines of a plane that are not whole."""
    target, shape = cpu_shaped(device()), (3, 50, *size)
    how = {"window": window, "include_pad": include_pad, "divisor": divisor}
    if past:
        monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
        monkeypatch.setattr(streaming, "LINE_BYTES", 4 * lanes_of(target, 4))
    gy = RNG.normal(size=(3, 50, *out)).astype(np.float32)
    results = []
    for room in (2**15, 10_000):
        monkeypatch.setattr(avg_pool_grad, "ROOM_BYTES", room)
        gx = poisoned(shape)
        launches = avg_pool_gradient(target, gx, on_device(gy), **how)
        assert launches[0].kernel.name == "avg_pool_gradient_strips"
        assert launches[0].kernel.params["stream"] == past
        run(launches)
        results.append(gx.numpy())
    matrix = avg_matrix(window, shape, out, include_pad=include_pad, divisor=divisor)
    tolerance = 4 * EPS * window.kh * window.kw
    expected = planes(matrix.T, gy, size)
    np.testing.assert_allclose(results[0], expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(results[0], results[1])


def test_gradients_of_means_share_a_kernel():
    """Whether padding counts, and what is divided by, are arguments."""
    gx, gy = poisoned((1, 2, 9, 17)), on_device(np.ones((1, 2, 5, 9), np.float32))
    window = Window(3, 3, 2, 2, 1, 1)
    launches = [
        avg_pool_gradient(cpu_shaped(device()), gx, gy, window=window, include_pad=pad, divisor=n)
        for pad, n in ((True, 0), (False, 0), (True, 5), (False, 7))
    ]
    assert len({id(each.kernel) for (each,) in launches}) == 1


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


@both_shapes
def test_planes_beyond_what_an_int_counts_come_in_pieces(shaped, monkeypatch):
    opened, window = device(), Window(2, 2, 2, 2)
    shapes = (2**15, 2, 128, 128), (2**15, 2, 256, 256)
    y, x = (Array.abstract(shape, float32, opened) for shape in shapes)
    assert len(max_pool(shaped(opened), y, x, window=window)) == 3
    monkeypatch.setattr(window_module, "_MOST_ELEMENTS", 2 * 48 + 40)  # two planes of six
    test_max_pool_and_its_gradient(window, (2, 3, 8, 6), (4, 3), np.int32, shaped)
    test_avg_pool_and_its_gradient(window, (2, 3, 8, 6), (4, 3), False, 0, shaped)
    test_adaptive_avg_pool_and_its_gradient((2, 3, 8, 6), (4, 3), shaped)
    with pytest.raises(ArgumentError, match="avg_pool: a plane has no more elements than an int"):
        avg_pool(
            shaped(opened),
            *(poisoned((1, 5, 9)), poisoned((1, 10, 18))),
            window=window,
            include_pad=False,
        )


def test_double_precision_pools_in_double():
    if not device().traits.float64:
        pytest.skip("the device has no double precision")
    x = RNG.normal(size=(1, 2, 7, 6))
    y, mean = poisoned((1, 2, 3, 3), np.float64), poisoned((1, 2, 1, 1), np.float64)
    run(max_pool(device().target, y, on_device(x), window=Window(2, 2, 2, 2)))
    np.testing.assert_array_equal(y.numpy(), max_reference(x, Window(2, 2, 2, 2), (3, 3))[0])
    run(adaptive_avg_pool(device().target, mean, on_device(x)))
    np.testing.assert_allclose(mean.numpy(), x.mean((2, 3), keepdims=True), rtol=1e-14, atol=1e-16)


def test_padding_beyond_half_the_window_breaks_a_constraint():
    with pytest.raises(TemplateError, match="every window holds an element"):
        max_pool(
            device().target,
            poisoned((1, 3, 3)),
            poisoned((1, 4, 4)),
            window=Window(2, 2, 2, 2, 2, 0),
        )
