"""The scan kernels of both shapes, about the length of a part and across several."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.kernels import streaming
from clnet.kernels.reduce.running_extreme import running_extreme
from clnet.kernels.reduce.scan import Scan, scan
from clnet.values.dtypes import float32
from tests.kernels.launching import both_shapes, cpu_shaped, offset, on_device, poisoned, run

pytestmark = pytest.mark.device

RNG = np.random.default_rng(5)
SIZES = [1, 2, 31, 33, 127, 128, 129, 1023, 1024, 1025, 2048, 2049, 5000]


def reference(x: np.ndarray, dim: int, kind: Scan, *, reverse: bool) -> np.ndarray:
    cumulate = np.cumsum if kind is Scan.SUM else np.cumprod
    x = np.flip(x, dim) if reverse else x
    y = cumulate(x, dim, dtype=np.float64 if x.dtype.kind == "f" else x.dtype)
    return np.flip(y, dim) if reverse else y


@both_shapes
@pytest.mark.parametrize("reverse", [False, True], ids=["", "reverse"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (3, 2), (2, 40)], ids=str)
def test_scan_is_numpys(outer, inner, n, reverse, shaped):
    x = RNG.normal(size=(outer, n, inner)).astype(np.float32)
    y = poisoned(x.shape)
    run(scan(shaped(device()), y, offset(x), dim=1, kind=Scan.SUM, reverse=reverse))
    expected = reference(x, 1, Scan.SUM, reverse=reverse)
    tolerance = 4 * np.finfo(np.float32).eps * n**0.5 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(y.numpy(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("reverse", [False, True], ids=["", "reverse"])
@pytest.mark.parametrize("shape", [(5, 1024, 1), (3, 1488, 1), (1, 3088, 1), (2, 33, 700)], ids=str)
def test_scan_past_the_caches_gives_the_same_bits(shape, reverse, monkeypatch):
    target = cpu_shaped(device())
    x = RNG.normal(size=shape).astype(np.float32)
    plain, past = poisoned(shape), poisoned(shape)
    run(scan(target, plain, offset(x), dim=1, kind=Scan.SUM, reverse=reverse))
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    monkeypatch.setattr(streaming, "LINE_BYTES", 4 * max(target.traits.simd_width, 2))
    launches = scan(target, past, offset(x), dim=1, kind=Scan.SUM, reverse=reverse)
    assert (launches[0].kernel.params.get("lanes", 0) > 0) == (shape[1] % 16 == 0 or shape[2] > 1)
    run(launches)
    np.testing.assert_array_equal(past.numpy(), plain.numpy())


@pytest.mark.parametrize("shape", [(3, 1500, 1), (1, 5000, 1), (2, 40, 21), (2, 1100, 3)], ids=str)
def test_a_cpu_adds_in_the_order_of_the_axis(shape):
    """Within a part as a loop of doubles does, whatever is done at once."""
    x = RNG.normal(size=shape).astype(np.float32)
    y = poisoned(shape)
    run(scan(cpu_shaped(device()), y, offset(x), dim=1, kind=Scan.SUM))
    expected = np.cumsum(x[:, :1024], 1, dtype=np.float64).astype(np.float32)
    np.testing.assert_array_equal(y.numpy()[:, :1024], expected)


@both_shapes
@pytest.mark.parametrize("kind", Scan)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_other_dtypes_and_products(dtype, kind, shaped):
    x = RNG.integers(1, 3, (2, 1500)).astype(dtype)
    x[:, 30:] = np.where(RNG.random((2, 1470)) < 0.5, 1, -1)
    y = poisoned(x.shape, dtype)
    run(scan(shaped(device()), y, offset(x), dim=1, kind=kind))
    np.testing.assert_array_equal(y.numpy(), reference(x, 1, kind, reverse=False).astype(dtype))


@both_shapes
def test_totals_of_totals_are_scanned_too(shaped):
    n = 1024 * 1025 + 5
    x = np.ones((n,), np.int32)
    y = poisoned(x.shape, np.int32)
    launches = scan(shaped(device()), y, offset(x), dim=0, kind=Scan.SUM)
    assert len(launches) == 5
    run(launches)
    np.testing.assert_array_equal(y.numpy(), np.arange(1, n + 1))


@both_shapes
def test_a_line_scans_alike_alone_and_in_a_batch(shaped):
    x = RNG.normal(size=(5, 3000)).astype(np.float32)
    results = []
    for rows in (x, x[:1]):
        y = poisoned(rows.shape)
        run(scan(shaped(device()), y, offset(rows), dim=1, kind=Scan.SUM))
        results.append(y.numpy()[0].tobytes())
    assert results[0] == results[1]


def test_nothing_is_launched_for_nothing():
    empty = Array.abstract((3, 0), float32, device())
    assert scan(device().target, empty, empty, dim=1, kind=Scan.SUM) == []


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("lines", [1, 3, 9])
def test_extremes_run_along_lines_side_by_side(lines, largest):
    values = RNG.integers(-9, 9, (lines, 33)).astype(np.float32)
    values[0, 7], values[-1, 20] = np.nan, -np.inf
    y, found = poisoned(values.shape, np.int64), poisoned(values.shape, values.dtype)
    operands = found, y, on_device(values)
    launch = running_extreme(cpu_shaped(device()), *operands, dim=1, largest=largest)
    assert launch.kernel.name == "running_extreme_lines"
    run([launch])
    best, place = values[:, 0].copy(), np.zeros(lines, int)
    for i in range(33):
        value = values[:, i]
        taken = np.isnan(value) | (value >= best if largest else value <= best)
        best, place = np.where(taken, value, best), np.where(taken, i, place)
        np.testing.assert_array_equal(y.numpy()[:, i], place)
        np.testing.assert_array_equal(found.numpy()[:, i], best)
