"""Convolutions of float32 as three products of TF32: emulated units, what chooses them, users."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

import clnet
from clnet.device import Target
from clnet.kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    Order,
    computes_on_units,
    conv_forward,
    conv_input_grad,
    conv_lines,
    conv_split,
    conv_split_choice,
    conv_weight_grad,
)
from clnet.kernels.conv.conv_lines import lines_of
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm_warpgroup
from clnet.nn import functional as F
from clnet.values import mode
from tests.groups import are_compiled_wrongly
from tests.kernels.launching import in_small_tiles, names_launched
from tests.kernels.test_conv_matrix import drawn, forward_of, gradients_of
from tests.kernels.test_gemm_matrix import units_of
from tests.kernels.test_gemm_warpgroup import card

FORWARD, WEIGHT, LINES = "conv_warpgroup", "conv_warpgroup_weight", "conv_warpgroup_lines"


@pytest.fixture
def target():
    here = clnet.device()
    if are_compiled_wrongly(here):
        pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
    traits = dataclasses.replace(
        units_of(here.traits), warpgroup_units=True, local_memory_bytes=2**18, compute_units=3
    )
    return Target(traits, here.target.workspace_limit)


# n, ic, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups; what lies channels last: x, y
CASES = [
    (ConvGeometry(2, 40, 9, 6, 24, 3, 3, 9, 6, 1, 1, 1, 1), "xy"),
    (ConvGeometry(3, 7, 11, 8, 13, 3, 2, 6, 2, 2, 3, 1, 0, 1, 2), ""),
    (ConvGeometry(2, 16, 5, 7, 72, 1, 1, 5, 7), "y"),
    (ConvGeometry(3, 72, 5, 7, 9, 1, 1, 3, 4, 2, 2), "x"),
    (ConvGeometry(1, 12, 8, 8, 12, 3, 3, 4, 3, 2, 2, 2, 1, 2, 3), "xy"),
    (ConvGeometry(2, 10, 6, 7, 6, 2, 3, 6, 6, 1, 1, 1, 1, groups=2), "y"),
    (ConvGeometry(2, 16, 9, 7, 24, 1, 3, 3, 7, 3, 1, 0, 1), ""),
    (ConvGeometry(2, 8, 4, 3, 8, 4, 4, 3, 4, 1, 1, 1, 2), "x"),  # more padding than on the right
]  # fmt: skip


@pytest.mark.parametrize(("g", "last"), CASES, ids=str)
def test_convolutions(g, last, target):
    """Forward with a bias and ReLU; both gradients are the forward's adjoints, in float64."""
    check(g, last, target)


@pytest.mark.parametrize(("g", "last"), CASES, ids=str)
def test_filters_gradients_from_lines(g, last, target, monkeypatch):
    """Where boxes of pixels do not fit; of all cases."""
    monkeypatch.setattr(conv_split, "_from_pixels", lambda *_: None)
    check(g, last, target, weights_by=LINES, directions_of=slice(2, 3))


def check(g, last, target, *, turns=(1, 1, 1), weights_by=None, directions_of=slice(3)):
    """Launches of three directions, whose results are near NumPy's in float64."""
    x = drawn((g.n, g.ic, g.h, g.w), clnet.float32, last="x" in last)
    weight = drawn((g.oc, g.icg, g.kh, g.kw), clnet.float32, seed=1)
    bias = drawn((g.oc,), clnet.float32, seed=2)
    gy = drawn((g.n, g.oc, g.oh, g.ow), clnet.float32, last="y" in last, seed=3)
    y = clnet.full_like(gy, np.nan)
    gx, gw = clnet.full_like(x, np.nan), clnet.full_like(weight, np.nan)
    if "y" in last:
        y = drawn(y.shape, clnet.float32, last=True, seed=4)
    if "x" in last:
        gx = drawn(gx.shape, clnet.float32, last=True, seed=4)
    epilogue = Epilogue(bias.array, activation="relu")
    runs = directions(target, (y, gx, gw), (x, weight, gy), g, epilogue)
    expected = references(x, weight, gy, g)
    expected[0] = np.maximum(expected[0] + bias.double().numpy()[:, None, None], 0)
    kernels = FORWARD, FORWARD, weights_by or (WEIGHT if g.groups == 1 else LINES)
    checks = list(zip((y, gx, gw), runs, expected, kernels, turns, strict=True))
    for out, launches, wanted, kernel, count in checks[directions_of]:
        names = [launch.kernel.name for launch in launches]
        assert names.count(kernel) == count * g.groups
        clnet.device().queue.run(launches, (out.array,))
        assert error_of(out, wanted) < 2e-6
        first = out.numpy()
        clnet.device().queue.run(launches, (out.array,))
        assert np.array_equal(first, out.numpy())
    return runs


