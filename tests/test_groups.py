"""Which kernels are compiled without optimisation in tests on PoCL, and which with it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Target
from clnet.device.builtin_functions import POCL
from clnet.expr import Input, exp, sqrt, tanh
from clnet.kernels.gemm.gemm import gemm
from clnet.kernels.gemm.gemm_tiled import TILED
from clnet.kernels.kernel import Rendered
from clnet.kernels.pointwise.pointwise import pointwise
from clnet.values.dtypes import float32
from tests.groups import UNOPTIMISED, _text, are_compiled_wrongly, is_spared, of_groups
from tests.kernels.launching import normal, on_device, poisoned


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


def test_a_fourth_of_the_others_is_optimised_by_its_text():
    texts = [f"y[i] = x[i] + {number};" for number in range(1000)]
    spared = [is_spared("pointwise_small", text) for text in texts]
    assert spared == [is_spared("pointwise_small", text) for text in texts]
    assert 700 < sum(spared) < 800
    assert not any(is_spared(name, t) for name in ("conv_direct", "gemm_packed") for t in texts)


@pytest.mark.parametrize("n", [97, 40_000])
def test_bits_are_those_of_optimised_kernels(device, monkeypatch, n):
    """Of products and sums that one instruction could do, roots, quotients and functions."""
    if device.identity.platform != POCL:
        pytest.skip("elsewhere nothing is spared")
    x, y = Input(0), Input(1)
    exprs = (x * 1.37 + y * 0.11, sqrt(x * x + 0.7) / (y + 4.1), tanh(exp(x * 0.3) - y))
    monkeypatch.setattr(Rendered, "text", _text)  # options are as we say
    operands = [on_device(normal(n, seed=seed)) for seed in (1, 2)]
    found: list[list[np.ndarray]] = []
    for more in ((), (UNOPTIMISED,)):
        outputs = [poisoned((n,)) for _ in exprs]
        (launch,) = pointwise(device.target, outputs, operands, exprs, compute=float32)
        kernel = launch.kernel
        launch.kernel = Rendered(kernel._kernel, kernel.params)
        launch.kernel.alone = kernel.alone
        launch.kernel.options = (*(o for o in kernel.options if o != UNOPTIMISED), *more)
        device.queue.launch(launch)
        assert (UNOPTIMISED in launch.kernel.options) == bool(more)
        found.append([output.numpy() for output in outputs])
    for with_passes, without in zip(*found, strict=True):
        assert np.isfinite(with_passes).all()
        np.testing.assert_array_equal(with_passes.view(np.int32), without.view(np.int32))
