"""Compiled steps round no more coarsely than eager ones, where networks enlarge it."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.autograd import grad
from clnet.nn import functional as F

pytestmark = pytest.mark.device


class Dense(nn.Module):
    """A block of a densenet: what comes, and what is found in it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 32, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(32), nn.Conv2d(32, 16, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))
        return clnet.cat((x, y), 1)


def small_densenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), Dense(16), Dense(32),
        nn.AvgPool2d(2), Dense(48), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def test_batch_norms_of_few_elements_enlarge_no_coarser_rounding(device):
    if not device.traits.float64:
        pytest.skip("the device has no double precision")
    clnet.manual_seed(0)
    net, exact = small_densenet(), small_densenet().double()
    exact.load_state_dict({k: v.numpy() for k, v in net.state_dict().items()})
    rng = np.random.default_rng(0)
    x = clnet.tensor(rng.standard_normal((4, 3, 16, 16)).astype(np.float32))
    labels = clnet.tensor(rng.integers(0, 10, 4))

    def gradients(model, x, labels):
        return grad(F.cross_entropy(model(x), labels), list(model.parameters()))

    wanted = gradients(exact, x.double(), labels)
    scale = sum(float((g * g).sum()) for g in wanted)

    def error(found):
        apart = (a.double() - b for a, b in zip(found, wanted, strict=True))
        return (sum(float((d * d).sum()) for d in apart) / scale) ** 0.5

    eager = error(gradients(net, x, labels))
    compiled = error(clnet.compile(lambda x, labels: gradients(net, x, labels))(x, labels))
    assert 0 < eager < 5e-6
    assert compiled < 1.5 * eager
