"""Maxima and means over windows and parts of planes and volumes, with their gradients."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from clnet import expr as e
from clnet.device import Target
from clnet.kernels import streaming as streaming_module
from clnet.kernels.grid import lanes_of
from clnet.kernels.pool import avg_pool_grad as avg_grad_module
from clnet.kernels.pool import pool_vectors as vectors_module
from clnet.kernels.pool.avg_pool import adaptive_avg_pool, adaptive_avg_pool_gradient, avg_pool
from clnet.kernels.pool.avg_pool_grad import avg_pool_gradient
from clnet.kernels.pool.grid_sample import (
    Taps,
    grid_sample,
    grid_sample_image,
    grid_sample_places,
)
from clnet.kernels.pool.max_pool import max_pool, max_pool_gradient
from clnet.kernels.pool.window import Window
from clnet.kernels.pool.window_max import Window3, window_max

from .harness import (
    REALS,
    RNG,
    case,
    constants,
    given,
    near,
    normal,
    output,
    run,
)

avg_module = import_module("clnet.kernels.pool.avg_pool")
max_module = import_module("clnet.kernels.pool.max_pool")
grid_module = import_module("clnet.kernels.pool.grid_sample")
grid_lanes_module = import_module("clnet.kernels.pool.grid_sample_lanes")
window_max_module = import_module("clnet.kernels.pool.window_max")

MODULES = (
    max_module,
    avg_module,
    avg_grad_module,
    vectors_module,
    window_max_module,
    grid_module,
    grid_lanes_module,
)

# Window, plane and output: halves, with a window cut off (ceil_mode), overlapping and padded.
MEANS = [
    (Window(2, 2, 2, 2), (7, 5), (3, 2)),
    (Window(2, 2, 2, 2), (7, 5), (4, 3)),
    (Window(3, 3, 2, 2, 1, 1), (9, 17), (5, 9)),
    (Window(3, 2, 1, 3, 0, 1), (5, 8), (3, 3)),
]
# Neighbouring windows as vectors, some of which begin before a row, or end behind it.
ROWS = [
    (Window(3, 3, 2, 2, 1, 1), (5, 42), (3, 21)),
    (Window(2, 3, 1, 1, 1, 1), (2, 19), (3, 19)),
]
MEANS += ROWS
MAXIMA = [
    *MEANS,
    (Window(2, 2, 1, 2, 1, 1, 2, 3), (4, 37), (4, 18)),
    (Window(3, 2, 1, 2, 1, 1, 2, 3), (7, 9), (5, 4)),
    (Window(1, 1, 3, 3), (7, 7), (3, 3)),
]


def taken(w: Window, plane: tuple[int, int], y: int, x: int) -> list[tuple[int, int]]:
    """The window's places inside the plane, in row-major order."""
    rows = [y * w.sh - w.ph + i * w.dh for i in range(w.kh)]
    columns = [x * w.sw - w.pw + j * w.dw for j in range(w.kw)]
    return [(r, c) for r in rows for c in columns if 0 <= r < plane[0] and 0 <= c < plane[1]]


def check_max(
    target: Target, window: Window, plane: Any, out: Any, dtype: Any, index_dtype: Any
) -> None:
    x = normal(2, *plane, dtype=dtype)
    y, index = np.zeros((2, *out)), np.zeros((2, *out), np.int64)
    for n, i, j in np.ndindex(2, *out):
        places = taken(window, plane, i, j)
        best = max(places, key=lambda place: x[n][place])
        y[n, i, j], index[n, i, j] = x[n][best], best[0] * plane[1] + best[1]
    y_, index_ = output(y.shape, dtype), output(y.shape, index_dtype)
    run(max_pool(target, y_, given(x, before=1), window=window, index=index_))
    near(y_, y)
    near(index_, index)
    alone = output(y.shape, dtype)
    run(max_pool(target, alone, given(x), window=window))
    near(alone, y)
    gy, gx_ = normal(*y.shape, dtype=dtype), output(x.shape, dtype)
    run(max_pool_gradient(target, gx_, given(gy, before=3), index_, window=window))
    gx = np.zeros((2, plane[0] * plane[1]))
    for n in range(2):
        np.add.at(gx[n], index[n].ravel(), gy[n].ravel().astype(np.float64))
    near(gx_, gx.reshape(x.shape), terms=64)


