"""Sparse maps along an axis, and positions of maxima, on both shapes of target."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.device import device
from clnet.kernels.pool.axis_map import axis_map
from clnet.kernels.pool.window_max import Window3, window_max
from clnet.ops.axis_map import Table
from tests.kernels.launching import both_shapes, offset, on_device, poisoned, run

RNG = np.random.default_rng(5)


def dense(table: Table) -> np.ndarray:
    """The map as a matrix."""
    matrix = np.zeros((table.n, table.rows))
    for i in range(table.n):
        for t in range(table.starts[i], table.starts[i + 1]):
            matrix[i, table.index[t]] += 1 if table.weight is None else table.weight[t]
    return matrix


def random_table(rows: int, n: int, terms: int, *, weighted: bool, uniform: bool) -> Table:
    outside = 0 if uniform else 1
    index = RNG.integers(-outside, rows + outside, (n, terms))
    return Table.of(rows, index, RNG.standard_normal(index.shape) if weighted else None)


@both_shapes
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("outer", "rows", "n", "inner", "terms"),
    [(1, 1, 1, 1, 1), (3, 7, 11, 5, 3), (9, 300, 63, 1, 4), (1, 5, 40, 1023, 2), (2, 3, 0, 4, 1)],
)
def test_map_is_the_matrix(outer, rows, n, inner, terms, weighted, uniform, shaped):
    table = random_table(rows, n, terms, weighted=weighted, uniform=uniform)
    assert table.terms == terms or n == 0 or not uniform
    x = RNG.standard_normal((outer, rows, inner)).astype(np.float32)
    for turned, source in ((False, x), (True, RNG.standard_normal((outer, n, inner)))):
        used = table.transposed if turned else table
        y = poisoned((outer, used.n, inner))
        weight = None if used.weight is None else on_device(used.weight.astype(np.float32))
        arrays = (on_device(used.starts), on_device(used.index), weight)
        host = source.astype(np.float32)
        run(axis_map(shaped(device()), y, offset(host), *arrays, terms=used.terms))
        expected = np.einsum("ir,orc->oic", dense(used), host.astype(np.float64))
        np.testing.assert_allclose(y.numpy(), expected, atol=2e-5)
    np.testing.assert_array_equal(dense(table.transposed), dense(table).T)


def test_outputs_of_different_numbers_of_terms_take_vectors():
    """A loop around one of unknown length is not made wide: the taps of `conv3d` were so."""
    table = random_table(5, 6, 2, weighted=True, uniform=False)
    x, y = on_device(np.ones((4, 5, 32), np.float32)), poisoned((4, 6, 32))
    arrays = (on_device(a) for a in (table.starts, table.index, table.weight.astype(np.float32)))
    (launch,) = axis_map(device().target, y, x, *arrays, terms=0)
    if launch.kernel.name == "axis_map_rows":  # of CPUs
        assert "float16 sum" in launch.kernel.text()


def reference(x: np.ndarray, ranges: list[list[range]]) -> np.ndarray:
    """Of each window, given by ranges along the axes, the position of the first largest element."""
    sizes = tuple(len(r) for r in ranges)
    y = np.empty((len(x), *sizes), np.int64)
    for n, *at in np.ndindex(y.shape):
        taken = [ranges[axis][i] for axis, i in enumerate(at)]
        places = [(d, h, w) for d in taken[0] for h in taken[1] for w in taken[2]]
        best = max(places, key=lambda p, image=x[n]: image[p])
        y[(n, *at)] = np.ravel_multi_index(best, x.shape[1:])
    return y


@both_shapes
@pytest.mark.parametrize(
    "window",
    [
        Window3((1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1)),
        Window3((3, 2, 3), (2, 1, 2), (1, 0, 1), (1, 2, 1)),
        Window3((2, 3, 2), (1, 2, 3), (1, 2, 1), (2, 2, 3)),
    ],
    ids=str,
)
def test_positions_of_window_maxima(window, shaped):
    x = RNG.integers(0, 5, (2, 5, 6, 7)).astype(np.float32)  # with ties
    ranges: list[list[range]] = []
    for size, k, s, p, g in zip(x.shape[1:], *window, strict=True):
        count = (size + 2 * p - g * (k - 1) - 1) // s + 1
        starts = [i * s - p for i in range(count)]
        taps = [[a + j * g for j in range(k) if 0 <= a + j * g < size] for a in starts]
        ranges.append([range(t[0], t[-1] + 1, g) for t in taps])
    expected = reference(x, ranges)
    index = poisoned(expected.shape, np.int64)
    run(window_max(shaped(device()), index, offset(x), window))
    np.testing.assert_array_equal(index.numpy(), expected)


@both_shapes
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 3, 4), (5, 6, 7), (7, 2, 9)], ids=str)
def test_positions_of_part_maxima(size, shaped):
    x = RNG.integers(0, 5, (2, 5, 6, 7)).astype(np.float32)
    ranges = [
        [range(i * n // o, -(-(i + 1) * n // o)) for i in range(o)]
        for n, o in zip(x.shape[1:], size, strict=True)
    ]
    index = poisoned((2, *size), np.int64)
    run(window_max(shaped(device()), index, offset(x), None))
    np.testing.assert_array_equal(index.numpy(), reference(x, ranges))


@both_shapes
def test_nothing_launches_nothing(shaped):
    empty = poisoned((0, 1, 1, 1), np.int64)
    assert window_max(shaped(device()), empty, poisoned((0, 2, 2, 2)), None) == []
