"""The network of the ECE408 course project, for 48x48 Fashion-MNIST."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor


class ECE408(nn.Module):
    """Two 7x7 convolutions without bias, tanh and pooling between, and two dense layers.

    Args:
        num_classes: outputs.
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 7, bias=False)
        self.tanh = nn.Tanh()
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(12, 24, 7, bias=False)
        self.fc1 = nn.Linear(24 * 15 * 15, 160)
        self.fc2 = nn.Linear(160, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 1, 48, 48)``."""
        x = self.pool(self.tanh(self.conv1(x)))
        x = self.conv2(x)
        return self.fc2(self.tanh(self.fc1(x.flatten(1))))


def ece408(num_classes: int = 10) -> ECE408:
    """The course's network."""
    return ECE408(num_classes)
