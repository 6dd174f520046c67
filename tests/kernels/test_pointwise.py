"""Pointwise kernels in vectors, and past the caches, give the bits of the plain one."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import clnet
from clnet.array import Array
from clnet.expr import Expr, Input, Scalar, as_number, exp, logical_xor, ne, tanh, where
from clnet.kernels.pointwise import pointwise_small, pointwise_vectors
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.kernels.pointwise.pointwise_lines import lines_fit
from clnet.kernels.pointwise.pointwise_rows import rows_fit
from clnet.values.dtypes import bfloat16, bool_, float16, float32, from_numpy

module = import_module("clnet.kernels.pointwise.pointwise")

X, Y, Z, A = Input(0), Input(1), Input(2), Scalar(0)
EXPRS: tuple[Expr, ...] = (X * A + Y, X - Y * Y)


@pytest.fixture
def thresholds(monkeypatch):
    """Sets from how many elements on vectors are taken, from how many bytes on they stream, up to
    how many elements one kernel takes all layouts, whether rows may be vectors, or loops, and from
    how many elements on short rows share a group and what lies across is copied."""

    def use(
        *,
        dense: int = 2**60,
        stream: int = 2**60,
        small: int = 0,
        rows: bool = False,
        lines: bool = False,
        many: int = 2**60,
    ) -> None:
        monkeypatch.setattr(module, "_MANY_ELEMENTS", many)
        monkeypatch.setattr(module, "rows_fit", rows_fit if rows else lambda *_: False)
        monkeypatch.setattr(module, "lines_fit", lines_fit if lines else lambda *_: False)
        monkeypatch.setattr(pointwise_small, "SMALL_ELEMENTS", small)
        monkeypatch.setattr(pointwise_vectors, "DENSE_ELEMENTS", dense)
        monkeypatch.setattr(pointwise_vectors, "LEAST_RUN", 2)
        monkeypatch.setattr(pointwise_vectors, "STREAM_BYTES", stream)
        module._recipe.cache_clear()

    yield use
    monkeypatch.undo()
    module._recipe.cache_clear()


def run(device, operands):
    """The results of one launch, and the launch."""
    inputs = [v if isinstance(v, Array) else Array.from_numpy(v, device) for v in operands]
    outputs = [
        Array.from_numpy(np.full(inputs[0].shape, np.nan, np.float32), device) for _ in EXPRS
    ]
    (launch,) = pointwise(device.target, outputs, inputs, EXPRS, scalars=(0.5,), compute=float32)
    device.queue.launch(launch)
    return [o.numpy() for o in outputs], launch


@pytest.mark.parametrize("n", [32, 256, 3 * 2**10, 2**16 + 16])
def test_vectors_and_streams_give_the_same_bits(device, thresholds, n):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors are for CPU-shaped devices")
    rng = np.random.default_rng(n)
    operands = [rng.standard_normal(n, dtype=np.float32) for _ in range(2)]
    thresholds(dense=2**60, stream=2**60)
    plain, launch = run(device, operands)
    assert launch.kernel.name == "pointwise"
    for stream in (2**60, 0):
        thresholds(dense=0, stream=stream)
        vectors, launch = run(device, operands)
        assert launch.kernel.name == "pointwise_vectors"
        assert ("stream(" in launch.kernel.text()) == (stream == 0)
        for left, right in zip(plain, vectors, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize(
    ("name", "shape"), [("pointwise_vectors", (128, 512)), ("pointwise_rows", (1872, 35))]
)
def test_vectors_of_all_16_bit_numbers_give_the_same_bits(device, thresholds, name, shape, dtype):
    """Beside operands of float32, with a number for each row, and along columns."""
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors are for CPU-shaped devices")
    rows, columns = shape
    x = clnet.arange(2**16, device=device).to(clnet.int16).view(dtype).array
    y = clnet.tensor([0.3, -2.0] * (rows // 2), device=device).to(dtype).array
    z = clnet.linspace(-7e4, 7e4, 2**16, device=device).array
    across = (1, rows) if name == "pointwise_rows" else (columns, 1)
    inputs = [x.view(shape, (columns, 1)), y.view(shape, (1, 0)), z.view(shape, (columns, 1))]
    inputs.append(x.view(shape, across))
    exprs, found = (Z * A - Y, X * A + Y, -Input(3)), []
    for use, wanted in (({}, "pointwise"), ({"dense": 0, "rows": True}, name)):
        thresholds(**use)
        made = [clnet.zeros(shape, device=device, dtype=d) for d in (dtype, float32, dtype)]
        arrays = [out.array for out in made]
        (launch,) = pointwise(device.target, arrays, inputs, exprs, scalars=(2.5,), compute=float32)
        assert launch.kernel.name == wanted
        device.queue.launch(launch)
        found.append([np.nan_to_num(out.float().numpy(), nan=1e38) for out in made])
    for plain, vectors in zip(*found, strict=True):
        np.testing.assert_array_equal(plain.view(np.int32), vectors.view(np.int32))


ROWS = {
    "one row": ((1001,), (1,), (1,)),
    "no end": ((24, 32), (32, 1), (0, 1)),
    "channels": ((3, 7, 61), (427, 61, 1), (0, 1, 0)),
    "gates": ((16, 50), (200, 1), (50, 1)),
    "every other": ((9, 67), (134, 2), (67, 1)),
    "columns": ((40, 33), (1, 40), (33, 1)),
    "backwards": ((40, 33), (33, -1), (0, -3)),
    "four axes": ((3, 2, 5, 19), (190, 19, 38, 1), (95, 0, 19, 1)),
    "a vector and one": ((70, 17), (17, 1), (1, 0)),
}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -88.0)


@pytest.mark.parametrize(("shape", "first", "second"), ROWS.values(), ids=ROWS)
def test_rows_of_any_length_give_the_same_bits(device, thresholds, shape, first, second):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors along rows are for CPU-shaped devices")
    rng = np.random.default_rng(1)
    views, operands = [], []
    for steps in (first, second):
        low = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s > 0)
        host = rng.standard_normal(high - low + 1).astype(np.float32)
        host[-len(SPECIAL) :] = SPECIAL[-len(host) :]
        host[: len(SPECIAL)] = SPECIAL[: len(host)]
        operands.append(Array.from_numpy(host, device).view(shape, steps, -low))
        strides = [4 * s for s in steps]
        views.append(np.lib.stride_tricks.as_strided(host[-low:], shape, strides))
    exprs = (X * A + Y, exp(X) * tanh(Y))
    found = {}
    for kind in (False, True, True):
        thresholds(rows=kind)
        y = [Array.from_numpy(np.full(shape, 7, np.float32), device) for _ in exprs]
        (launch,) = pointwise(device.target, y, operands, exprs, scalars=(0.5,), compute=float32)
        assert launch.kernel.name == ("pointwise_rows" if kind else "pointwise")
        device.queue.launch(launch)
        again = found.setdefault(kind, [each.numpy() for each in y])
        for one, other in zip(again, y, strict=True):
            np.testing.assert_array_equal(one, other.numpy())
    for plain, rows in zip(found[False], found[True], strict=True):
        np.testing.assert_array_equal(plain.view(np.int32), rows.view(np.int32))
    with np.errstate(all="ignore"):
        x, c = (view.astype(np.float64) for view in views)
        wanted = (x * 0.5 + c, np.exp(x) * np.tanh(c))
    for rows, exact in zip(found[True], wanted, strict=True):
        with np.errstate(all="ignore"):
            held = exact.astype(np.float32)
        np.testing.assert_allclose(rows, held, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=str)
@pytest.mark.parametrize("steps", [(1, 67), (134, -2), (2, 40)])
def test_rows_are_stored_by_steps_and_nothing_beside(device, thresholds, dtype, steps):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors along rows are for CPU-shaped devices")
    rng = np.random.default_rng(2)
    shape = (40, 67) if steps[0] != 2 else (20, 67)
    first = max(0, -steps[1] * 66)
    inputs = [
        Array.from_numpy(rng.standard_normal(shape, dtype=np.float32), device) for _ in range(2)
    ]
    found = {}
    for rows in (False, True):
        thresholds(rows=rows)
        made = clnet.full((2, 40 * 134), 7, device=device, dtype=dtype)
        y = [made[k].array for k in (0, 1)]
        y = [a.view(shape, steps, a.offset + first) for a in y]
        (launch,) = pointwise(device.target, y, inputs, EXPRS, scalars=(0.5,), compute=float32)
        assert launch.kernel.name == ("pointwise_rows" if rows else "pointwise")
        device.queue.launch(launch)
        found[rows] = made.float().numpy()
    np.testing.assert_array_equal(found[True].view(np.int32), found[False].view(np.int32))
    assert np.count_nonzero(found[True] != 7) == 2 * np.prod(shape)


def test_rows_are_read_before_they_are_written_over(device, thresholds):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors along rows are for CPU-shaped devices")
    thresholds(rows=True)
    host = np.arange(40 * 70, dtype=np.float32).reshape(40, 70)
    x = Array.from_numpy(host, device)
    inside = x.view((40, 35), (70, 1), 3)
    (launch,) = pointwise(device.target, [inside], [inside], (X * 2,), compute=float32)
    assert launch.kernel.name == "pointwise_rows"
    device.queue.launch(launch)
    host[:, 3:38] *= 2
    np.testing.assert_array_equal(x.numpy(), host)  # and nothing beside


@pytest.mark.parametrize("shape", ["one row", "no end", "backwards", "four axes"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float64], ids=lambda d: d.__name__)
def test_rows_of_other_types_are_loops(device, thresholds, dtype, shape):
    """A sum, a conversion and a truth value of numbers that have no vectors of their own."""
    if device.traits.dedicated_local_memory:
        pytest.skip("loops along rows are for CPU-shaped devices")
    sizes, *both = ROWS[shape]
    rng = np.random.default_rng(4)
    views, operands = [], []
    for steps in both:
        low = sum((n - 1) * s for n, s in zip(sizes, steps, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(sizes, steps, strict=True) if s > 0)
        host = rng.integers(0, 99, high - low + 1).astype(dtype)
        operands.append(Array.from_numpy(host, device).view(sizes, steps, -low))
        strides = [host.itemsize * s for s in steps]
        views.append(np.lib.stride_tricks.as_strided(host[-low:], sizes, strides))
    compute = from_numpy(np.dtype(dtype))
    thresholds(lines=True)
    made = [Array.from_numpy(np.full(sizes, 7, d), device) for d in (dtype, np.float32, np.bool_)]
    exprs = (X + Y * Y, X * Y, X > Y)
    (launch,) = pointwise(device.target, made, operands, exprs, compute=compute)
    assert launch.kernel.name == "pointwise_lines"
    assert launch.local_size == (1, 1)
    device.queue.launch(launch)
    x, y = views
    for found, wanted in zip(made, (x + y * y, (x * y).astype(np.float32), x > y), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_results_that_begin_inside_a_line_are_stored_as_usual(device, thresholds):
    thresholds(dense=0, stream=0)
    x = Array.from_numpy(np.arange(100, dtype=np.float32), device)
    shifted = x.view((64,), (1,), 3)
    (launch,) = pointwise(device.target, [shifted], [shifted], (X * 2,), compute=float32)
    assert "stream(" not in launch.kernel.text()
    device.queue.launch(launch)
    np.testing.assert_array_equal(shifted.numpy(), 2 * np.arange(3, 67, dtype=np.float32))


LAYOUTS = {
    "dense": ((30,), (1,), (1,)),
    "one for all": ((30,), (1,), (0,)),
    "every other": ((30,), (2,), (1,)),
    "transposed": ((5, 6), (1, 5), (6, 1)),
    "backwards": ((5, 6), (-6, -1), (1, 5)),
    "rows": ((5, 6), (0, 1), (7, 1)),
    "columns": ((5, 6), (6, 1), (1, 0)),
}


@pytest.mark.parametrize(("shape", "first", "second"), LAYOUTS.values(), ids=LAYOUTS)
def test_one_kernel_takes_small_arrays_of_all_layouts(device, thresholds, shape, first, second):
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(64, dtype=np.float32) for _ in range(2)]
    starts = [
        sum((n - 1) * -s for n, s in zip(shape, x, strict=True) if s < 0) for x in (first, second)
    ]
    operands = [
        Array.from_numpy(host, device).view(shape, steps, start)
        for host, steps, start in zip(hosts, (first, second), starts, strict=True)
    ]
    x, y = (
        np.lib.stride_tricks.as_strided(host[start:], shape, [4 * s for s in steps])
        for host, steps, start in zip(hosts, (first, second), starts, strict=True)
    )
    thresholds(small=0)
    exact, launch = run(device, operands)
    assert launch.kernel.name == "pointwise"
    thresholds(small=30)
    small, launch = run(device, operands)
    assert launch.kernel.name == "pointwise_small"
    for left, right, expected in zip(exact, small, (x * 0.5 + y, x - y * y), strict=True):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_allclose(right, expected, rtol=1e-6, atol=1e-6)


def test_arrays_of_all_layouts_share_a_kernel(device, thresholds):
    thresholds(small=512)
    a = Array.from_numpy(np.ones(512, np.float32), device)
    layouts = [a, a.view((7, 9), (1, 7)), a.view((7, 9), (0, 1)), a.view((1,), (0,))]
    assert len({run(device, [x, x])[1].kernel for x in layouts}) == 1
    b = Array.from_numpy(np.ones(2**16, np.float32), device)
    for other in (b.view((3, 3, 3), (1, 4, 17)), b.view((2, 3), (2**15, 1)), b.view((513,), (2,))):
        assert run(device, [other, other])[1].kernel.name == "pointwise"


def test_arrays_that_lie_in_one_order_are_one_row(device):
    x = Array.from_numpy(np.ones((16, 70, 50), np.float32), device)
    y = Array.from_numpy(np.ones((16, 70, 50), np.float32), device)
    (dense,) = pointwise(device.target, [y], [x], (X * X,), compute=float32)
    shape, steps = (16, 50, 70), (3500, 1, 50)
    y, x = y.view(shape, steps), x.view(shape, steps)
    (turned,) = pointwise(device.target, [y], [x], (X * X,), compute=float32)
    assert (turned.kernel, turned.global_size) == (dense.kernel, dense.global_size)
    assert turned.bytes == dense.bytes


SHORT = {
    "points": ((1001, 3), (3, 1), (1, 0)),
    "a row for all": ((1001, 3), (3, 1), (0, 1)),
    "parts of rows": ((333, 5), (8, 1), (5, 1)),
    "every other": ((333, 7), (14, 2), (7, -1)),
    "three axes": ((7, 50, 15), (750, 15, 1), (15, 0, 1)),
    "four axes": ((3, 5, 11, 2), (110, 2, 10, 1), (0, 22, 2, 1)),
    "one element": ((40, 30, 1), (1, 40, 1), (30, 1, 1)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=["float32", "int64"])
@pytest.mark.parametrize(("shape", "first", "second"), SHORT.values(), ids=SHORT)
def test_short_rows_share_a_group(device, thresholds, shape, first, second, dtype):
    if device.traits.dedicated_local_memory:
        pytest.skip("groups of several short rows are for CPU-shaped devices")
    rng = np.random.default_rng(3)
    arrays, views = [], []
    for steps in (first, second):
        low = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s < 0)
        high = sum((n - 1) * s for n, s in zip(shape, steps, strict=True) if s > 0)
        host = rng.integers(-99, 99, high - low + 1).astype(dtype)
        arrays.append(Array.from_numpy(host, device).view(shape, steps, -low))
        strides = [host.itemsize * s for s in steps]
        views.append(np.lib.stride_tricks.as_strided(host[-low:], shape, strides))
    compute = from_numpy(np.dtype(dtype))
    x, y = views
    for many in (2**60, 0):
        thresholds(many=many)
        made = [Array.from_numpy(np.full(shape, 7, d), device) for d in (dtype, np.bool_)]
        exprs = (X * Y - X, X > Y)
        *_, launch = pointwise(device.target, made, arrays, exprs, compute=compute)
        assert launch.kernel.name == "pointwise"
        assert ("int place" in launch.kernel.text()) == (many == 0 and shape[-1] > 1)
        for each in pointwise(device.target, made, arrays, exprs, compute=compute):
            device.queue.launch(each)
        np.testing.assert_array_equal(made[0].numpy(), x * y - x)
        np.testing.assert_array_equal(made[1].numpy(), x > y)


@pytest.mark.parametrize("number", [False, True], ids=["chosen by", "as numbers"])
def test_truth_values_are_vectors_too(device, thresholds, number):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors are for CPU-shaped devices")
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((2, 3, 512), dtype=np.float32)
    truth, x[0, :3] = y > 0, (np.nan, np.inf, -0.0)
    x[:, 5:9] = y[:, 5:9]
    thresholds(dense=0)
    operands = [Array.from_numpy(v, device) for v in (x, y, truth)]
    made = [Array.from_numpy(np.zeros((3, 512), d), device) for d in (np.float32, np.bool_)]
    chosen = Input(2) * X if number else where(Input(2, True), X, 3)
    exprs = (chosen, X >= Y)
    (launch,) = pointwise(device.target, made, operands, exprs, compute=float32)
    assert launch.kernel.name == "pointwise_vectors"
    device.queue.launch(launch)
    wanted = truth * x if number else np.where(truth, x, np.float32(3))
    np.testing.assert_array_equal(made[0].numpy(), wanted)
    np.testing.assert_array_equal(made[1].numpy(), x >= y)


def test_truth_values_become_floats_in_vectors(device):
    if device.traits.dedicated_local_memory:
        pytest.skip("vectors are for CPU-shaped devices")
    host = np.random.default_rng(8).random((64, 512)) > 0.5
    truth = clnet.tensor(host)
    with clnet.profile(device) as observed:
        y = truth.float()
    assert [each.name for each in observed.commands] == ["pointwise_vectors"]
    np.testing.assert_array_equal(y.numpy(), host)


def test_truth_values_that_are_numbers_on_the_way_are_no_vectors(device, thresholds):
    thresholds(dense=0)
    host = np.random.default_rng(7).random((2, 4, 512)) > 0.5
    operands = [Array.from_numpy(v, device) for v in host]
    for expr, wanted, name in (
        (logical_xor(Input(0, True), Input(1, True)), host[0] ^ host[1], "pointwise_vectors"),
        (ne(as_number(Input(0, True)) + as_number(Input(1, True)), 0), host[0] | host[1],
         "pointwise"),
    ):  # fmt: skip
        y = Array.from_numpy(np.zeros((4, 512), np.bool_), device)
        (launch,) = pointwise(device.target, [y], operands, (expr,), compute=bool_)
        if not device.traits.dedicated_local_memory:
            assert launch.kernel.name == name
        device.queue.launch(launch)
        np.testing.assert_array_equal(y.numpy(), wanted)


def test_what_lies_across_the_result_is_copied_first(device, thresholds):
    if device.traits.dedicated_local_memory:
        pytest.skip("copies before pointwise ops are for CPU-shaped devices")
    rng = np.random.default_rng(4)
    host = rng.standard_normal((5, 37, 41), dtype=np.float32)
    x = Array.from_numpy(host, device)
    across = x.view((5, 41, 37), (37 * 41, 1, 41))
    one = x.view((1, 41, 37), (0, 1, 41), 37 * 41)
    dense = Array.from_numpy(rng.standard_normal((41, 37), dtype=np.float32), device)
    turned = host.swapaxes(1, 2)
    wanted = turned * turned[1] - dense.numpy()
    for many, copies in ((2**60, 0), (0, 2)):
        thresholds(many=many, rows=True)
        y = Array.from_numpy(np.zeros((5, 41, 37), np.float32), device)
        launches = pointwise(
            device.target, [y], [across, one, dense], (X * Y - Z,), compute=float32
        )
        assert len(launches) == 1 + copies
        for launch in launches:
            device.queue.launch(launch)
        np.testing.assert_array_equal(y.numpy(), wanted)
