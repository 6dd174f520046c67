"""Training agrees with PyTorch's from the same initial weights and the same batches."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet import mode
from clnet.data import DataLoader, Digits, Normalize
from clnet.models import CNN, MLP
from clnet.ops import cross_entropy

pytestmark = pytest.mark.device

STEPS = 50
SHAPE, CLASSES = (1, 8, 8), 10
MODELS = {
    "cnn": lambda: CNN(SHAPE, CLASSES, dropout=0.0),
    "mlp": lambda: MLP(SHAPE, CLASSES, hidden=(64, 32)),
}
# Rates at which no activation comes so close to ReLU's kink that rounding decides its side.
OPTIMIZERS = {"SGD": {"lr": 0.02, "momentum": 0.9}, "Adam": {"lr": 3e-3}}


def torch_twin(torch, name):
    """The same network, written in PyTorch; parameters come in the same order."""
    nn = torch.nn
    if name == "mlp":
        layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)]
        return nn.Sequential(nn.Flatten(), *layers)
    pool = [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), *pool),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def batches():
    data = Digits()
    loader = DataLoader(data, 64, shuffle=True, transform=Normalize.of(data.arrays[0]))
    found = []
    while len(found) < STEPS:
        found.extend(loader)
    return found[:STEPS]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_loss_curve_agrees_with_pytorch(name, optimizer, compiled):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    with mode.using(generator=clnet.Generator().manual_seed(3)):
        model = MODELS[name]()
    twin = torch_twin(torch, name)
    with torch.no_grad():
        for theirs, ours in zip(twin.parameters(), model.parameters(), strict=True):
            theirs.copy_(torch.from_numpy(ours.detach().numpy()))
    own = getattr(clnet.optim, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])
    other = getattr(torch.optim, optimizer)(twin.parameters(), **OPTIMIZERS[optimizer])

    def step(images, labels):
        own.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        own.step()
        return loss.detach()

    run = clnet.compile(step) if compiled else step
    curve, reference = [], []
    for images, labels in batches():
        curve.append(run(clnet.tensor(images), clnet.tensor(labels)).item())
        other.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            twin(torch.from_numpy(images)), torch.from_numpy(labels)
        )
        loss.backward()
        other.step()
        reference.append(loss.item())
    assert reference[-1] < 0.5 * reference[0]
    np.testing.assert_allclose(curve, reference, rtol=1e-3)
