"""Gathers by rows and along an axis, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.kernels import streaming
from clnet.kernels.index import scatter_rows as rows_module
from clnet.kernels.index.gather import (
    extremes_along,
    fold_indices,
    gather_along,
    gather_along_gradient,
    gather_rows,
    gather_rows_gradient,
    meet_along,
    put_along,
    put_rows,
)
from tests.kernels.launching import both_shapes, cpu_shaped, offset, on_device, poisoned, run

RNG = np.random.default_rng(4)
ROWS = pytest.mark.parametrize(
    ("outer", "rows", "n", "inner"),
    [
        (1, 11, 40, 64),
        (1, 300, 7, 1),
        (3, 40, 9, 1),
        (3, 5, 9, 33),
        (2, 4, 1000, 2),
        (2, 4, 6, 17),
        (1, 1, 1, 1),
    ],
)


def axis_first(array: Array) -> Array:
    """``(a, b, c)`` as ``(b, a, c)``."""
    (a, b, c), (sa, sb, sc) = array.shape, array.strides
    return array.view((b, a, c), (sb, sa, sc))


@both_shapes
@ROWS
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_gather_rows_is_numpys_take(outer, rows, n, inner, index_dtype, shaped):
    x = RNG.normal(size=(outer, rows, inner)).astype(np.float32)
    index = RNG.integers(0, rows, n).astype(index_dtype)
    y = poisoned((outer, n, inner))
    run(gather_rows(shaped(device()), y, offset(x), offset(index)))
    np.testing.assert_array_equal(y.numpy(), x[:, index])


def test_an_index_of_the_last_axis_is_read_along_lines():
    x, index = on_device(np.ones((3, 40, 1), np.float32)), on_device(np.arange(9))
    target = cpu_shaped(device())
    (launch,) = gather_rows(target, poisoned((3, 9, 1)), x, index)
    assert launch.kernel.name == "gather_runs"
    (launch,) = gather_rows(target, poisoned((3, 4, 1)), x, on_device(np.arange(4)))
    assert launch.kernel.name == "gather_row_elements"


@both_shapes
def test_gather_rows_reads_strided_rows(shaped):
    x = RNG.normal(size=(6, 4, 20)).astype(np.float32)
    index = np.array([3, 0, 5], np.int64)
    y = poisoned((4, 3, 20))
    run(gather_rows(shaped(device()), y, axis_first(on_device(x)), on_device(index)))
    np.testing.assert_array_equal(y.numpy(), x.transpose(1, 0, 2)[:, index])


@both_shapes
@pytest.mark.parametrize("inner", [1, 16])
def test_an_index_out_of_range_reads_as_nan(inner, shaped):
    x = RNG.normal(size=(1, 5, inner)).astype(np.float32)
    index = np.array([0, 5, -1, 4, 2**40, -(2**31) - 6], np.int64)
    y = poisoned((1, 6, inner))
    run(gather_rows(shaped(device()), y, on_device(x), on_device(index)))
    expected = np.full((1, 6, inner), np.nan, np.float32)
    expected[:, 0], expected[:, 3] = x[:, 0], x[:, 4]
    np.testing.assert_array_equal(y.numpy(), expected)
    run(gather_rows(shaped(device()), y, on_device(x), on_device(index), wrap=True))
    expected[:, 2] = x[:, -1]
    np.testing.assert_array_equal(y.numpy(), expected)


def test_an_integer_out_of_range_reads_as_0():
    y = poisoned((1, 2, 1), np.int64)
    x, index = np.full((1, 3, 1), 9), np.array([3, 1])
    run(gather_rows(device().target, y, on_device(x), on_device(index)))
    np.testing.assert_array_equal(y.numpy().ravel(), [0, 9])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("largest", [True, False])
def test_extremes_along_an_axis(dtype, largest):
    """Places that no index points to, or that get a NaN; an index out of range takes no part."""
    shape, at = (6, 7, 9), (6, 33, 5)
    x = (9 * RNG.random(at)).astype(dtype)
    index = RNG.integers(0, 6, at)
    index[2, 4, 1] = 7
    if np.dtype(dtype).kind == "f":
        x[0, 3, 2], x[1, 5, 0] = np.nan, -np.inf
        first = -np.inf if largest else np.inf
    else:
        bounds = np.iinfo(dtype)
        first = bounds.min if largest else bounds.max
    expected = np.full(shape, first, dtype)
    better = np.maximum if largest else np.minimum
    for a, b, c in np.ndindex(at):
        if index[a, b, c] < 7:
            place = (a, index[a, b, c], c)
            expected[place] = better(expected[place], x[a, b, c])
    y = poisoned(shape, dtype)
    where_, given = on_device(index), offset(x)
    run(extremes_along(device().target, y, given, where_, dim=1, largest=largest))
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("at", [(2, 40, 17), (1, 300, 64), (5, 33, 8), (2, 0, 9)], ids=str)
def test_lines_side_by_side_are_walked_through_together(at, monkeypatch):
    """The bits, and what is out of range, are those of one line after another."""
    if device().traits.dedicated_local_memory:
        pytest.skip("a line after another is what GPUs take")
    shape, target = (at[0], 11, at[2] + 3), device().target
    x, before = RNG.normal(size=at).astype(np.float32), RNG.normal(size=shape).astype(np.float32)
    if at[1]:
        x[0, 3, 2], x[-1, 5, 0] = np.nan, -np.inf
    index = on_device(RNG.integers(-1, 12, at))
    found = []
    for least in (1, 2**30):
        monkeypatch.setattr(rows_module, "_LEAST_ROW", least)
        kept, sums, most = on_device(before), poisoned(shape), poisoned(shape)
        launches = [
            *put_along(target, kept, offset(x), index, dim=1),
            *gather_along_gradient(target, sums, offset(x), index, dim=1),
            *extremes_along(target, most, offset(x), index, dim=1, largest=True),
        ]
        names = {launch.kernel.name for launch in launches}
        assert ("scatter_rows" in names) == (least == 1 and at[1] > 0)
        run(launches)
        found.append([y.numpy() for y in (kept, sums, most)])
    for rows, lines in zip(*found, strict=True):
        np.testing.assert_array_equal(rows.view(np.int32), lines.view(np.int32))


@ROWS
def test_rows_that_share_an_index_meet_as_elements_do(outer, rows, n, inner):
    """The bits are those of an index of as many elements; NaN stay."""
    if device().traits.dedicated_local_memory:
        pytest.skip("an index of all elements is what GPUs take")
    index = RNG.integers(-1, rows + 1, n)
    x = RNG.normal(size=(outer, n, inner)).astype(np.float32)
    x[0, 0, 0], x[-1, -1, -1] = np.inf, np.nan
    start = RNG.normal(size=(outer, rows, inner)).astype(np.float32)
    start[-1, -1, 0] = np.nan
    each = on_device(np.broadcast_to(index[:, None], x.shape).copy())
    for how in ("times", "most", "least"):
        found = []
        for places in (on_device(index), each):
            y = on_device(start)
            run(meet_along(device().target, y, offset(x), places, how, dim=1))
            found.append(y.numpy())
        np.testing.assert_array_equal(*found)


@ROWS
def test_sums_without_a_sort_have_the_bits_of_those_behind_one(outer, rows, n, inner, monkeypatch):
    if device().traits.dedicated_local_memory:
        pytest.skip("a sort is what GPUs take")
    index = on_device(RNG.integers(-1, rows + 1, n))
    gy = RNG.normal(size=(outer, n, inner)).astype(np.float32)
    gy[0, 0, 0], gy[-1, -1, -1] = np.inf, np.nan
    found = []
    for limit in (2**60, 2**60, 0):
        monkeypatch.setattr(streaming, "STREAM_BYTES", limit)
        gx = poisoned((outer, rows, inner))
        launches = gather_rows_gradient(device().target, gx, on_device(gy), index, skip=rows // 2)
        assert (launches[0].kernel.name == "add_rows") == (limit > 0)
        run(launches)
        found.append(gx.numpy())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@both_shapes
@ROWS
def test_gradient_of_gather_rows_adds_up_equal_indices(outer, rows, n, inner, shaped):
    index = RNG.integers(-1, rows + 1, n)
    gy = RNG.normal(size=(outer, n, inner)).astype(np.float32)
    gx = poisoned((outer, rows, inner))
    run(gather_rows_gradient(shaped(device()), gx, offset(gy), on_device(index)))
    expected = np.zeros((outer, rows, inner))
    valid = (index >= 0) & (index < rows)
    np.add.at(expected, (slice(None), index[valid]), gy[:, valid].astype(np.float64))
    tolerance = 4 * np.finfo(np.float32).eps * n**0.5
    np.testing.assert_allclose(gx.numpy(), expected, rtol=tolerance, atol=4 * tolerance)


@both_shapes
@pytest.mark.parametrize(
    ("rows", "inner", "skewed"), [(5, 3, 1.0), (1, 1, 0.0), (6, 40, 3.0), (9, 8, 0.0), (2, 5, 0.0)]
)
def test_sums_of_long_runs_wherever_they_end(rows, inner, skewed, shaped):
    """Runs of nothing, of a part of a piece, of whole pieces, and of most of all."""
    n = 2051
    index = (rows * RNG.random(n) ** (1 + skewed)).astype(np.int64)
    index[index == 1] = 0
    index[:1024] = np.where(skewed, index[:1024], rows - 1)
    gy = RNG.normal(size=(2, n, inner)).astype(np.float32)
    gx = poisoned((2, rows, inner))
    launches = gather_rows_gradient(shaped(device()), gx, on_device(gy), on_device(index))
    if shaped(device()).traits.dedicated_local_memory:
        assert launches[-1].kernel.name == "segment_sum_joined"
    run(launches)
    expected = np.zeros((2, rows, inner))
    np.add.at(expected, (slice(None), index), gy.astype(np.float64))
    np.testing.assert_allclose(gx.numpy(), expected, rtol=1e-4, atol=2e-4)


@both_shapes
def test_gradient_of_gather_rows_wraps_and_skips(shaped):
    index = np.array([-1, 1, 3, 0, 1, -3])
    gy = RNG.normal(size=(1, 6, 8)).astype(np.float32)
    gx = poisoned((1, 4, 8))
    run(
        gather_rows_gradient(
            shaped(device()), gx, on_device(gy), on_device(index), wrap=True, skip=3
        )
    )
    expected = np.zeros((1, 4, 8), np.float32)
    expected[0, 0] = gy[0, 3]
    expected[0, 1] = gy[0, 1] + gy[0, 4] + gy[0, 5]
    np.testing.assert_allclose(gx.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_gradient_without_indices_is_0():
    gx = poisoned((2, 3, 4))
    empty = on_device(np.zeros((2, 0, 4), np.float32))
    run(gather_rows_gradient(device().target, gx, empty, on_device(np.zeros(0, np.int64))))
    assert not gx.numpy().any()


@both_shapes
@pytest.mark.parametrize("inner", [7, 45])
def test_put_rows_keeps_the_last_of_equal_indices(shaped, inner):
    index = np.array([2, -1, 2, 9, 0], np.int64)
    x = RNG.normal(size=(2, 5, inner)).astype(np.float32)
    before = RNG.normal(size=(2, 4, inner)).astype(np.float32)
    y = on_device(before)
    run(put_rows(shaped(device()), y, on_device(x), on_device(index), wrap=True))
    expected = before.copy()
    expected[:, 2], expected[:, 3], expected[:, 0] = x[:, 2], x[:, 1], x[:, 4]
    np.testing.assert_array_equal(y.numpy(), expected)


@both_shapes
@pytest.mark.parametrize(
    ("shape", "index_shape", "dim"),
    [
        ((7,), (20,), 0),
        ((5, 6), (5, 9), 1),
        ((5, 6), (9, 4), 0),
        ((3, 4, 5), (2, 8, 5), 1),
        ((3, 4, 5), (3, 4, 1), 2),
        ((3, 4, 5), (3, 0, 5), 1),
        ((9,), (100,), 0),  # one long line: sorted
        ((3, 6), (100, 5), 0),
    ],
    ids=str,
)
def test_gather_along_and_its_gradient(shape, index_shape, dim, shaped):
    x = RNG.normal(size=shape).astype(np.float32)
    index = RNG.integers(0, shape[dim], index_shape)
    grid = np.ix_(*map(np.arange, index_shape))
    where = (*grid[:dim], index, *grid[dim + 1 :])
    y = poisoned(index_shape)
    run(gather_along(shaped(device()), y, offset(x), offset(index), dim=dim))
    np.testing.assert_array_equal(y.numpy(), x[where])

    gy, gx = RNG.normal(size=index_shape).astype(np.float32), poisoned(shape)
    run(gather_along_gradient(shaped(device()), gx, on_device(gy), on_device(index), dim=dim))
    expected = np.zeros(shape)
    np.add.at(expected, where, gy.astype(np.float64))
    np.testing.assert_allclose(gx.numpy(), expected, rtol=1e-5, atol=1e-5)


@both_shapes
@pytest.mark.parametrize(
    ("shape", "picked", "dim"),
    [((40, 7), (40, 50), 1), ((3, 90), (2, 70), 1), ((90,), (500,), 0), ((6, 4, 5), (3, 4, 2), 0)],
)
def test_put_along_keeps_the_last_one(shape, picked, dim, shaped):
    before, x = (RNG.normal(size=s).astype(np.float32) for s in (shape, picked))
    index = RNG.integers(0, shape[dim] + 1, picked)  # the size itself is left out
    y = on_device(before)
    run(put_along(shaped(device()), y, on_device(x), on_device(index), dim=dim))
    expected = before.copy()
    for place in np.ndindex(*picked):
        if index[place] < shape[dim]:
            expected[(*place[:dim], index[place], *place[dim + 1 :])] = x[place]
    np.testing.assert_array_equal(y.numpy(), expected)


@both_shapes
def test_gather_along_takes_any_strides(shaped):
    x, index = RNG.normal(size=(4, 6)).astype(np.float32), RNG.integers(0, 6, (5, 4))
    y = poisoned((4, 5))
    transposed = on_device(index).view((4, 5), (1, 4))
    run(gather_along(shaped(device()), y, on_device(x), transposed, dim=1))
    np.testing.assert_array_equal(y.numpy(), np.take_along_axis(x, index.T, 1))


@both_shapes
def test_fold_indices_is_the_row_major_position(shaped):
    sizes = (4, 5, 6)
    indices = [RNG.integers(-size, size, 300) for size in sizes]
    indices[1][7], indices[0][8] = 5, -5
    y = poisoned((300,), np.int32)
    run(fold_indices(shaped(device()), y, [on_device(i) for i in indices], sizes=sizes))
    i, j, k = (index % size for index, size in zip(indices, sizes, strict=True))
    expected = (i * 5 + j) * 6 + k
    expected[[7, 8]] = 4 * 5 * 6
    np.testing.assert_array_equal(y.numpy(), expected)
