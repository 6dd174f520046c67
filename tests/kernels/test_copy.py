"""Strided copies with conversion, constants and ranges."""

from __future__ import annotations

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

from clnet.array import Array
from clnet.device import HostScalar, device
from clnet.kernels import streaming
from clnet.kernels.grid import lanes_of
from clnet.kernels.moving.copy import arange, copy, fill
from tests.kernels.launching import both_shapes, cpu_shaped, gpu_shaped, on_device, poisoned, run

copy_module = import_module("clnet.kernels.moving.copy")
lines_module = import_module("clnet.kernels.moving.copy_lines")
repeat_module = import_module("clnet.kernels.moving.repeat")

RNG = np.random.default_rng(1)


def permuted(array: Array, axes: tuple[int, ...]) -> Array:
    return array.view(tuple(array.shape[a] for a in axes), tuple(array.strides[a] for a in axes))


@both_shapes
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((5,), (0,)),
        ((3, 70), (0, 1)),
        ((2000, 3), (0, 1)),
        ((15, 17), (1, 0)),
        ((16, 32), (1, 0)),
        ((33, 31), (1, 0)),
        ((1, 1), (1, 0)),
        ((2, 5, 37), (0, 2, 1)),
        ((3, 4, 5, 6), (0, 2, 3, 1)),
        ((3, 4, 5, 6), (3, 1, 0, 2)),
        ((2, 3, 2, 3, 2), (4, 2, 0, 3, 1)),
        ((4, 3, 33), (1, 0, 2)),
        ((), ()),
        ((0, 3), (1, 0)),
    ],
    ids=str,
)
def test_copy_of_a_permuted_array_is_numpys(shape, axes, shaped):
    values = RNG.normal(size=shape).astype(np.float32)
    expected = values.transpose(axes)
    y = poisoned(expected.shape)
    run(copy(shaped(device()), y, permuted(on_device(values), axes)))
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize(
    ("dtype", "begin", "last", "width"),
    [(np.float32, 0, 12, 4), (np.float32, 4, 12, 4), (np.float32, 2, 12, 1), (np.float32, 0, 6, 1),
     (np.int64, 0, 6, 2), (np.uint8, 0, 32, 16)],
)  # fmt: skip
def test_rows_of_whole_vectors_are_moved_as_such_on_gpus(dtype, begin, last, width):
    values = RNG.integers(0, 100, (begin + 2 * 5 * 3 * last)).astype(dtype)
    x = on_device(values).view((2, 3, 5, last), (15 * last, last, 3 * last, 1), begin)
    y = poisoned((2, 3, 5, last), dtype)
    launches = copy(gpu_shaped(device()), y, x)
    assert launches[0].kernel.params["width"] == width
    run(launches)
    expected = values[begin:].reshape(2, 5, 3, last).swapaxes(1, 2)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_dense_memory_is_filled_by_vectors_on_gpus():
    for begin, width in ((4, 4), (3, 1)):
        values = np.arange(60, dtype=np.float32)
        whole = on_device(values)
        launches = fill(gpu_shaped(device()), whole.view((2, 4, 5), (20, 5, 1), begin), 7.5)
        assert launches[0].kernel.params["width"] == width
        run(launches)
        values[begin : begin + 40] = 7.5
        np.testing.assert_array_equal(whole.numpy(), values)


