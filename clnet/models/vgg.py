"""VGG (Simonyan, Zisserman 2015): 3x3 convolutions in depth, with torchvision's names."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn
from ..tensor import Tensor
from .initial import drawn_later, he_normal

# Convolutions in each of the five stages, by the network's depth.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_CHANNELS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """Stages of 3x3 convolutions, each halved by max pooling, then three dense layers.

    Args:
        stages: convolutions in each of the five.
        num_classes: outputs.
        batch_norm: whether it follows each convolution.
        dropout: probability behind the first two dense layers.
    """

    def __init__(
        self,
        stages: Sequence[int],
        *,
        num_classes: int = 1000,
        batch_norm: bool = False,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        with drawn_later():
            layers: list[nn.Module] = []
            planes = 3
            for count, channels in zip(stages, _CHANNELS, strict=True):
                for _ in range(count):
                    layers.append(nn.Conv2d(planes, channels, 3, padding=1))
                    if batch_norm:
                        layers.append(nn.BatchNorm2d(channels))
                    layers.append(nn.ReLU())
                    planes = channels
                layers.append(nn.MaxPool2d(2, stride=2))
            self.features = nn.Sequential(*layers)
            self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
            self.classifier = nn.Sequential(
                nn.Linear(512 * 7 * 7, 4096),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(4096, 4096),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(4096, num_classes),
            )
        he_normal(self, linear_std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``, 32x32 or larger."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def vgg11(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-11; arguments as :class:`VGG`'s."""
    return VGG(_STAGES[11], num_classes=num_classes, dropout=dropout)


def vgg11_bn(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-11 with batch norm."""
    return VGG(_STAGES[11], num_classes=num_classes, batch_norm=True, dropout=dropout)


def vgg13(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-13; arguments as :class:`VGG`'s."""
    return VGG(_STAGES[13], num_classes=num_classes, dropout=dropout)


def vgg13_bn(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-13 with batch norm."""
    return VGG(_STAGES[13], num_classes=num_classes, batch_norm=True, dropout=dropout)


def vgg16(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-16; arguments as :class:`VGG`'s."""
    return VGG(_STAGES[16], num_classes=num_classes, dropout=dropout)


def vgg16_bn(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-16 with batch norm."""
    return VGG(_STAGES[16], num_classes=num_classes, batch_norm=True, dropout=dropout)


def vgg19(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-19; arguments as :class:`VGG`'s."""
    return VGG(_STAGES[19], num_classes=num_classes, dropout=dropout)


def vgg19_bn(num_classes: int = 1000, *, dropout: float = 0.5) -> VGG:
    """VGG-19 with batch norm."""
    return VGG(_STAGES[19], num_classes=num_classes, batch_norm=True, dropout=dropout)