def directions(target, outputs, inputs, g, epilogue=None, **settings):
    """Launches of all three."""
    (y, gx, gw), (x, weight, gy) = ([t.array for t in some] for some in (outputs, inputs))
    settings = {"split": True, "algorithm": Algorithm.MATRIX, **settings}
    return [
        conv_forward(target, y, x, weight, g, epilogue or Epilogue(), **settings),
        conv_input_grad(target, gx, gy, weight, g, **settings),
        conv_weight_grad(target, gw, gy, x, g, **settings),
    ]


def references(x, weight, gy, g):
    """In float64."""
    of_x, of_w, of_gy = (t.double().numpy() for t in (x, weight, gy))
    return [forward_of(of_x, of_w, g), *gradients_of(of_x, of_w, of_gy, g)]


def error_of(found, expected):
    """The largest, of the largest result."""
    return np.abs(found.double().numpy() - expected).max() / np.abs(expected).max()


LONG = [
    ConvGeometry(2, 67, 9, 10, 33, 3, 3, 9, 10, 1, 1, 1, 1),
    ConvGeometry(3, 96, 14, 13, 32, 3, 3, 7, 6, 2, 2, 1, 0, 1, 1),
    ConvGeometry(4, 300, 6, 6, 130, 1, 1, 6, 6),
    ConvGeometry(2, 64, 6, 6, 70, 1, 1, 6, 6),
    ConvGeometry(2, 128, 11, 9, 48, 3, 2, 9, 8, 1, 1, 1, 1, 2, 3, groups=2),
]


@pytest.mark.parametrize("g", LONG, ids=str)
def test_errors_are_no_larger_than_those_of_plain_float32(g, target, monkeypatch):
    """Root mean squares, beside the kernels that the same device takes without matrix units."""
    in_small_tiles(monkeypatch)
    x = drawn((g.n, g.ic, g.h, g.w), clnet.float32)
    weight = drawn((g.oc, g.icg, g.kh, g.kw), clnet.float32, seed=1)
    gy = drawn((g.n, g.oc, g.oh, g.ow), clnet.float32, seed=3)
    expected = references(x, weight, gy, g)
    errors = []
    for split in (True, False):
        outs = [clnet.full_like(t, np.nan) for t in (gy, x, weight)]
        plain = {} if split else {"split": False, "algorithm": Algorithm.IMPLICIT}
        runs = directions(target, outs, (x, weight, gy), g, **plain)
        for out, launches in zip(outs, runs, strict=True):
            clnet.device().queue.run(launches, (out.array,))
        errors.append(
            [
                np.sqrt(np.mean((out.double().numpy() - wanted) ** 2))
                for out, wanted in zip(outs, expected, strict=True)
            ]
        )
    for split, plain in zip(*errors, strict=True):
        assert split <= plain


def test_images_that_scratch_memory_does_not_hold(target):
    """Some at a time: the results of each, and a filters' gradient whose slices are added."""
    g = ConvGeometry(11, 16, 9, 7, 24, 3, 3, 9, 7, 1, 1, 1, 1)
    little = Target(target.traits, 148_000)
    check(g, "", little, turns=(2, 2, 3), weights_by=LINES)
    for direction in Direction:
        assert not conv_split_choice.fits(Target(target.traits, 40_000), g, direction)


