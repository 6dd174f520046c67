"""MobileNetV3 (Howard et al. 2019), with torchvision's names."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .. import nn
from ..tensor import Tensor
from .initial import drawn_later, he_normal
from .parts import SqueezeExcitation, divisible, unit

_unit = partial(unit, eps=0.001, momentum=0.01)


class Bneck(NamedTuple):
    """A block: tables 1 and 2 of the paper.

    Attributes:
        kernel: size of the filter.
        expanded: channels between.
        out: channels of the result.
        squeezed: whether channels are scaled by what their means say.
        hard_swish: the activation, instead of a ReLU.
        stride: of the filter.
    """

    kernel: int
    expanded: int
    out: int
    squeezed: bool
    hard_swish: bool
    stride: int


_LARGE = (
    Bneck(3, 16, 16, squeezed=False, hard_swish=False, stride=1),
    Bneck(3, 64, 24, squeezed=False, hard_swish=False, stride=2),
    Bneck(3, 72, 24, squeezed=False, hard_swish=False, stride=1),
    Bneck(5, 72, 40, squeezed=True, hard_swish=False, stride=2),
    Bneck(5, 120, 40, squeezed=True, hard_swish=False, stride=1),
    Bneck(5, 120, 40, squeezed=True, hard_swish=False, stride=1),
    Bneck(3, 240, 80, squeezed=False, hard_swish=True, stride=2),
    Bneck(3, 200, 80, squeezed=False, hard_swish=True, stride=1),
    Bneck(3, 184, 80, squeezed=False, hard_swish=True, stride=1),
    Bneck(3, 184, 80, squeezed=False, hard_swish=True, stride=1),
    Bneck(3, 480, 112, squeezed=True, hard_swish=True, stride=1),
    Bneck(3, 672, 112, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 672, 160, squeezed=True, hard_swish=True, stride=2),
    Bneck(5, 960, 160, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 960, 160, squeezed=True, hard_swish=True, stride=1),
)
_SMALL = (
    Bneck(3, 16, 16, squeezed=True, hard_swish=False, stride=2),
    Bneck(3, 72, 24, squeezed=False, hard_swish=False, stride=2),
    Bneck(3, 88, 24, squeezed=False, hard_swish=False, stride=1),
    Bneck(5, 96, 40, squeezed=True, hard_swish=True, stride=2),
    Bneck(5, 240, 40, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 240, 40, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 120, 48, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 144, 48, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 288, 96, squeezed=True, hard_swish=True, stride=2),
    Bneck(5, 576, 96, squeezed=True, hard_swish=True, stride=1),
    Bneck(5, 576, 96, squeezed=True, hard_swish=True, stride=1),
)


class InvertedResidual(nn.Module):
    """Widen, filter each channel by itself, scale channels, narrow linearly.

    Args:
        planes: channels of ``x``; it is added where its shape is the result's.
        row: the block's sizes.
    """

    def __init__(self, planes: int, row: Bneck) -> None:
        super().__init__()
        act = nn.Hardswish if row.hard_swish else nn.ReLU
        wide = row.expanded
        layers: list[nn.Module] = [] if wide == planes else [_unit(planes, wide, 1, act)]
        layers.append(_unit(wide, wide, row.kernel, act, stride=row.stride, groups=wide))
        if row.squeezed:
            layers.append(SqueezeExcitation(wide, divisible(wide / 4), nn.ReLU, nn.Hardsigmoid))
        self.block = nn.Sequential(*layers, _unit(wide, row.out, 1, None))
        self.use_res_connect = row.stride == 1 and planes == row.out

    def forward(self, x: Tensor) -> Tensor:
        """``(n, out, h / stride, w / stride)``."""
        return x + self.block(x) if self.use_res_connect else self.block(x)


class MobileNetV3(nn.Module):
    """Blocks, the mean of each channel, two dense layers.

    Args:
        rows: the blocks.
        last_channel: between the dense layers.
        num_classes: outputs.
        dropout: probability in front of the last layer.
    """

    def __init__(
        self,
        rows: tuple[Bneck, ...],
        last_channel: int,
        *,
        num_classes: int = 1000,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        with drawn_later():
            planes = 16
            layers: list[nn.Module] = [_unit(3, planes, 3, nn.Hardswish, stride=2)]
            for row in rows:
                layers.append(InvertedResidual(planes, row))
                planes = row.out
            self.features = nn.Sequential(*layers, _unit(planes, 6 * planes, 1, nn.Hardswish))
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Sequential(
                nn.Linear(6 * planes, last_channel),
                nn.Hardswish(),
                nn.Dropout(dropout),
                nn.Linear(last_channel, num_classes),
            )
        he_normal(self, linear_std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """``(n, num_classes)``, before the softmax, from ``(n, 3, h, w)``."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def mobilenet_v3_large(num_classes: int = 1000, *, dropout: float = 0.2) -> MobileNetV3:
    """MobileNetV3-Large; arguments as :class:`MobileNetV3`'s."""
    return MobileNetV3(_LARGE, 1280, num_classes=num_classes, dropout=dropout)


def mobilenet_v3_small(num_classes: int = 1000, *, dropout: float = 0.2) -> MobileNetV3:
    """MobileNetV3-Small; arguments as :class:`MobileNetV3`'s."""
    return MobileNetV3(_SMALL, 1024, num_classes=num_classes, dropout=dropout)
