"""Convolutions on matrix units: the kernels with emulated units, what chooses them, their users."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import clnet
from clnet.device import Target, matrix_units
from clnet.kernels.conv import (
    Algorithm,
    ConvGeometry,
    Direction,
    choose,
    computes_on_units,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
)
from clnet.kernels.conv.conv_matrix import fits
from clnet.kernels.epilogue import Epilogue
from clnet.nn import functional as F
from clnet.values import mode
from tests.kernels.launching import names_launched
from tests.kernels.test_gemm_matrix import units_of, values

ROUNDING = {clnet.float16: 1e-3, clnet.bfloat16: 8e-3, clnet.float32: 1e-5}

# unit; dtype; n, ic, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups; what lies channels
# last: x, y, neither
CASES = [
    ("ptx", clnet.float16, ConvGeometry(2, 16, 9, 7, 24, 3, 3, 9, 7, 1, 1, 1, 1), "xy"),
    ("ptx", clnet.bfloat16, ConvGeometry(2, 3, 11, 8, 19, 3, 2, 6, 2, 2, 3, 1, 0, 1, 2), ""),
    ("ptx", clnet.float32, ConvGeometry(1, 12, 8, 8, 10, 3, 3, 4, 2, 2, 2, 2, 1, 2, 3, 2), "y"),
    ("mfma_1k", clnet.float16, ConvGeometry(2, 16, 6, 7, 40, 1, 1, 3, 4, 2, 2, groups=2), "y"),
    ("wmma", clnet.bfloat16, ConvGeometry(1, 9, 6, 7, 5, 3, 3, 6, 7, 1, 1, 1, 1), ""),
    ("dpas_16_tf32", clnet.float32, ConvGeometry(1, 8, 5, 5, 8, 2, 2, 4, 4), "x"),
]


def drawn(shape, dtype, *, last=False, seed=0):
    """A tensor of normal numbers, its axis 1 dense where it lies last."""
    rng = np.random.default_rng(seed)
    x = clnet.tensor(rng.standard_normal(shape).astype(np.float32)).to(dtype)
    return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) if last else x


def forward_of(x, weight, g):
    """In float64, tap by tap."""
    n, icg = g.n, g.icg
    room = np.zeros((n, g.ic, g.h + 2 * g.kh * g.dh + g.sh, g.w + 2 * g.kw * g.dw + g.sw))
    room[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w] = x
    y = np.zeros((n, g.oc, g.oh, g.ow))
    for dy, dx in np.ndindex(g.kh, g.kw):
        down, right = dy * g.dh, dx * g.dw
        seen = room[:, :, down : down + g.oh * g.sh : g.sh, right : right + g.ow * g.sw : g.sw]
        for group in range(g.groups):
            rows = slice(group * g.ocg, (group + 1) * g.ocg)
            source = seen[:, group * icg : (group + 1) * icg]
            y[:, rows] += np.einsum("nchw,oc->nohw", source, weight[rows, :, dy, dx])
    return y


def near(found, expected):
    error = np.abs(found.double().numpy() - expected).max() / np.abs(expected).max()
    assert error < ROUNDING[found.dtype]


@pytest.fixture
def target():
    here = clnet.device()
    return Target(units_of(here.traits), here.target.workspace_limit)


@pytest.mark.parametrize(("unit", "dtype", "g", "last"), CASES, ids=str)
def test_emulated_units_convolve(unit, dtype, g, last, target):
    """Forward with a bias and ReLU; both gradients are the forward's adjoints, in float64."""
    target = Target(units_of(target.traits, f"emulated {unit}"), target.workspace_limit)
    rounds = matrix_units(unit)[dtype.stored].rounds
    x = drawn((g.n, g.ic, g.h, g.w), dtype, last="x" in last)
    weight = drawn((g.oc, g.icg, g.kh, g.kw), dtype, seed=1)
    bias = drawn((g.oc,), dtype, seed=2)
    gy = drawn((g.n, g.oc, g.oh, g.ow), dtype, last="y" in last, seed=3)
    y, gx = (clnet.full_like(t, np.nan) for t in (gy, x))
    if "y" in last:
        y = drawn(y.shape, dtype, last=True)
    gw = clnet.full_like(weight, np.nan)
    epilogue = Epilogue(bias.array, activation="relu")
    runs = [
        (y, conv_forward(target, y.array, x.array, weight.array, g, epilogue, tf32=True)),
        (gx, conv_input_grad(target, gx.array, gy.array, weight.array, g, tf32=True)),
        (gw, conv_weight_grad(target, gw.array, gy.array, x.array, g, tf32=True)),
    ]
    for out, launches in runs:
        assert any(launch.kernel.name.startswith("conv_matrix") for launch in launches)
        clnet.device().queue.run(launches, (out.array,))
    of_x, of_w, of_gy = (values(t, rounds) for t in (x, weight, gy))
    added = bias.double().numpy()[:, None, None]
    near(y, np.maximum(forward_of(of_x, of_w, g) + added, 0))
    grads = gradients_of(of_x, of_w, of_gy, g)
    near(gx, grads[0])
    near(gw, grads[1])


