"""Integers of 8 bits: convolutions with plain C for products, images and maxima."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np

from clnet.device import Target
from clnet.kernels.conv import ConvGeometry
from clnet.kernels.integer import (
    IntegerEpilogue,
    Quantisation,
    add_images,
    depthwise_entries,
    dequantise_images,
    integer_max_pool,
    pack_integers,
    packed_shapes,
    quantise_images,
)
from clnet.kernels.pool import Window

from .harness import case, constants, given, near, normal, output, run

conv_module = import_module("clnet.kernels.integer.integer_conv")
depthwise_module = import_module("clnet.kernels.integer.integer_depthwise")
images_module = import_module("clnet.kernels.integer.integer_images")
pack_module = import_module("clnet.kernels.integer.integer_pack")
pool_module = import_module("clnet.kernels.integer.integer_pool")

MODULES = (conv_module, depthwise_module, images_module, pack_module, pool_module)

RNG = np.random.default_rng(3)
GIVEN, OUT = Quantisation(0.05, 90), Quantisation(4.0, 12)
WINDOWS = ConvGeometry(2, 4, 4, 5, 9, 3, 3, 4, 5, ph=1, pw=1)
STRIDED = ConvGeometry(1, 12, 5, 5, 6, 3, 2, 3, 3, sh=2, sw=2, ph=1, pw=1, groups=2)
ODD = ConvGeometry(1, 6, 3, 4, 6, 1, 2, 3, 3, groups=2)
POINTWISE = ConvGeometry(1, 8, 3, 3, 5, 1, 1, 3, 3)


@case()
def convolutions_of_integers(target: Target) -> None:
    """Floats and bytes, alone and with either added; rows gathered whole, by taps and by bytes."""
    with constants(conv_module, LOCAL_BYTES=1024):
        for g, added in (
            (WINDOWS, None),
            (STRIDED, np.float32),
            (ODD, None),
            (POINTWISE, np.uint8),
        ):
            for bytes_ in (False, True):
                _convolution(target, g, added, OUT if bytes_ else None)


def _convolution(target: Target, g: ConvGeometry, added: type | None, out: Quantisation | None):
    x = RNG.integers(0, 256, (g.n, g.ic, g.h, g.w)).astype(np.uint8)
    w = RNG.integers(-128, 128, (g.oc, g.icg, g.kh, g.kw)).astype(np.int8)
    bias = RNG.integers(-99, 99, g.oc).astype(np.int32)
    scale = (RNG.random(g.oc) * 0.02).astype(np.float32)
    made = tuple(output(shape, np.int32) for shape in packed_shapes(target, "", g))
    run(pack_integers(target, made, (given(w), given(bias), given(scale)), g, dot=""))
    expected = _sums(x, w, g).transpose(0, 2, 3, 1) + bias
    expected = expected * scale.astype(np.float64) * GIVEN.scale
    channels = -(-g.oc // 4) * 4 if out else g.oc
    y = output((g.n, g.oh, g.ow, channels), np.uint8 if out else np.float32)
    more = []
    if added is not None:
        values = (normal(*y.shape) * 9 + 90).astype(added)
        more = [given(values)]
        zero, unit = (GIVEN.zero, GIVEN.scale) if added is np.uint8 else (0, 1)
        expected = expected + (values[..., : g.oc].astype(np.float64) - zero) * unit
    other = GIVEN if added is np.uint8 else None
    run(
        conv_module.integer_conv(
            target, y, (given(_last(x)), *made, *more), g,
            IntegerEpilogue(out, 0.0, 90.0, other), given=GIVEN, dot="",
        )
    )  # fmt: skip
    expected = np.clip(expected, 0, 90)
    found = y.numpy()[..., : g.oc]
    if out is None:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)
    else:
        steps = np.clip(expected / out.scale + out.zero, 0, out.of(90.0))
        assert np.abs(found - steps).max() < 0.51


def _sums(x: np.ndarray, w: np.ndarray, g: ConvGeometry) -> np.ndarray:
    seen = x.astype(np.float64) - GIVEN.zero
    y = np.zeros((g.n, g.oc, g.oh, g.ow))
    for o, c, r, s, target_, source in _terms(g):
        y[(slice(None), o, *target_)] += seen[(slice(None), c, *source)] * float(
            w[o, c % g.icg, r, s]
        )
    return y


def _terms(g: ConvGeometry):
    for o in range(g.oc):
        for c in range(o // g.ocg * g.icg, (o // g.ocg + 1) * g.icg):
            for r in range(g.kh):
                for s in range(g.kw):
                    rows = [i for i in range(g.oh) if 0 <= i * g.sh + r * g.dh - g.ph < g.h]
                    columns = [j for j in range(g.ow) if 0 <= j * g.sw + s * g.dw - g.pw < g.w]
                    if rows and columns:
                        down = np.array(rows)[:, None], np.array(columns)
                        yield o, c, r, s, down, (
                            down[0] * g.sh + r * g.dh - g.ph, down[1] * g.sw + s * g.dw - g.pw
                        )  # fmt: skip


def _last(x: np.ndarray) -> np.ndarray:
    missing = -x.shape[1] % 4
    return np.pad(x, ((0, 0), (0, missing), (0, 0), (0, 0))).transpose(0, 2, 3, 1)


@case()
def sums_and_small_panels(target: Target) -> None:
    """Sums of 32 bits; which panels sum four products in 16 bits: the first of two does."""
    g = POINTWISE
    x = RNG.integers(0, 256, (g.n, g.ic, g.h, g.w)).astype(np.uint8)
    w = RNG.integers(-128, 128, (g.oc, g.ic, 1, 1)).astype(np.int8)
    rest = given(np.zeros(g.oc, np.int32)), given(np.ones(g.oc, np.float32))
    made = tuple(output(shape, np.int32) for shape in packed_shapes(target, "", g))
    run(pack_integers(target, made, (given(w), *rest), g, dot=""))
    y = output((g.n, g.oh, g.ow, g.oc), np.int32)
    read = given(_last(x)), *made
    for how, point in ((GIVEN, None), (OUT, given(np.array([GIVEN.zero], np.uint8)))):
        run(
            conv_module.integer_conv(
                target, y, read, g, IntegerEpilogue(), given=how, dot="", point=point
            )
        )
        np.testing.assert_array_equal(y.numpy(), _sums(x, w, g).transpose(0, 2, 3, 1))
    vectors = replace(target, traits=replace(target.traits, dedicated_local_memory=False))
    wide = ConvGeometry(1, 12, 1, 1, 2 * max(target.traits.simd_width, 4) + 1, 1, 1, 1, 1)
    w = np.full((wide.oc, 12, 1, 1), 32, np.int8)
    w[-1, 0] = 33
    rest = given(np.zeros(wide.oc, np.int32)), given(np.ones(wide.oc, np.float32))
    made = tuple(output(shape, np.int32) for shape in packed_shapes(vectors, "madd", wide))
    run(pack_integers(vectors, made, (given(w), *rest), wide, dot="madd"))
    if len(made[0].numpy()) == 2:
        lanes = made[0].numpy().shape[2]
        assert list(made[1].numpy()[3, ::lanes]) == [1, 0]


@case()
def filters_of_a_channel_each(target: Target) -> None:
    """Floats and bytes, with either added or none, a zero point in memory; and sums."""
    g = ConvGeometry(2, 6, 5, 7, 6, 3, 2, 3, 4, sh=2, sw=2, ph=1, pw=1, groups=6)
    x = RNG.integers(0, 256, (g.n, g.ic, g.h, g.w)).astype(np.uint8)
    w = RNG.integers(-128, 128, (g.oc, 1, g.kh, g.kw)).astype(np.int8)
    sums = _sums(x, w, g).transpose(0, 2, 3, 1)
    filters = np.zeros((g.taps, depthwise_entries(g.oc)), np.float32)
    filters[:, : g.oc] = w.reshape(g.oc, -1).T
    table = np.zeros((3, filters.shape[1]), np.int32)
    ones = np.ones(g.oc, np.float32)
    table[1:, : g.oc] = w.reshape(g.oc, -1).sum(1), ones.view(np.int32)
    read = given(_last(x)), given(filters), given(table)
    point = given(np.array([GIVEN.zero], np.uint8))
    one = _run_depthwise(target, g, read)
    whole = one(np.int32, None, Quantisation(1.0, 3), point)
    np.testing.assert_array_equal(whole, sums)
    for added in (None, np.float32, np.uint8):
        expected = np.clip(sums * GIVEN.scale + (0 if added is None else 40 * GIVEN.scale), 0, 90)
        floats = one(np.float32, added, GIVEN, None)
        np.testing.assert_allclose(floats, expected, rtol=1e-5, atol=1e-3)
        steps = np.clip(expected / OUT.scale + OUT.zero, 0, OUT.of(90.0))
        assert np.abs(one(np.uint8, added, GIVEN, None) - steps).max() < 0.51


def _run_depthwise(target: Target, g: ConvGeometry, read: tuple):
    """What is added stands for 40 steps of the scale everywhere."""

    def run_one(dtype: type, added: type | None, how: Quantisation, point) -> np.ndarray:
        y = output((g.n, g.oh, g.ow, 8 if dtype is np.uint8 else g.oc), dtype)
        more = []
        if added is not None:
            value = GIVEN.zero + 40 if added is np.uint8 else 40 * GIVEN.scale
            more = [given(np.full(y.shape, value, added))]
        out = OUT if dtype is np.uint8 else None
        bounds = (-np.inf, np.inf) if dtype is np.int32 else (0.0, 90.0)
        epilogue = IntegerEpilogue(out, *bounds, GIVEN if added is np.uint8 else None)
        run(
            depthwise_module.integer_depthwise(
                target, y, (*read, *more), g, epilogue, given=how, point=point
            )
        )
        return y.numpy()[..., : g.oc]

    return run_one


@case()
def sums_of_images(target: Target) -> None:
    """Whole vectors, and numbers behind them."""
    x, other = (RNG.integers(0, 256, (1, 1, 1, 20)).astype(np.uint8) for _ in range(2))
    y = output(x.shape, np.uint8)
    run(add_images(target, y, (given(x), given(other)), (GIVEN, OUT), (-50.0, 90.0), how=OUT))
    floats = [(v.astype(np.float64) - q.zero) * q.scale for v, q in ((x, GIVEN), (other, OUT))]
    steps = np.clip(sum(floats), -50, 90) / OUT.scale + OUT.zero
    assert np.abs(y.numpy() - np.clip(steps, 0, 255)).max() < 0.51


@case()
def images_of_integers(target: Target) -> None:
    """Floats to bytes and back, channels that are no whole fours."""
    x = normal(2, 5, 3, 2) * 3
    y, back = output((2, 3, 2, 8), np.uint8), output((2, 3, 2, 5))
    how = given(np.array([GIVEN.scale], np.float32)), given(np.array([GIVEN.zero], np.uint8))
    for scale in (how, GIVEN):
        run(quantise_images(target, y, given(x, before=3), scale))
    run(dequantise_images(target, back, y, GIVEN))
    bounds = (0 - GIVEN.zero) * GIVEN.scale, (255 - GIVEN.zero) * GIVEN.scale
    assert np.abs(back.numpy() - np.clip(x, *bounds).transpose(0, 2, 3, 1)).max() < 0.03


@case()
def maxima_of_integers(target: Target) -> None:
    """Vectors of 16 channels, and of four."""
    for channels in (4, 16):
        x = RNG.integers(0, 256, (2, 5, 4, channels)).astype(np.uint8)
        y = output((2, 2, 3, channels), np.uint8)
        run(integer_max_pool(target, y, given(x), window=Window(2, 2, 2, 1)))
        seen = [x[:, r : r + 3 : 2, s : s + 3] for r in (0, 1) for s in (0, 1)]
        near(y, np.max(seen, axis=0))
