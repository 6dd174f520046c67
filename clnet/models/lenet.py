"""LeNet-5 (LeCun et al. 1998), with full connections and ReLU as it is taught today."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor


class LeNet(nn.Module):
    """Two 5x5 convolutions with 2x2 pooling, then three dense layers, for 28x28 images.

    Args:
        num_classes: outputs.
        in_channels: of the images.
    """

    def __init__(self, num_classes: int = 10, *, in_channels: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, in_channels, 28, 28)``."""
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu())
        x = self.fc1(x.flatten(1)).relu()
        return self.fc3(self.fc2(x).relu())