@pytest.mark.parametrize(
    ("shape", "axes", "pairs"),
    [
        ((3, 70, 66), (0, 2, 1), True),
        ((2, 6, 8, 9), (0, 2, 3, 1), True),
        ((2, 7, 10), (0, 2, 1), False),
        ((2, 10, 7), (0, 2, 1), False),
    ],
    ids=str,
)
def test_16_bits_are_turned_over_in_pairs(shape, axes, pairs):
    values = RNG.normal(size=shape).astype(np.float16)
    expected = values.transpose(axes)
    y = on_device(np.full(expected.shape, np.nan, np.float16))
    launches = copy(gpu_shaped(device()), y, permuted(on_device(values), axes))
    assert (launches[0].kernel.name == "copy_pairs") == pairs
    run(launches)
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
@pytest.mark.parametrize("past", [False, True], ids=["", "past the caches"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((16, 16), (1, 0)),
        ((37, 21), (1, 0)),
        ((300, 48), (1, 0)),
        ((2, 19, 5, 7), (0, 2, 3, 1)),
        ((3, 4, 64, 20), (1, 3, 0, 2)),
    ],
    ids=str,
)
def test_squares_turned_over_in_registers(shape, axes, past, dtype, monkeypatch):
    target = cpu_shaped(device())
    line = 4 * min(target.traits.simd_width, 16)
    if past:
        monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
        monkeypatch.setattr(streaming, "LINE_BYTES", line)
    values = RNG.integers(-(2**20), 2**20, shape).astype(dtype)
    y = poisoned(tuple(shape[axis] for axis in axes), dtype)
    launches = copy(target, y, permuted(on_device(values), axes))
    assert [launch.kernel.name for launch in launches] == ["copy_squares"]
    whole = y.shape[-1] * y.dtype.itemsize % line == 0
    assert launches[0].kernel.params["stream"] == (past and whole)
    run(launches)
    np.testing.assert_array_equal(y.numpy(), values.transpose(axes))


@both_shapes
def test_copy_into_a_slice_leaves_the_rest(shaped):
    whole = on_device(np.full((6, 50), 7.0, np.float32))
    values = RNG.normal(size=(6, 20)).astype(np.float32)
    run(copy(shaped(device()), whole.view((6, 20), (50, 2), 3), on_device(values)))
    expected = np.full((6, 50), 7.0, np.float32)
    expected[:, 3:43:2] = values
    np.testing.assert_array_equal(whole.numpy(), expected)


@both_shapes
def test_copy_into_a_permuted_array_writes_every_element(shaped):
    values = RNG.normal(size=(20, 40)).astype(np.float32)
    y = poisoned((40, 20))
    run(copy(shaped(device()), permuted(y, (1, 0)), on_device(values)))
    np.testing.assert_array_equal(y.numpy(), values.T)


@both_shapes
def test_copy_repeats_a_broadcast_array(shaped):
    row = on_device(np.arange(40, dtype=np.float32))
    y = poisoned((3, 40))
    run(copy(shaped(device()), y, row.view((3, 40), (0, 1))))
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(np.arange(40), (3, 40)))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.float16, np.uint8])
@pytest.mark.parametrize("past", [False, True], ids=["", "past the caches"])
@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((40_000,), ()),
        ((1,), ()),
        ((3, 16), (0,)),
        ((3, 5, 17), (0, 1)),
        ((3, 5, 17), (1,)),
        ((700, 31), (0,)),
        ((300, 7, 7), (0,)),
        ((2, 90, 100), (1, 0)),
        ((5, 3), (0,)),
    ],
    ids=str,
)
def test_elements_repeated_along_rows(shape, kept, past, dtype, monkeypatch):
    target = cpu_shaped(device())
    if past:
        monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
        lanes = lanes_of(target, np.dtype(dtype).itemsize)
        monkeypatch.setattr(streaming, "LINE_BYTES", lanes * np.dtype(dtype).itemsize)
    values = RNG.integers(0, 250, [shape[axis] for axis in kept]).astype(dtype)
    x, y = on_device(values), poisoned(shape, dtype)
    steps = dict(zip(kept, x.strides, strict=True))
    launches = copy(target, y, x.view(shape, tuple(steps.get(a, 0) for a in range(len(shape)))))
    if y.shape[-1] >= 16:
        assert [launch.kernel.name for launch in launches] == ["repeat"]
        assert launches[0].kernel.params["stream"] == past
    run(launches)
    order = sorted(range(len(kept)), key=lambda i: kept[i])
    there = tuple(shape[a] if a in kept else 1 for a in range(len(shape)))
    expected = np.broadcast_to(values.transpose(order).reshape(there), shape)
    np.testing.assert_array_equal(y.numpy(), expected)