@case()
def maxima(target: Target) -> None:
    for window, plane, out in MAXIMA:
        check_max(target, window, plane, out, np.float32, np.int64)
    check_max(target, *MAXIMA[2], np.float64, np.int32)
    for window, plane, out in ROWS:
        check_max(target, window, plane, out, np.float32, np.int32)
    line = 4 * max(target.traits.simd_width, 2)
    with (
        constants(streaming_module, STREAM_BYTES=0, LINE_BYTES=line),
        constants(max_module, ROOM_BYTES=2**13),
    ):
        check_max(target, Window(3, 3, 2, 2, 1, 1), (4, 12), (2, 6), np.float32, np.int32)


def check_positions(
    target: Target, x: np.ndarray, axes: list[list[range]], window: Window3 | None
) -> None:
    """Of the windows or parts that each axis is cut into."""
    expected = np.zeros((len(x), *map(len, axes)), np.int64)
    for n, *at in np.ndindex(*expected.shape):
        places = product(*(ranges[i] for ranges, i in zip(axes, at, strict=True)))
        # A NaN is above all, and of several the last.
        best = max(enumerate(places), key=lambda item, volume=x[n]: rank(volume[item[1]], item[0]))
        expected[(n, *at)] = np.ravel_multi_index(best[1], x.shape[1:])
    index = output(expected.shape, np.int64)
    run(window_max(target, index, given(x, before=1), window))
    near(index, expected)


def rank(value: Any, place: int) -> tuple[float, int]:
    """What makes an element the maximum of its window."""
    return (np.inf, place) if np.isnan(value) else (float(value), -place)


def volumes(dtype: Any) -> np.ndarray:
    """Two of them, with ties and NaNs."""
    x = RNG.integers(0, 5, (2, 3, 5, 7)).astype(dtype)
    x[0, 1, 1, :3] = np.nan
    return x


