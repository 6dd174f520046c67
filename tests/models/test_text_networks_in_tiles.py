"""Networks of texts, computed as on a GPU with all that plain float32 gets there, against a CPU's.

Operands that are turned, results by columns, padded scores, gradients of attention in pieces and in
their places: each has tests of its own, here they meet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clnet
from clnet import models
from clnet.compile import pad_rows
from clnet.kernels.gemm import gemm_tiled, gemm_turned
from clnet.kernels.softmax import attention_tiles
from clnet.nn import functional as F
from tests.kernels.launching import SMALL_RING, gpu_shaped

WORDS, STEPS = 131, 24
NETWORKS = {
    "gpt": lambda: models.GPT(WORDS, 32, n_layer=2, n_head=2, n_embd=32),
    "llama": lambda: models.Llama(models.LlamaConfig(WORDS, 32, 64, 2, 4, 2)),
}
# What the compiled step must have taken: kernels, and arrays that lie otherwise.
USED = {"gemm_laid", "attention_delta", "attention_tiles_grad_kv", "attention_tiles_sum"}


@pytest.fixture
def as_gpu(monkeypatch):
    """Makes the device a GPU's; everything pays."""

    def change():
        opened = clnet.device()
        monkeypatch.setattr(gemm_tiled, "TILINGS", SMALL_RING)
        monkeypatch.setattr(gemm_turned, "SHARE", 1e3)
        monkeypatch.setattr(gemm_turned, "LAUNCH_FLOPS", 0)
        monkeypatch.setattr(gemm_turned, "LASTING_FLOPS", 0)
        monkeypatch.setattr(gemm_turned, "LASTING_FLOPS_PER_BYTE", 0)
        monkeypatch.setattr(pad_rows, "_LEAST_BYTES", 0)
        monkeypatch.setattr(attention_tiles, "saved_by_pieces", lambda *_, **__: 1.0)
        shaped = gpu_shaped(opened)
        more = {"asynchronous_copies": True, "large_local_memory_bytes": 2**17}
        target = replace(shaped, traits=replace(shaped.traits, **more))
        monkeypatch.setattr(opened, "target", target)

    return change


def scores(answer):
    return answer[0] if isinstance(answer, tuple) else answer


@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_and_an_answer(name, as_gpu):
    clnet.manual_seed(0)
    model = NETWORKS[name]()
    drawn = np.random.default_rng(0).integers(0, WORDS, (2, 2, STEPS))
    words, classes = (clnet.tensor(x) for x in drawn)
    params = list(model.parameters())

    def step(words, classes):
        found = scores(model(words)).flatten(0, 1)
        loss = F.cross_entropy(found, classes.flatten())
        return loss.detach(), *clnet.autograd.grad(loss, params)

    def ask(words):
        with clnet.no_grad():
            return scores(model(words))

    answer, results = ask(words).numpy(), [x.numpy() for x in step(words, classes)]
    as_gpu()
    asking, learning = clnet.compile(ask), clnet.compile(step)
    for _ in range(2):
        np.testing.assert_allclose(asking(words).numpy(), answer, rtol=0, atol=2e-5)
        for got, wanted in zip(learning(words, classes), results, strict=True):
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(got.numpy(), wanted, rtol=0, atol=2e-5 * scale)
    assert "turn_weight x" in asking.explain()
    assert {launch.kernel.name for launch in learning.plans[-1]._replay.launches} >= USED
    assert f"float32[{2 * STEPS},{WORDS}] strides 160,1" in learning.explain()
