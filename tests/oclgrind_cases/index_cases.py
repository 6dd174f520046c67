"""Gathers and their gradients, the sort and the sums over runs of equal keys."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product

import numpy as np
import pytest

from clnet.device import Check, Scratch, Target, device
from clnet.kernels import streaming as streaming_module
from clnet.kernels.index import add_rows, gather, scatter_rows, segment, unordered
from clnet.kernels.index import order as order_module
from clnet.kernels.index.count import search_rows, tally
from clnet.kernels.index.gather import (
    extremes_along,
    fold_indices,
    gather_along,
    gather_along_gradient,
    gather_rows,
    gather_rows_gradient,
    put_along,
    put_rows,
)
from clnet.kernels.index.order import sort_lines
from clnet.kernels.index.sort import sort
from clnet.kernels.index.top import top
from clnet.kernels.index.true_places import true_places, unravel
from clnet.kernels.reduce.check import Bad
from clnet.kernels.reduce.check import check as check_elements

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

check_module = import_module("clnet.kernels.reduce.check")
count_module = import_module("clnet.kernels.index.count")
top_module = import_module("clnet.kernels.index.top")
true_places_module = import_module("clnet.kernels.index.true_places")
wide_module = import_module("clnet.kernels.index.gather_wide")
runs_module = import_module("clnet.kernels.index.gather_runs")
sort_module = import_module("clnet.kernels.index.sort")

MODULES = (
    add_rows,
    check_module,
    count_module,
    top_module,
    true_places_module,
    gather,
    runs_module,
    wide_module,
    order_module,
    scatter_rows,
    segment,
    sort_module,
    unordered,
)


@case("cpu")
def sums_of_rows_past_the_caches(target: Target) -> None:
    lanes = target.traits.simd_width
    index = RNG.integers(0, 7, 9).astype(np.int32)
    for inner, dtype in product((2 * lanes, 2 * lanes + 3, 3), REALS):
        gy, gx = normal(2, 9, inner, dtype=dtype), output((2, 7, inner), dtype)
        with constants(streaming_module, STREAM_BYTES=0, LINE_BYTES=4 * lanes):
            run(gather_rows_gradient(target, gx, given(gy), given(index), wrap=False))
        sums = np.zeros(gx.shape)
        np.add.at(sums, (slice(None), index), gy.astype(np.float64))
        near(gx, sums, terms=16)


@case("cpu")
def rows_without_a_sort(target: Target) -> None:
    for count, inner in ((35, 21), (64, 3), (3, 8)):
        for dtype, kind, wrap in ((np.float32, np.int64, True), (np.int32, np.int32, False)):
            index = RNG.integers(-count if wrap else 0, count, 50).astype(kind)
            gy = (4 * normal(2, 50, inner)).astype(dtype)
            gx = output((2, count, inner), dtype)
            index_ = given(index, before=1)
            run(gather_rows_gradient(target, gx, given(gy, before=3), index_, wrap=wrap, skip=2))
            sums = np.zeros(gx.shape)
            np.add.at(sums, (slice(None), index), gy.astype(np.float64))
            sums[:, 2] = 0
            near(gx, sums, terms=50)


@case()
def extremes(target: Target) -> None:
    index = RNG.integers(0, 5, (3, 20))
    for largest, better in ((True, np.maximum), (False, np.minimum)):
        for dtype in (*REALS, np.int32):
            x, y = (5 * normal(3, 20)).astype(dtype), output((3, 5), dtype)
            whole = np.iinfo(np.int32)
            ends = (whole.min, whole.max) if dtype is np.int32 else (-np.inf, np.inf)
            expected = np.full((3, 5), ends[0] if largest else ends[1])
            for i in range(3):
                better.at(expected[i], index[i], x[i])
            run(extremes_along(target, y, given(x), given(index), dim=1, largest=largest))
            near(y, expected)


@case("cpu")
def elements_of_a_line(target: Target) -> None:
    """In parts of a line, of which the last is shorter."""
    for dtype, kind, wrap in ((np.float32, np.int64, True), (np.float64, np.int32, False)):
        index = RNG.integers(-7 if wrap else 0, 7, 70).astype(kind)
        index[33] = 7  # out of range
        x, y = normal(3, 7, 1, dtype=dtype), output((3, 70, 1), dtype)
        with constants(runs_module, _SHARE=16):
            run(gather_rows(target, y, given(x, before=3), given(index, before=1), wrap=wrap))
        expected = np.where(index < 7, x[:, index % 7, 0], np.nan)
        near(y, expected[..., None])


@case("gpu")
def rows_in_vectors(target: Target) -> None:
    """Rows of more vectors than a group has items, and several rows to a group; their steps."""
    small = replace(target, traits=replace(target.traits, max_group_size=9))
    for inner, room, dtype in ((36, 36, np.float32), (6, 8, np.float64), (4, 4, np.complex64)):
        index = RNG.integers(-11, 11, 13)
        index[5] = 11  # out of range
        x, y = (9 * normal(1, 11, room)).astype(dtype), output((1, 13, inner), dtype)
        stored = given(x, before=16)
        picked = stored.view((1, 11, inner), stored.strides)
        run(gather_rows(small, y, picked, given(index), wrap=True))
        expected = x[:, index % 11, :inner]
        expected[:, 5] = 0 if dtype is np.complex64 else np.nan
        near(y, expected)


@case("gpu")
def sums_of_whole_numbers(target: Target) -> None:
    index = RNG.integers(-1, 6, (2, 50, 3))
    x, y = RNG.integers(-9, 9, index.shape, np.int32), output((2, 5, 3), np.int32)
    run(gather_along_gradient(target, y, given(x, before=1), given(index), dim=1))
    expected = np.zeros(y.shape, np.int32)
    for i, j, k in np.ndindex(*index.shape):
        if 0 <= index[i, j, k] < 5:
            expected[i, index[i, j, k], k] += x[i, j, k]
    near(y, expected)


@case()
def rows(target: Target) -> None:
    for outer, count, n, inner in ((1, 11, 40, 37), (2, 5, 9, 3), (3, 4, 70, 1)):
        for dtype, index_dtype, wrap in (
            (np.float32, np.int64, True),
            (np.float64, np.int32, False),
        ):
            index = RNG.integers(-count if wrap else 0, count, n).astype(index_dtype)
            index[n // 2] = count  # out of range
            good = index < count
            index_ = given(index, before=1)
            x = normal(outer, count, inner, dtype=dtype)
            y = output((outer, n, inner), dtype)
            run(gather_rows(target, y, given(x, before=3), index_, wrap=wrap))
            expected = np.full(y.shape, np.nan)
            expected[:, good] = x[:, index[good]]
            near(y, expected)

            gy, gx = normal(outer, n, inner, dtype=dtype), output(x.shape, dtype)
            ends = given(gy, before=1)
            with constants(segment, _LONG_RUN=12, _PIECE=16):
                run(gather_rows_gradient(target, gx, ends, index_, wrap=wrap, skip=2))
            sums = np.zeros(x.shape)
            np.add.at(sums, (slice(None), index[good]), gy[:, good].astype(np.float64))
            sums[:, 2] = 0
            near(gx, sums, terms=16 * n)

            put = given(x)
            run(put_rows(target, put, given(gy), index_, wrap=wrap))
            expected = x.copy()
            for i in np.flatnonzero(good):
                expected[:, index[i]] = gy[:, i]
            near(put, expected)


@case()
def along_an_axis(target: Target) -> None:
    for dtype, index_dtype in ((np.float32, np.int64), (np.float64, np.int32)):
        for shape, index_shape, dim in (((5, 6), (5, 9), 1), ((3, 4, 5), (2, 37, 5), 1)):
            for short in (0, 64):
                index = RNG.integers(0, shape[dim], index_shape).astype(index_dtype)
                grid = np.ix_(*map(np.arange, index_shape))
                where = (*grid[:dim], index, *grid[dim + 1 :])
                x, y = normal(*shape, dtype=dtype), output(index_shape, dtype)
                index_ = given(index, before=1)
                run(gather_along(target, y, given(x), index_, dim=dim))
                near(y, x[where])
                gy, gx = normal(*index_shape, dtype=dtype), output(shape, dtype)
                few = replace(target, traits=replace(target.traits, compute_units=64))
                with constants(gather, _SHORT_LINE=short):
                    run(gather_along_gradient(few, gx, given(gy), index_, dim=dim))
                expected = np.zeros(shape)
                np.add.at(expected, where, gy.astype(np.float64))
                near(gx, expected, terms=16 * index.size)
                put, last = given(x), x.copy()
                with constants(gather, _SHORT_LINE=short):
                    run(put_along(few, put, given(gy), index_, dim=dim))
                for at in np.ndindex(*index_shape):
                    last[(*at[:dim], index[at], *at[dim + 1 :])] = gy[at]
                near(put, last)


@case("cpu")
def lines_side_by_side(target: Target) -> None:
    for shape, dtype in ((2, 30, 9), np.float32), ((1, 20, 37), np.float64):
        index = RNG.integers(0, 5, shape)
        index[-1, 7, 8] = 6  # out of range
        gy, gx = normal(*shape, dtype=dtype), output((shape[0], 6, shape[2]), dtype)
        most, kept = output(gx.shape, dtype), given(normal(*gx.shape, dtype=dtype))
        sums, largest, last = np.zeros(gx.shape), np.full(gx.shape, -np.inf), kept.numpy()
        for i, j, k in np.ndindex(*shape):
            if index[i, j, k] < 6:
                place = i, index[i, j, k], k
                sums[place] += gy[i, j, k]
                largest[place], last[place] = max(largest[place], gy[i, j, k]), gy[i, j, k]
        x, where = given(gy, before=3), given(index, before=1)
        run(gather_along_gradient(target, gx, x, where, dim=1))
        run(extremes_along(target, most, x, where, dim=1, largest=True))
        run(put_along(target, kept, x, where, dim=1))
        near(gx, sums, terms=64)
        near(most, largest)
        near(kept, last)


@case()
def folded_indices(target: Target) -> None:
    for dtype in (np.int32, np.int64):
        indices = [RNG.integers(-size, size, 70).astype(dtype) for size in (4, 5, 6)]
        y = output((70,), np.int32)
        run(fold_indices(target, y, [given(i) for i in indices], sizes=(4, 5, 6)))
        i, j, k = (index % size for index, size in zip(indices, (4, 5, 6), strict=True))
        near(y, (i * 5 + j) * 6 + k)


def check_sort(target: Target, n: int, limit: int) -> None:
    keys = RNG.integers(0, limit + 1, n).astype(np.int32)
    memory = Scratch(device())
    keys_, order_ = given(keys), given(np.arange(n, dtype=np.int32))
    done = sort(target, memory, keys_, order_, limit=limit)
    run(done.launches)
    expected = np.argsort(keys, kind="stable")
    near(done.keys, keys[expected])
    near(done.order, expected)


@case()
def sorts(target: Target) -> None:
    # Passes of an odd number and of an even one; what is sorted in local memory has two words.
    longest = (65, 2**31 - 1)
    several = ((1, 3), (300, 5), (129, 1000), longest)
    for held, problems in ((0, several), (8192, ((129, 5), (33, 70_000), longest))):
        # Groups have all values of a digit to add up, however few keys there are.
        with constants(
            sort_module, _CPU_LEAST_BLOCK=100, _GPU_PER_ITEM=2, _GPU_BITS=4, _MOST_NEAR=held
        ):
            for n, limit in problems:
                check_sort(target, n, limit)


@case()
def lines(target: Target) -> None:
    """Several blocks, of which the last is not full, and groups with more items than digits."""
    small = replace(target, traits=replace(target.traits, max_group_size=24, compute_units=3))
    for dtype in (np.float32, np.int64, np.uint8, np.float64):
        x = (3 * normal(2, 23)).astype(dtype)
        # A pass takes all values of a digit, however few keys there are: long keys have short ones.
        size = np.dtype(dtype).itemsize
        bits = 8 if size == 1 else 4
        # And many passes: of these one way is sorted by digits, both are by ranks.
        ways = [(dtype == np.int64, 0, 0)] if size == 8 else [(False, 0, 0), (True, 0, 0)]
        together = ((False, 0, 32), (True, 0, 32))
        for descending, ranked, held in (*ways, *together, (False, 100, 0), (True, 100, 0)):
            values, indices = output(x.shape, dtype), output(x.shape, np.int64)
            with (
                constants(order_module, _CPU_RANKED=ranked, _GPU_RANKED=ranked),
                constants(order_module, _MOST_NEAR=held, _ALONE=held),
                constants(sort_module, _CPU_BITS=bits, _CPU_LEAST_BLOCK=40),
                constants(sort_module, _GPU_BITS=4, _GPU_PER_ITEM=2, _MOST_NEAR=0),
            ):
                run(sort_lines(small, values, indices, given(x), descending=descending))
            backwards = 22 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
            expected = backwards if descending else np.argsort(x, axis=1, kind="stable")
            near(indices, expected)
            near(values, np.take_along_axis(x, expected, 1))


INDEX = Check("index", "index", "it lies in [0, size)", "size")


def reported(value: object, position: int) -> None:
    """Whether the device tells of this value at this place, once."""
    with pytest.raises(IndexError, match=f"index={value}, position={position}[,.]"):
        device().synchronize()
    device().synchronize()


@case()
def faults_reported(target: Target) -> None:
    target = replace(target, traits=replace(target.traits, max_group_size=24))
    for index_dtype, wrap in ((np.int32, True), (np.int64, False)):
        how = {"wrap": wrap, "check": INDEX}
        for inner in (3, 37):
            x, y = given(normal(2, 5, inner)), output((2, 4, inner))
            for at, bad in ((1, 5), (3, -6), (2, None)):
                index = np.arange(4).astype(index_dtype)
                index[at] = at if bad is None else bad
                checked = [
                    gather.gather_rows(target, y, x, given(index), **how),
                    gather.put_rows(target, x, y, given(index), **how),
                ]
                if inner == 3:  # gradients check indices before they look at elements
                    gx = output((2, 5, inner))
                    checked.append(gather_rows_gradient(target, gx, y, given(index), **how))
                for launches in checked:
                    run(launches)
                    if bad is None:
                        device().synchronize()
                    else:
                        reported(bad, at)
        for shape in ((3, 40), (40, 3)):
            index = RNG.integers(0, shape[0], shape).astype(index_dtype)
            index[1, 2] = shape[0]
            x, y = given(normal(*shape)), output(shape)
            run(gather_along(target, y, x, given(index), dim=0, check=INDEX))
            reported(shape[0], shape[1] + 2)
            run(put_along(target, y, x, given(index), dim=0, check=INDEX))
            reported(shape[0], shape[1] + 2)
            run(gather_along_gradient(target, output(shape), x, given(index), dim=0, check=INDEX))
            reported(shape[0], shape[1] + 2)
            whole = given(np.ones(shape, np.int32)), given(index)
            run(gather_along_gradient(target, output(shape, np.int32), *whole, dim=0, check=INDEX))
            reported(shape[0], shape[1] + 2)
        folded = [given(np.array(v, index_dtype)) for v in ((0, 1), (2, 9))]
        run(fold_indices(target, output((2,), np.int32), folded, sizes=(2, 3), check=INDEX))
        reported(9, 1)


@case()
def elements_checked(target: Target) -> None:
    for dtype in (*REALS, np.int32, np.int64, np.uint8):
        x = np.ones(1030, dtype)
        run(check_elements(target, given(x, before=1), None, Bad.OUTSIDE, 0, 1, report=INDEX))
        device().synchronize()
        x[1027] = 3
        for bad, low, high in ((Bad.OUTSIDE, 0, 1), (Bad.EQUAL, 3, 0)):
            run(check_elements(target, given(x), None, bad, low, high, report=INDEX))
            reported(x[1027].item(), 1027)
        x[1027] = 0
        for bad, low in ((Bad.BELOW, 1), (Bad.NOT_ABOVE, 0)):
            run(check_elements(target, given(x), None, bad, low, 0, report=INDEX))
            reported(x[1027].item(), 1027)
    for gate_dtype, (gate, told) in product(REALS, ((0.5, False), (np.nan, True))):
        x = np.linspace(0, 2, 300).astype(np.float32)
        one = given(np.array(gate, gate_dtype))
        run(check_elements(target, given(x), one, Bad.BELOW, 0.001, 0, report=INDEX))
        reported(0.0, 0) if told else device().synchronize()


@case()
def searches_and_counts(target: Target) -> None:
    for dtype in (*REALS, np.int32, np.int64):
        rows = np.sort(RNG.integers(-5, 5, (2, 7)), 1).astype(dtype)
        values = RNG.integers(-6, 6, (2, 3)).astype(dtype)
        for or_equal, side in ((False, "left"), (True, "right")):
            y = output((2, 3), np.int64)
            run([search_rows(target, y, given(rows, before=1), given(values), or_equal=or_equal)])
            found = [np.searchsorted(a, b, side) for a, b in zip(rows, values, strict=True)]
            assert y.numpy().tolist() == np.array(found).tolist()
    keys = RNG.integers(-2, 9, 50)
    for numbers in (5, 9, 2049):
        counts = output((numbers,), np.int32)
        run(tally(target, counts, given(keys, before=3)))
        inside = keys[(keys >= 0) & (keys < numbers)]
        assert counts.numpy().tolist() == np.bincount(inside, minlength=numbers).tolist()


@case()
def few_of_many(target: Target) -> None:
    few = replace(target, traits=replace(target.traits, max_group_size=16))
    for dtype in (*REALS, np.int32):
        x = RNG.integers(-9, 9, (3, 37)).astype(dtype)
        if dtype in REALS:
            x[0, 3], x[1, 5], x[1, 30] = np.inf, np.nan, np.nan
        for largest in (True, False):
            y = output((3, 5), np.int64)
            run(top(few, y, given(x, before=2), largest=largest))
            keys = np.where(np.isnan(x), 1e9, np.minimum(x, 1e6))
            order = np.argsort(-keys if largest else keys, axis=1, kind="stable")
            assert y.numpy().tolist() == order[:, :5].tolist()


@case("gpu")
def many_of_more(target: Target) -> None:
    """In one part and in several, with more equal elements than are wanted."""
    small = replace(target, traits=replace(target.traits, max_group_size=16, compute_units=3))
    for dtype, spread, lines, n, largest in (
        (np.float32, 3, 2, 150, True),
        (np.float32, 3, 2, 251, False),
        (np.float64, 9, 1, 251, True),
        (np.uint8, 99, 2, 150, False),
    ):
        x = RNG.integers(0, spread, (lines, n)).astype(dtype)
        if dtype in REALS:
            x[0, 3], x[-1, 5], x[-1, 30] = np.inf, np.nan, -np.nan
        y = output((lines, 9), np.int64)
        with constants(top_module, _PART=100):
            run(top(small, y, given(x, before=2), largest=largest))
        keys = np.where(np.isnan(x), 1e9, np.minimum(x, 1e6))
        order = np.argsort(-keys if largest else keys, axis=1, kind="stable")
        assert y.numpy().tolist() == order[:, :9].tolist()


@case()
def places_of_true_elements(target: Target) -> None:
    small = replace(target, traits=replace(target.traits, max_group_size=24))
    for n, share in ((1, 1), (300, 0.4), (257, 0), (64, 1)):
        mask = RNG.random(n) < share
        places, total = output((n,), np.int32), output((1,), np.int32)
        with constants(true_places_module, _CPU_LEAST_BLOCK=40, _CPU_PER_ITEM=16):
            run(true_places(small, places, total, given(mask, before=3)))
        expected = np.flatnonzero(mask)
        near(total, np.array([expected.size]))
        near(places.view((expected.size,), (1,)), expected)
    for shape in ((70,), (3, 5, 7)):
        flat = np.flatnonzero(RNG.random(shape) < 0.5)
        y = output((flat.size, len(shape)), np.int64)
        run(unravel(target, y, given(flat.astype(np.int32)), shape))
        near(y, np.stack(np.unravel_index(flat, shape), 1))
