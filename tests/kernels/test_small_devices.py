"""No launch asks for more than a device of OpenCL 1.2 has, be its groups of 64 items alone.

Nothing is compiled here: launches are of arrays without memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from clnet.array import Array
from clnet.device import Scratch, Target, device
from clnet.kernels.conv import (
    Algorithm,
    ConvGeometry,
    conv_forward,
    conv_input_grad,
    conv_weight_grad,
)
from clnet.kernels.gemm import gemm
from clnet.kernels.index.segment import segment_sum
from clnet.kernels.index.sort import Sorted
from clnet.kernels.moving import copy
from clnet.values.dtypes import float32, int32
from tests.kernels.launching import gpu_shaped


def array(*shape, dtype=float32):
    return Array.abstract(shape, dtype, device())


def products(target: Target):
    """Short and long sums; of the latter, slices are added."""
    yield from gemm(target, array(64, 64), array(64, 64), array(64, 64))
    yield from gemm(target, array(32, 32), array(32, 100_000), array(100_000, 32))


def convolutions(target: Target):
    """All algorithms of a layer, and a filters' gradient in slices."""
    for algorithm in (Algorithm.WINOGRAD, Algorithm.IMPLICIT, Algorithm.IM2COL):
        g = ConvGeometry(64, 16, 32, 32, 16, 3, 3, 32, 32, 1, 1, 1, 1)
        x, w, y = array(64, 16, 32, 32), array(16, 16, 3, 3), array(64, 16, 32, 32)
        yield from conv_forward(target, y, x, w, g, algorithm=algorithm)
        yield from conv_input_grad(target, x, y, w, g, algorithm=algorithm)
        yield from conv_weight_grad(target, w, y, x, g, algorithm=algorithm)


def copies(target: Target):
    """A matrix turned over."""
    turned = array(512, 256).view((256, 512), (1, 256))
    yield from copy(target, array(256, 512), turned)


def sums_of_runs(target: Target):
    """Rows added up by a tree, and long runs in pieces."""
    memory = Scratch(array(1).storage.device)
    for rows, n in ((100, 200), (4, 40_000)):
        runs = Sorted(array(n, dtype=int32), array(n, dtype=int32), [])
        yield from segment_sum(target, memory, array(1, rows, 64), array(1, n, 64), runs)


@pytest.mark.parametrize("items", [64, 128])
@pytest.mark.parametrize("launches", [products, convolutions, copies, sums_of_runs])
def test_groups_are_no_larger_than_the_device_has_them(launches, items):
    target = gpu_shaped(device())
    target = replace(target, traits=replace(target.traits, max_group_size=items, compute_units=60))
    sizes = {launch.kernel.name: prod(launch.local_size or ()) for launch in launches(target)}
    assert max(sizes.values()) <= items, sizes


@pytest.mark.parametrize(("registers", "sums"), [(256, 64), (128, 32)])
def test_items_have_the_sums_that_registers_hold(registers, sums):
    """An item of eight times eight sums spills 3.8 KB of 4 on Intel's GPUs."""
    target = gpu_shaped(device())
    traits = replace(target.traits, item_registers=registers, local_memory_bytes=65536)
    target = replace(target, traits=replace(traits, compute_units=60))
    g = ConvGeometry(64, 64, 32, 32, 64, 3, 3, 32, 32, 1, 1, 1, 1)
    x, w = array(64, 64, 32, 32), array(64, 64, 3, 3)
    launches = [
        *gemm(target, array(4096, 4096), array(4096, 4096), array(4096, 4096)),
        *conv_forward(target, x, x, w, g, algorithm=Algorithm.IMPLICIT),
        *conv_weight_grad(target, w, x, x, g, algorithm=Algorithm.IMPLICIT),
    ]
    tiles = [dict(launch.kernel.params).get("tile") for launch in launches]
    assert max(tile.item_m * tile.item_n for tile in tiles if tile) == sums
