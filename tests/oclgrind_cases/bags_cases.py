"""Rows and elements that an index says to add up, or to multiply, without a sort."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise, product

import numpy as np

from clnet.device import Check, Target
from clnet.kernels.index.bag_sums import bag_sums
from clnet.kernels.index.gather import (
    gather_rows_gradient,
    meet_along,
    multiply_along_gradient,
)

from .harness import RNG, case, given, near, normal, output, run

MODULES = tuple(
    import_module(f"clnet.kernels.index.{name}") for name in ("bag_sums", "scatter_product_slope")
)

INDEX = Check("index", "index", "it lies in [0, size)", "size")


@case("cpu")
def rows_of_one_element(target: Target) -> None:
    """Some batches at once, and fewer at the end."""
    for dtype, kind in ((np.float32, np.int64), (np.float64, np.int32)):
        index = RNG.integers(0, 6, 40).astype(kind)
        index[7] = 6  # out of range
        gy = (4 * normal(11, 40, 1)).astype(dtype)
        gx, sums = output((11, 6, 1), dtype), np.zeros((11, 7, 1))
        run(gather_rows_gradient(target, gx, given(gy, before=3), given(index, before=1), skip=2))
        np.add.at(sums, (slice(None), index), gy.astype(np.float64))
        sums[:, 2] = 0
        near(gx, sums[:, :6], terms=40)


@case("cpu")
def sums_of_bags(target: Target) -> None:
    for dtype, kind, width in ((np.float32, np.int64, 45), (np.float64, np.int32, 3)):
        x, index = normal(7, width, dtype=dtype), RNG.integers(0, 7, 30).astype(kind)
        index[3], index[4] = 7, -1  # out of range
        table, places = given(x, before=3), given(index, before=1)
        equal, some = np.arange(0, 30, 6), np.array([1, 6, 6, 40, 20])
        for mean, (starts, skip) in product((True, False), ((equal, -1), (some, 2))):
            y, ragged = output((5, width), dtype), starts is some
            bounds = np.minimum([*starts, 30], 30)
            bags = [index[a:b] for a, b in pairwise(bounds)]
            expected = np.zeros((5, width))
            for row, bag in zip(expected, bags, strict=True):
                kept = bag[bag != skip]
                outside = ((kept < 0) | (kept >= 7)).any()
                row[:] = np.nan if outside else x[kept % 7].sum(0, dtype=np.float64)
                row[:] /= max(len(kept), 1) if mean else 1
            given_starts = given(some, before=1) if ragged else None
            how = {"each": 0 if ragged else 6, "skip": skip, "mean": mean}
            run(bag_sums(target, y, table, places, given_starts, **how))
            near(y, expected, terms=16)
        y = output((5, width), dtype)
        run(bag_sums(target, y, table, given(index % 7), None, each=6, check=INDEX))
        near(y, x[index % 7].reshape(5, 6, width).sum(1, dtype=np.float64), terms=16)


@case("cpu")
def rows_that_meet(target: Target) -> None:
    """Vectors and what is left of a row, and lines of single elements."""
    for (outer, n, inner), dtype in (((2, 7, 37), np.float32), ((9, 7, 1), np.float64)):
        index = RNG.integers(0, 5, n)
        index[2] = 6  # out of range
        x, start = normal(outer, n, inner, dtype=dtype), normal(outer, 6, inner, dtype=dtype)
        joins = {"times": np.multiply, "most": np.maximum, "least": np.minimum}
        for how, join in joins.items():
            expected, y = start.astype(np.float64), given(start)
            for i in np.flatnonzero(index < 6):
                expected[:, index[i]] = join(expected[:, index[i]], x[:, i])
            run(meet_along(target, y, given(x, before=3), given(index), how, dim=1))
            near(y, expected, terms=64)


@case()
def products_of_lines(target: Target) -> None:
    for shape, dim, dtype in ((2, 7, 9), 1, np.float32), ((3, 8), 1, np.float64):
        index = RNG.integers(0, 5, shape).astype(np.int32 if dim == 1 else np.int64)
        index[-1, 2] = 6  # out of range
        x, sizes = normal(*shape, dtype=dtype), (*shape[:dim], 6, *shape[dim + 1 :])
        start, g = normal(*sizes, dtype=dtype), normal(*sizes, dtype=dtype)
        x[0, 3] = 0
        y, gx = start.astype(np.float64), np.zeros(shape)
        for i in np.ndindex(*shape):
            if index[i] < 6:
                y[(*i[:dim], index[i], *i[dim + 1 :])] *= x[i]
        after, found = g.astype(np.float64), start.astype(np.float64)
        inside = [i for i in np.ndindex(*shape) if index[i] < 6]
        for values, order in ((found, inside), (after, inside[::-1])):
            for i in order:
                place = (*i[:dim], index[i], *i[dim + 1 :])
                gx[i] = values[place] * (1 if values is found else gx[i])
                values[place] *= x[i]
        product, x_, index_ = given(start), given(x, before=3), given(index, before=1)
        run(meet_along(target, product, x_, index_, "times", dim=dim))
        near(product, y, terms=64)
        slope, gstart = output(shape, dtype), given(g)
        run(multiply_along_gradient(target, slope, given(start), gstart, x_, index_, dim=dim))
        near(slope, gx, terms=64)
        near(gstart, after, terms=64)