@both_shapes
def test_elements_repeated_into_a_slice_leave_the_rest(shaped):
    whole = on_device(np.full(1000, 7.0, np.float32))
    values = RNG.normal(size=30).astype(np.float32)
    rows = on_device(values).view((30, 25), (1, 0))
    run(copy(shaped(device()), whole.view((30, 25), (25, 1), 3), rows))
    expected = np.full(1000, 7.0, np.float32)
    expected[3:753] = values.repeat(25)
    np.testing.assert_array_equal(whole.numpy(), expected)


@both_shapes
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("source", "to"),
    [
        (np.float32, np.int64),
        (np.int64, np.float32),
        (np.float32, np.bool_),
        (np.int32, np.bool_),
        (np.bool_, np.float32),
        (np.uint8, np.int16),
        (np.float32, np.float64),
    ],
)
def test_copy_converts_as_c_does(source, to, transposed, shaped):
    values = np.array([0, 1, 2.5, -3.7, 0.5, 200, -0.0, 4], np.float64).reshape(2, 4).repeat(4, 0)
    values = np.abs(values) if source is np.uint8 else values
    values = values.astype(source)
    array, expected = on_device(values), values.astype(to)
    if transposed:
        array, expected = permuted(array, (1, 0)), expected.T
    y = poisoned(expected.shape, to)
    run(copy(shaped(device()), y, array))
    np.testing.assert_array_equal(y.numpy(), expected)


@both_shapes
def test_fill_writes_a_view_alone(shaped):
    whole = on_device(np.zeros((4, 9), np.float32))
    cell = HostScalar(2.5)
    view = whole.view((4, 3), (9, 3), 1)
    run(fill(shaped(device()), view, cell))
    expected = np.zeros((4, 9), np.float32)
    expected[:, 1::3] = 2.5
    np.testing.assert_array_equal(whole.numpy(), expected)
    cell.value = -1.0
    run(fill(shaped(device()), view, cell))
    assert (whole.numpy()[:, 1::3] == -1).all()


def test_rows_are_filled_without_a_guard():
    """In parts, from any element on; short rows of a view one element after another."""
    if device().traits.dedicated_local_memory:
        pytest.skip("an element an item is what GPUs take")
    for shape, inside in (
        ((200_003,), np.s_[:]),
        ((3, 300), np.s_[:, 5:295]),
        ((3, 9), np.s_[:, 2:]),
    ):
        whole, expected = on_device(np.zeros(shape, np.float32)), np.zeros(shape, np.float32)
        expected[inside] = 3
        part = expected[inside]
        strides = tuple(s // 4 for s in part.strides)
        first = int(np.flatnonzero(expected)[0])
        launches = fill(device().target, whole.view(part.shape, strides, first), 3)
        assert [launch.kernel.name for launch in launches] == [
            "fill" if part.shape[-1] == 7 else "fill_rows"
        ]
        run(launches)
        np.testing.assert_array_equal(whole.numpy(), expected)


@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.uint8, np.float64])
def test_fill_takes_every_kind(dtype):
    y = poisoned((77,), dtype)
    run(fill(device().target, y, 0))
    assert not y.numpy().any()


@both_shapes
@pytest.mark.parametrize(
    ("dtype", "start", "step"),
    [(np.int64, -5, 3), (np.int32, 7, -1), (np.float32, 0.25, 0.5), (np.float64, 1.0, 0.1)],
)
@pytest.mark.parametrize("n", [0, 1, 257])
def test_arange_is_start_plus_steps(n, dtype, start, step, shaped):
    y = poisoned((n,), dtype)
    run(arange(shaped(device()), y, start, step))
    expected = start + np.arange(n) * step
    if np.issubdtype(dtype, np.floating):
        np.testing.assert_allclose(y.numpy(), expected, rtol=2 * np.finfo(dtype).eps)
    else:
        np.testing.assert_array_equal(y.numpy(), expected)


