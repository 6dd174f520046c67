"""A small convolutional network, for images from 8x8 up to some 64x64."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn
from ..errors import ArgumentError
from ..tensor import Tensor


class CNN(nn.Module):
    """Two 3x3 convolutions, each with ReLU and 2x2 max pooling, then two dense layers.

    Args:
        input_shape: ``(channels, height, width)`` of an image, 4x4 or larger.
        classes: outputs.
        channels: of the two convolutions.
        features: of the dense layer between.
        dropout: probability in front of the last layer.

    Raises:
        ArgumentError: if ``input_shape`` is no such shape.
    """

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        *,
        channels: tuple[int, int] = (32, 64),
        features: int = 128,
        dropout: float = 0.25,
    ) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < 4:
            raise ArgumentError(
                "CNN",
                "input_shape is (channels, height, width), 4x4 or larger",
                input_shape=tuple(input_shape),
            )
        planes, height, width = input_shape
        first, second = channels
        self.conv1 = nn.Conv2d(planes, first, 3, padding=1)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(second * (height // 4) * (width // 4), features)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, classes)``, before the softmax, from ``(n, *input_shape)``."""
        x = self.pool(self.conv1(x).relu())
        x = self.pool(self.conv2(x).relu())
        x = self.fc1(x.flatten(1)).relu()
        return self.fc2(self.dropout(x))
