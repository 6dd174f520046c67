"""What goes along one axis: sparse linear maps, running sums and products; distances of rows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from clnet.device import Target
from clnet.kernels import streaming as streaming_module
from clnet.kernels.pool.axis_map import axis_map
from clnet.kernels.reduce import scan_lines as lines_module
from clnet.kernels.reduce.distances import differences, distances
from clnet.kernels.reduce.running_extreme import running_extreme
from clnet.kernels.reduce.running_logsum import running_logsum, running_logsum_gradient
from clnet.kernels.reduce.running_product_slope import running_product_slope
from clnet.kernels.reduce.scan import Scan, scan

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

map_module = import_module("clnet.kernels.pool.axis_map")
scan_module = import_module("clnet.kernels.reduce.scan")
logsum_module = import_module("clnet.kernels.reduce.running_logsum")
extreme_module = import_module("clnet.kernels.reduce.running_extreme")
slope_module = import_module("clnet.kernels.reduce.running_product_slope")
distances_module = import_module("clnet.kernels.reduce.distances")

MODULES = (
    map_module,
    scan_module,
    lines_module,
    extreme_module,
    logsum_module,
    slope_module,
    distances_module,
)


@case()
def maps(target: Target) -> None:
    for dtype, weighted in product((*REALS, np.float16), (False, True)):
        compute = np.float32 if dtype == np.float16 else dtype
        for outer, rows, n, inner in ((1, 1, 1, 1), (2, 5, 7, 3), (2, 3, 4, 19), (3, 40, 11, 1)):
            terms = RNG.integers(0, 4, n)  # some outputs have none
            terms[-1] = 2
            starts = np.concatenate([[0], np.cumsum(terms)]).astype(np.int32)
            index = RNG.integers(0, rows, starts[-1]).astype(np.int32)
            index[-1] = rows - 1
            weight = normal(len(index), dtype=compute)
            matrix = np.zeros((n, rows))
            where = (np.repeat(np.arange(n), terms), index)
            np.add.at(matrix, where, weight.astype(np.float64) if weighted else 1.0)

            x, y = normal(outer, rows, inner, dtype=dtype), output((outer, n, inner), dtype)
            weight_ = given(weight, before=3) if weighted else None
            tables = (given(starts, before=1), given(index, before=2), weight_)
            run(axis_map(target, y, given(x, before=1), *tables))
            near(y, np.einsum("ir,orc->oic", matrix, x.astype(np.float64)))


def check_scan(
    target: Target, shape: tuple[int, int, int], dtype: Any, kind: Scan, *, reverse: bool
) -> None:
    x = normal(*shape, dtype=dtype)
    if kind is Scan.PROD:
        x = RNG.choice([-1, 1], shape).astype(dtype)
        x[:, :: max(1, shape[1] // 5)] *= 2
    flipped = np.flip(x, 1) if reverse else x
    cumulate = np.cumsum if kind is Scan.SUM else np.cumprod
    expected = cumulate(flipped, 1, dtype=np.float64)
    y = output(shape, dtype)
    run(scan(target, y, given(x, before=1), dim=1, kind=kind, reverse=reverse))
    near(y, np.flip(expected, 1) if reverse else expected, terms=256)


@case()
def scans(target: Target) -> None:
    """Parts longer than a group, and so short that the totals are cut up again."""
    small = replace(target, traits=replace(target.traits, max_group_size=16))
    for part, dtype, kind, reverse in product((25, 4), REALS, Scan, (False, True)):
        # Every kind has a text of its own; where it reads and writes is the same for all of them.
        every = dtype == np.float32 and kind is Scan.SUM
        sizes = ((2, 38, 3), (2, 20, 35), (1, 1, 2)) if every else ((1, 34, 2),)
        with constants(scan_module, _PART=part):
            for shape in (*sizes, (1, 70, 1)):
                check_scan(small, shape, dtype, kind, reverse=reverse)
    check_scan(small, (2, 70, 1), np.int32, Scan.PROD, reverse=False)
    single = replace(small, traits=replace(small.traits, float64=False))
    for kind, inner in product(Scan, (1, 3, 35)):
        with constants(scan_module, _PART=25):
            check_scan(single, (2, 60, inner), np.float32, kind, reverse=False)


@case("cpu")
def scans_past_the_caches(target: Target) -> None:
    line = 4 * target.traits.simd_width
    with constants(streaming_module, STREAM_BYTES=0, LINE_BYTES=line):
        for shape, part, reverse in product(
            ((5, 64, 1), (1, 272, 1), (1, 304, 1)), (32, 288), (False, True)
        ):
            with constants(scan_module, _PART=part):
                check_scan(target, shape, np.float32, Scan.SUM, reverse=reverse)
        check_scan(target, (3, 32, 1), np.float32, Scan.PROD, reverse=True)


@case()
def running_extremes(target: Target) -> None:
    few = replace(target, traits=replace(target.traits, max_group_size=16))
    for dtype in (*REALS, np.int32):
        for shape in ((2, 5, 3), (2, 40, 1)):
            x = RNG.integers(-4, 4, shape).astype(dtype)
            if dtype in REALS:
                x[0, 3] = np.nan
            for largest in (True, False):
                values, y = output(shape, dtype), output(shape, np.int64)
                given_ = given(x, before=2)
                run([running_extreme(few, values, y, given_, dim=1, largest=largest)])
                best, place = x[:, 0].copy(), np.zeros(x[:, 0].shape, int)
                for i in range(shape[1]):
                    value = x[:, i]
                    closer = value >= best if largest else value <= best
                    taken = np.isnan(value) | (~np.isnan(best) & closer)
                    best, place = np.where(taken, value, best), np.where(taken, i, place)
                    assert np.array_equal(y.numpy()[:, i], place)
                    np.testing.assert_array_equal(values.numpy()[:, i], best)


@case()
def slopes_of_running_products(target: Target) -> None:
    few = replace(target, traits=replace(target.traits, max_group_size=16))
    for dtype, shape in product(REALS, ((2, 5, 3), (2, 40, 1))):
        x, gy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        x[0, 3] = 0
        y, gx = np.cumprod(x, 1), output(shape, dtype)
        run([running_product_slope(few, gx, given(gy), given(x, before=2), given(y), dim=1)])
        expected = np.zeros(shape)
        for i in range(shape[1]):
            one = np.concatenate([x[:, :i], np.ones_like(x[:, :1]), x[:, i + 1 :]], 1)
            expected[:, i] = (gy * np.cumprod(one, 1, np.float64))[:, i:].sum(1)
        near(gx, expected, terms=256)


@case()
def running_sums_of_exponentials(target: Target) -> None:
    few = replace(target, traits=replace(target.traits, max_group_size=16))
    for dtype, shape in product(REALS, ((2, 5, 3), (2, 40, 1))):
        x, gy = 4 * normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        wide = np.logaddexp.accumulate(x.astype(np.float64), 1)
        y, gx = output(shape, dtype), output(shape, dtype)
        x_, y_ = given(x, before=2), given(wide.astype(dtype), before=1)
        run([running_logsum(few, y, x_, dim=1)])
        near(y, wide, terms=160)
        run([running_logsum_gradient(few, gx, given(gy), x_, y_, dim=1)])
        reached = np.tril(np.ones((shape[1],) * 2))[None, :, :, None]
        terms = np.exp(np.minimum(x[:, None] - wide[:, :, None], 0)) * gy[:, :, None] * reached
        near(gx, terms.sum(1), terms=640)


@case()
def distances_of_rows(target: Target) -> None:
    for dtype, absolute, (m, n, d) in product(REALS, (False, True), ((9, 19, 5), (1, 3, 1))):
        a, b = normal(2, m, d, dtype=dtype), normal(2, n, d, dtype=dtype)
        apart = a[:, :, None] - b[:, None].astype(np.float64)
        w = normal(2, m, n, dtype=dtype)
        y, s = output((2, m, n), dtype), output((2, d, n), dtype)
        turned = given(np.ascontiguousarray(b.swapaxes(1, 2)), before=2)
        run(distances(target, y, given(a, before=1), turned, absolute=absolute))
        near(y, abs(apart).sum(-1) if absolute else (apart**2).sum(-1) ** 0.5, terms=8)
        run(differences(target, s, turned, given(a), given(w, before=3), absolute=absolute))
        each = np.sign(-apart) if absolute else -apart
        near(s, np.einsum("bmn,bmnd->bdn", w, each), terms=4 * m)
