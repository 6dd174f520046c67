"""Convolutions by 128 items at once: emulated copies and products, boxes, and what chooses them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import clnet
from clnet.device import Target
from clnet.kernels.conv import ConvGeometry, conv_forward, conv_input_grad, conv_weight_grad
from clnet.kernels.conv.conv_warpgroup import box_of
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.gemm import gemm_warpgroup
from tests.kernels.test_conv_matrix import drawn, forward_of, gradients_of, near
from tests.kernels.test_gemm_matrix import units_of, values
from tests.kernels.test_gemm_warpgroup import card

FORWARD, WEIGHT, SUM = "conv_warpgroup", "conv_warpgroup_weight", "conv_matrix_sum"
GATHERED = "conv_matrix_weight"


@pytest.fixture
def target():
    here = clnet.device()
    traits = dataclasses.replace(
        units_of(here.traits), warpgroup_units=True, local_memory_bytes=2**18, compute_units=3
    )
    return Target(traits, here.target.workspace_limit)


# dtype; n, ic, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw; the filters' gradient's kernel
CASES = [
    (clnet.float16, ConvGeometry(2, 72, 9, 6, 24, 3, 3, 9, 6, 1, 1, 1, 1), WEIGHT),
    (clnet.bfloat16, ConvGeometry(3, 8, 11, 8, 70, 3, 2, 6, 2, 2, 3, 1, 0, 1, 2), WEIGHT),
    (clnet.float16, ConvGeometry(2, 16, 5, 7, 72, 1, 1, 5, 7), WEIGHT),
    (clnet.bfloat16, ConvGeometry(3, 72, 5, 7, 24, 1, 1, 3, 4, 2, 2), WEIGHT),
    (clnet.float16, ConvGeometry(1, 8, 4, 3, 8, 3, 2, 2, 2, sh=2, ph=1), WEIGHT),
    (clnet.float16, ConvGeometry(2, 16, 9, 7, 24, 1, 3, 3, 7, 3, 1, 0, 1), WEIGHT),
    (clnet.float32, ConvGeometry(1, 12, 8, 8, 12, 3, 3, 4, 3, 2, 2, 2, 1, 2, 3), WEIGHT),
    (clnet.float32, ConvGeometry(2, 72, 8, 6, 100, 3, 3, 8, 6, 1, 1, 1, 1), WEIGHT),
    (clnet.float32, ConvGeometry(3, 12, 5, 7, 44, 1, 1, 5, 7), WEIGHT),
    (clnet.float32, ConvGeometry(2, 40, 9, 7, 8, 2, 3, 4, 2, 2, 3, 1, 0), WEIGHT),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "g", "weights_by"), CASES, ids=str)
def test_convolutions(dtype, g, weights_by, target):
    """Forward with a bias and ReLU; both gradients are the forward's adjoints, in float64."""
    check(dtype, g, weights_by, target)


def test_slices_of_long_sums(target, monkeypatch):
    """Results of few tiles, whose stages are divided, and a filter's pixels likewise."""
    monkeypatch.setattr(gemm_warpgroup, "LEAST_STAGES", 1)
    monkeypatch.setattr(gemm_warpgroup, "COPY_S", 0)
    monkeypatch.setattr(gemm_warpgroup, "STORE_S", 0)
    traits = dataclasses.replace(target.traits, compute_units=24)
    names = check(
        clnet.float16,
        ConvGeometry(4, 16, 8, 8, 16, 3, 3, 8, 8, 1, 1, 1, 1),
        WEIGHT,
        Target(traits, target.workspace_limit),
    )
    assert names.count("gemm_summed") == 2


