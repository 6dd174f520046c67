"""Kernels of groups are compiled without optimisation in tests on PoCL, others with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target
from clnet.device.builtin_functions import POCL
from clnet.kernels.gemm.gemm import gemm
from clnet.kernels.gemm.gemm_tiled import TILED
from clnet.kernels.kernel import Kernel, Rendered
from tests import groups
from tests.groups import ALL, UNOPTIMISED, are_compiled_wrongly, of_groups


@pytest.fixture
def optimising(monkeypatch):
    monkeypatch.delenv(ALL, raising=False)


@pytest.mark.usefixtures("optimising")
def test_what_gpus_alone_launch_is_not_optimised(device):
    if device.identity.platform != POCL or are_compiled_wrongly(device):
        pytest.skip("kernels of groups are compiled as others, but by most of PoCL's releases")
    gpu = dataclasses.replace(
        device.traits, dedicated_local_memory=True, simd_width=1, max_group_size=256
    )
    arrays = [Array.from_numpy(np.ones((70, 70), np.float32), device) for _ in range(3)]
    (tiled,) = gemm(Target(gpu, device.target.workspace_limit), *arrays)
    (packed,) = gemm(device.target, *arrays)
    assert of_groups(tiled.kernel.text())
    assert not of_groups(packed.kernel.text())
    assert tiled.kernel.options == (*TILED.options, UNOPTIMISED)
    assert UNOPTIMISED not in packed.kernel.options


def test_all_kernels_are_not_where_this_is_asked_for(device, monkeypatch):
    if device.identity.platform != POCL or are_compiled_wrongly(device):
        pytest.skip("kernels are compiled as the driver would, but by most of PoCL's releases")
    monkeypatch.setenv(ALL, "1")
    square = Kernel("pointwise_of_a_test", "pointwise/pointwise.mako")
    rendered = Rendered(square, {})
    monkeypatch.setattr(groups, "_text", lambda rendered: "__kernel void f(__global float *x) {}")
    assert rendered.text() == "__kernel void f(__global float *x) {}"
    assert rendered.options == (*square.options, UNOPTIMISED)
    monkeypatch.setenv(ALL, "0")
    plain = Rendered(square, {})
    plain.text()
    assert plain.options == square.options
