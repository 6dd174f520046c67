"""Kernels new to a driver are compared with plainer ones, and left out where they differ."""

from __future__ import annotations

import threading
import warnings
from dataclasses import fields, replace
from unittest.mock import patch

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.cli import main
from clnet.device.first_use import FirstUses, first_uses, trust
from clnet.device.guard import left_out
from clnet.doctor.report import empty_report
from clnet.nn import functional as F
from clnet.ops.machinery import execution
from clnet.ops.machinery.lowering import launches_of
from clnet.values.cache import shelf
from clnet.values.settings import SETTINGS
from tests.doctor.faulty import Driver, Rewriting, planted
from tests.groups import are_compiled_wrongly
from tests.kernels.launching import names_launched
from tests.kernels.test_gemm_matrix import units_of

pytestmark = pytest.mark.device

# A compiler that is wrong where a kernel has vectors of 8 or 16 floats.
WRONG = (r"(float(?:8|16) multiply_add\([^{]*\{\s*return x \* y)", r"\1 * 1.01f")


@pytest.fixture
def guarded(tmp_path):
    """Settings with a cache of their own, by which kernels are compared."""
    own = replace(SETTINGS, cache_dir=tmp_path, guard=True)
    with patch("clnet.device.guard.SETTINGS", own), patch("clnet.device.first_use.SETTINGS", own):
        yield tmp_path


def wide(device):
    if device.traits.simd_width < 8:
        pytest.skip("the device has no wide vectors")


def test_a_wrong_kernel_is_named_and_left_out_at_its_first_use(guarded):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    with planted(Rewriting(WRONG), guarded) as device:
        wide(device)
        x, y = clnet.tensor(a, device=device), clnet.tensor(b, device=device)
        with pytest.warns(RuntimeWarning, match=r"gemm\w* .*of matmul.*vectors of .* not used"):
            product = x @ y
        np.testing.assert_allclose(product.numpy(), a @ b, rtol=1e-4, atol=1e-4)
        assert device.traits.simd_width < 8
        assert left_out(device.identity)[1] == {"simd_width": device.traits.simd_width}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (x @ y).numpy()


def test_a_compiled_step_is_planned_without_the_wrong_kernel(guarded):
    def losses(device):
        clnet.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))
        net.to(device)
        optimizer = clnet.optim.SGD(net.parameters(), lr=0.1)
        x = clnet.linspace(0, 1, 16 * 192, device=device).reshape(16, 3, 8, 8)
        y = clnet.arange(16, device=device) % 5

        @clnet.compile
        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return [step(x, y).item() for _ in range(3)]

    with planted(Rewriting(WRONG), guarded) as device:
        wide(device)
        with pytest.warns(RuntimeWarning, match="gives other numbers than plainer kernels do"):
            found = losses(device)
    np.testing.assert_allclose(found, losses(clnet.device()), rtol=1e-4)


def test_what_another_thread_leaves_out_is_chosen_anew(guarded, monkeypatch):
    """It was lowered before, and is not compared as if the device were used as it was then."""
    a = np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)
    before = []

    def lowered_first(*given):
        launches = launches_of(*given)
        if given[0].name == "matmul" and not before:
            before.append(threading.Thread(target=lambda: x @ x))
            before[0].start()
            before[0].join(120)
        return launches

    with planted(Rewriting(WRONG), guarded) as device:
        wide(device)
        x = clnet.tensor(a, device=device)
        monkeypatch.setattr(execution, "launches_of", lowered_first)
        with pytest.warns(RuntimeWarning, match="gives other numbers") as told:
            product = x @ x
        np.testing.assert_allclose(product.numpy(), a @ a, rtol=1e-4, atol=1e-4)
        assert len(told) == 1


def test_an_op_that_fits_is_not_refused_for_room_to_compare(guarded):
    with planted(Driver(), guarded) as device:
        x, y = (clnet.full((2**18,), value, device=device) for value in (3.0, 5.0))
        uses = device.first_uses
        before = uses.compared + uses.alone
        clnet.set_memory_limit(clnet.memory_allocated(device) + 3 * 2**19, device)
        assert (x / y)[:2].tolist() == pytest.approx([0.6, 0.6])
        assert uses.compared + uses.alone == before
        clnet.set_memory_limit(None, device)
        assert (x / y)[-1].item() == pytest.approx(0.6)
        assert uses.compared + uses.alone == before + 1


