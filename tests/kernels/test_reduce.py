"""Reductions and arg-reductions against NumPy in float64, in both shapes of kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.errors import ArgumentError
from clnet.kernels.reduce.arg_reduce import arg_reduce
from clnet.kernels.reduce.reduce import Reduction, reduce
from clnet.kernels.reduce.reduce_many import Measure, reduce_many
from clnet.kernels.reduce.reduce_pairs import Pairing, reduce_pairs
from clnet.kernels.reduce.reduce_spread import reduce_spread
from clnet.values.dtypes import int8, int64
from tests.kernels.launching import (
    both_shapes,
    gpu_shaped,
    in_small_groups,
    normal,
    on_device,
    poisoned,
)
from tests.kernels.launching import run as enqueue

SHAPES = {
    "row": ((5, 7), (1,)),
    "vector + 1": ((3, 17), (1,)),
    "unrolled - 1": ((3, 63), (1,)),
    "column": ((33, 19), (0,)),
    "column of one row": ((1, 130), (0,)),
    "columns over a block": ((11, 1025), (0,)),
    "channel": ((4, 3, 50), (0, 2)),
    "alternating": ((3, 2, 4, 5, 2), (0, 2, 4)),
    "inner of alternating": ((3, 2, 4, 5, 2), (1, 3)),
    "all": ((6, 5, 4), (0, 1, 2)),
    "none": ((4, 3), ()),
    "single": ((1,), (0,)),
    "scalar": ((), ()),
    "two stages": ((150_001,), (0,)),
    "columns in two stages": ((40_000, 5), (0,)),
    "rows in two stages": ((2, 140_000), (1,)),
    "channels in two stages": ((9, 2, 20_011), (0, 2)),
}
REFERENCES = {
    Reduction.SUM: np.sum,
    Reduction.MEAN: np.mean,
    Reduction.SUM_SQUARES: lambda x, axis: np.sum(x * x, axis=axis),
    Reduction.MAX: np.max,
    Reduction.MIN: np.min,
    Reduction.ANY: lambda x, axis: np.any(x != 0, axis=axis),
    Reduction.ALL: lambda x, axis: np.all(x != 0, axis=axis),
}


def kept_shape(shape, dims):
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def run(target, x, dims, kind, dtype=np.float32):
    """The result for an Array, on the host."""
    out = poisoned(kept_shape(x.shape, dims), dtype)
    for launch in reduce(target, out, x, dims=dims, kind=kind):
        x.device.queue.launch(launch)
    return out.numpy()


def check_sum(got, values, dims, count=None):
    """Close to the float64 sum, measured by the size of what was added."""
    exact = values.astype(np.float64)
    length = max(values.size // max(got.size, 1), 1)
    scale = np.sqrt(np.sum(exact * exact, axis=dims))
    tolerance = 4 * np.finfo(np.float32).eps * np.sqrt(np.log2(length) + 1) * (scale + 1e-3)
    if count is not None:
        tolerance = tolerance / count
    expected = np.sum(exact, axis=dims) / (count or 1)
    assert got.shape == expected.shape
    assert np.all(np.abs(got - expected) <= tolerance)


@pytest.mark.parametrize("case", SHAPES)
def test_sum_and_max_over_any_axes(dev, target, case):
    shape, dims = SHAPES[case]
    values = normal(*shape)
    x = on_device(values)
    check_sum(run(target, x, dims, Reduction.SUM), values, dims)
    expected = np.max(values, axis=dims) if dims else values
    np.testing.assert_array_equal(run(target, x, dims, Reduction.MAX), expected)


@pytest.mark.parametrize("kind", REFERENCES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("case", ["channel", "columns in two stages", "two stages"])
def test_every_kind(dev, target, kind, case):
    shape, dims = SHAPES[case]
    values = np.where(normal(*shape, seed=1) > 0.3, normal(*shape, seed=2), 0).astype(np.float32)
    if kind is Reduction.ALL:
        values = np.where(values == 0, 0.25, values)
        values.flat[3] = 0
    dtype = np.bool_ if kind in (Reduction.ANY, Reduction.ALL) else np.float32
    got = run(target, on_device(values), dims, kind, dtype)
    expected = REFERENCES[kind](values.astype(np.float64), axis=dims)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_product(dev, target):
    values = np.exp(0.1 * normal(7, 90)).astype(np.float32)
    got = run(target, on_device(values), (1,), Reduction.PROD)
    np.testing.assert_allclose(got, np.prod(values.astype(np.float64), axis=1), rtol=1e-5)


def test_integers_and_bools_sum_in_int64(dev, target):
    small = np.full((3, 400), 100, np.int8)
    got = run(target, on_device(small), (1,), Reduction.SUM, np.int64)
    np.testing.assert_array_equal(got, [40_000] * 3)
    flags = np.random.default_rng(3).random((70, 9)) > 0.5
    got = run(target, on_device(flags), (0,), Reduction.SUM, np.int64)
    np.testing.assert_array_equal(got, flags.sum(axis=0))
    large = np.array([[2**40, -(2**41)], [3, 5]], np.int64)
    got = run(target, on_device(large), (1,), Reduction.MIN, np.int64)
    np.testing.assert_array_equal(got, [-(2**41), 3])


def test_doubles_keep_their_precision(dev, target):
    if not dev.traits.float64:
        pytest.skip("the device has no double precision")
    values = np.random.default_rng(4).standard_normal((9, 301))
    got = run(target, on_device(values), (1,), Reduction.SUM, np.float64)
    np.testing.assert_allclose(got, values.sum(axis=1), rtol=1e-12)


def test_views(dev, target):
    values = normal(6, 8, 10)
    whole = on_device(values)
    slices = whole.view((3, 5, 9), (160, 10, 1), 21)  # values[0::2, 2:7, 1:]
    check_sum(run(target, slices, (0, 2), Reduction.SUM), values[0::2, 2:7, 1:], (0, 2))
    swapped = whole.view((10, 6, 8), (1, 80, 10))
    check_sum(run(target, swapped, (1,), Reduction.SUM), values.transpose(2, 0, 1), (1,))
    check_sum(run(target, swapped, (0, 2), Reduction.SUM), values.transpose(2, 0, 1), (0, 2))
    stepped = whole.view((6, 8, 5), (80, 10, 2), 1)  # values[:, :, 1::2]
    check_sum(run(target, stepped, (2,), Reduction.SUM), values[:, :, 1::2], (2,))


def test_repeated_elements_count_each_time(dev, target):
    values = normal(7)
    repeated = on_device(values).view((7, 40), (1, 0))
    wide = np.broadcast_to(values[:, None], (7, 40))
    check_sum(run(target, repeated, (1,), Reduction.SUM), wide, (1,))
    check_sum(run(target, repeated, (0,), Reduction.SUM), wide, (0,))


def test_result_may_keep_the_axes_and_be_strided(dev, target):
    values = normal(5, 6, 7)
    memory = Array.from_numpy(np.full((5, 14), np.nan, np.float32), dev)
    out = memory.view((5, 1, 7), (14, 14, 2))
    for launch in reduce(target, out, on_device(values), dims=(1,), kind=Reduction.SUM):
        dev.queue.launch(launch)
    check_sum(memory.numpy()[:, ::2], values, (1,))
    assert np.isnan(memory.numpy()[:, 1::2]).all()


def test_nothing_reduces_to_the_identity(dev, target):
    x = on_device(normal(0, 3))
    for kind, identity in [
        (Reduction.SUM, 0),
        (Reduction.PROD, 1),
        (Reduction.MAX, -np.inf),
        (Reduction.MEAN, np.nan),
    ]:
        np.testing.assert_array_equal(run(target, x, (0,), kind), [identity] * 3)
    assert run(target, x, (1,), Reduction.SUM).shape == (0,)
    out, center = poisoned((0, 1)), poisoned((0, 1))
    assert not reduce_spread(target, out, center, x, dims=(1,), divisor=1.0, root=False)


def test_nan_is_the_largest_and_the_smallest(dev, target):
    values = normal(4, 100)
    values[1, 57] = np.nan
    values[2, 99] = np.inf
    x = on_device(values)
    for kind, reference in [(Reduction.MAX, np.max), (Reduction.MIN, np.min)]:
        np.testing.assert_array_equal(run(target, x, (1,), kind), reference(values, axis=1))
        np.testing.assert_array_equal(run(target, x, (0,), kind), reference(values, axis=0))


def test_long_sums_of_one_sign_do_not_drift(dev, target):
    values = np.random.default_rng(5).random(3_000_001, np.float32)
    got = run(target, on_device(values), (0,), Reduction.SUM)
    np.testing.assert_allclose(got, values.astype(np.float64).sum(), rtol=2e-6)


def test_scratch_memory_stays_within_the_limit(dev, target):
    values = normal(40_000, 5)
    x = on_device(values)
    tight = replace(target, workspace_limit=0)
    out = poisoned((5,), np.float32)
    launches = reduce(tight, out, x, dims=(0,), kind=Reduction.SUM)
    assert len(launches) == 1
    dev.queue.launch(launches[0])
    np.testing.assert_allclose(out.numpy(), values.astype(np.float64).sum(axis=0), atol=0.01)


def test_the_same_bits_every_time(dev, target):
    x = on_device(normal(300_000))
    first = run(target, x, (0,), Reduction.SUM)
    assert all(run(target, x, (0,), Reduction.SUM) == first for _ in range(3))


def test_out_of_another_shape_is_refused(dev, target):
    out = poisoned((4,), np.float32)
    with pytest.raises(ArgumentError, match="out has the sizes x keeps"):
        reduce(target, out, on_device(normal(5, 6)), dims=(1,), kind=Reduction.SUM)


def run_arg(target, x, dim, kind):
    shape = kept_shape(x.shape, (dim,))
    values = poisoned(shape, x.dtype.numpy)
    indices = poisoned(shape, np.int64)
    for launch in arg_reduce(target, values, indices, x, dim=dim, kind=kind):
        x.device.queue.launch(launch)
    return values.numpy(), indices.numpy()


def check_arg(target, x, values, dim):
    for kind, best, where in [
        (Reduction.MAX, np.max, np.argmax),
        (Reduction.MIN, np.min, np.argmin),
    ]:
        got, indices = run_arg(target, x, dim, kind)
        np.testing.assert_array_equal(indices, where(values, axis=dim))
        np.testing.assert_array_equal(got, best(values, axis=dim))


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((5, 10), 1),
        ((3, 33), 1),
        ((4, 31), 1),
        ((9, 40), 0),
        ((7, 17), 0),
        ((3, 5, 21), 1),
        ((1, 4), 0),
        ((200_003,), 0),
        ((100_000, 3), 0),
    ],
    ids=str,
)
def test_indices_of_the_first_of_equals(dev, target, shape, dim):
    values = np.random.default_rng(6).integers(-4, 5, shape).astype(np.float32)
    check_arg(target, on_device(values), values, dim)


def test_indices_in_views_and_integers(dev, target):
    values = np.random.default_rng(7).integers(-100, 100, (6, 8, 10)).astype(np.int16)
    whole = on_device(values)
    check_arg(target, whole.view((10, 6, 8), (1, 80, 10)), values.transpose(2, 0, 1), 2)
    check_arg(target, whole.view((3, 5, 9), (160, 10, 1), 21), values[0::2, 2:7, 1:], 1)


def test_index_of_the_first_nan(dev, target):
    values = normal(3, 100)
    values[0, 60] = values[0, 90] = np.nan
    values[1, 2] = values[1, 3] = np.inf
    check_arg(target, on_device(values), values, 1)
    check_arg(target, on_device(values.T), np.ascontiguousarray(values.T), 0)


@pytest.mark.parametrize("width", [2, 3, 5, 17])
def test_the_first_of_equal_ones_in_a_column(dev, target, width):
    """Columns are searched in quarters beside each other."""
    rng = np.random.default_rng(width)
    for n in (2, 7, 8, 9, 103):
        values = rng.integers(-2, 3, (n, width)).astype(np.float32)
        check_arg(target, on_device(values), values, 0)
        values[rng.integers(0, n, 3), rng.integers(0, width, 3)] = np.nan
        check_arg(target, on_device(values), values, 0)


def test_indices_alone(dev, target):
    values = normal(50, 20)
    indices = poisoned((50,), np.int64)
    for launch in arg_reduce(target, None, indices, on_device(values), dim=1, kind=Reduction.MAX):
        dev.queue.launch(launch)
    np.testing.assert_array_equal(indices.numpy(), values.argmax(axis=1))


def test_index_of_nothing_is_refused(dev, target):
    x = on_device(normal(3, 0))
    with pytest.raises(ArgumentError, match="at least one element"):
        arg_reduce(target, None, poisoned((3,), np.int64), x, dim=1, kind=Reduction.MAX)


SIZES = {"one": [5], "blocks": [16_383, 16_384, 16_385], "two launches": [*range(1, 34), 40_000]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", Measure)
def test_many_arrays_are_measured_as_one(dev, target, kind, sizes):
    rng = np.random.default_rng(len(sizes))
    hosts = [rng.standard_normal(n).astype(np.float32) for n in sizes]
    hosts[-1][-1] = -10
    out = Array.from_numpy(np.zeros((), np.float32), dev)
    for launch in reduce_many(target, out, [on_device(h) for h in hosts], kind):
        dev.queue.launch(launch)
    every = np.abs(np.concatenate(hosts).astype(np.float64))
    expected = {
        Measure.SUM_SQUARES: (every**2).sum(),
        Measure.SUM_MAGNITUDES: every.sum(),
        Measure.MAX_MAGNITUDE: 10.0,
    }[kind]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


@pytest.fixture
def small_ints(monkeypatch):
    """Kernels for sizes that an int does not hold, for the sizes of these tests."""
    monkeypatch.setattr("clnet.kernels.grid._INT_HOLDS", 0)


@pytest.mark.parametrize("case", ["row", "alternating", "channel", "all", "columns over a block"])
def test_sizes_counted_in_long_give_the_same(dev, target, small_ints, case):
    shape, dims = SHAPES[case]
    values = normal(*shape, seed=6)
    x = on_device(values)
    got = run(target, x, dims, Reduction.MAX)
    np.testing.assert_array_equal(got, np.max(values, axis=dims))
    np.testing.assert_array_equal(search(target, x, min(dims)), np.argmax(values, axis=min(dims)))


def test_indices_counted_in_long_of_several_parts_are_the_axis_own(
    dev, target, small_ints, monkeypatch
):
    monkeypatch.setitem(arg_reduce.__globals__, "_PART_MOST", 1000)
    for shape, dim in (((5003,), 0), ((4003, 5), 0), ((3, 2500), 1)):
        values = normal(*shape, seed=7)
        for each in (target, replace(target, workspace_limit=0)):
            found = search(each, on_device(values), dim)
            np.testing.assert_array_equal(found, np.argmax(values, axis=dim))


def search(target, x, dim):
    """Where the largest elements are."""
    indices = poisoned(kept_shape(x.shape, (dim,)), np.int64)
    for launch in arg_reduce(target, None, indices, x, dim=dim, kind=Reduction.MAX):
        x.device.queue.launch(launch)
    return indices.numpy()


@pytest.mark.parametrize(
    ("shape", "strides", "dims"),
    [
        pytest.param((2**31, 3), (0, 1), (0,), id="columns"),
        pytest.param((2**31,), (1,), (0,), id="all"),
        pytest.param((2**31, 2), (2, 1), (1,), id="many rows"),
    ],
)
def test_only_sizes_that_an_int_does_not_hold_are_counted_in_long(
    dev, target, shape, strides, dims
):
    for sizes, wanted in ((shape, "long"), (tuple(min(n, 70) for n in shape), "int")):
        x = Array.abstract(shape, int8, dev).view(sizes, strides)
        out = Array.abstract(kept_shape(sizes, dims), int8, dev)
        places = Array.abstract(kept_shape(sizes, dims), int64, dev)
        launches = reduce(target, out, x, dims=dims, kind=Reduction.MAX)
        found = arg_reduce(target, out, places, x, dim=dims[0], kind=Reduction.MAX)
        for launch in (launches[0], found[0]):
            assert dict(launch.kernel.params)["flat"] == wanted
            assert f"const {wanted} kept_size0" in launch.kernel.text()


@pytest.mark.slow
def test_more_elements_than_an_int_counts(dev):
    values = np.random.default_rng(8).integers(-99, 99, 2**15).astype(np.int8)
    x = on_device(values).view((2**16 + 1, 2**15), (0, 1))
    total = (2**16 + 1) * values.astype(np.int64).sum()
    np.testing.assert_array_equal(run(dev.target, x, (0, 1), Reduction.SUM, np.int64), total)
    lowest = run(dev.target, x, (0, 1), Reduction.MIN, np.int8)
    np.testing.assert_array_equal(lowest, values.min())


PAIRS = [
    ((7, 33), (1,), "dense"),
    ((7, 33), (0,), "dense"),
    ((5, 40, 3), (0, 2), "dense"),
    ((5, 40, 3), (1,), "turned"),
    ((1, 9000), (0, 1), "dense"),
    ((9000, 3), (0,), "repeated"),
    ((3, 9000), (1,), "repeated"),
    ((4, 1), (1,), "dense"),
    ((1, 1), (0, 1), "repeated"),
    ((3, 0), (1,), "dense"),
    ((0, 3), (1,), "dense"),
]


@both_shapes
@pytest.mark.parametrize("kind", list(Pairing))
@pytest.mark.parametrize(("shape", "dims", "how"), PAIRS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pairs(shaped, kind, shape, dims, how, dtype):
    target = in_small_groups(shaped(device()))
    x, y = (normal(*shape, seed=k).astype(dtype) for k in range(2))
    if x.size > 4:
        x.flat[1], y.flat[3] = np.inf, np.nan
    x_, y_ = on_device(x), on_device(y)
    if how == "turned":
        order = tuple(reversed(range(y.ndim)))
        whole = on_device(np.ascontiguousarray(y.transpose(order)))
        y_ = whole.view(shape, tuple(reversed(whole.strides)))
    elif how == "repeated":
        y_ = y_.view(shape, tuple(0 if d in dims else s for d, s in enumerate(y_.strides)))
        y = y_.numpy()
    out = poisoned(tuple(n for d, n in enumerate(shape) if d not in dims), dtype)
    enqueue(reduce_pairs(target, out, x_, y_, dims=dims, kind=kind, divisor=3))
    with np.errstate(invalid="ignore"):
        wide, other = x.astype(np.longdouble), y.astype(np.longdouble)
        terms = {
            Pairing.PRODUCT: lambda: wide * other,
            Pairing.DIFFERENCE: lambda: wide - other,
            Pairing.SQUARED_DISTANCE: lambda: (wide - other) ** 2,
            Pairing.DECAY: lambda: np.exp(wide - other),
        }[kind]()
        expected = terms.sum(dims) / 3
        size = np.abs(np.where(np.isfinite(terms), terms, 0)).sum(dims)
    eps = float(np.finfo(dtype).eps)
    found = out.numpy()
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    assert (np.abs(found - expected)[finite] <= (32 * eps * (size + 1))[finite]).all()


def test_a_pair_of_long_vectors_takes_two_launches_on_gpus():
    x = on_device(normal(300_000))
    launches = reduce_pairs(
        gpu_shaped(device()), poisoned(()), x, x, dims=(0,), kind=Pairing.PRODUCT
    )
    assert [launch.kernel.name for launch in launches] == ["reduce_pairs", "reduce_group"]


@both_shapes
@pytest.mark.parametrize("dims", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("center", [0, 1e3, 1e5, 1e6])
def test_variances_far_from_0(shaped, dims, center):
    """The mean is rounded, by more than the elements differ."""
    values = np.random.default_rng(0).normal(center, 1e-2, (700, 300)).astype(np.float32)
    values[:, 0] = values[0, 0]
    x = on_device(values)
    kept = tuple(1 if d in dims else n for d, n in enumerate(values.shape))
    out, middle = poisoned(kept), poisoned(kept)
    target = shaped(device())
    enqueue(reduce_spread(target, out, middle, x, dims=dims, divisor=values.size, root=False))
    wide = values.astype(np.float64)
    expected = ((wide - wide.mean(dims, keepdims=True)) ** 2).sum(dims, keepdims=True) / values.size
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-12)
