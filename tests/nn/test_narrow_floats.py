"""Modules of 16-bit floats: they learn, eagerly and compiled alike, near their float32 twins."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import clnet
from clnet import nn

pytestmark = pytest.mark.device
STEPS = 6


class Attentive(nn.Module):
    """Self-attention and a mean over the sequence."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y, _ = self.attention(x, x, x, need_weights=False)
        return self.head(y.mean(1))


def dense():
    return nn.Sequential(
        nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.0), nn.Linear(16, 4)
    )


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


NETWORKS = {
    "dense": (dense, (16, 6)),
    "convolutional": (convolutional, (8, 3, 8, 8)),
    "attentive": (Attentive, (8, 5, 8)),
}


def losses(network, x, target, *, compiled):
    optimizer = clnet.optim.SGD(network.parameters(), lr=0.2)

    def step(x, target):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), target)
        loss.backward()
        optimizer.step()
        return loss

    run = clnet.compile(step) if compiled else step
    return [run(x, target) for _ in range(STEPS)]


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_of_bfloat16_learns_as_its_twin_of_float32(kind):
    make, shape = NETWORKS[kind]
    rng = np.random.default_rng(0)
    x = clnet.tensor(rng.standard_normal(shape).astype(np.float32))
    target = clnet.tensor(rng.integers(0, 4, shape[0]))
    clnet.manual_seed(0)
    wide = make()
    narrow, traced = (copy.deepcopy(wide).bfloat16() for _ in range(2))
    expected = [loss.item() for loss in losses(wide, x, target, compiled=False)]
    eager = losses(narrow, x.bfloat16(), target, compiled=False)
    replayed = losses(traced, x.bfloat16(), target, compiled=True)
    assert {loss.dtype for loss in eager} == {clnet.bfloat16}
    np.testing.assert_allclose([loss.item() for loss in eager], expected, atol=0.05)
    assert [loss.item() for loss in replayed] == [loss.item() for loss in eager]
    assert expected[-1] < expected[0] - 0.1, "it learns"
    assert {p.dtype for p in narrow.parameters()} == {clnet.bfloat16}
    assert {p.grad.dtype for p in narrow.parameters()} == {clnet.bfloat16}


@pytest.mark.parametrize("make", [lambda: nn.LSTM(4, 5), lambda: nn.GRU(4, 5)])
def test_recurrent_layers_take_float16(make):
    clnet.manual_seed(0)
    layer, x = make(), clnet.randn(3, 2, 4)
    y = layer(x)[0]
    narrow = layer.half()(x.half())[0]
    assert narrow.dtype is clnet.float16
    np.testing.assert_allclose(narrow.detach().numpy(), y.detach().numpy(), atol=5e-3)


def test_conversions_keep_whole_numbers():
    norm = nn.BatchNorm2d(3)
    assert norm.half() is norm
    assert norm.weight.dtype is norm.running_mean.dtype is clnet.float16
    assert norm.num_batches_tracked.dtype is clnet.int64
    assert norm.float().weight.dtype is clnet.float32
    if clnet.device().traits.float64:
        assert norm.double().bias.dtype is clnet.float64


def test_statistics_of_a_batch_of_bfloat16_are_not_rounded():
    """A mean of 1000 and a spread of 1: in 16 bits the distances would be lost."""
    host = 1000 + np.random.default_rng(0).standard_normal((512, 2)).astype(np.float32)
    x = clnet.tensor(host).bfloat16()
    y = nn.functional.batch_norm(x, None, None, training=True)
    exact = x.float().numpy().astype(np.float64)
    expected = (exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-5)
    np.testing.assert_allclose(y.float().numpy(), expected, atol=2e-2)
