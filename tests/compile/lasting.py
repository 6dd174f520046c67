"""What passes that prepare weights once are asked: right results, and weights that are trained."""

from __future__ import annotations

import numpy as np

import clnet
from clnet import nn


def of_float64(layer: nn.Linear, x: clnet.Tensor) -> np.ndarray:
    """What a layer computes."""
    weight, bias = (p.detach().numpy().astype(np.float64) for p in (layer.weight, layer.bias))
    return x.numpy().astype(np.float64) @ weight.T + bias


def explained_training(layer: nn.Linear, x: clnet.Tensor) -> str:
    """What a compiled step says of itself whose losses fall as it changes the layer's weights."""
    optimizer = clnet.optim.SGD(layer.parameters(), lr=0.1)

    @clnet.compile
    def step(x):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x)) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    return step.explain()
