"""Problems that differ in numbers alone take one kernel: each is half a second of a cold start.

Nothing is compiled here: launches are of arrays without memory.
"""

from __future__ import annotations

import dataclasses

import pytest

from clnet.array import Array
from clnet.device import device
from clnet.kernels.conv.conv_geometry import ConvGeometry, Direction
from clnet.kernels.conv_blocked.blocked_form import BlockedAlgorithm, BlockedForm
from clnet.kernels.conv_blocked.conv_blocked import (
    blocked_forward,
    blocked_input_grad,
    packed_size,
)
from clnet.kernels.epilogue import Epilogue
from clnet.kernels.fourier import transform_lines
from clnet.kernels.gemm.gemm import gemm
from clnet.values.dtypes import complex64, float32


@pytest.fixture
def target():
    opened = device()
    traits = dataclasses.replace(
        opened.traits, dedicated_local_memory=False, simd_width=8, compute_units=2
    )
    return dataclasses.replace(opened.target, traits=traits)


def array(*shape, dtype=float32):
    return Array.abstract(shape, dtype, device())


def epilogues(channels):
    """Nothing, a bias, and a bias with what follows it."""
    bias = array(channels)
    return Epilogue(), Epilogue(bias), Epilogue(bias, activation="relu")


@pytest.mark.parametrize(
    ("name", "m", "n", "k"), [("gemm_packed", 64, 96, 300), ("gemm_unpacked", 64, 96, 16)]
)
def test_bare_products_and_those_with_a_bias(target, name, m, n, k):
    launches = [
        gemm(target, array(m, n), array(m, k), array(k, n), epilogue=each)[-1]
        for each in epilogues(n)
    ]
    assert {launch.kernel.name for launch in launches} == {name}
    assert len({launch.kernel for launch in launches}) == 1
    assert len({launch.args for launch in launches}) == 3  # they say what is done


def test_winograd_of_a_gradient_and_of_a_layer(target):
    g = ConvGeometry(2, 16, 12, 12, 16, 3, 3, 12, 12, 1, 1, 1, 1)
    form = BlockedForm(BlockedAlgorithm.WINOGRAD4, 8)
    y, x = array(*form.y_shape(g)), array(*form.x_shape(g))
    packed = array(packed_size(g, Direction.FORWARD, form))
    launches = [
        *(blocked_forward(target, y, x, packed, g, form, each)[-1] for each in epilogues(g.oc)),
        blocked_input_grad(target, x, y, packed, g, form)[-1],
    ]
    assert {launch.kernel.name for launch in launches} == {"conv_blocked_winograd"}
    assert len({launch.kernel for launch in launches}) == 1


def test_transforms_of_lines_of_all_sizes_with_the_same_factors(target):
    kernels = {
        launch.kernel
        for n in (12, 48, 144, 3000)
        for sign in (-1, 1)
        for launch in transform_lines(
            target,
            array(16, n, dtype=complex64),
            array(16, n, dtype=complex64),
            n=n,
            sign=sign,
        )
    }
    names = {kernel.name for kernel in kernels}
    assert names == {"stockham_lanes"}
    assert len(kernels) == 2  # and one with a factor of 5
