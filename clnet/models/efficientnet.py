"""EfficientNet (Tan, Le 2019): depth and width grow together, with torchvision's names."""

from __future__ import annotations

from math import ceil

from .. import nn
from ..nn import init
from ..tensor import Tensor
from .initial import drawn_later, he_normal, zero
from .parts import SqueezeExcitation, StochasticDepth, divisible, unit

# Expansion, filter, first stride, channels and blocks of each stage: table 1 of the paper.
_STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)
_STEM = 32


class MBConv(nn.Module):
    """Widen, filter each channel by itself, scale channels, narrow linearly.

    Args:
        planes: channels of ``x``; it is added where its shape is the result's.
        out: channels of the result.
        expand_ratio: how much wider it is between.
        kernel: size of the filter.
        stride: of the filter.
        stochastic_depth_prob: how likely an example skips the block.
    """

    def __init__(
        self,
        planes: int,
        out: int,
        expand_ratio: int,
        kernel: int,
        stride: int,
        stochastic_depth_prob: float,
    ) -> None:
        super().__init__()
        wide = divisible(planes * expand_ratio)
        layers: list[nn.Module] = [] if wide == planes else [unit(planes, wide, 1, nn.SiLU)]
        self.block = nn.Sequential(
            *layers,
            unit(wide, wide, kernel, nn.SiLU, stride=stride, groups=wide),
            SqueezeExcitation(wide, max(1, planes // 4), nn.SiLU, nn.Sigmoid),
            unit(wide, out, 1, None),
        )
        self.use_res_connect = stride == 1 and planes == out
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out, h / stride, w / stride)``."""
        y = self.block(x)
        return x + self.stochastic_depth(y) if self.use_res_connect else y


class EfficientNet(nn.Module):
    """Seven stages of blocks, the mean of each channel, a dense layer.

    Args:
        width_mult: factor of all channel counts.
        depth_mult: factor of all numbers of blocks.
        dropout: probability in front of the dense layer.
        stochastic_depth_prob: the last block's; it grows from block to block.
        num_classes: outputs.
    """

    def __init__(
        self,
        width_mult: float = 1.0,
        depth_mult: float = 1.0,
        *,
        dropout: float = 0.2,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
    ) -> None:
        super().__init__()
        counts = [ceil(blocks * depth_mult) for *_, blocks in _STAGES]
        with drawn_later():
            planes, done = divisible(_STEM * width_mult), 0
            features: list[nn.Module] = [unit(3, planes, 3, nn.SiLU, stride=2)]
            for (expansion, kernel, first_stride, channels, _), count in zip(
                _STAGES, counts, strict=True
            ):
                out = divisible(channels * width_mult)
                blocks: list[nn.Module] = []
                for i in range(count):
                    stride, skipped = first_stride if i == 0 else 1, done / sum(counts)
                    blocks.append(
                        MBConv(
                            planes, out, expansion, kernel, stride, stochastic_depth_prob * skipped
                        )
                    )
                    planes, done = out, done + 1
                features.append(nn.Sequential(*blocks))
            last = 4 * planes
            self.features = nn.Sequential(*features, unit(planes, last, 1, nn.SiLU))
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        he_normal(self, linear_std=0.01)
        bound = num_classes**-0.5
        init.uniform_(self.classifier[1].weight, -bound, bound)
        zero(self.classifier[1].bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def efficientnet_b0(num_classes: int = 1000) -> EfficientNet:
    """EfficientNet-B0; arguments as :class:`EfficientNet`'s."""
    return EfficientNet(num_classes=num_classes)


def efficientnet_b1(num_classes: int = 1000) -> EfficientNet:
    """EfficientNet-B1; arguments as :class:`EfficientNet`'s."""
    return EfficientNet(1.0, 1.1, num_classes=num_classes)


def efficientnet_b2(num_classes: int = 1000) -> EfficientNet:
    """EfficientNet-B2; arguments as :class:`EfficientNet`'s."""
    return EfficientNet(1.1, 1.2, dropout=0.3, num_classes=num_classes)


def efficientnet_b3(num_classes: int = 1000) -> EfficientNet:
    """EfficientNet-B3; arguments as :class:`EfficientNet`'s."""
    return EfficientNet(1.2, 1.4, dropout=0.3, num_classes=num_classes)


def efficientnet_b4(num_classes: int = 1000) -> EfficientNet:
    """EfficientNet-B4; arguments as :class:`EfficientNet`'s."""
    return EfficientNet(1.4, 1.8, dropout=0.4, num_classes=num_classes)
