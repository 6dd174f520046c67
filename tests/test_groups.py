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
from tests.groups import UNOPTIMISED, are_compiled_wrongly, of_groups
from tests.sampled import is_left_out


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
    assert UNOPTIMISED not in packed.kernel.options or is_left_out(packed.kernel.text())
