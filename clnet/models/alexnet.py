"""AlexNet in one column (Krizhevsky 2014), with torchvision's names."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor


class AlexNet(nn.Module):
    """Five convolutions and three dense layers.

    Args:
        num_classes: outputs.
        dropout: probability in front of the first two dense layers.
    """

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``, 63x63 or larger."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def alexnet(num_classes: int = 1000, *, dropout: float = 0.5) -> AlexNet:
    """AlexNet; arguments as :class:`AlexNet`'s."""
    return AlexNet(num_classes, dropout)