def test_right_kernels_are_compared_once_and_kept(guarded):
    with planted(Driver(), guarded) as device:
        x = clnet.rand(50, 70, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = F.softmax(x @ x.T, dim=1)
            y[clnet.tensor([1, 3], device=device)].sum().item()
        uses = device.first_uses
        assert uses.compared >= (3 if device.traits.simd_width > 1 else 0)
        assert uses.compared + uses.alone >= 4
    with planted(Driver(), guarded) as device:
        x = clnet.rand(50, 70, device=device)
        F.softmax(x @ x.T, dim=1)
        assert device.first_uses.compared == device.first_uses.alone == 0


def test_what_is_tried_tells_no_fault_and_touches_nothing(guarded):
    with planted(Driver(), guarded) as device:
        matrix = clnet.eye(4, device=device) * 3  # drawn numbers are no positive definite matrix
        assert clnet.linalg.cholesky(matrix).sum().item() == pytest.approx(4 * 3**0.5)
        x = clnet.arange(6.0, device=device)
        x.add_(1).mul_(2)
        assert x.tolist() == [2, 4, 6, 8, 10, 12]
        device.synchronize()
        found = x[clnet.tensor([9], device=device)]  # bad data is told when it always is
        with pytest.raises(IndexError, match="index=9"):
            found.tolist()


def test_a_driver_is_compared_until_it_is_trusted(device, tmp_path):
    identity = replace(device.identity, platform="a platform of tomorrow")
    own = replace(SETTINGS, cache_dir=tmp_path, guard=None)
    with patch("clnet.device.first_use.SETTINGS", own):
        assert first_uses(device.identity, device.traits) is None
        assert first_uses(identity, device.traits) is not None
        trust(identity)
        assert first_uses(identity, device.traits) is None
    with patch("clnet.device.first_use.SETTINGS", replace(own, guard=True)):
        assert first_uses(identity, device.traits) is not None
    with patch("clnet.device.first_use.SETTINGS", replace(own, guard=False)):
        assert first_uses(replace(identity, driver="another"), device.traits) is None


def test_kernels_that_changed_are_compared_on_tested_platforms_too(tmp_path):
    """Products of 128 items at once, emulated, and nothing else; where they are wrong, not used."""
    own = replace(SETTINGS, cache_dir=tmp_path, guard=None)
    wrong = (r"(above \+= upper\[step\]) \* (columns)", r"\1 * 1.2f * \2")
    with (
        patch("clnet.device.guard.SETTINGS", own),
        patch("clnet.device.first_use.SETTINGS", own),
        patch("clnet.device.first_use.CHANGED", ("gemm_warpgroup",)),
        planted(Rewriting(wrong), tmp_path) as device,
    ):
        if are_compiled_wrongly(device):
            pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
        assert first_uses(device.identity, device.traits) is None
        by_128 = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
        units = replace(units_of(device.traits), **by_128)
        device.leave_out({f.name: getattr(units, f.name) for f in fields(units)})
        uses = device.first_uses = first_uses(device.identity, device.traits)
        x = clnet.rand(40, 72, device=device).to(clnet.float16)
        x.float().exp().sum().item()
        assert uses is not None
        assert uses.compared == uses.alone == 0
        with pytest.warns(RuntimeWarning, match=r"gemm_warpgroup .*128 items at once are not used"):
            y = x @ x.T
        assert not device.traits.warpgroup_units
        assert left_out(device.identity)[1] == {"warpgroup_units": False}
        rows = x.double().numpy()
        np.testing.assert_allclose(y.double().numpy(), rows @ rows.T, rtol=3e-3)


def test_the_doctor_trusts_what_it_finds_right(device, monkeypatch):
    asked, found = [], empty_report(device)
    monkeypatch.setattr("clnet.cli.doctor.diagnose", lambda device, **given: found)
    monkeypatch.setattr("clnet.cli.doctor.trust", asked.append)
    assert main(["doctor"]) == 0
    assert asked == [device.identity]
    found.complaints.append("it is odd")
    assert main(["doctor"]) == 1
    assert len(asked) == 1


@pytest.mark.parametrize("dtype", [clnet.bfloat16], ids=str)
def test_kernels_on_matrix_units_are_compared_with_those_without(guarded, dtype, monkeypatch):
    with planted(Driver(), guarded) as device:
        units = units_of(device.traits)
        device.leave_out({f.name: getattr(units, f.name) for f in fields(units)})
        x = clnet.rand(2, 16, 24, 24, device=device).to(dtype)
        weight = clnet.rand(32, 16, 3, 3, device=device).to(dtype)
        before = clnet.get_float32_matmul_precision()
        clnet.set_float32_matmul_precision("high")
        try:
            with warnings.catch_warnings(), monkeypatch.context() as patched:
                names = names_launched(device, patched)
                warnings.simplefilter("error")
                F.conv2d(x, weight, padding=1)
        finally:
            clnet.set_float32_matmul_precision(before)
        assert names.count("conv_matrix") == 2, "tried, and run"
        assert len(names) > 2, "and another beside it"


def test_convolutions_between_images_of_dense_channels_are_compared_rightly(tmp_path):
    """Plainer kernels take neither 16 bits nor any strides: they get what they can read."""
    own = replace(SETTINGS, cache_dir=tmp_path, guard=None)
    with (
        patch("clnet.device.guard.SETTINGS", own),
        patch("clnet.device.first_use.SETTINGS", own),
        planted(Driver(), tmp_path) as device,
    ):
        if are_compiled_wrongly(device):
            pytest.skip("PoCL 5.0 for AVX-512 miscompiles them, as loops and as continuations")
        by_128 = {"warpgroup_units": True, "local_memory_bytes": 2**18, "compute_units": 3}
        units = replace(units_of(device.traits), **by_128)
        device.leave_out({f.name: getattr(units, f.name) for f in fields(units)})
        uses = device.first_uses = FirstUses(shelf(tmp_path, "uses"), ("conv_warpgroup",))
        x, gy = (clnet.rand(2, n, 6, 6, device=device).half() for n in (8, 16))
        weight = clnet.rand(16, 8, 3, 3, device=device).half().requires_grad_()
        x.requires_grad_()

        @clnet.compile
        def step():
            y = F.relu(F.conv2d(F.relu(x), weight, padding=1))
            return clnet.autograd.grad(y, (x, weight), gy)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step()
        assert uses.compared == 3