def test_filters_gradients_of_more_images_than_are_turned_at_once(target):
    """Scratch memory for four of five images: two launches, whose slices are added together."""
    g = ConvGeometry(5, 16, 9, 7, 24, 3, 3, 9, 7, 1, 1, 1, 1)
    target = Target(target.traits, 50_000)
    x, gy = drawn((5, 16, 9, 7), clnet.float16), drawn((5, 24, 9, 7), clnet.float16, seed=3)
    gw = clnet.full((24, 16, 3, 3), np.nan, dtype=clnet.float16)
    assert fits(target, g, Direction.WEIGHT_GRAD, 2)
    assert not fits(Target(target.traits, 20_000), g, Direction.WEIGHT_GRAD, 2)
    launches = conv_weight_grad(target, gw.array, gy.array, x.array, g)
    names = [launch.kernel.name for launch in launches]
    assert names.count("conv_matrix_weight") == 2
    clnet.device().queue.run(launches, (gw.array,))
    near(gw, gradients_of(values(x), values(gw) * 0, values(gy), g)[1])


@pytest.mark.parametrize("groups", [1, 2])
def test_pixels_that_meet_no_tap_are_filled(target, groups):
    """Of a window of 1x2 and strides of 2x3, two of six phases: no product goes through others."""
    g = ConvGeometry(2, 16, 6, 9, 16, 1, 2, 3, 3, 2, 3, groups=groups)
    gy = drawn((2, 16, 3, 3), clnet.float16, seed=3)
    weight = drawn((16, g.icg, 1, 2), clnet.float16, seed=1)
    gx = clnet.full((2, 16, 6, 9), np.nan, dtype=clnet.float16)
    launches = conv_input_grad(target, gx.array, gy.array, weight.array, g)
    products = [launch for launch in launches if launch.kernel.name == "conv_matrix"]
    assert len(products) == 2
    clnet.device().queue.run(launches, (gx.array,))
    near(gx, gradients_of(values(gx) * 0, values(weight), values(gy), g)[0])


def gradients_of(x, weight, gy, g):
    """The forward's adjoints: of x and of the filters, tap by tap."""
    gx = np.zeros((g.n, g.ic, g.h + 2 * g.kh * g.dh + g.sh, g.w + 2 * g.kw * g.dw + g.sw))
    room, gw = np.zeros_like(gx), np.zeros_like(weight)
    room[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w] = x
    for dy, dx in np.ndindex(g.kh, g.kw):
        down = slice(dy * g.dh, dy * g.dh + g.oh * g.sh, g.sh)
        right = slice(dx * g.dw, dx * g.dw + g.ow * g.sw, g.sw)
        for group in range(g.groups):
            rows = slice(group * g.ocg, (group + 1) * g.ocg)
            columns = slice(group * g.icg, (group + 1) * g.icg)
            gx[:, columns, down, right] += np.einsum(
                "nohw,oc->nchw", gy[:, rows], weight[rows, :, dy, dx]
            )
            gw[rows, :, dy, dx] += np.einsum(
                "nohw,nchw->oc", gy[:, rows], room[:, columns, down, right]
            )
    return gx[:, :, g.ph : g.ph + g.h, g.pw : g.pw + g.w], gw


