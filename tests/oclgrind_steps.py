"""Whole training steps, small enough for Oclgrind: ``python tests/oclgrind_steps.py``.

A network trains a step op by op and, from the same start, compiled ones: the first makes the plan,
the second replays it. What is printed is its name and the losses.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
# A child that compiles would write over Oclgrind's log; what a first use compares takes minutes.
os.environ |= {"CLNET_BUILD_PROCESSES": "0", "CLNET_GUARD": "0"}

import numpy as np

import clnet
from clnet import nn
from clnet.device import buffer_pool
from clnet.kernels.conv import conv_implicit, conv_implicit_weight
from clnet.kernels.gemm import gemm_tiled
from clnet.kernels.softmax import attention_tiles
from clnet.nn import functional as F
from tests.oclgrind_cases.harness import SMALLEST_TILE


class Sequence(nn.Module):
    """Words through attention and a recurrent layer, to a class of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.attend = nn.TransformerEncoderLayer(
            4, nhead=2, dim_feedforward=6, dropout=0.0, batch_first=True
        )
        self.recur = nn.LSTM(4, 3, batch_first=True)
        self.head = nn.Linear(3, 3)

    def forward(self, x: clnet.Tensor) -> clnet.Tensor:
        states, _ = self.recur(self.attend(self.words(x)))
        return self.head(states[:, -1])


def images() -> tuple[nn.Module, clnet.optim.Optimizer, np.ndarray]:
    """A convolutional network under SGD with momentum, and its inputs (n, c, h, w)."""
    net = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(45, 3),
    )
    optimizer = clnet.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    return net, optimizer, np.random.default_rng(1).standard_normal((3, 2, 7, 7), np.float32)


def words() -> tuple[nn.Module, clnet.optim.Optimizer, np.ndarray]:
    """Attention and an LSTM under Adam, and sequences of words (n, length)."""
    net = Sequence()
    optimizer = clnet.optim.AdamW(net.parameters(), lr=0.01)
    return net, optimizer, np.random.default_rng(2).integers(0, 7, (2, 3))


NETWORKS = {"images": images, "words": words}


def losses(name: str, count: int, *, compiled: bool) -> list[float]:
    """Of so many steps of training from one start."""
    clnet.manual_seed(5)
    net, optimizer, inputs = NETWORKS[name]()
    x, y = clnet.tensor(inputs), clnet.arange(len(inputs))

    def step(x: clnet.Tensor, y: clnet.Tensor) -> clnet.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = clnet.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(count)]


def exact() -> None:
    """From now on an array's buffer ends where the array does; a plan's arenas hold many values.

    Tiles are the smallest there are: of larger ones nearly all items would compute nothing.
    """
    buffer_pool.size_class = lambda nbytes: max(nbytes, 1)
    for module in (gemm_tiled, conv_implicit, conv_implicit_weight):
        module.TILINGS = ((SMALLEST_TILE, 1.0),)
    attention_tiles.TILINGS = {
        kernel: {8: (attention_tiles.Tiling(4, 2, 4, 16),)} for kernel in attention_tiles.TILINGS
    }


if __name__ == "__main__":
    exact()
    for name, count in (("images", 2), ("words", 1)):
        print(name, *losses(name, 1, compiled=False), *losses(name, count, compiled=True))
