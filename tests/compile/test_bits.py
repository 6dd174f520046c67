"""Which passes keep the bits of eager execution, and that a compiled function repeats its own."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import nn
from clnet.compile.passes import KEEPING_BITS, MAY_ROUND, PASSES
from clnet.nn import functional as F

pytestmark = pytest.mark.device

CHANNELS = 32  # blocks of every width


class Residual(nn.Module):
    """Convolutions, norms, shortcuts and pooling: what every pass has something to do with."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.inner = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.linear = nn.Linear(CHANNELS, 10)

    def forward(self, x):
        x = F.relu(self.first(x))
        x = F.relu(self.norm(self.inner(x)) + x)
        return self.linear(F.max_pool2d(x, 2).mean((2, 3)))


class Attention(nn.Module):
    """Products, softmax, row norms and a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.heads = nn.MultiheadAttention(24, 3, batch_first=True)
        self.recurrent = nn.GRU(24, 16, batch_first=True)
        self.linear = nn.Linear(16, 10)

    def forward(self, x):
        x = self.norm(x)
        x = x + self.heads(x, x, x, need_weights=False)[0]
        return self.linear(F.gelu(self.recurrent(x)[0][:, -1]))


NETWORKS = {"residual": (Residual, (8, 3, 12, 12)), "attention": (Attention, (8, 7, 24))}
EVERY_NETWORK = pytest.mark.parametrize("name", NETWORKS)


def trained(name: str, passes, *, steps: int = 3) -> list[np.ndarray]:
    """Losses, results in evaluation, gradients and parameters after some steps; eager for None."""
    make, shape = NETWORKS[name]
    clnet.manual_seed(0)
    model = make()
    optimizer = clnet.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, target):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def compiled(function):
        return function if passes is None else clnet.compile(function, passes=passes)

    run, rng, found = compiled(step), np.random.default_rng(0), []
    x = clnet.zeros(shape)
    for _ in range(steps):
        x = clnet.tensor(rng.standard_normal(shape).astype(np.float32))
        found.append(run(x, clnet.tensor(rng.integers(0, 10, shape[0]))).numpy())
    found += [p.grad.numpy() for p in model.parameters()]
    found += [p.detach().numpy() for p in model.parameters()]
    model.eval()
    with clnet.no_grad():
        found.append(compiled(model)(x).numpy())
    return found


@EVERY_NETWORK
def test_passes_that_keep_bits_give_those_of_eager(name):
    for one, other in zip(trained(name, None), trained(name, KEEPING_BITS), strict=True):
        np.testing.assert_array_equal(other, one)


@EVERY_NETWORK
def test_all_passes_give_the_same_but_for_rounding_and_repeat_it(name):
    found = trained(name, PASSES)
    for one, other in zip(trained(name, None), found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)
    for one, other in zip(found, trained(name, PASSES), strict=True):
        np.testing.assert_array_equal(other, one)


def test_a_pass_keeps_bits_or_is_listed():
    assert {*KEEPING_BITS} | {*MAY_ROUND} == {*PASSES}
    assert not {*KEEPING_BITS} & {*MAY_ROUND}


def test_what_may_round_does(device):
    """Else it belongs to those that keep every bit."""
    if device.traits.simd_width not in (4, 8, 16):
        pytest.skip("convolutions are blocked where vectors of a CPU hold 4, 8 or 16 floats")
    pairs = zip(trained("residual", None), trained("residual", PASSES), strict=True)
    assert any((one != other).any() for one, other in pairs)
