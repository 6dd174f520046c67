"""Weights of linear layers that stay are turned once, as products in tiles read them."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.passes import KEEPING_BITS, PASSES, rewrite
from clnet.compile.record import record
from clnet.compile.tracer import Step
from clnet.compile.turn_weights import turn_weights
from clnet.kernels.gemm import gemm_turned
from clnet.ops.matmul import Linear
from clnet.ops.rewritten.turned import TurnWeight
from tests.compile.lasting import explained_training, of_float64
from tests.kernels.launching import gpu_copying_directly, normal


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """The device as a GPU that copies to local memory directly; all copies that stay pay."""
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 0)
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS_PER_BYTE", 0)
    monkeypatch.setattr(gemm_turned, "LASTING_SHARE", 0)
    return gpu_copying_directly(monkeypatch)


@pytest.mark.parametrize("columns", [64, 70, 33])
def test_a_layer_reads_a_copy_that_is_made_once_and_again_when_its_weight_changed(columns):
    layer, x = nn.Linear(50, columns), clnet.tensor(normal(40, 50))
    fast = clnet.compile(lambda x: layer(x))
    with clnet.no_grad():
        before = fast(x).numpy()
        with clnet.profile() as seen:
            again = fast(x).numpy()
        assert [command.name for command in seen.commands] == ["gemm_tiled", "download"]
        np.testing.assert_array_equal(before, again)
        np.testing.assert_allclose(before, of_float64(layer, x), rtol=1e-5, atol=1e-5)
        assert "turn_weight x1" in fast.explain().split("once, before the first replay:")[1]
        layer.weight.mul_(2.0)
        found = fast(x).numpy()
    assert not np.allclose(found, before)
    np.testing.assert_allclose(found, of_float64(layer, x), rtol=1e-5, atol=1e-5)


def linear_steps(function, *inputs):
    """The steps that the pass leaves: those that turn, and the layers."""
    with clnet.no_grad():
        trace = rewrite(record(function, inputs, {}, clnet.device()).trace, (turn_weights,))
    steps = [step for step in trace.steps if isinstance(step, Step)]
    return [s for s in steps if isinstance(s.function, TurnWeight | Linear)]


def test_weights_are_turned_first_and_layers_share_copies():
    """So that layers stay neighbours, which one launch may compute."""
    first, second = nn.Linear(40, 40), nn.Linear(40, 36)
    steps = linear_steps(lambda x: second(first(first(x))), clnet.tensor(normal(50, 40)))
    assert [type(s.function) for s in steps] == [TurnWeight] * 2 + [Linear] * 3
    turned = [s.outputs[0] for s in steps[:2]]
    assert [s.inputs[1] for s in steps[2:]] == [turned[0], turned[0], turned[1]]
    assert all(w.strides == (1, w.shape[0]) for w in turned)


def test_weights_that_a_step_changes_stay():
    layer, x = nn.Linear(40, 48), clnet.tensor(normal(50, 40))
    assert "turn_weight x" not in explained_training(layer, x)


def test_what_gains_nothing_is_not_turned(monkeypatch, device):
    x, layer = clnet.tensor(normal(50, 40)), nn.Linear(40, 48)
    assert len(linear_steps(layer, x)) == 2
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 1e9)  # little work
    assert len(linear_steps(layer, x)) == 1
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 0)
    with clnet.no_grad():
        layer.weight = nn.Parameter(clnet.tensor(normal(40, 48)).T)  # which lies so
    assert len(linear_steps(layer, x)) == 1
    clnet.set_float32_matmul_precision("high")
    try:
        assert len(linear_steps(nn.Linear(40, 48), x)) == 1
    finally:
        clnet.set_float32_matmul_precision("highest")
    monkeypatch.undo()
    if not device.traits.dedicated_local_memory:
        assert len(linear_steps(nn.Linear(40, 48), x)) == 1


def test_eager_bits_are_kept_without_the_pass():
    assert turn_weights in PASSES
    assert turn_weights not in KEEPING_BITS


def test_copies_of_few_rows_are_not_worth_their_memory(monkeypatch):
    """What a byte of a copy saves grows with the rows that read it."""
    monkeypatch.setattr(gemm_turned, "LASTING_FLOPS_PER_BYTE", 4)
    layer = nn.Linear(40, 48)
    rows = 4 * 4 / (2 * gemm_turned.SHARE)
    for count, steps in ((int(rows), 1), (int(rows) + 1, 2)):
        assert len(linear_steps(layer, clnet.tensor(normal(count, 40)))) == steps


def test_copies_that_are_made_in_no_time_do_not_stay(monkeypatch):
    """A weight that many rows read is turned at each call, into memory that others use, too."""
    layer, x = nn.Linear(512, 512), clnet.tensor(normal(512, 512))
    copy, product = gemm_turned.LAUNCH_FLOPS * clnet.device().traits.compute_units, 2 * 512**3
    copy += 2 * layer.weight.numel() * 4 * gemm_turned.FLOPS_PER_BYTE
    assert len(linear_steps(layer, x)) == 2
    for share, steps in ((copy / product * 0.99, 2), (copy / product * 1.01, 1)):
        monkeypatch.setattr(gemm_turned, "LASTING_SHARE", share)
        assert len(linear_steps(layer, x)) == steps
