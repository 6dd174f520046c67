"""MobileNetV2 (Sandler et al. 2018): inverted residuals, with torchvision's names."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor
from .initial import drawn_later, he_normal
from .parts import divisible

# Expansion, channels, blocks and first stride of each stage: table 2 of the paper.
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _unit(
    planes: int, channels: int, size: int, *, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    return nn.Sequential(
        nn.Conv2d(planes, channels, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """Widen by a 1x1 convolution, filter each channel by itself, narrow linearly.

    Args:
        inp: channels of ``x``.
        oup: channels of the result; ``x`` is added where its shape is the same.
        stride: of the filtering.
        expand_ratio: how much wider it is between.
    """

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int) -> None:
        super().__init__()
        hidden = inp * expand_ratio
        layers = [] if expand_ratio == 1 else [_unit(inp, hidden, 1)]
        self.conv = nn.Sequential(
            *layers,
            _unit(hidden, hidden, 3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, oup, 1, bias=False),
            nn.BatchNorm2d(oup),
        )
        self.use_res_connect = stride == 1 and inp == oup

    def forward(self, x: Tensor) -> Tensor:
        """``(n, oup, h / stride, w / stride)``."""
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Seven stages of inverted residuals, the mean of each channel, a dense layer.

    Args:
        num_classes: outputs.
        width_mult: factor of all channel counts.
        dropout: probability in front of the dense layer.
    """

    def __init__(
        self, num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.2
    ) -> None:
        super().__init__()
        with drawn_later():
            planes = divisible(32 * width_mult)
            layers: list[nn.Module] = [_unit(3, planes, 3, stride=2)]
            for expansion, channels, count, first_stride in _STAGES:
                width = divisible(channels * width_mult)
                for i in range(count):
                    stride = first_stride if i == 0 else 1
                    layers.append(InvertedResidual(planes, width, stride, expansion))
                    planes = width
            last = divisible(1280 * max(1.0, width_mult))
            self.features = nn.Sequential(*layers, _unit(planes, last, 1))
            self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        he_normal(self, linear_std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.classifier(self.features(x).mean((2, 3)))


def mobilenet_v2(
    num_classes: int = 1000, *, width_mult: float = 1.0, dropout: float = 0.2
) -> MobileNetV2:
    """MobileNetV2; arguments as :class:`MobileNetV2`'s."""
    return MobileNetV2(num_classes, width_mult=width_mult, dropout=dropout)