def test_slices_of_long_sums(target, monkeypatch):
    """Results of few tiles, whose stages are divided, and lines of pixels likewise."""
    monkeypatch.setattr(gemm_warpgroup, "LEAST_STAGES", 1)
    monkeypatch.setattr(gemm_warpgroup, "COPY_S", 0)
    monkeypatch.setattr(gemm_warpgroup, "STORE_S", 0)
    traits = dataclasses.replace(target.traits, compute_units=24)
    g = ConvGeometry(4, 16, 8, 8, 16, 3, 3, 8, 8, 1, 1, 1, 1)
    runs = check(g, "xy", Target(traits, target.workspace_limit))
    names = [launch.kernel.name for launches in runs for launch in launches]
    assert names.count("gemm_summed") == 2
    product = next(launch for launch in runs[2] if launch.kernel.name == WEIGHT)
    assert product.global_size[0] // product.local_size[0] > 5


def test_pixels_that_meet_no_tap_are_filled(target):
    g = ConvGeometry(2, 16, 6, 9, 16, 1, 2, 3, 3, 2, 3)
    gy, weight = drawn((2, 16, 3, 3), clnet.float32, seed=3), drawn((16, 16, 1, 2), clnet.float32)
    for last in (False, True):
        gx = drawn((2, 16, 6, 9), clnet.float32, last=last)
        launches = conv_input_grad(
            target, gx.array, gy.array, weight.array, g, algorithm=Algorithm.MATRIX, split=True
        )
        clnet.device().queue.run(launches, (gx.array,))
        blank = np.zeros(gx.shape)
        expected = gradients_of(blank, weight.double().numpy(), gy.double().numpy(), g)[0]
        assert error_of(gx, expected) < 2e-6


def test_grids_of_lines():
    """Behind the pixels of a line and of an image there is room for what taps reach."""
    assert lines_of(ConvGeometry(1, 8, 56, 56, 8, 3, 3, 56, 56, 1, 1, 1, 1)) == (57, 57, 1, 1, 4)
    assert lines_of(ConvGeometry(1, 8, 56, 56, 8, 1, 1, 56, 56)) == (56, 56, 1, 1, 1)
    assert lines_of(ConvGeometry(1, 8, 56, 56, 8, 3, 3, 28, 28, 2, 2, 1, 1)) == (29, 29, 2, 2, 4)
    assert lines_of(ConvGeometry(1, 8, 56, 56, 8, 1, 1, 28, 28, 2, 2)) == (28, 28, 1, 1, 1)
    assert lines_of(ConvGeometry(1, 8, 5, 9, 8, 3, 3, 1, 5, 3, 1, 0, 2, 2, 2)) == (2, 11, 3, 1, 4)


def test_boxes_between_runs_are_no_numbers(target, monkeypatch):
    """What cards refuse is seen where it is emulated: lines of one image, shifts of a pixel."""
    alternating = conv_lines.lines_of
    monkeypatch.setattr(conv_split, "lines_of", lambda g: alternating(g)._replace(together=1))
    for module in (conv_lines, conv_split_choice):
        monkeypatch.setattr(module, "lines_of", conv_split.lines_of)
    monkeypatch.setattr(conv_split, "_from_pixels", lambda *_: None)
    for kw, dilation, refused in ((1, 1, False), (2, 4, False), (2, 1, True)):
        ow = 8 - (kw - 1) * dilation
        g = ConvGeometry(2, 8, 3, 8, 8, 1, kw, 3, ow, dw=dilation)
        x, gy = drawn((2, 8, 3, 8), clnet.float32), drawn((2, 8, 3, ow), clnet.float32, seed=1)
        gw = clnet.zeros(8, 8, 1, kw)
        launches = conv_weight_grad(
            target, gw.array, gy.array, x.array, g, algorithm=Algorithm.MATRIX, split=True
        )
        clnet.device().queue.run(launches, (gw.array,))
        assert np.isnan(gw.numpy()).any() == refused