@both_shapes
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_copied_and_filled(dtype, shaped):
    x = RNG.normal(size=(33, 40)).astype(dtype)
    y, z = (on_device(np.zeros((40, 33), dtype)) for _ in range(2))
    turned = on_device(x).view((40, 33), (1, 40))
    run(copy(shaped(device()), y, turned) + fill(shaped(device()), z, 1.5))
    np.testing.assert_array_equal(y.numpy(), x.T)
    np.testing.assert_array_equal(z.numpy(), np.full((40, 33), 1.5, dtype))


LINES = {
    "into a wider array": ((50, 3), (8, 1), (3, 1), 0),
    "from a wider array": ((50, 5), (5, 1), (9, 1), 0),
    "repeated": ((40, 7, 3), (21, 3, 1), (7, 1, 0), 0),
    "axes exchanged": ((6, 5, 4, 2), (40, 8, 2, 1), (10, 2, 60, 1), 0),
    "every other": ((33, 9), (9, 1), (36, 2), 0),
    "backwards": ((33, 3), (3, 1), (3, -1), 2),
    "longer than known": ((9, 40), (43, 1), (80, 2), 0),
    "into every other": ((30, 20), (60, 2), (20, 1), 0),
}


@pytest.mark.parametrize(("source", "to"), [("float32", "float32"), ("int64", "float32"),
                                            ("float32", "bool"), ("uint8", "uint8")])  # fmt: skip
@pytest.mark.parametrize(("shape", "y_steps", "x_steps", "start"), LINES.values(), ids=LINES)
def test_lines_are_taken_one_after_the_other(
    shape, y_steps, x_steps, start, source, to, monkeypatch
):
    monkeypatch.setattr(copy_module, "_MANY", 0)
    host = RNG.integers(0, 3, 4096).astype(source)
    strides = [host.itemsize * step for step in x_steps]
    expected = np.lib.stride_tricks.as_strided(host[start:], shape, strides).astype(to)
    y = poisoned((4300,), to)
    before = y.numpy()
    launches = copy(cpu_shaped(device()), y.view(shape, y_steps), on_device(host).view(
        shape, x_steps, start))  # fmt: skip
    assert [each.kernel.name for each in launches] == ["copy_by_lines"]
    run(launches)
    places = sum(np.arange(n).reshape(-1, *[1] * (len(shape) - d - 1)) * step
                 for d, (n, step) in enumerate(zip(shape, y_steps, strict=True)))  # fmt: skip
    before[places] = expected
    np.testing.assert_array_equal(y.numpy(), before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint8])
@pytest.mark.parametrize("n", [16, 17, 31, 100, 5000])
def test_lines_that_lie_backwards_are_turned_round_in_vectors(n, dtype, monkeypatch):
    monkeypatch.setattr(lines_module, "_MANY_ELEMENTS", 0)
    host = RNG.integers(0, 99, (2, 3, n)).astype(dtype)
    target, x = cpu_shaped(device()), on_device(host)
    for steps, flipped in (
        ((3 * n, n, -1), host[..., ::-1]),
        ((3 * n, -n, -1), host[:, ::-1, ::-1]),
    ):
        start = sum((size - 1) * -s for size, s in zip(host.shape, steps, strict=True) if s < 0)
        y = poisoned(host.shape, dtype)
        launches = copy(target, y, x.view(host.shape, steps, start))
        assert [each.kernel.name for each in launches] == ["copy_backwards"]
        run(launches)
        np.testing.assert_array_equal(y.numpy(), flipped)


@pytest.mark.parametrize("shape", [(17, 40), (16, 16), (3, 5)])
def test_what_lies_backwards_along_another_axis_is_turned_over(shape):
    host = RNG.normal(size=(4, *shape)).astype(np.float32)
    rows, columns = shape
    y = poisoned((4, columns, rows))
    x = on_device(host).view((4, columns, rows), (rows * columns, -1, columns), columns - 1)
    run(copy(cpu_shaped(device()), y, x))
    np.testing.assert_array_equal(y.numpy(), host[..., ::-1].swapaxes(1, 2))