@case()
def positions_of_maxima(target: Target) -> None:
    windows = [
        Window3((1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
        Window3((2, 3, 2), (1, 2, 3), (1, 1, 1), (2, 2, 3)),
        Window3((3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1)),
    ]
    for dtype, window in product((*REALS, np.float16), windows):
        x = volumes(dtype)
        axes: list[list[range]] = []
        for size, k, s, p, g in zip(x.shape[1:], *window, strict=True):
            starts = range(-p, size + p - g * (k - 1), s)
            taps = [[a + j * g for j in range(k) if 0 <= a + j * g < size] for a in starts]
            axes.append([range(t[0], t[-1] + 1, g) for t in taps])
        check_positions(target, x, axes, window)
    for dtype, out in product((*REALS, np.float16), ((1, 1, 1), (2, 4, 7), (5, 2, 3))):
        x = volumes(dtype)
        axes = [
            [range(i * size // o, -(-(i + 1) * size // o)) for i in range(o)]
            for size, o in zip(x.shape[1:], out, strict=True)
        ]
        check_positions(target, x, axes, None)


def check_mean(
    target: Target, matrix: np.ndarray, plane: Any, out: Any, dtype: Any, how: Any
) -> None:
    """A pooling that is a linear map, and its transpose."""
    forward, backward, options = how
    x, gy = normal(3, *plane, dtype=dtype), normal(3, *out, dtype=dtype)
    y, gx = output(gy.shape, dtype), output(x.shape, dtype)
    run(forward(target, y, given(x, before=1), **options))
    near(y, (x.reshape(3, -1) @ matrix.T).reshape(y.shape), terms=64)
    run(backward(target, gx, given(gy, before=1), **options))
    near(gx, (gy.reshape(3, -1) @ matrix).reshape(gx.shape), terms=64)


@case()
def means(target: Target) -> None:
    for dtype in REALS:
        for window, plane, out in MEANS:
            for include_pad, divisor in ((True, 0), (False, 0), (False, 3)):
                matrix = np.zeros((*out, *plane))
                for i, j in np.ndindex(*out):
                    places = taken(window, plane, i, j)
                    top, left = i * window.sh - window.ph, j * window.sw - window.pw
                    padded = (min(top + window.kh, plane[0] + window.ph) - top) * (
                        min(left + window.kw, plane[1] + window.pw) - left
                    )
                    for place in places:
                        share = divisor or (padded if include_pad else len(places))
                        matrix[i, j][place] = 1 / share
                options = {"window": window, "include_pad": include_pad, "divisor": divisor}
                how = (avg_pool, avg_pool_gradient, options)
                check_mean(target, matrix.reshape(out[0] * out[1], -1), plane, out, dtype, how)


@case("cpu")
def gradients_of_means_past_the_caches(target: Target) -> None:
    window, plane, out = Window(3, 3, 2, 2, 1, 1), (7, 37), (4, 19)
    for dtype, room in product(REALS, (2**15, 4000)):
        lanes = lanes_of(target, np.dtype(dtype).itemsize)
        line = {"LINE_BYTES": lanes * np.dtype(dtype).itemsize, "STREAM_BYTES": 0}
        gx, gy = output((3, *plane), dtype), normal(3, *out, dtype=dtype)
        with constants(avg_grad_module, ROOM_BYTES=room), constants(streaming_module, **line):
            how = {"window": window, "include_pad": True}
            run(avg_pool_gradient(target, gx, given(gy, before=1), **how))
        expected = np.zeros(gx.shape)
        for i, j in np.ndindex(*out):
            for y, x in taken(window, plane, i, j):
                expected[:, y, x] += gy[:, i, j] / 9
        near(gx, expected, terms=9)


@case()
def means_of_parts(target: Target) -> None:
    for dtype in REALS:
        for plane, out in (((7, 5), (3, 2)), ((4, 9), (4, 4)), ((2, 3), (5, 4)), ((9, 11), (1, 1))):
            matrix = np.zeros((*out, *plane))
            for i, j in np.ndindex(*out):
                (h, w), (oh, ow) = plane, out
                part = matrix[i, j][i * h // oh : -(-(i + 1) * h // oh)]
                part[:, j * w // ow : -(-(j + 1) * w // ow)] = 1
                matrix[i, j] /= matrix[i, j].sum()
            how = (adaptive_avg_pool, adaptive_avg_pool_gradient, {})
            check_mean(target, matrix.reshape(out[0] * out[1], -1), plane, out, dtype, how)


@case()
def samples_of_planes_and_volumes(target: Target) -> None:
    """Between two elements, beyond the edges, of more channels than an item takes at once."""
    place, last = e.Input(0), e.Scalar(0)
    low = e.floor(place)
    exprs: list[e.Expr] = []
    for at, weight in ((low, 1 - (place - low)), (low + 1, place - low)):
        inside = e.where(e.logical_and(at >= 0, at <= last), 1, 0)
        exprs += [e.where(at > 0, e.where(at < last, at, last), 0), weight, inside]
    slopes = (e.as_number(-1), e.as_number(1))
    for dtype, channels, sizes in product(REALS, (1, 5), ((3, 4), (2, 3, 2))):
        taps = Taps(tuple(exprs), slopes, tuple((size - 1.0,) for size in sizes))
        x, gy = normal(2, channels, *sizes, dtype=dtype), normal(2, channels, 7, dtype=dtype)
        grid = RNG.uniform(-1.5, 4.5, (2, 7, len(sizes))).astype(dtype)
        reads = np.zeros((2, 7, *sizes))
        slope = np.zeros((2, 7, len(sizes), *sizes))
        for n, p in np.ndindex(2, 7):
            place_of = grid[n, p, ::-1].astype(np.float64)
            first = np.floor(place_of).astype(int)
            for parts in product((0, 1), repeat=len(sizes)):
                at = tuple(first + parts)
                if all(0 <= i < size for i, size in zip(at, sizes, strict=True)):
                    part = place_of - first
                    weights = np.where(np.array(parts) == 1, part, 1 - part)
                    reads[(n, p, *at)] = weights.prod()
                    for a in range(len(sizes)):
                        others = np.delete(weights, a).prod()
                        turned = len(sizes) - 1 - a  # the last axis' coordinate is first
                        slope[(n, p, turned, *at)] = others * (1 if parts[a] else -1)
        flat = reads.reshape(2, 7, -1)
        y, gx = output(gy.shape, dtype), output(x.shape, dtype)
        gp, grid_, x_ = output(grid.shape, dtype), given(grid, before=1), given(x, before=3)
        few = {"_STEP": 2, "_LANES": 4}
        with constants(grid_module, _STEP=2, _TILE=2), constants(grid_lanes_module, **few):
            run(grid_sample(target, y, x_, grid_, taps))
            run(grid_sample_image(target, gx, given(gy), grid_, taps))
            run(grid_sample_places(target, gp, given(gy, before=2), x_, grid_, taps))
        rows = x.reshape(2, channels, -1)
        near(y, np.einsum("npr,ncr->ncp", flat, rows), terms=64)
        near(gx, np.einsum("npr,ncp->ncr", flat, gy).reshape(x.shape), terms=64)
        slopes_ = slope.reshape(2, 7, len(sizes), -1)
        near(gp, np.einsum("npar,ncr,ncp->npa", slopes_, rows, gy), terms=256)