def special(target, changed, *, seed=0):
    """Results of the three directions where some elements of an operand are set."""
    g = ConvGeometry(2, 8, 5, 5, 8, 3, 3, 5, 5, 1, 1, 1, 1)
    host = [
        np.random.default_rng(seed + i).standard_normal(shape).astype(np.float32)
        for i, shape in enumerate([(2, 8, 5, 5), (8, 8, 3, 3), (2, 8, 5, 5)])
    ]
    for operand, index, value in changed:
        host[operand][index] = value
    x, weight, gy = (clnet.tensor(t) for t in host)
    outs = [clnet.full_like(t, np.nan) for t in (gy, x, weight)]
    runs = directions(target, outs, (x, weight, gy), g)
    for out, launches in zip(outs, runs, strict=True):
        clnet.device().queue.run(launches, (out.array,))
    return [t.numpy() for t in outs]


def test_infinities_and_nan_stay_where_they_are_multiplied(target):
    """NaN stays NaN, an infinity is no number or none that is finite; others see neither."""
    for value in (np.nan, np.inf, -np.inf):
        y, _, gw = special(target, [(0, (0, 3, 2, 2), value)])
        seen = y[0, :, 1:4, 1:4]
        assert not np.isfinite(seen).any()
        assert not math.isnan(value) or np.isnan(seen).all()
        assert np.isfinite(y[1]).all()
        assert np.isfinite(y[0, :, 0]).all()
        assert np.isfinite(y[0, :, :, 4]).all()
        assert not np.isfinite(gw[:, 3]).any()
        assert np.isfinite(np.delete(gw, 3, axis=1)).all()
        _, gx, gw = special(target, [(2, (1, 5, 2, 2), value)])
        assert not np.isfinite(gx[1, :, 1:4, 1:4]).any()
        assert np.isfinite(gx[0]).all()
        assert not np.isfinite(gw[5]).any()
        assert np.isfinite(np.delete(gw, 5, axis=0)).all()
        y, gx, _ = special(target, [(1, (2, 6, 1, 1), value)])
        assert not np.isfinite(y[:, 2]).any()
        assert np.isfinite(np.delete(y, 2, axis=1)).all()
        assert not np.isfinite(gx[:, 6]).any()
        assert np.isfinite(np.delete(gx, 6, axis=1)).all()


def test_numbers_that_a_split_may_lose(target):
    """Large finite numbers do not overflow in the split; small ones are as exact as their parts."""
    g = ConvGeometry(1, 8, 4, 4, 8, 1, 1, 4, 4)
    top = np.finfo(np.float32).max
    host = np.ones((1, 8, 4, 4), np.float32)
    host[0, 0, 0] = [top, -top, 1e-30, 2.0**-130]
    x, weight = clnet.tensor(host), clnet.tensor(np.eye(8, dtype=np.float32)).reshape(8, 8, 1, 1)
    y, gw = clnet.zeros(1, 8, 4, 4), clnet.zeros(8, 8, 1, 1)
    one = np.zeros((1, 8, 4, 4), np.float32)
    one[0, :, 0, 0] = 1
    how = {"algorithm": Algorithm.MATRIX, "split": True}
    for out, launches in [
        (y, conv_forward(target, y.array, x.array, weight.array, g, **how)),
        (gw, conv_weight_grad(target, gw.array, clnet.tensor(one).array, x.array, g, **how)),
    ]:
        clnet.device().queue.run(launches, (out.array,))
    np.testing.assert_allclose(y.numpy()[0, 0, 0, :3], host[0, 0, 0, :3], rtol=2.0**-22)
    np.testing.assert_allclose(y.numpy()[0, 0, 0, 3], 2.0**-130, rtol=2.0**-10)
    np.testing.assert_allclose(gw.numpy()[:, 0], top, rtol=2.0**-22)
    assert np.isfinite(y.numpy()).all()


