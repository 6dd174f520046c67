"""Training agrees with PyTorch's from the same initial weights and the same batches."""

from __future__ import annotations

import numpy as np
import pytest

import clnet
from clnet.data import DataLoader, Digits, Normalize
from clnet.models import CNN, MLP
from clnet.ops import cross_entropy
from clnet.values import mode

pytestmark = pytest.mark.device

STEPS = 50
SHAPE, CLASSES = (1, 8, 8), 10
MODELS = {
    "cnn": lambda: CNN(SHAPE, CLASSES, dropout=0.0),
    "mlp": lambda: MLP(SHAPE, CLASSES, hidden=(64, 32)),
}
# An eps that keeps Adam from making a whole step of a gradient that is only rounding.
OPTIMIZERS = {"SGD": {"lr": 0.02, "momentum": 0.9}, "Adam": {"lr": 3e-3, "eps": 1e-4}}


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


def torch_curve(torch, name, optimizer, weights, dtype):
    twin = torch_twin(torch, name).to(getattr(torch, dtype))
    with torch.no_grad():
        for parameter, value in zip(twin.parameters(), weights, strict=True):
            parameter.copy_(torch.from_numpy(value))
    other = getattr(torch.optim, optimizer)(twin.parameters(), **OPTIMIZERS[optimizer])
    curve = []
    for images, labels in batches():
        other.zero_grad()
        outputs = twin(torch.from_numpy(images.astype(dtype)))
        loss = torch.nn.functional.cross_entropy(outputs, torch.from_numpy(labels))
        loss.backward()
        other.step()
        curve.append(loss.item())
    return np.array(curve)


def own_curve(model, optimizer, dtype, compiled):
    own = getattr(clnet.optim, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])

    def step(images, labels):
        own.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        own.step()
        return loss.detach()

    run = clnet.compile(step) if compiled else step
    return np.array(
        [run(clnet.tensor(x.astype(dtype)), clnet.tensor(y)).item() for x, y in batches()]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_loss_curve_agrees_with_pytorch(name, optimizer, compiled, dtype):
    torch = pytest.importorskip("torch", reason="the torch extra is not installed")
    with mode.using(generator=clnet.Generator().manual_seed(3)):
        model = MODELS[name]()
    if dtype == "float64":
        model.double()
    weights = [parameter.detach().numpy() for parameter in model.parameters()]
    reference = torch_curve(torch, name, optimizer, weights, dtype)
    assert reference[-1] < 0.5 * reference[0]
    tolerance = 1e-7
    if dtype == "float32":
        # Where rounding decides on which side of ReLU's kink an activation falls, or which of two
        # is a pool's largest, curves part: PyTorch's own too, from weights that differ by rounding.
        rng, tolerance = np.random.default_rng(0), 1e-3
        for _ in range(3):
            rounded = [w * (1 + 1e-6 * rng.standard_normal(w.shape)) for w in weights]
            other = torch_curve(torch, name, optimizer, [w.astype(dtype) for w in rounded], dtype)
            tolerance = max(tolerance, 10 * np.abs(other / reference - 1).max())
    np.testing.assert_allclose(
        own_curve(model, optimizer, dtype, compiled), reference, rtol=tolerance
    )