def check(dtype, g, weights_by, target):
    """Names of the kernels that made what is near NumPy's in float64."""
    x = drawn((g.n, g.ic, g.h, g.w), dtype, last=True)
    weight = drawn((g.oc, g.icg, g.kh, g.kw), dtype, seed=1)
    bias = drawn((g.oc,), dtype, seed=2)
    gy = drawn((g.n, g.oc, g.oh, g.ow), dtype, last=True, seed=3)
    y, gx = (drawn(t.shape, dtype, last=True, seed=4) for t in (gy, x))
    gw = clnet.full_like(weight, np.nan)
    epilogue = Epilogue(bias.array, activation="relu")
    names = []
    for out, kernel, launches in [
        (y, FORWARD, conv_forward(target, y.array, x.array, weight.array, g, epilogue, tf32=True)),
        (gx, FORWARD, conv_input_grad(target, gx.array, gy.array, weight.array, g, tf32=True)),
        (gw, weights_by, conv_weight_grad(target, gw.array, gy.array, x.array, g, tf32=True)),
    ]:
        found = [launch.kernel.name for launch in launches]
        assert kernel in found
        names += found
        clnet.device().queue.run(launches, (out.array,))
    of_x, of_w, of_gy = (values(t) for t in (x, weight, gy))
    added = bias.double().numpy()[:, None, None]
    near(y, np.maximum(forward_of(of_x, of_w, g) + added, 0))
    grads = gradients_of(of_x, of_w, of_gy, g)
    near(gx, grads[0])
    near(gw, grads[1])
    return names


def test_boxes_leave_few_pixels_empty():
    for size in (224, 112, 56, 28, 14):
        across, down, images = boxed((size, size), 64)
        assert across * down * images == 128
        assert size % across == size % down == 64 % images == 0
    assert np.prod(boxed((7, 7), 64)) >= 112
    assert boxed((600, 1), 1, 512) == (256, 1, 1)  # copies are no wider
    assert boxed((600, 1), 1, 512, (2, 1)) == (128, 1, 1)  # nor reach further
    assert boxed((6, 4), 5, 64, exact=True) == (2, 4, 8)
    assert boxed((7, 7), 64, 64, exact=True) == (1, 1, 64)


def boxed(sizes, images, lines=128, steps=(1, 1), *, exact=False):
    box = box_of(sizes, images, lines, steps, exact=exact)
    assert box is not None
    return box


def chosen(g, dtype=clnet.bfloat16, traits=None, *, last=True, tf32=True):
    """Kernels of the three directions on a card."""
    on = Target(traits or card(), 2**29)
    with clnet.abstract():
        images = [
            clnet.zeros(g.n, g.h, g.w, g.ic, dtype=dtype),
            clnet.zeros(g.n, g.oh, g.ow, g.oc, dtype=dtype),
        ]
        x, y = (t.permute(0, 3, 1, 2).array for t in images)
        if not last:
            y = clnet.zeros(g.n, g.oc, g.oh, g.ow, dtype=dtype).array
        w = clnet.zeros(g.oc, g.icg, g.kh, g.kw, dtype=dtype).array
        found = (
            conv_forward(on, y, x, w, g, tf32=tf32),
            conv_input_grad(on, x, y, w, g, tf32=tf32),
            conv_weight_grad(on, w, y, x, g, tf32=tf32),
        )
    names = [[each.kernel.name for each in launches] for launches in found]
    return [next(n for n in each if n.startswith("conv") and n != SUM) for each in names]


def test_where_another_kernel_convolves():
    g = ConvGeometry(64, 64, 56, 56, 64, 3, 3, 56, 56, 1, 1, 1, 1)
    assert chosen(g) == [FORWARD, FORWARD, WEIGHT]
    assert chosen(g, clnet.float32) == [FORWARD, FORWARD, WEIGHT]
    gathered = ["conv_matrix", "conv_matrix", "conv_matrix_weight"]
    assert chosen(g._replace(ic=3)) == gathered  # most of a line would be empty
    assert chosen(g._replace(n=1, h=4, w=4, oh=4, ow=4)) == gathered  # too little to do
    assert chosen(g._replace(groups=2)) == gathered
    assert chosen(g._replace(sh=9, sw=9, oh=7, ow=7))[0] == "conv_matrix"
    assert chosen(g, last=False) == ["conv_matrix", FORWARD, WEIGHT]  # y lies channels first
    odd = g._replace(n=4, h=7, w=7, oh=7, ow=7, ic=512, oc=512)
    for dtype in (clnet.bfloat16, clnet.float32):  # boxes mostly empty
        assert chosen(odd, dtype) == [FORWARD, FORWARD, GATHERED]
    without = dataclasses.replace(card(), warpgroup_units=False)
    assert chosen(g, traits=without) == gathered