def test_many_pixels_are_summed_in_slices(target):
    """A filter's gradient has many slices where it has few tiles, and reruns give the same bits."""
    g = ConvGeometry(2, 8, 40, 40, 8, 1, 1, 40, 40)
    x, gy = drawn((2, 8, 40, 40), clnet.float16), drawn((2, 8, 40, 40), clnet.float16, seed=1)
    traits = dataclasses.replace(target.traits, compute_units=16)
    found = []
    for _ in range(2):
        gw = clnet.empty(8, 8, 1, 1, dtype=clnet.float16)
        launches = conv_weight_grad(
            Target(traits, target.workspace_limit), gw.array, gy.array, x.array, g
        )
        product = next(each for each in launches if each.kernel.name == "conv_matrix_weight")
        assert product.global_size[0] // product.local_size[0] > 4
        clnet.device().queue.run(launches, (gw.array,))
        found.append(gw.float().numpy())
    expected = np.einsum("nohw,nchw->oc", values(gy), values(x))
    assert np.abs(found[0][..., 0, 0] - expected).max() < 1e-3 * np.abs(expected).max()
    assert np.array_equal(*found)


def test_what_is_chosen(target):
    g = ConvGeometry(2, 16, 8, 8, 16, 3, 3, 8, 8, 1, 1, 1, 1)
    forward = Direction.FORWARD
    assert choose(target, g, forward, clnet.float32) is not Algorithm.MATRIX
    assert choose(target, g, forward, clnet.float32, tf32=True) is Algorithm.MATRIX
    assert choose(target, g, forward, clnet.bfloat16) is Algorithm.MATRIX
    assert not computes_on_units(target, g, forward, clnet.float64, tf32=True)
    depthwise = g._replace(groups=16)
    assert not computes_on_units(target, depthwise, forward, clnet.bfloat16)
    for direction in Direction:
        assert not fits(Target(target.traits, 1024), g, direction, 2)
        assert not fits(target, g._replace(n=2**24), direction, 2)
    without = Target(units_of(target.traits, ""), target.workspace_limit)
    assert not computes_on_units(without, g, forward, clnet.bfloat16)


def test_layers_use_them(target, monkeypatch):
    """Of 16 bits without conversions, of float32 where it may be rounded; gradients, too."""
    monkeypatch.setattr(clnet.device(), "target", target)
    names = names_launched(clnet.device(), monkeypatch)
    g = ConvGeometry(2, 16, 9, 7, 24, 3, 3, 9, 7, 1, 1, 1, 1)
    x = drawn((2, 16, 9, 7), clnet.float16).requires_grad_()
    weight = drawn((24, 16, 3, 3), clnet.float16, seed=1).requires_grad_()
    y = F.conv2d(x, weight, padding=1)
    y.backward(clnet.ones_like(y))
    assert names.count("conv_matrix") == 2
    assert names.count("conv_matrix_weight") == 1
    near(y.detach(), forward_of(values(x.detach()), values(weight.detach()), g))
    names.clear()
    exact = F.conv2d(x.detach().float(), weight.detach().float(), padding=1)
    assert "conv_matrix" not in names
    with mode.using():
        clnet.set_float32_matmul_precision("high")
        rounded = F.conv2d(x.detach().float() / 3, weight.detach().float(), padding=1) * 3
    assert "conv_matrix" in names
    assert 0 < np.abs(exact.numpy() - rounded.numpy()).max() < 0.1