def test_where_it_is_faster_than_plain_float32():
    """By a rough estimate: not where most is copying, nor where Winograd's transforms are."""
    wide = ConvGeometry(64, 1024, 14, 14, 2048, 1, 1, 7, 7, 2, 2)
    forward, backward, of_weights = chosen(wide)
    assert forward[:2] == ["gemm_laid", FORWARD]  # images are read as they lie
    assert by_units([backward]) == [FORWARD]
    assert of_weights == [WEIGHT, "conv_matrix_sum"]
    plain = chosen(wide, last=False)[0]
    assert plain[1].startswith("copy")
    assert plain[-1].startswith("copy")  # the result is turned over
    assert not by_units(chosen(wide, split=False))
    assert not by_units(chosen(wide._replace(ic=3)))
    little = wide._replace(n=1, ic=64, oc=64)
    assert not by_units(chosen(little, last=False))
    thin = ConvGeometry(64, 64, 56, 56, 64, 1, 1, 56, 56)
    assert by_units(chosen(thin)) == [FORWARD, FORWARD, WEIGHT]  # as fast as memory is
    assert not by_units(chosen(thin, last=False))
    assert by_units(chosen(thin._replace(ic=48, oc=48))) == [WEIGHT]  # other sums are short
    square = ConvGeometry(64, 256, 14, 14, 256, 3, 3, 14, 14, 1, 1, 1, 1)
    assert by_units(chosen(square)) == [FORWARD, FORWARD, WEIGHT]
    assert not by_units(chosen(square, last=False))
    assert by_units(chosen(square, last=False, winograd=False)) == [FORWARD, FORWARD, WEIGHT]
    few = square._replace(n=64, h=7, w=7, oh=7, ow=7, ic=512, oc=512)
    assert by_units(chosen(few)) == [FORWARD, FORWARD]  # Winograd's are faster for the filters
    for changes in ({"warpgroup_units": False}, {"matrix_units": ""}):
        without = dataclasses.replace(card(), **changes)
        assert not by_units(chosen(wide, without))
        assert chosen(wide, without) == chosen(wide, without, split=False)


def chosen(g, traits=None, *, last=True, **settings):
    """Kernels of the three directions on a card."""
    on, settings = Target(traits or card(), 2**29), {"algorithm": None, **settings}
    with clnet.abstract():
        x, y = clnet.zeros(g.n, g.ic, g.h, g.w), clnet.zeros(g.n, g.oc, g.oh, g.ow)
        if last:
            x, y = (
                clnet.zeros(n, h, w, c).permute(0, 3, 1, 2)
                for n, c, h, w in (t.shape for t in (x, y))
            )
        weight = clnet.zeros(g.oc, g.icg, g.kh, g.kw)
        runs = directions(on, (y, x, weight), (x, weight, y), g, **settings)
    return [[launch.kernel.name for launch in launches] for launches in runs]


def by_units(runs):
    """Those of some kernels in which 128 items multiply."""
    return [name for names in runs for name in names if "warpgroup" in name]


def test_what_fits(target):
    g = ConvGeometry(2, 16, 8, 8, 16, 3, 3, 8, 8, 1, 1, 1, 1)
    for direction in Direction:
        assert conv_split_choice.fits(target, g, direction)
        assert conv_split_choice.fits(target, g._replace(groups=4), direction)
        for without in (
            g._replace(groups=16),  # of one channel each
            g._replace(n=2**16),  # more groups than drivers take
            g._replace(n=0),
            g._replace(n=2**15, h=2**7, w=2**7),
        ):
            assert not conv_split_choice.fits(target, without, direction)
        ask = target, g, direction
        long = direction is not Direction.WEIGHT_GRAD or g.n * g.oh * g.ow >= 128
        assert computes_on_units(*ask, clnet.float32, split=Order.OPEN) is long
        assert not computes_on_units(*ask, clnet.float64, split=Order.OPEN)
        assert not computes_on_units(*ask, clnet.float32)
    skipping = g._replace(sh=9, sw=9, oh=1, ow=1)
    assert not conv_split_choice.fits(target, skipping, Direction.FORWARD)
    assert conv_split_choice.fits(target, skipping, Direction.WEIGHT_GRAD)


