"""Kernels of blocked arrays against the plain ones and NumPy, for vectors of 4, 8 and 16 floats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import device
from clnet.expr import Input, Scalar, exp, where
from clnet.kernels import streaming
from clnet.kernels.conv_blocked.reorder import reorder
from clnet.kernels.norm.blocked_norm import blocked_moments, blocked_sums
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.kernels.pool.avg_pool import adaptive_avg_pool, adaptive_avg_pool_gradient, avg_pool
from clnet.kernels.pool.avg_pool_grad import avg_pool_gradient
from clnet.kernels.pool.blocked_means import Means, blocked_avg_pool, blocked_avg_pool_gradient
from clnet.kernels.pool.blocked_pool import blocked_max_pool, blocked_max_pool_gradient
from clnet.kernels.pool.max_pool import max_pool, max_pool_gradient
from clnet.kernels.pool.window import Window
from clnet.values.dtypes import float32
from tests.kernels.launching import cpu_shaped, normal, on_device, poisoned, run

LANES = [4, 8, 16]
EPS = 1e-5
WINDOWS = [
    (Window(2, 2, 2, 2), (8, 6), (4, 3)),
    (Window(3, 3, 2, 2, 1, 1), (9, 17), (5, 9)),
    (Window(2, 2, 2, 2), (7, 5), (4, 3)),
    (Window(3, 2, 1, 3, 0, 1), (5, 8), (3, 3)),
]
DILATED = (Window(3, 2, 1, 2, 1, 1, 2, 3), (7, 9), (5, 4))


def to_blocked(x, lanes):
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // lanes, lanes, h, w).transpose(0, 1, 3, 4, 2))


def to_plain(x):
    n, g, h, w, lanes = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, g * lanes, h, w)


def channel(values, lanes):
    """A vector as an operand of blocked arrays."""
    array = on_device(values)
    return array.view((1, array.size // lanes, 1, 1, lanes), (0, lanes, 0, 0, 1))


def narrowed(x, lanes):
    """Blocked images that are some of the channels of wider ones."""
    whole = on_device(to_blocked(np.concatenate([normal(*x.shape, seed=9), x], 1), lanes))
    n, g, h, w, _ = whole.shape
    return whole.view((n, g // 2, h, w, lanes), whole.strides, g // 2 * h * w * lanes)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("plane", [(1, 1), (1, 3), (7, 7), (4, 8), (33, 40)], ids=str)
def test_reorder_both_ways(lanes, plane):
    x = normal(2, 3 * lanes, *plane)
    y, back = poisoned(to_blocked(x, lanes).shape), poisoned(x.shape)
    run(reorder(y, on_device(x)))
    np.testing.assert_array_equal(y.numpy(), to_blocked(x, lanes))
    run(reorder(back, y))
    np.testing.assert_array_equal(back.numpy(), x)


@pytest.mark.parametrize("lanes", LANES)
def test_reorder_of_some_channels(lanes):
    x = normal(2, 2 * lanes, 5, 7)
    y = poisoned(x.shape)
    run(reorder(y, narrowed(x, lanes)))
    np.testing.assert_array_equal(y.numpy(), x)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (2, 1, 40, 41), (1, 3, 1, 1)], ids=str)
def test_moments(lanes, shape):
    n, g, h, w = shape
    x = 2 * normal(n, g * lanes, h, w) + 5
    found = [poisoned((g * lanes,)) for _ in range(3)]
    run(blocked_moments(tuple(found), narrowed(x, lanes), eps=EPS))
    x = x.astype(np.float64)
    count = n * h * w
    np.testing.assert_allclose(found[0].numpy(), x.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), 1 / np.sqrt(x.var((0, 2, 3)) + EPS), rtol=1e-5)
    if count > 1:
        np.testing.assert_allclose(found[2].numpy(), x.var((0, 2, 3), ddof=1), rtol=1e-5)
    else:
        assert np.isnan(found[2].numpy()).all()


def test_moments_far_from_zero():
    x = (normal(4, 16, 30, 30) * 1e-2 + 100).astype(np.float32)
    found = [poisoned((16,)) for _ in range(3)]
    run(blocked_moments(tuple(found), on_device(to_blocked(x, 16)), eps=0.0))
    np.testing.assert_allclose(
        found[2].numpy(), x.astype(np.float64).var((0, 2, 3), ddof=1), rtol=1e-3
    )


def test_moments_at_the_end_of_the_range():
    """Of constants there is no variance, one that overflows is infinite; neither is NaN."""
    x = (normal(4, 16, 30, 30) * 1e25).astype(np.float32)
    x[:, :4], x[:, 4:8] = 1e20, 12345678
    found = [poisoned((16,)) for _ in range(3)]
    run(blocked_moments(tuple(found), on_device(to_blocked(x, 16)), eps=EPS))
    _, invstd, var = (f.numpy() for f in found)
    assert (invstd[8:] == 0).all()
    assert (var[8:] == np.inf).all()
    assert (var[:8] <= (1e-6 * x[0, :8, 0, 0]) ** 2).all()
    assert (invstd[:8] > 0).all()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (2, 1, 40, 41)], ids=str)
def test_sums_of_expressions(lanes, shape):
    n, g, h, w = shape
    a, b, c = (
        normal(n, g * lanes, h, w),
        normal(n, g * lanes, h, w, seed=1),
        normal(g * lanes, seed=2),
    )
    first, second = poisoned(c.shape), poisoned(c.shape)
    kept = where(Input(1) <= 0, 0, Input(0))
    exprs = (kept, kept * exp(Input(1) - Input(2)) * Scalar(0))
    inputs = [on_device(to_blocked(a, lanes)), narrowed(b, lanes), on_device(c)]
    run(blocked_sums([first, second], inputs, exprs, scalars=(0.5,)))
    kept = np.where(b <= 0, 0, a).astype(np.float64)
    scaled = kept * np.exp(b.astype(np.float64) - c[:, None, None]) * 0.5
    np.testing.assert_allclose(first.numpy(), kept.sum((0, 2, 3)), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(second.numpy(), scaled.sum((0, 2, 3)), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (2, 1, 40, 41), (1, 3, 9, 9)], ids=str)
def test_pointwise_with_values_of_channels_has_the_bits_of_the_plain_kernel(lanes, shape):
    n, g, h, w = shape
    x, mask = normal(n, g * lanes, h, w), normal(1, 1, h, w, seed=3)
    mean, scale = normal(g * lanes, seed=1), normal(g * lanes, seed=2)
    target = cpu_shaped(device())
    target = replace(target, traits=replace(target.traits, simd_width=16))
    z = (Input(0) - Input(1)) * Input(2) + Scalar(0) * Input(3)
    exprs = (where(z <= 0, 0, z), exp(z))
    spread = [on_device(v).view((1, g * lanes, 1, 1), (0, 1, 0, 0)) for v in (mean, scale)]
    expected = [poisoned(x.shape) for _ in exprs]
    plain = pointwise(
        target,
        expected,
        [on_device(x), *spread, on_device(mask)],
        exprs,
        scalars=(0.5,),
        compute=float32,
    )
    found = [poisoned((n, g, h, w, lanes)) for _ in exprs]
    masked = on_device(mask).view((1, 1, h, w, 1), (0, 0, w, 1, 0))
    blocked = pointwise(
        target,
        found,
        [narrowed(x, lanes), channel(mean, lanes), channel(scale, lanes), masked],
        exprs,
        scalars=(0.5,),
        compute=float32,
    )
    assert plain[0].kernel.name != "pointwise_vectors" == blocked[0].kernel.name
    run(plain + blocked)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(to_plain(other.numpy()), one.numpy())


@pytest.mark.parametrize(
    ("lanes", "window", "plane", "out"),
    [(4, *WINDOWS[1]), (8, *WINDOWS[1]), *((16, *case) for case in (*WINDOWS, DILATED))],
    ids=str,
)
def test_maxima_and_their_gradient(lanes, window, plane, out):
    target = cpu_shaped(device())
    x, gy = normal(2, 2 * lanes, *plane), normal(2, 2 * lanes, *out, seed=1)
    x[0, 0, 3, 2] = np.nan
    y, index, gx = poisoned(gy.shape), poisoned(gy.shape, np.int32), poisoned(x.shape)
    run(max_pool(target, y, on_device(x), window=window, index=index))
    run(max_pool_gradient(target, gx, on_device(gy), index, window=window))
    shape = (2, 2, *out, lanes)
    yb, alone, ib = poisoned(shape), poisoned(shape), poisoned(shape, np.int32)
    gxb = poisoned((2, 2, *plane, lanes))
    xb = narrowed(x, lanes)
    run(blocked_max_pool(yb, xb, window=window, index=ib))
    run(blocked_max_pool(alone, xb, window=window, index=None))
    run(blocked_max_pool_gradient(gxb, on_device(to_blocked(gy, lanes)), ib, window=window))
    for found, expected in [(yb, y), (alone, y), (ib, index), (gxb, gx)]:
        np.testing.assert_array_equal(to_plain(found.numpy()), expected.numpy())


@pytest.mark.parametrize("lanes", [16])
@pytest.mark.parametrize(("window", "plane", "out"), WINDOWS, ids=str)
@pytest.mark.parametrize(("include_pad", "divisor"), [(True, 0), (False, 0), (True, 5)])
def test_means_and_their_gradient(lanes, window, plane, out, include_pad, divisor):
    how = {"window": window, "include_pad": include_pad, "divisor": divisor}

    def plain(target, y, x, gx, gy):
        return avg_pool(target, y, x, **how) + avg_pool_gradient(target, gx, gy, **how)

    check_means(lanes, plane, out, Means(window, include_pad, divisor), plain)


@pytest.mark.parametrize("lanes", [8])
@pytest.mark.parametrize(
    ("plane", "out"), [((7, 7), (1, 1)), ((13, 9), (6, 4)), ((6, 6), (6, 6)), ((3, 4), (5, 7))]
)
def test_means_of_parts_and_their_gradient(lanes, plane, out):
    def plain(target, y, x, gx, gy):
        return adaptive_avg_pool(target, y, x) + adaptive_avg_pool_gradient(target, gx, gy)

    check_means(lanes, plane, out, Means(None), plain)


def check_means(lanes, plane, out, means, plain):
    target = cpu_shaped(device())
    x, gy = normal(2, 2 * lanes, *plane), normal(2, 2 * lanes, *out, seed=1)
    y, gx = poisoned(gy.shape), poisoned(x.shape)
    run(plain(target, y, on_device(x), gx, on_device(gy)))
    yb, gxb = poisoned((2, 2, *out, lanes)), poisoned((2, 2, *plane, lanes))
    run(blocked_avg_pool(yb, narrowed(x, lanes), means=means))
    run(blocked_avg_pool_gradient(target, gxb, on_device(to_blocked(gy, lanes)), means=means))
    for found, expected in [(yb, y), (gxb, gx)]:
        np.testing.assert_allclose(to_plain(found.numpy()), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("window", "plane", "out"), [*WINDOWS, (None, (7, 7), (1, 1))], ids=str)
def test_gradients_of_pooling_past_the_caches_have_the_same_bits(window, plane, out, monkeypatch):
    target, lanes = cpu_shaped(device()), 16
    gy = on_device(to_blocked(normal(40, 2 * lanes, *out), lanes))
    places = np.random.default_rng(2).integers(0, plane[0] * plane[1], gy.shape)
    index = on_device(places.astype(np.int32))

    def results():
        means, largest = (poisoned((40, 2, *plane, lanes)) for _ in range(2))
        launches = blocked_avg_pool_gradient(target, means, gy, means=Means(window))
        if window is not None:
            launches += blocked_max_pool_gradient(largest, gy, index, window=window)
        run(launches)
        return (
            [launch.kernel.params["stream"] for launch in launches],
            means.numpy(),
            largest.numpy(),
        )

    plain, *expected = results()
    monkeypatch.setattr(streaming, "STREAM_BYTES", 0)
    past, *found = results()
    assert not any(plain)
    assert all(past)
    np.testing.assert_array_equal(found, expected)


def test_a_gradient_that_is_not_a_number_stays_in_its_window():
    """Windows outside the plane count nothing, not even times zero."""
    target, lanes = cpu_shaped(device()), 16
    gy = normal(1, lanes, 4, 4)
    gy[0, :, 0, 3] = np.nan
    gx = poisoned((1, 1, 7, 7, lanes))
    means = Means(Window(3, 3, 2, 2, 1, 1))
    run(blocked_avg_pool_gradient(target, gx, on_device(to_blocked(gy, lanes)), means=means))
    expected = np.zeros((7, 7), bool)
    expected[:2, 5:] = True
    np.testing.assert_array_equal(np.isnan(gx.numpy()[0, 0]).all(2), expected)


def test_no_elements_no_launches():
    empty = Array.abstract((0, 2, 4, 4, 16), float32, device())
    plain = Array.abstract((0, 32, 4, 4), float32, device())
    assert reorder(empty, plain) == reorder(plain, empty) == []
    window = Window(2, 2, 2, 2)
    pooled = Array.abstract((0, 2, 2, 2, 16), float32, device())
    assert blocked_max_pool(pooled, empty, window=window, index=None) == []
    assert blocked_avg_pool(pooled, empty, means=Means(window)) == []
