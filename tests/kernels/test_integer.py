"""Integers of 8 bits: convolutions, images and maxima, bit for bit what NumPy gives."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target, device
from clnet.kernels.conv import ConvGeometry
from clnet.kernels.integer import (
    IntegerEpilogue,
    Quantisation,
    add_images,
    depthwise_entries,
    dequantise_images,
    integer_conv,
    integer_depthwise,
    integer_max_pool,
    pack_integers,
    packed_shapes,
    quantise_images,
    stored_channels,
)
from clnet.kernels.pool import Window
from clnet.values.dtypes import float32, int32, uint8

RNG = np.random.default_rng(5)
GIVEN = Quantisation(0.037, 117)
PLAIN = IntegerEpilogue()

GEOMETRIES = {
    "pointwise": ConvGeometry(2, 20, 5, 7, 37, 1, 1, 5, 7),
    "in place": ConvGeometry(2, 24, 5, 3, 35, 1, 1, 5, 3),
    "one pixel": ConvGeometry(1, 64, 1, 1, 10, 1, 1, 1, 1),
    "few channels": ConvGeometry(1, 3, 11, 9, 16, 7, 7, 6, 5, sh=2, sw=2, ph=3, pw=3),
    "windows": ConvGeometry(3, 16, 6, 5, 33, 3, 3, 6, 5, ph=1, pw=1),
    "dilated": ConvGeometry(1, 8, 9, 8, 4, 3, 2, 3, 4, sh=2, sw=2, ph=1, pw=1, dh=2, dw=3),
    "groups": ConvGeometry(2, 12, 5, 4, 6, 3, 3, 5, 4, ph=1, pw=1, groups=2),
    "odd groups": ConvGeometry(1, 15, 5, 4, 9, 3, 3, 5, 4, ph=1, pw=1, groups=3),
    "depthwise": ConvGeometry(1, 6, 7, 6, 6, 3, 3, 7, 6, ph=1, pw=1, groups=6),
}
SHAPES = ("here", "items", "plain vectors")


def target_of(shape: str) -> tuple[Target, str]:
    """A device as it is, one with groups of work-items, and one with vectors and plain C."""
    here = device()
    if shape == "here":
        return here.target, here.integer_dot
    alike = replace(here.traits, dedicated_local_memory=shape == "items", simd_width=8)
    return replace(here.target, traits=alike), ""


def stored(images: np.ndarray) -> np.ndarray:
    """Images (n, c, h, w) with channels last, rounded up; 201 behind the last one."""
    n, c, h, w = images.shape
    y = np.full((n, h, w, stored_channels(c)), 201, np.uint8)
    y[..., :c] = images.transpose(0, 2, 3, 1)
    return y


def sums_of(x: np.ndarray, w: np.ndarray, g: ConvGeometry, zero: int) -> np.ndarray:
    """The sums of 32 bits, (n, oh, ow, oc)."""
    down, right = g.dh * (g.kh - 1), g.dw * (g.kw - 1)
    padded = np.full((g.n, g.ic, g.h + g.ph + down + g.sh, g.w + g.pw + right + g.sw), zero)
    padded[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w] = x
    y = np.zeros((g.n, g.oh, g.ow, g.oc), np.int64)
    for r in range(g.kh):
        for s in range(g.kw):
            rows = np.arange(g.oh) * g.sh + r * g.dh
            columns = np.arange(g.ow) * g.sw + s * g.dw
            seen = padded[:, :, rows][:, :, :, columns] - zero
            for o in range(g.oc):
                from_ = o // g.ocg * g.icg
                y[..., o] += np.einsum("nchw,c->nhw", seen[:, from_ : from_ + g.icg], w[o, :, r, s])
    return y


def operands(g: ConvGeometry) -> tuple[np.ndarray, ...]:
    """Random x, filters with the largest numbers among them, bias, scales."""
    x = RNG.integers(0, 256, (g.n, g.ic, g.h, g.w)).astype(np.uint8)
    w = RNG.integers(-128, 128, (g.oc, g.icg, g.kh, g.kw)).astype(np.int8)
    x.flat[::7], w.flat[::5] = 255, -128
    bias = RNG.integers(-(2**20), 2**20, g.oc).astype(np.int32)
    scale = (RNG.random(g.oc) * 1e-2).astype(np.float32)
    bias[:2], scale[:2] = (2**20, -(2**20)), 0.01
    return x, w, bias, scale


def narrow_sums(w: np.ndarray) -> np.ndarray:
    """Filters the first 16 of which reach what four products in 16 bits allow."""
    narrow = w.copy()
    narrow[:16] = np.clip(w[:16], -32, 32)
    narrow[0], narrow[1] = 32, -32
    return narrow


def on_device(values: np.ndarray) -> Array:
    return Array.from_numpy(np.ascontiguousarray(values), device())


def convolved(shape, g, operands_, epilogue, more=None):
    target, dot = target_of(shape)
    x, w, bias, scale = operands_
    made = tuple(on_device(np.full(s, -7, np.int32)) for s in packed_shapes(target, dot, g))
    given = on_device(w), on_device(bias), on_device(scale)
    launches = pack_integers(target, made, given, g, dot=dot)
    if epilogue.output is None:
        y = on_device(np.full((g.n, g.oh, g.ow, g.oc), np.nan, np.float32))
    else:
        y = on_device(np.full((g.n, g.oh, g.ow, stored_channels(g.oc)), 99, np.uint8))
    read = on_device(stored(x)), *made, *([] if more is None else [on_device(more)])
    launches += integer_conv(target, y, read, g, epilogue, given=GIVEN, dot=dot)
    for launch in launches:
        device().queue.launch(launch)
    return y.numpy()[..., : g.oc]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_floats_are_numpys_bit_for_bit(name, shape):
    g = GEOMETRIES[name]
    x, w, bias, scale = operands(g)
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    expected = sums.astype(np.float32) * (scale * np.float32(GIVEN.scale))
    np.testing.assert_array_equal(convolved(shape, g, (x, w, bias, scale), PLAIN), expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_bytes_are_numpys_bit_for_bit(name, shape):
    """Rounded, saturated, cut by a ReLU6, with bytes added."""
    g, out, other = GEOMETRIES[name], Quantisation(0.9, 31), Quantisation(0.5, 7)
    x, w, bias, scale = operands(g)
    more = RNG.integers(0, 256, (g.n, g.oh, g.ow, stored_channels(g.oc))).astype(np.uint8)
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    unit = np.float32(out.scale)
    factor = scale * (np.float32(GIVEN.scale) / unit)
    added = (more[..., : g.oc].astype(np.float32) - 7) * (np.float32(other.scale) / unit)
    values = sums.astype(np.float32) * factor + added
    for low, high, least, most in ((-inf, inf, 0, 255), (0, 60, 31, 98)):
        found = convolved(
            shape, g, (x, w, bias, scale), IntegerEpilogue(out, low, high, other), more
        )
        expected = np.clip(np.rint(values) + 31, least, most).astype(np.uint8)
        np.testing.assert_array_equal(found, expected)
    assert {0, 255} <= set(np.clip(np.rint(values) + 31, 0, 255).ravel())


@pytest.mark.parametrize("name", GEOMETRIES)
def test_panels_of_small_filters_are_exact_beside_others(name):
    """The largest numbers for which sums of four products are taken in 16 bits."""
    g = GEOMETRIES[name]
    x, w, bias, scale = operands(g)
    x[...] = np.where(RNG.random(x.shape) < 0.9, 255, x)
    w = narrow_sums(w)
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    expected = sums.astype(np.float32) * (scale * np.float32(GIVEN.scale))
    np.testing.assert_array_equal(convolved("here", g, (x, w, bias, scale), PLAIN), expected)


@pytest.mark.parametrize("most", [32, 33])
def test_panels_are_small_where_four_products_fit(most):
    """32 * 4 * 255 is the last that fits; one filter of 33 makes its panel a usual one."""
    target, dot = target_of("plain vectors")
    dot = "madd"
    g = ConvGeometry(1, 16, 1, 1, 40, 1, 1, 1, 1)
    w = np.full((40, 16, 1, 1), 32, np.int8)
    w[20, 8:] = most
    made = tuple(on_device(np.full(s, -7, np.int32)) for s in packed_shapes(target, dot, g))
    zeros = on_device(np.zeros(40, np.int32)), on_device(np.zeros(40, np.float32))
    for launch in pack_integers(target, made, (on_device(w), *zeros), g, dot=dot):
        device().queue.launch(launch)
    assert list(made[1].numpy()[3, ::16]) == [1, int(most == 32), 1]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["windows", "in place", "odd groups"])
def test_sums_themselves_are_stored(name, shape):
    """Also those that no float holds."""
    g = GEOMETRIES[name]
    x, w, bias, scale = operands(g)
    bias[:] = 2**30 + 1
    target, dot = target_of(shape)
    made = tuple(on_device(np.full(s, -7, np.int32)) for s in packed_shapes(target, dot, g))
    given = on_device(w), on_device(bias), on_device(scale)
    launches = pack_integers(target, made, given, g, dot=dot)
    y = on_device(np.full((g.n, g.oh, g.ow, g.oc), -1, np.int32))
    read = on_device(stored(x)), *made
    for launch in launches + integer_conv(target, y, read, g, PLAIN, given=GIVEN, dot=dot):
        device().queue.launch(launch)
    np.testing.assert_array_equal(y.numpy(), sums_of(x, w, g, GIVEN.zero) + bias)


@pytest.mark.parametrize("shape", SHAPES)
def test_floats_are_added_and_kept_within_bounds(shape):
    g = GEOMETRIES["windows"]
    x, w, bias, scale = operands(g)
    more = RNG.normal(size=(g.n, g.oh, g.ow, g.oc)).astype(np.float32) * 100
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    factor = scale * np.float32(GIVEN.scale)
    expected = np.maximum(sums.astype(np.float32) * factor + more, 0)
    found = convolved(shape, g, (x, w, bias, scale), IntegerEpilogue(None, 0.0), more)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_many_items_and_parts_of_rows_give_the_same(shape):
    g = ConvGeometry(2, 64, 20, 19, 96, 3, 3, 20, 19, ph=1, pw=1)
    x, w, bias, scale = operands(g)
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    expected = sums.astype(np.float32) * (scale * np.float32(GIVEN.scale))
    np.testing.assert_array_equal(convolved(shape, g, (x, w, bias, scale), PLAIN), expected)


BY_CHANNEL = {
    "alone": GEOMETRIES["depthwise"],
    "wide": ConvGeometry(2, 21, 15, 16, 21, 3, 3, 15, 16, ph=1, pw=1, groups=21),
    "stepping": ConvGeometry(3, 12, 9, 23, 12, 5, 4, 5, 8, sh=2, sw=3, ph=1, pw=2, dw=2, groups=12),
    "outside": ConvGeometry(1, 8, 2, 2, 8, 3, 3, 6, 5, ph=3, pw=3, groups=8),
    "dilated": ConvGeometry(1, 4, 12, 11, 4, 3, 3, 8, 9, ph=2, pw=1, dh=4, dw=2, groups=4),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BY_CHANNEL)
def test_filters_of_a_channel_each(name, shape, monkeypatch):
    """Bytes with bytes added, sums by a zero point in memory; few rows at a time, too."""
    g, out, other = BY_CHANNEL[name], Quantisation(0.9, 31), Quantisation(0.5, 7)
    x, w, bias, scale = operands(g)
    sums = (sums_of(x, w, g, GIVEN.zero) + bias).astype(np.int32)
    filters = np.zeros((g.taps, depthwise_entries(g.oc)), np.float32)
    filters[:, : g.oc] = w.reshape(g.oc, -1).T
    table = np.zeros((3, filters.shape[1]), np.int32)
    table[:, : g.oc] = bias, w.reshape(g.oc, -1).sum(1), scale.view(np.int32)
    more = RNG.integers(0, 256, (g.n, g.oh, g.ow, stored_channels(g.oc))).astype(np.uint8)
    unit = np.float32(out.scale)
    added = (more[..., : g.oc].astype(np.float32) - 7) * (np.float32(other.scale) / unit)
    values = sums.astype(np.float32) * (scale * (np.float32(GIVEN.scale) / unit)) + added
    expected = np.clip(np.rint(values) + 31, 31, 255)
    target, _ = target_of(shape)
    read = on_device(stored(x)), on_device(filters), on_device(table)
    point = on_device(np.array([GIVEN.zero], np.uint8))
    module = sys.modules[integer_depthwise.__module__]
    monkeypatch.setattr(module, "_PIXELS", 4)  # a tile that most geometries share, and end within
    for floats in (2**15, 1200):  # compiled with as many, so that few fit
        monkeypatch.setattr(module, "_LOCAL_FLOATS", floats)
        y = on_device(np.full(more.shape, 99, np.uint8))
        epilogue = IntegerEpilogue(out, 0.0, inf, other)
        launches = integer_depthwise(target, y, (*read, on_device(more)), g, epilogue, given=GIVEN)
        whole = on_device(np.full((g.n, g.oh, g.ow, g.oc), -1, np.int32))
        nowhere = Quantisation(1.0, 3)
        launches += integer_depthwise(target, whole, read, g, PLAIN, given=nowhere, point=point)
        for launch in launches:
            assert (np.prod(launch.local_size) > 1) == (shape == "items")  # a GPU's lanes
            device().queue.launch(launch)
        np.testing.assert_array_equal(y.numpy()[..., : g.oc], expected)
        np.testing.assert_array_equal(whole.numpy(), sums)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["windows", "in place"])
def test_zero_points_may_lie_in_memory(name, shape):
    g = GEOMETRIES[name]
    x, w, bias, scale = operands(g)
    target, dot = target_of(shape)
    made = tuple(on_device(np.full(s, -7, np.int32)) for s in packed_shapes(target, dot, g))
    given = on_device(w), on_device(bias), on_device(scale)
    launches = pack_integers(target, made, given, g, dot=dot)
    y = on_device(np.full((g.n, g.oh, g.ow, g.oc), -1, np.int32))
    point = on_device(np.array([GIVEN.zero], np.uint8))
    nowhere = Quantisation(1.0, 3)
    launches += integer_conv(
        target, y, (on_device(stored(x)), *made), g, PLAIN, given=nowhere, dot=dot, point=point
    )
    for launch in launches:
        device().queue.launch(launch)
    np.testing.assert_array_equal(y.numpy(), sums_of(x, w, g, GIVEN.zero) + bias)


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_images(shape):
    """Each operation rounded; whole vectors and what is left behind them."""
    target, _ = target_of(shape)
    how, low, high = Quantisation(0.7, 31), -9.0, 40.0
    left, right = Quantisation(0.31, 90), Quantisation(0.17, 200)
    for size in (4, 60, 1028):
        x, other = (RNG.integers(0, 256, (1, 1, 1, size)).astype(np.uint8) for _ in range(2))
        y = on_device(np.zeros_like(x))
        read = on_device(x), on_device(other)
        for launch in add_images(target, y, read, (left, right), (low, high), how=how):
            device().queue.launch(launch)
        floats = [
            (v.astype(np.float32) - np.float32(q.zero)) * np.float32(q.scale)
            for v, q in ((x, left), (other, right))
        ]
        kept = np.clip(sum(floats), low, high).astype(np.float32)
        expected = np.clip(np.rint(kept / np.float32(how.scale)) + how.zero, 0, 255)
        np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_images_by_a_scale_in_memory(shape):
    """However the floats lie: columns, channels or neither side by side."""
    target, _ = target_of(shape)
    x = (RNG.normal(size=(2, 6, 5, 19)) * 6).astype(np.float32)
    scale, point = np.array([GIVEN.scale], np.float32), np.array([GIVEN.zero], np.uint8)
    expected = np.clip(np.rint(x / scale) + GIVEN.zero, 0, 255).transpose(0, 2, 3, 1)
    for order in ((0, 1, 2, 3), (0, 2, 3, 1), (1, 3, 0, 2)):
        held = on_device(x.transpose(order))
        strides = tuple(held.strides[order.index(axis)] for axis in range(4))
        y = on_device(np.zeros((2, 5, 19, 8), np.uint8))
        given = on_device(scale), on_device(point)
        for launch in quantise_images(target, y, held.view(x.shape, strides), given):
            device().queue.launch(launch)
        np.testing.assert_array_equal(y.numpy()[..., :6], expected)


def test_no_images_launch_nothing():
    g = GEOMETRIES["windows"]._replace(n=0)
    target, dot = target_of("here")
    y = Array.abstract((0, 6, 5, 36), uint8, device())
    none = Array.abstract((0, 6, 5, 16), uint8, device())
    table = Array.abstract((3, 48), int32, device())
    assert integer_conv(target, y, (none, table, table), g, PLAIN, given=GIVEN, dot=dot) == []
    assert integer_depthwise(target, y, (none, table, table), g, PLAIN, given=GIVEN) == []
    assert add_images(target, none, (none, none), (GIVEN, GIVEN), (0, 1), how=GIVEN) == []
    assert quantise_images(target, none, none, GIVEN) == []
    assert dequantise_images(target, none, none, GIVEN) == []
    assert integer_max_pool(target, none, none, window=Window(1, 1, 1, 1)) == []


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels", [1, 5, 8])
def test_images_there_and_back(channels, shape):
    x = (RNG.normal(size=(2, channels, 4, 3)) * 6).astype(np.float32)
    x[0, 0, 0] = np.nan, np.inf, -np.inf
    target, _ = target_of(shape)
    y = on_device(np.zeros((2, 4, 3, stored_channels(channels)), np.uint8))
    back = Array.abstract((2, 4, 3, channels), float32, device())
    turned = on_device(x.transpose(0, 1, 3, 2))
    strided = turned.view(x.shape, (*turned.strides[:2], turned.strides[3], turned.strides[2]))
    for given in (on_device(x), strided):
        back.storage.materialize()
        launches = quantise_images(target, y, given, GIVEN)
        launches += dequantise_images(target, back, y, GIVEN)
        for launch in launches:
            device().queue.launch(launch)
        with np.errstate(invalid="ignore"):
            rounded = np.rint(x / np.float32(GIVEN.scale)) + GIVEN.zero
        expected = np.nan_to_num(np.clip(rounded, 0, 255)).astype(np.uint8).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(y.numpy()[..., :channels], expected)
        lowered = expected.astype(np.float32) - GIVEN.zero
        np.testing.assert_array_equal(back.numpy(), lowered * np.float32(GIVEN.scale))


def test_a_gpu_has_an_item_for_each_float_of_an_image():
    """Also where the image is one pixel, as a linear layer's."""
    target, _ = target_of("items")
    x = Array.abstract((1, 1, 1, 1000), uint8, device())
    (launch,) = dequantise_images(target, Array.abstract(x.shape, float32, device()), x, GIVEN)
    assert launch.global_size[0] >= 1000


@pytest.mark.parametrize("channels", [4, 16])
def test_maxima_of_windows(channels):
    x = RNG.integers(0, 256, (2, 7, 6, channels)).astype(np.uint8)
    window = Window(3, 2, 2, 1, 1, 1, 1, 2)
    target, _ = target_of("here")
    y = on_device(np.zeros((2, 4, 6, channels), np.uint8))
    for launch in integer_max_pool(target, y, on_device(x), window=window):
        device().queue.launch(launch)
    padded = np.zeros((2, 10, 10, channels), np.uint8)
    padded[:, 1:8, 1:7] = x
    seen = [padded[:, r : r + 7 : 2, s : s + 6] for r in range(3) for s in (0, 2)]
    np.testing.assert_array_equal(y.numpy(), np.max(seen, axis=0))
