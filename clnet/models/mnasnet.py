"""MNASNet (Tan et al. 2019), with torchvision's names."""

from __future__ import annotations

from .. import nn
from ..tensor import Tensor
from .initial import drawn_later, he_normal, zero

# Filter, stride, expansion, channels and blocks of each stage: figure 7 of the paper.
_STAGES = (
    (3, 2, 3, 24, 3),
    (5, 2, 3, 40, 3),
    (5, 2, 6, 80, 3),
    (3, 1, 6, 96, 2),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)
_MOMENTUM = 0.0003


def _norm(channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels, momentum=_MOMENTUM)


class InvertedResidual(nn.Module):
    """Widen by a 1x1 convolution, filter each channel by itself, narrow linearly.

    Args:
        planes: channels of ``x``; it is added where its shape is the result's.
        out: channels of the result.
        kernel: size of the filter.
        stride: of the filter.
        expansion: how much wider it is between.
    """

    def __init__(self, planes: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = planes * expansion
        self.layers = nn.Sequential(
            nn.Conv2d(planes, wide, 1, bias=False),
            _norm(wide),
            nn.ReLU(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False),
            _norm(wide),
            nn.ReLU(),
            nn.Conv2d(wide, out, 1, bias=False),
            _norm(out),
        )
        self.apply_residual = planes == out and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out, h / stride, w / stride)``."""
        return x + self.layers(x) if self.apply_residual else self.layers(x)


class MNASNet(nn.Module):
    """Stages of inverted residuals, the mean of each channel, a dense layer.

    Args:
        num_classes: outputs.
        dropout: probability in front of the dense layer.
    """

    def __init__(self, num_classes: int = 1000, *, dropout: float = 0.2) -> None:
        super().__init__()
        with drawn_later():
            layers: list[nn.Module] = [
                nn.Conv2d(3, 32, 3, 2, 1, bias=False),
                _norm(32),
                nn.ReLU(),
                nn.Conv2d(32, 32, 3, 1, 1, groups=32, bias=False),
                _norm(32),
                nn.ReLU(),
                nn.Conv2d(32, 16, 1, bias=False),
                _norm(16),
            ]
            planes = 16
            for kernel, stride, expansion, out, count in _STAGES:
                more = [InvertedResidual(out, out, kernel, 1, expansion) for _ in range(count - 1)]
                blocks = [InvertedResidual(planes, out, kernel, stride, expansion), *more]
                layers.append(nn.Sequential(*blocks))
                planes = out
            layers += [nn.Conv2d(planes, 1280, 1, bias=False), _norm(1280), nn.ReLU()]
            self.layers = nn.Sequential(*layers)
            dense = nn.Linear(1280, num_classes)
            self.classifier = nn.Sequential(nn.Dropout(dropout), dense)
        he_normal(self)
        nn.init.kaiming_uniform_(dense.weight, mode="fan_out", nonlinearity="sigmoid")
        zero(dense.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.classifier(self.layers(x).mean((2, 3)))


def mnasnet1_0(num_classes: int = 1000, *, dropout: float = 0.2) -> MNASNet:
    """MNASNet of depth 1.0; arguments as :class:`MNASNet`'s."""
    return MNASNet(num_classes, dropout=dropout)