def test_what_kernels_declare_fits_into_local_memory(monkeypatch):
    """In all tiles, by the kernels' text."""
    tiles = zip(gemm_warpgroup.WHOLE_TILES, gemm_warpgroup.TURNED_TILES[2], strict=True)
    for tile, turned in tiles:
        monkeypatch.setattr(gemm_warpgroup, "WHOLE_TILES", (tile,))
        monkeypatch.setitem(gemm_warpgroup.TURNED_TILES, 2, (turned,))
        g = ConvGeometry(64, 256, 28, 28, 256, 3, 3, 14, 14, 2, 2, 1, 1)
        with clnet.abstract():
            x = clnet.zeros(64, 28, 28, 256).permute(0, 3, 1, 2)
            gy = clnet.zeros(64, 14, 14, 256).permute(0, 3, 1, 2)
            weight = clnet.zeros(256, 256, 3, 3)
            on = Target(card(), 2**29)
            runs = directions(on, (gy, x, weight), (x, weight, gy), g)
        kernels = [x.kernel for run in runs for x in run if "warpgroup" in x.kernel.name]
        assert [kernel.name for kernel in kernels] == [FORWARD, FORWARD, WEIGHT]
        for kernel, of in zip(kernels, (tile, tile, turned), strict=True):
            arrays = re.findall(r"__local \w+ \w+\[.*", kernel.text())
            found = [re.match(r"__local uint4 tiles\[(\d+)\] .*aligned\(1024", a) for a in arrays]
            nbytes = [16 * int(each[1]) for each in found if each]
            assert len(nbytes) == len(arrays) == 1
            assert nbytes[0] + 1024 <= of.local_bytes <= 0x38C00


def test_layers_use_it(target, monkeypatch):
    """Eager, compiled and differentiated; what it may not be is plain float32."""
    in_small_tiles(monkeypatch)
    monkeypatch.setattr(clnet.device(), "target", target)
    names = names_launched(clnet.device(), monkeypatch)
    g = ConvGeometry(3, 16, 9, 7, 24, 3, 3, 9, 7, 1, 1, 1, 1)
    x = drawn((3, 16, 9, 7), clnet.float32).requires_grad_()
    weight = drawn((24, 16, 3, 3), clnet.float32, seed=1).requires_grad_()
    gy = drawn((3, 24, 9, 7), clnet.float32, seed=3)
    expected = references(x.detach(), weight.detach(), gy, g)

    def step():
        y = F.conv2d(x, weight, padding=1)
        return y, *clnet.autograd.grad(y, (x, weight), gy)

    with mode.using():
        clnet.set_float32_matmul_precision("tf32x3")
        compiled = clnet.compile(step)
        for run in (step, compiled, compiled):
            names.clear()
            for found, wanted in zip(run(), expected, strict=True):
                assert error_of(found.detach(), wanted) < 2e-6
            if run is step:
                assert names.count(FORWARD) == 2
                assert names.count(WEIGHT) == 1
        with clnet.convolution_algorithm("matrix"):
            names.clear()
            F.conv2d(x.detach(), weight.detach(), padding=1)
            assert FORWARD in names
        names.clear()
        F.conv2d(x.detach().half(), weight.detach().half(), padding=1)
        assert "gemm_laid" not in names  # 16 bits are multiplied as they are
        F.conv2d(x.detach()[:, :1].contiguous(), weight.detach()[:, :1].contiguous(), padding=1)
    names.clear()
    F.conv2d(x.detach(), weight.detach(), padding=1)
    assert FORWARD not in names
