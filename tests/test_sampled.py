"""Continuous integration optimises a quarter of the kernels: another one each time."""

from __future__ import annotations

import numpy as np
import pytest

from clnet.array import Array
from clnet.device import Launch
from clnet.device.builtin_functions import POCL
from clnet.kernels.kernel import Rendered
from clnet.kernels.norm.row_norm import ROWS, row_norm
from tests.groups import UNOPTIMISED
from tests.kernels.launching import cpu_shaped, normal, on_device, poisoned, run
from tests.sampled import MUCH, MUCH_MORE, PARTS, QUARTER, compile_all, compile_less, is_left_out

pytestmark = pytest.mark.device


def test_four_runs_optimise_each_kernel_once(monkeypatch):
    texts = [f"__kernel void k(int x) {{ x += {n}; }}" for n in range(400)]
    runs = []
    for quarter in range(7, 7 + PARTS):
        monkeypatch.setenv(QUARTER, str(quarter))
        runs.append([not is_left_out(text) for text in texts])
    assert all(sum(of_text) == 1 for of_text in zip(*runs, strict=True))
    assert all(60 < sum(optimised) < 140 for optimised in runs)
    monkeypatch.delenv(QUARTER)
    assert not any(map(is_left_out, texts))


def normed(device, x: Array) -> tuple[Launch, tuple[Array, ...]]:
    """Layer norm by a kernel that no device was asked for yet, and what it writes."""
    outputs = poisoned(x.shape), poisoned(x.shape[:1]), poisoned(x.shape[:1])
    (launch,) = row_norm(cpu_shaped(device), *outputs, x, None, None, eps=1e-3)
    launch.kernel = Rendered(ROWS, launch.kernel.params)
    return launch, outputs


def test_a_kernel_gives_the_same_bits_either_way(device, monkeypatch):
    if device.identity.platform != POCL:
        pytest.skip("kernels are compiled as others, but by PoCL")
    x = on_device(normal(9, 67))
    monkeypatch.delenv(QUARTER, raising=False)
    optimised, bits = [], []
    for quarter in range(PARTS):
        with monkeypatch.context() as patch:
            patch.setenv(QUARTER, str(quarter))
            compile_less(patch)
            launch, outputs = normed(device, x)
            run([launch])
            optimised.append(UNOPTIMISED not in launch.kernel.options)
            assert np.isfinite(outputs[0].numpy()).all()
            bits.append([each.numpy().tobytes() for each in outputs])
    assert sum(optimised) == 1
    assert all(each == bits[0] for each in bits)


def test_what_has_much_to_do_is_optimised_and_else_what_a_test_asks(device, monkeypatch):
    if device.identity.platform != POCL:
        pytest.skip("kernels are compiled as others, but by PoCL")
    launch, _ = normed(device, on_device(normal(9, 67)))
    left_out = next(n for n in range(PARTS) if _is_left_out(monkeypatch, n, launch.kernel.text()))
    with monkeypatch.context() as patch:
        patch.setenv(QUARTER, str(left_out))
        compile_less(patch)
        found = [Rendered(ROWS, launch.kernel.params) for _ in range(3)]
        for rendered, flops in zip(found, (0, 0, MUCH), strict=True):
            Launch(rendered, (1,), (1,), (), flops=flops, bytes=0)
            rendered.text()
        assert [UNOPTIMISED in each.options for each in found] == [True, True, False]
        Launch(found[0], (1,), (1,), (), flops=0, bytes=MUCH_MORE)
        assert [UNOPTIMISED in each.options for each in found] == [False, True, False]
        compile_all(patch)
        assert not any(UNOPTIMISED in each.options for each in found)


def _is_left_out(monkeypatch, quarter: int, text: str) -> bool:
    monkeypatch.setenv(QUARTER, str(quarter))
    return is_left_out(text)
